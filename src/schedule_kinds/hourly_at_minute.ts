/** `hourlyAtMinute: 15`: whenever the clock shows that minute. */
import { defineKind } from "./kind.ts";
import { HOUR_MS, MINUTE_MS, nextInGrid } from "./wall_pattern.ts";
import { typedNumber, wholeNumber } from "./whole_number.ts";

const RANGE = { least: 0, most: 59 };

export const hourlyAtMinute = defineKind({
  option: "hourlyAtMinute",
  type: "hourly_at_minute",
  parse: (value) => wholeNumber(value, RANGE),
  written: Number,
  typed: typedNumber,
  times: (stored) => ({
    next: (wall_ms) => nextInGrid(wall_ms, HOUR_MS, Number(stored) * MINUTE_MS),
    time_of_day: false,
  }),
  text: { en: (minute) => `hourly at :${minute.padStart(2, "0")}`, ja: (minute) => `毎時 ${minute} 分` },
  label: { en: "each hour at minute (0 to 59)", ja: "毎時 N 分（0〜59）" },
  flag: { value: "m", help: "0 to 59" },
  query: RANGE,
});
