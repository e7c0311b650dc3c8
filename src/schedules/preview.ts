/** What a schedule comes to, before and after somebody changes it: its next fires, and the nights on which a clock changes under it. */
import { startOf } from "./jitter.ts";
import { afterWrites, monotonicMs } from "../platform/timers.ts";
import { type ClockWarning, eachSlot, nextSlots, previewWarnings, type ScheduleTimes } from "./calendar.ts";

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

/** A rare schedule such as `0 0 29 2 +1`, a leap day that is a Monday, takes 7 ms for each slot; 1,000 of them kept the only thread for 2 s. */
const BUDGET_MS = 250;
const TURN_MS = 10;

/**
 * The next slots, for somebody who may ask for any schedule: of the next 50 years, what is found in a quarter of a second, and others have their
 * turn meanwhile.
 */
export async function boundedSlots(
  schedule: ScheduleTimes,
  ask: { after: Temporal.Instant; count: number; budget_ms?: number },
): Promise<Temporal.Instant[]> {
  const slots: Temporal.Instant[] = [];
  let [spent_ms, turn_ms] = [0, monotonicMs()];
  for (const slot of eachSlot(schedule, ask.after)) {
    slots.push(slot);
    const took_ms = monotonicMs() - turn_ms;
    if (slots.length >= ask.count || spent_ms + took_ms >= (ask.budget_ms ?? BUDGET_MS)) break;
    if (took_ms < TURN_MS) continue;
    spent_ms += took_ms;
    await afterWrites();
    turn_ms = monotonicMs();
  }
  return slots;
}

/** An instant on the wall of a zone: "2026-11-22 02:30+09:00 Asia/Tokyo". */
export function wallTextOf(slot: Temporal.Instant, timezone: string): string {
  const local = slot.toZonedDateTimeISO(timezone);
  const time = local.toPlainTime().toString({ smallestUnit: local.second === 0 ? "minute" : "second" });
  return `${local.toPlainDate()} ${time}${local.offset} ${timezone}`;
}
