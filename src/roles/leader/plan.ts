/** The first steps of a tick: what has come due becomes runs, and what came too late is skipped. */
import { observe } from "../../base/facts.ts";
import { planSlots } from "../../catalog/schedule.ts";
import { createSlotRuns, type SlotPlan, takeEvents } from "../../store/births.ts";
import { dueSchedules } from "../../store/definitions.ts";
import { requestReplaced } from "../../store/requests.ts";
import { skipForbidden, skipLate } from "../../store/runs.ts";
import type { Leading } from "./leading.ts";

const SCHEDULES_AT_ONCE = 200;
const EVENTS_AT_ONCE = 500;

/** Slots from the persisted last slot of each schedule to the database's now; what a dead leader left undone is done here. */
export async function planDueSlots(me: Leading): Promise<void> {
  const { now, schedules } = await dueSchedules(me.sql, SCHEDULES_AT_ONCE);
  const plans: SlotPlan[] = schedules.map((schedule) => {
    const planned = planSlots(schedule, { last_slot: schedule.last_slot, now });
    return {
      job_schedule_id: schedule.id,
      next_slot_was: schedule.next_slot,
      slots: planned.slots.map((slot) => slot.toString()),
      last_slot: planned.last_slot.toString(),
      next_slot: planned.next_slot?.toString() ?? null,
    };
  });
  if (plans.length === 0) return;
  const born = await createSlotRuns(me.sql, me.term, plans);
  for (const run of born) observe("run.born", { job_run_id: run.id, job_name: run.job_name, source: "schedule" });
  for (const run of await skipForbidden(me.sql, me.term)) {
    observe("run.skipped", { job_run_id: run.job_run_id, reason: "forbid" });
  }
  await requestReplaced(me.sql, me.term);
  if (schedules.length === SCHEDULES_AT_ONCE) me.bell.ring();
}

export async function planEvents(me: Leading): Promise<void> {
  const taken = await takeEvents(me.sql, me.term, EVENTS_AT_ONCE);
  if (taken.events > 0) observe("events.taken", taken);
  if (taken.events === EVENTS_AT_ONCE) me.bell.ring();
}

export async function planLate(me: Leading): Promise<void> {
  const late_seconds = me.settings.skip_late_runs_after_seconds;
  if (late_seconds === 0) return;
  for (const run of await skipLate(me.sql, me.term, late_seconds)) {
    observe("run.skipped", { job_run_id: run.job_run_id, reason: `late by more than ${late_seconds} s` });
  }
}
