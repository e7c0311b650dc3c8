/** `cron: "30 2 * * 1-5"`. */
import { messageOf } from "../platform/text.ts";
import { shown } from "../platform/shown.ts";
import { cronPattern, mistakeIn } from "./cron_pattern.ts";
import { defineKind } from "./kind.ts";

const LONGEST = 200;

export const cron = defineKind({
  option: "cron",
  type: "cron",
  parse(value) {
    if (typeof value !== "string" || value.length > LONGEST) {
      const says = { code: "cron", wrong: { what: "text" } } as const;
      return { reason: `must be a text: current value is ${shown(value)}`, fix: 'write it as "30 2 * * 1-5"', says };
    }
    try {
      cronPattern(value);
      return { value: value.trim().replace(/\s+/g, " ") };
    } catch (error) {
      const why = messageOf(error).replace(/^CronPattern: /, "");
      return {
        reason: `${shown(value)} is no cron pattern: ${why}`,
        fix: 'write "minute hour day month weekday", such as "30 2 * * 1-5" for 02:30 from Monday to Friday',
        says: { code: "cron", wrong: mistakeIn(value) },
      };
    }
  },
  written: (stored) => stored,
  typed: (text) => text,
  times: cronPattern,
  text: { en: (pattern) => `cron ${pattern}`, ja: (pattern) => `cron ${pattern}` },
  label: { en: "cron: minute hour day month weekday", ja: "cron: 分 時 日 月 曜日" },
  flag: { value: "pattern", help: "five fields: minute hour day month weekday" },
  query: { longest: LONGEST, example: "30 2 * * 1-5" },
});
