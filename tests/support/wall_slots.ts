/** Schedules as a test writes them, and slots as a wall clock shows them. */
import assert from "node:assert/strict";
import { nextSlots } from "../../src/schedules/calendar.ts";
import { parseSchedule } from "../../src/job_options/schedule_options.ts";
import type { ScheduleSpec } from "../../src/definitions/definition_rows.ts";

export function at(text: string): Temporal.Instant {
  return Temporal.Instant.from(text);
}

export function spec(input: Record<string, unknown>): ScheduleSpec {
  const parsed = parseSchedule(input);
  assert(parsed.ok, JSON.stringify(parsed));
  return parsed.schedule;
}

/** The next slots, as the zone's clock shows them with its offset. */
export function shown(input: Record<string, unknown>, after: string, count: number): string[] {
  const one = spec(input);
  return nextSlots(one, { after: at(after), count }).map((slot) =>
    slot.toZonedDateTimeISO(one.timezone).toString({ timeZoneName: "never", smallestUnit: "minute" })
  );
}
