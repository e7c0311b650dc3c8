/** The first steps of a tick: what has come due becomes runs, and what came too late is skipped. */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { monotonicMs } from "../platform/timers.ts";
import { startOf } from "../schedules/jitter.ts";
import { planSlots } from "../schedules/calendar.ts";
import { createSlotRuns, type SlotPlan } from "../runs/create_runs.ts";
import { type DueSchedule, dueSchedules } from "../definitions/due_schedules.ts";
import { takeEvents } from "../events/events.ts";
import { followEnds } from "../events/followers.ts";
import { requestReplaced, skipForbidden } from "../runs/concurrency_policy.ts";
import { followPriority } from "../runs/requests.ts";
import { applyWakeChecks } from "../steps/wakes.ts";
import { skipLate } from "../runs/states.ts";
import { lockedLately, noteLocked } from "./row_locks.ts";
import type { LeaderContext } from "./leader_context.ts";

const SCHEDULES_AT_ONCE = 200;
const EVENTS_AT_ONCE = 500;
const ENDS_AT_ONCE = 500;
const OVERLAPS_AT_ONCE = 5_000;
const LATE_AT_ONCE = 5_000;
/** Schedules that make up for a thousand slots each are together more than one statement can bear within its time. */
const RUNS_AT_ONCE = 5_000;
/** After a long outage a calendar can take long to read; the term must be renewed meanwhile. */
const PLANNING_MS = 500;

/** Slots from the persisted last slot of each schedule to the database's now; what a dead leader left undone is done here. */
export async function planDueSlots(me: LeaderContext): Promise<void> {
  const { now, schedules } = await dueSchedules(me.sql, SCHEDULES_AT_ONCE, me.settings.assign_ahead_seconds);
  const until_ms = monotonicMs() + PLANNING_MS;
  const plans: SlotPlan[] = [];
  let more = schedules.length === SCHEDULES_AT_ONCE;
  let runs = 0;
  for (const schedule of schedules) {
    if (runs >= RUNS_AT_ONCE || monotonicMs() > until_ms) {
      more = true;
      break;
    }
    const plan = planOf(schedule, now);
    if (plan) plans.push(plan);
    runs += plan?.slots.length ?? 0;
  }
  if (plans.length === 0) return;
  me.overlaps_settled = false;
  await failpoint("after-lease-check-slots");
  const created = await createSlotRuns(me.sql, me.term, plans);
  for (const run of created) observe("run.born", { job_run_id: run.id, job_name: run.job_name, source: "schedule" });
  if (more) me.wakeup.signal();
}

/**
 * What new slots mean for runs of their job that go on: forbidden they are skipped, or they replace them. Done again
 * until it was heard of, and first of all by a new leader: the one before may have ended between the two statements.
 */
export async function settleOverlaps(me: LeaderContext): Promise<void> {
  if (me.overlaps_settled) return;
  await failpoint("after-lease-check-forbid");
  const skipped = await skipForbidden(me.sql, me.term, OVERLAPS_AT_ONCE);
  for (const run of skipped.runs) {
    observe("run.skipped", { job_run_id: run.job_run_id, reason: "another run of its job, by its concurrency" });
  }
  await failpoint("after-lease-check-replaced");
  const replaced = await requestReplaced(me.sql, me.term, OVERLAPS_AT_ONCE);
  const more = skipped.more || replaced.more;
  me.overlaps_settled = !more && !skipped.left && !replaced.left;
  if (skipped.more) me.late_left = true;
  if (more) me.wakeup.signal();
}

/**
 * What is to be done about one schedule. The one run that makes up for missed slots is due when that is found out, so it
 * is not late itself; of `all` missed ones, those that are late by the setting will be SKIPPED, for it is there for such a
 * backlog. A schedule that this machine cannot read (a zone that its Deno does not know) must not hold up the others.
 */
function planOf(schedule: DueSchedule, now: Temporal.Instant): SlotPlan | undefined {
  try {
    const slot = Temporal.Instant.from(schedule.next_slot);
    const until = Temporal.Instant.compare(slot, now) > 0 ? slot : now; // that one slot is planned before it comes
    const planned = planSlots(schedule, { last_slot: schedule.last_slot, now: until });
    return {
      job_schedule_id: schedule.id,
      next_slot_was: schedule.next_slot,
      slots: planned.slots.map(String),
      starts: planned.slots.map((slot, place) => {
        const makes_up = schedule.misfire.policy === "last" && place < planned.made_up;
        return String(makes_up ? now : startOf(schedule, slot));
      }),
      last_slot: String(planned.last_slot),
      next_slot: planned.next_slot === null ? null : String(planned.next_slot),
    };
  } catch (error) {
    loopFailed(`planning schedule ${schedule.id}`, error);
  }
}

export async function planEvents(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-events");
  const { more, ...taken } = await takeEvents(me.sql, me.term, {
    most: EVENTS_AT_ONCE,
    skip_locked: lockedLately(me),
  }).catch((error) => {
    throw noteLocked(me, error);
  });
  if (taken.events > 0) observe("events.taken", taken);
  if (more && taken.events > 0) me.wakeup.signal();
}

/** The runs of jobs that come after those that have ended. */
export async function planFollowers(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-followers");
  const { checks, runs } = await followEnds(me.sql, me.term, ENDS_AT_ONCE);
  for (const { id, job_name, skipped } of runs) {
    observe("run.born", { job_run_id: id, job_name, source: "after" });
    if (skipped) observe("run.skipped", { job_run_id: id, reason: "what it comes after did not end as its job wants" });
  }
  if (checks === ENDS_AT_ONCE || runs.some(({ skipped }) => skipped)) me.wakeup.signal(); // a skipped run has an end as well
}

/**
 * Lets go suspended runs for which something has come, and asks the children of runs that have ended to end; those without a body are then ended
 * by the step of cancels.
 */
export async function wakeArrived(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-arrivals");
  const { woken, canceling, more } = await applyWakeChecks(me.sql, me.term, { skip_locked: lockedLately(me) })
    .catch((error) => {
      throw noteLocked(me, error);
    });
  for (const { job_run_id, state } of woken) if (state === "SUSPENDED") observe("run.woken", { job_run_id });
  if (more || canceling > 0) me.wakeup.signal();
}

/** A tick skips so many; while more are left it gives nothing that is due already, or it would start some of them. */
export async function planLate(me: LeaderContext): Promise<void> {
  const late_seconds = me.settings.skip_late_runs_after_seconds;
  if (late_seconds === 0) return;
  await failpoint("after-lease-check-late");
  const skipped = await skipLate(me.sql, me.term, late_seconds, LATE_AT_ONCE);
  for (const run of skipped) {
    observe("run.skipped", { job_run_id: run.job_run_id, reason: `late by more than ${late_seconds} s` });
  }
  if (skipped.length < LATE_AT_ONCE) return;
  me.late_left = true;
  me.wakeup.signal();
}

/** A definition has another priority, by whatever means: those of its runs that wait with the old one get it. */
export async function movePriorities(me: LeaderContext): Promise<void> {
  if (await followPriority(me.sql, me.term)) me.wakeup.signal();
}
