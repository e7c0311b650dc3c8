/**
 * What a kind of schedule is: all that the rest of the program knows of `dailyAt`, `cron` and the others. A new kind is such an
 * object in a file of its own, a line in kinds.ts, and the type of its value in job.ts.
 */
import type { Json, ScheduleValues } from "../job.ts";
import type { CronMistake } from "./cron_pattern.ts";
import type { WallPattern } from "./wall_pattern.ts";

/** What is wrong with a value, for those who say it in other words. */
export type ValueMistake =
  | { code: "number"; least: number; most: number; whole: boolean }
  | { code: "time_of_day" }
  | { code: "day_of_month" }
  | { code: "cron"; wrong: CronMistake };

export type ParsedValue = { value: string } | { reason: string; fix: string; says: ValueMistake };

interface InBothLanguages<What> {
  en: What;
  ja: What;
}

/** `stored` is the value as the column `schedule_value` holds it. */
export interface ScheduleKind<
  Option extends keyof ScheduleValues = keyof ScheduleValues,
  Type extends string = string,
> {
  /** Its name in a job file, and in `schedule.ID.dailyAt`. */
  option: Option;
  /** Its name in the column `schedule_type`, and in addresses of the API. */
  type: Type;
  /** What a job file gives -> what is stored, or what is wrong with it. */
  parse(value: unknown): ParsedValue;
  /** What is stored -> what a job file gives. */
  written(stored: string): Json;
  /** What somebody types into a form or a terminal -> what a job file gives; what cannot be read stays as it is, to be quoted. */
  typed(text: string): Json;
  /** When it comes: by a clock on the wall, or every so many milliseconds since 1970, whatever the zone. */
  times(stored: string): WallPattern | { every_ms: number };
  /** In a few words, without the zone. */
  text: InBothLanguages<(stored: string) => string>;
  /** In a list of all kinds. */
  label: InBothLanguages<string>;
  /** What stands behind its flag, such as `--daily-at`. */
  flag: { value: string; help: string };
  /** What the API takes for it in an address. */
  query: { least: number; most: number } | { longest: number; example: string };
  /** What a sync warns of. */
  caution?(stored: string): string | undefined;
}

/** Keeps the exact names of a kind for the compiler. */
export function defineKind<Option extends keyof ScheduleValues, Type extends string>(
  kind: ScheduleKind<Option, Type>,
): ScheduleKind<Option, Type> {
  return kind;
}
