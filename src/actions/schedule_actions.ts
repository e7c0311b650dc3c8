/** What people do with schedules: pause and resume them, a run now, runs for slots of the past; from the command line and the API. */
import { slotsIn } from "../schedules/calendar.ts";
import { recordAudit } from "../access/audit.ts";
import type { Actor } from "../access/audit.ts";
import { createBackfill, type PastSlot, readSlots, type SlotState } from "../bulks/backfill.ts";
import { createRuns } from "../runs/create_runs.ts";
import type { Sql } from "../postgres/connection.ts";
import { readDemands } from "../definitions/definition_rows.ts";
import { readSchedules, type ScheduleView } from "../schedules/schedule_view.ts";
import { pauseSchedules } from "../dispatch/pauses.ts";
import { Refused } from "./args.ts";
import { checkFeasible, requirementsOf } from "./requirements.ts";
import { z } from "zod";
import { action, jobName, priority, text, whole } from "./action.ts";
import { priorityNumber } from "../job.ts";

/** A schedule, or all of a job's when none is named. */
export interface ScheduleRef {
  job_name: string;
  schedule_id?: string;
}

/** More are no backfill but a bulk: narrow the range. */
const MOST_SLOTS = 10_000;

/** At least one. @throws Refused when there is none. */
export async function schedulesNamed(
  sql: Sql,
  which: ScheduleRef,
): Promise<{ now: Temporal.Instant; schedules: ScheduleView[] }> {
  const { now, schedules } = await readSchedules(sql, { job_name: which.job_name });
  const meant = schedules.filter(({ schedule_id }) => schedule_id === (which.schedule_id ?? schedule_id));
  if (meant.length > 0) return { now, schedules: meant };
  const why = schedules.length === 0
    ? `no job "${which.job_name}" with a schedule is synced; \`deno task schedule ls\` shows them all`
    : `job "${which.job_name}" has no schedule "${which.schedule_id}", but ${namesOf(schedules)}`;
  throw new Refused(`Cannot find schedule "${nameOf(which)}": ${why}`, {
    why: "not_found",
    says: { code: "none", what: nameOf(which) },
  });
}

/** Each that is meant, and whether this changed it. @throws Refused when there is none. */
async function setSchedulesPaused(
  sql: Sql,
  which: ScheduleRef,
  wish: Actor & { paused: boolean },
): Promise<{ schedule_id: string; changed: boolean }[]> {
  const all = await pauseSchedules(sql, which, wish);
  if (all.length === 0) await schedulesNamed(sql, which);
  return all;
}

/** A run now, with the args that the schedule gives; its slots stay as they are. @throws Refused when it is not clear which. */
async function runSchedule(sql: Sql, which: ScheduleRef, by: Actor): Promise<{ id: number; schedule: string }> {
  const { schedules } = await schedulesNamed(sql, which);
  const [schedule, other] = schedules as [ScheduleView, ScheduleView?];
  if (other) {
    throw new Refused(`Cannot tell which schedule of "${which.job_name}" to run: name one of ${namesOf(schedules)}`, {
      says: { code: "which_schedule", names: schedules.map(nameOf) },
    });
  }
  const name = nameOf(schedule);
  const id = await sql.begin(async (tx) => {
    const args = { ...schedule.default_args_json, ...schedule.args_json };
    const demands = await readDemands(tx, schedule.job_name);
    if (demands) await checkFeasible(tx, `run "${name}"`, await requirementsOf(tx, demands, [args]));
    const new_run = { job_name: schedule.job_name, args };
    const [created] = await createRuns(tx, [new_run]);
    if (created?.job_run_id === undefined) {
      throw new Refused(`Cannot run "${name}": its job was removed meanwhile`, {
        why: "not_found",
        says: { code: "job_gone", job_name: schedule.job_name },
      });
    }
    const after = { job_run_id: created.job_run_id };
    await recordAudit(tx, { ...by, action: "schedule.run", target_type: "schedule", target_id: name, after });
    return Number(created.job_run_id);
  });
  return { id, schedule: name };
}

/** What a backfill comes down to for one schedule; shown before anything is made. */
export interface BackfillShare {
  schedule: string;
  slots: number;
  first: string | null;
  last: string | null;
  /** Slots that have a run; of those, that ended SKIPPED and were not repeated. */
  exist: number;
  skipped: number;
  /** Slots without a run, so old that theirs may have been deleted (run_retention_days): none is made. */
  forgotten: number;
  /** Runs that this makes. */
  to_make: number;
}

export interface BackfillRange {
  /** From this instant on. */
  from: Temporal.Instant;
  /** Before this one, which has passed. */
  until: Temporal.Instant;
  /** Repeat those whose run was SKIPPED. */
  skipped: boolean;
}

export interface BackfillPlan extends BackfillRange {
  which: ScheduleRef;
  slots: PastSlot[];
  shares: BackfillShare[];
  runs: number;
}

