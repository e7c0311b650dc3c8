/** Expected slots against what came of them: each slot with its run, or with why it has none. */
import type { ScheduleView } from "../../../schedules/schedule_view.ts";
import type { SlotPlace, SlotRun } from "../../../schedules/slot_view.ts";
import type { RunState } from "../../../runs/run_states.ts";

/** Without a run: to come; due just now; none was made; before the job; more runs than were read. */
export type CalendarSlotState = RunState | "expected" | "planning" | "missed" | "before" | "unknown";

export interface Slot {
  at: Temporal.Instant;
  state: CalendarSlotState;
  /** The run that it has now: the newest that repeats it, where one does. */
  run: SlotRun | undefined;
  repeated: boolean;
  /** How long after the moment in which it should have it started, or still has not; 0: in time. */
  late_ms: number;
}

/** Less is how schedulers are. */
const LATE_MS = 60_000;

export class Outcomes {
  /** By schedule and slot, and by the run that it repeats. */
  readonly #of_slot = new Map<string, SlotRun>();
  readonly #repeats = new Map<number, SlotRun>();
  readonly #places: Map<number, SlotPlace>;

  constructor({ places, runs }: { places: SlotPlace[]; runs: SlotRun[] }) {
    this.#places = new Map(places.map((place) => [place.job_schedule_id, place]));
    for (const run of runs) {
      if (run.rerun_of !== null) this.#repeats.set(run.rerun_of, run);
      else this.#of_slot.set(`${run.job_schedule_id} ${run.scheduled_for.getTime()}`, run);
    }
  }

  of(schedule: ScheduleView, at: Temporal.Instant, now: Temporal.Instant): Slot {
    const first = this.#of_slot.get(`${schedule.id} ${at.epochMilliseconds}`);
    let run = first;
    for (let next = run; next; next = this.#repeats.get(next.id)) run = next;
    if (run) return { at, state: run.state, run, repeated: run !== first, late_ms: lateness(run, now) };
    return { at, state: this.#without(schedule, at, now), run, repeated: false, late_ms: 0 };
  }

  #without(schedule: ScheduleView, at: Temporal.Instant, now: Temporal.Instant): CalendarSlotState {
    const place = this.#places.get(schedule.id);
    const ms = at.epochMilliseconds;
    if (Temporal.Instant.compare(at, now) > 0) return "expected";
    if (!place || ms > place.last_slot.getTime()) return "planning";
    if (ms < place.job_since.getTime()) return "before";
    return place.known_from && ms < place.known_from.getTime() ? "unknown" : "missed";
  }
}

/** From when it was due: that is the slot with its jitter, and of a repetition when it was asked for. */
function lateness(run: SlotRun, now: Temporal.Instant): number {
  if (run.state === "SKIPPED" || (run.finished_at && !run.started_at)) return 0;
  const waited_ms = (run.started_at?.getTime() ?? now.epochMilliseconds) - run.due_at.getTime();
  return waited_ms > LATE_MS ? waited_ms : 0;
}
