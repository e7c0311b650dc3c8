/** `dailyAt: "02:30"`: once a day. */
import { defineKind } from "./kind.ts";
import { millisecondsOf, timeOfDay } from "./time_of_day.ts";
import { DAY_MS, nextInGrid } from "./wall_pattern.ts";

export const dailyAt = defineKind({
  option: "dailyAt",
  type: "daily_at",
  parse: timeOfDay,
  written: (stored) => stored,
  typed: (text) => text,
  times: (stored) => ({
    next: (wall_ms) => nextInGrid(wall_ms, DAY_MS, millisecondsOf(stored)),
    time_of_day: true,
  }),
  text: { en: (at) => `daily at ${at}`, ja: (at) => `毎日 ${at}` },
  label: { en: "each day at HH:MM", ja: "毎日 HH:MM" },
  flag: { value: "hh:mm", help: "24 hours, such as 02:30" },
  query: { longest: 5, example: "02:30" },
});
