/** All kinds of schedules, by the names that they have in a job file, in the order in which they are shown. */
import type { Json, ScheduleValues } from "../job.ts";
import { cron } from "./cron.ts";
import { dailyAt } from "./daily_at.ts";
import { everyNMinutes } from "./every_n_minutes.ts";
import { hourlyAtMinute } from "./hourly_at_minute.ts";
import type { ScheduleKind } from "./kind.ts";
import { monthlyOn } from "./monthly_on.ts";

const BY_OPTION = { everyNMinutes, hourlyAtMinute, dailyAt, monthlyOn, cron } satisfies {
  [Option in keyof ScheduleValues]: ScheduleKind<Option>;
};

export type ScheduleType = typeof BY_OPTION[keyof ScheduleValues]["type"];

export const SCHEDULE_KINDS: readonly ScheduleKind<keyof ScheduleValues, ScheduleType>[] = Object.values(BY_OPTION);
export const KIND_OPTIONS: readonly string[] = SCHEDULE_KINDS.map(({ option }) => option);

/** By its name in a job file; undefined: there is none of that name. */
export function kindNamed(option: string): ScheduleKind<keyof ScheduleValues, ScheduleType> | undefined {
  return SCHEDULE_KINDS.find((kind) => kind.option === option);
}

/** @throws Error for a type that this program does not know: a newer one has stored it. */
export function kindStored(schedule_type: string): ScheduleKind<keyof ScheduleValues, ScheduleType> {
  const kind = SCHEDULE_KINDS.find(({ type }) => type === schedule_type);
  if (!kind) throw new Error(`this version knows no schedule of type ${schedule_type}`);
  return kind;
}

/** What somebody typed of a kind, as a job file gives it: `{ dailyAt: "02:30" }`. */
export function typedTime(option: string, text: string): Record<string, Json> {
  return { [option]: kindNamed(option)?.typed(text) ?? text };
}
