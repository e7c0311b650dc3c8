/** What a schedule comes to, before and after somebody changes it: its next fires, and the nights on which a clock changes under it. */
import { startOf } from "./jitter.ts";
import { type ClockWarning, nextSlots, previewWarnings, type ScheduleTimes } from "./schedule.ts";

export interface Preview {
  fires: { slot: Temporal.Instant; starts: Temporal.Instant }[];
  warnings: ClockWarning[];
}

/** With jitter only where there is a name that it follows from. */
export type Previewable = ScheduleTimes & { job_name?: string; schedule_id?: string; jitter_seconds?: number };

/** The next `count` fires; warnings up to the last of them, or up to `warn_until` where that is later. */
export function previewOf(
  schedule: Previewable,
  ask: { after: Temporal.Instant; count: number; warn_until?: Temporal.Instant },
): Preview {
  const slots = nextSlots(schedule, { after: ask.after, count: ask.count });
  const until = [...slots.slice(-1), ...(ask.warn_until ? [ask.warn_until] : [])].sort(Temporal.Instant.compare).at(-1);
  const { job_name, schedule_id, jitter_seconds = 0 } = schedule;
  const starts = (slot: Temporal.Instant) =>
    job_name && schedule_id ? startOf({ job_name, schedule_id, jitter_seconds }, slot) : slot;
  return {
    fires: slots.map((slot) => ({ slot, starts: starts(slot) })),
    warnings: until ? previewWarnings(schedule, { after: ask.after, until }) : [],
  };
}

/** An instant on the wall of a zone: "2026-11-22 02:30+09:00 Asia/Tokyo". */
export function wallTextOf(slot: Temporal.Instant, timezone: string): string {
  const local = slot.toZonedDateTimeISO(timezone);
  const time = local.toPlainTime().toString({ smallestUnit: local.second === 0 ? "minute" : "second" });
  return `${local.toPlainDate()} ${time}${local.offset} ${timezone}`;
}