/** What it would make. Changes nothing. @throws Refused for a range that is empty, not over yet or too long. */
export async function planBackfill(sql: Sql, which: ScheduleRef, range: BackfillRange): Promise<BackfillPlan> {
  const { from, until } = range;
  if (Temporal.Instant.compare(from, until) >= 0) {
    throw new Refused(`Cannot backfill: the range begins at ${from}, which is not before its end, ${until}`, {
      says: { code: "range_empty" },
    });
  }
  const { now, schedules } = await schedulesNamed(sql, which);
  if (Temporal.Instant.compare(until, now) > 0) {
    throw new Refused(
      `Cannot backfill what is to come: the range ends at ${until}, after now, ${
        now.round("second")
      }; slots of the future come by themselves`,
      { says: { code: "range_to_come" } },
    );
  }
  const slots: PastSlot[] = [];
  const shares: BackfillShare[] = [];
  for (const one of schedules) {
    const part = slotsIn(one, { ...range, most: MOST_SLOTS + 1 })
      .map((slot) => ({ job_schedule_id: one.id, slot: String(slot) }));
    if (slots.length + part.length > MOST_SLOTS) {
      throw new Refused(
        `Cannot backfill ${nameOf(one)}: the range holds more than ${MOST_SLOTS} slots; do it in shorter ranges`,
        { says: { code: "too_many_slots", most: MOST_SLOTS } },
      );
    }
    shares.push(shareOf(nameOf(one), part, { states: await readSlots(sql, part), again: range.skipped }));
    slots.push(...part);
  }
  const runs = shares.reduce((sum, share) => sum + share.to_make, 0);
  return { ...range, which, slots: slots.sort(inLeadersOrder), shares, runs };
}

/** So that this and the leader, who makes them in that order, never wait for each other in a ring. */
function inLeadersOrder(a: PastSlot, b: PastSlot): number {
  return a.slot < b.slot ? -1 : a.slot > b.slot ? 1 : a.job_schedule_id - b.job_schedule_id;
}

function shareOf(schedule: string, slots: PastSlot[], on: { states: SlotState[]; again: boolean }): BackfillShare {
  const count = (state: SlotState) => on.states.filter((other) => other === state).length;
  return {
    schedule,
    slots: slots.length,
    first: slots[0]?.slot ?? null,
    last: slots.at(-1)?.slot ?? null,
    exist: count("taken") + count("skipped"),
    skipped: count("skipped"),
    forgotten: count("forgotten"),
    to_make: count("free") + (on.again ? count("skipped") : 0),
  };
}

/** Undefined: every slot has its run, perhaps since a moment ago, and nothing was made. */
async function makeBackfill(
  sql: Sql,
  plan: BackfillPlan,
  how: Actor & { parallel: number; priority: number; alone?: boolean },
): Promise<{ bulk_id: number; runs: number } | undefined> {
  if (plan.runs === 0) return undefined;
  const { which, slots, skipped } = plan;
  const name = `backfill of ${nameOf(which)}`;
  return await createBackfill(sql, { job_name: which.job_name, name, slots, skipped, ...how });
}

function nameOf({ job_name, schedule_id }: ScheduleRef): string {
  return schedule_id === undefined ? job_name : `${job_name}/${schedule_id}`;
}

function namesOf(schedules: ScheduleView[]): string {
  return schedules.map(nameOf).join(", ");
}

const WHICH = {
  job_name: jobName,
  schedule_id: text(64).meta({
    description: "Its name within the job; without it all schedules of the job",
    example: "nightly",
  }).optional(),
};

export const pauseSchedule = action({
  name: "schedule.pause",
  does: "pause a schedule, or all of a job; events and enqueued runs go on",
  needs: "operate",
  reason: "optional",
  input: z.strictObject(WHICH),
  audit: ["schedule.pause"],
  run: ({ sql, by }, which) => setSchedulesPaused(sql, which, { ...by, paused: true }),
});

export const resumeSchedule = action({
  name: "schedule.resume",
  does: "resume a schedule, or all of a job; slots that passed meanwhile follow its misfire rule",
  needs: "operate",
  reason: "optional",
  input: z.strictObject(WHICH),
  audit: ["schedule.resume"],
  run: ({ sql, by }, which) => setSchedulesPaused(sql, which, { ...by, paused: false }),
});

export const runScheduleNow = action({
  name: "schedule.run",
  does: "run a job now with the args that a schedule of it gives; its slots stay as they are",
  needs: "operate",
  reason: "optional",
  input: z.strictObject(WHICH),
  audit: ["schedule.run"],
  run: ({ sql, by }, which) => runSchedule(sql, which, by),
});

const instant = z.instanceof(Temporal.Instant);

export const backfill = action({
  name: "schedule.backfill",
  does: "make runs for slots of the past that have none",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    ...WHICH,
    from: instant.meta({ description: "From this instant on" }),
    until: instant.meta({ description: "Before this one, which has passed" }),
    skipped: z.boolean().meta({ description: "Repeat slots whose run was SKIPPED" }).default(false),
    parallel: whole(1, 1_000_000).meta({ description: "So many of the runs at once" }).default(1),
    priority: priority.meta({ description: "Of the runs" }),
    alone: z.boolean().meta({ description: "Without the jobs that come after its own" }).optional(),
  }),
  audit: ["schedule.backfill", "bulk.start"],
  confirm: true,
  async run({ sql, by }, { from, until, skipped, parallel, priority, alone, ...which }) {
    const plan = await planBackfill(sql, which, { from, until, skipped });
    return await makeBackfill(sql, plan, { ...by, parallel, priority: priorityNumber(priority), alone });
  },
});
