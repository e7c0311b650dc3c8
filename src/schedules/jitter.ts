/**
 * Jitter: the runs of a schedule start up to `jitter_seconds` after their slots, each at its own moment, so that a
 * hundred schedules of midnight do not all start at midnight. The slot stays what it is: it names the run (its idempotency
 * key, `scheduledFor`), and the moment follows from it alone, so that whoever computes it, and however often, finds the same.
 *
 * Jitter is shorter than the shortest time between two slots, so runs come due in the order of their slots.
 */
import { createHash } from "node:crypto";
import type { ScheduleSpec } from "../definitions/definition_rows.ts";
import { nextSlots, type ScheduleTimes } from "./calendar.ts";

/** When the run of a slot may start. */
export function startOf(
  schedule: { job_name: string; schedule_id: string } & Pick<ScheduleSpec, "jitter_seconds">,
  slot: Temporal.Instant,
): Temporal.Instant {
  if (schedule.jitter_seconds === 0) return slot;
  const name = `${schedule.job_name}/${schedule.schedule_id} ${slot}`;
  const chance = createHash("sha256").update(name).digest().readUInt32BE() / 2 ** 32;
  return slot.add({ milliseconds: Math.floor(chance * (schedule.jitter_seconds * 1000 + 1)) });
}

const SLOTS_LOOKED_AT = 1_000;
const YEARS_LOOKED_AT = 4;
const SLOTS_AROUND_A_CHANGE = 100;

/**
 * The shortest time between two slots, in milliseconds, of the next thousand and of those around the changes of the clock,
 * within four years; Infinity when there are no two.
 */
export function shortestDistance(times: ScheduleTimes, after: Temporal.Instant): number {
  const until = after.add({ hours: YEARS_LOOKED_AT * 366 * 24 });
  const stretches = [nextSlots(times, { after, count: SLOTS_LOOKED_AT })];
  let change = after.toZonedDateTimeISO(times.timezone).getTimeZoneTransition("next");
  while (change && Temporal.Instant.compare(change.toInstant(), until) < 0) {
    const day_before = change.toInstant().subtract({ hours: 25 });
    stretches.push(nextSlots(times, { after: day_before, count: SLOTS_AROUND_A_CHANGE }));
    stretches.push(
      nextSlots(times, { after: change.toInstant().subtract({ hours: 2 }), count: SLOTS_AROUND_A_CHANGE }),
    );
    change = change.getTimeZoneTransition("next");
  }
  let shortest = Infinity;
  for (const slots of stretches) {
    slots.forEach((slot, place) => {
      const before = slots[place - 1];
      if (before) shortest = Math.min(shortest, slot.epochMilliseconds - before.epochMilliseconds);
    });
  }
  return shortest;
}
