/** Which slots of the past a backfill would give a run, for each schedule; said before anything is made. */
import { slotsIn } from "../catalog/schedule.ts";
import { Refused } from "../client/args.ts";
import { type PastSlot, readSlots, type SlotState } from "../store/backfill.ts";
import type { Sql } from "../store/db.ts";
import type { ScheduleView } from "../store/schedule_view.ts";

/** More are no backfill but a bulk: narrow the range. */
const MOST_SLOTS = 10_000;

/** What a backfill comes down to for one schedule. */
export interface Share {
  schedule: string;
  slots: number;
  first: string | null;
  last: string | null;
  /** Slots that have a run; of those, that ended SKIPPED and were not repeated. */
  exist: number;
  skipped: number;
  /** Runs that this makes. */
  to_make: number;
}

/** `again`: also slots whose run was SKIPPED. @throws Refused when there are too many */
export async function planBackfill(
  sql: Sql,
  schedules: ScheduleView[],
  range: { from: Temporal.Instant; until: Temporal.Instant; again: boolean },
): Promise<{ slots: PastSlot[]; shares: Share[] }> {
  const wanted: PastSlot[] = [];
  const shares: Share[] = [];
  for (const one of schedules) {
    const slots = slotsIn(one, { ...range, most: MOST_SLOTS + 1 }).map((slot) => ({
      job_schedule_id: one.id,
      slot: String(slot),
    }));
    if (wanted.length + slots.length > MOST_SLOTS) {
      throw new Refused(
        `Cannot backfill ${one.job_name}/${one.schedule_id}: the range holds more than ${MOST_SLOTS} slots; do it in shorter ranges`,
      );
    }
    const states = await readSlots(sql, slots);
    const count = (state: SlotState) => states.filter((other) => other === state).length;
    shares.push({
      schedule: `${one.job_name}/${one.schedule_id}`,
      slots: slots.length,
      first: slots[0]?.slot ?? null,
      last: slots.at(-1)?.slot ?? null,
      exist: count("taken") + count("skipped"),
      skipped: count("skipped"),
      to_make: count("free") + (range.again ? count("skipped") : 0),
    });
    wanted.push(...slots);
  }
  // In the order in which the leader makes them, so that the two never wait for each other in a ring.
  const of_slot = (a: PastSlot, b: PastSlot) =>
    a.slot < b.slot ? -1 : a.slot > b.slot ? 1 : a.job_schedule_id - b.job_schedule_id;
  return { slots: wanted.sort(of_slot), shares };
}
