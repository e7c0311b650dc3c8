/** `everyNMinutes: 15`, counted from midnight UTC 1970-01-01. */
import { defineKind } from "./kind.ts";
import { MINUTE_MS } from "./wall_pattern.ts";
import { typedNumber, wholeNumber } from "./whole_number.ts";

const RANGE = { least: 1, most: 1440 };

export const everyNMinutes = defineKind({
  option: "everyNMinutes",
  type: "every_n_minutes",
  parse: (value) => wholeNumber(value, RANGE, '; for something rarer use dailyAt: "HH:MM" or cron'),
  written: Number,
  typed: typedNumber,
  times: (stored) => ({ every_ms: Number(stored) * MINUTE_MS }),
  text: {
    en: (n) => n === "1" ? "every minute" : `every ${n} minutes`,
    ja: (n) => n === "1" ? "毎分" : `${n} 分ごと`,
  },
  label: { en: "every N minutes (1 to 1440)", ja: "N 分ごと（1〜1440）" },
  flag: { value: "n", help: "1 to 1440" },
  query: RANGE,
});
