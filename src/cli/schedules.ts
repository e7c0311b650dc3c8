/** `schedule ls`, `pause`, `resume`, `run` and `backfill`. Acts are audited under the name of the shell's user. */
import { harmless } from "../base/text.ts";
import { scheduleText } from "../catalog/plan.ts";
import { nextSlots } from "../catalog/schedule.ts";
import { priorityNumber } from "../job.ts";
import { planBackfill, type Share } from "../ops/backfill.ts";
import { recordAct } from "../store/audit.ts";
import { createBackfill } from "../store/backfill.ts";
import { createRuns } from "../store/births.ts";
import type { Sql } from "../store/db.ts";
import { readSchedules, type ScheduleView } from "../store/schedule_view.ts";
import { pauseSchedules } from "../store/stops.ts";
import { instantFrom, priorityFrom } from "./inputs.ts";
import { CommandError, EXIT, printJson, printTable } from "./output.ts";
import { actor, withDb } from "./runs.ts";

interface Reasoned {
  json?: boolean;
  reason: string;
}

const FIRES_SHOWN = 2;

export async function listCommand(options: { job?: string; json?: boolean }): Promise<void> {
  const { now, schedules } = await withDb((sql) => readSchedules(sql, { job_name: options.job }));
  const rows = schedules.map((one) => ({ ...one, text: scheduleText(one), next: firesOf(one, now) }));
  if (options.json) return printJson(rows);
  printTable(
    ["schedule", "when", "next", "last run", "stopped"],
    rows.map((row) => [
      `${row.job_name}/${row.schedule_id}`,
      row.text,
      row.next.length === 0 ? "never" : row.next.join(", "),
      row.last_run && `${row.last_run.id} ${row.last_run.state}`,
      stoppedText(row),
    ]),
    options.job === undefined
      ? "no job has a schedule; add one to a file in jobs/ and run `deno task sync`"
      : `job "${options.job}" has no schedule`,
  );
}

/** A zone that this machine does not know must not hide the other schedules. */
function firesOf(schedule: ScheduleView, after: Temporal.Instant): string[] {
  try {
    return nextSlots(schedule, { after, count: FIRES_SHOWN }).map(String);
  } catch (error) {
    return [`unreadable here: ${(error as Error).message}`];
  }
}

/** Why none of its slots comes; null: nothing stops it. */
export function stoppedText({ enabled, paused_by, job_paused }: ScheduleView): string | null {
  if (!enabled) return "switched off";
  return paused_by === null ? null : `${job_paused ? "its job is " : ""}paused by ${paused_by}`;
}

export async function pauseCommand(name: string, options: Reasoned, paused: boolean): Promise<void> {
  const { job_name, schedule_id } = parts(name);
  const by = { actor: actor(), reason: options.reason, paused };
  const all = await withDb((sql) => pauseSchedules(sql, { job_name, schedule_id }, by));
  if (all.length === 0) throw await withDb((sql) => noSuchSchedule(sql, name));
  if (options.json) return printJson(all.map((one) => ({ job_name, ...one, paused })));
  for (const one of all) {
    const how = paused ? "paused; its slots from now on are dealt with by its misfire rule at its resume" : "resumed";
    const was = `was ${paused ? "paused" : "running"} already`;
    console.log(harmless(`schedule ${job_name}/${one.schedule_id} ${one.changed ? `is ${how}` : was}`));
  }
}

/** A run now, with the args that the schedule gives; its slots stay as they are. */
export async function runCommand(name: string, options: Reasoned): Promise<void> {
  await withDb(async (sql) => {
    const { schedules } = await schedulesNamed(sql, name);
    const [schedule, other] = schedules as [ScheduleView, ScheduleView?];
    if (other) {
      throw new CommandError(
        `Cannot tell which schedule of "${name}" to run: name one of ${namesOf(schedules)}`,
        EXIT.usage,
      );
    }
    const full_name = `${schedule.job_name}/${schedule.schedule_id}`;
    const id = await sql.begin(async (tx) => {
      const args = { ...schedule.default_args_json, ...schedule.args_json };
      const birth = { job_name: schedule.job_name, args, idempotency_key: crypto.randomUUID() };
      const [born] = await createRuns(tx, [birth]);
      const act = { actor: actor(), action: "schedule.run", target_type: "schedule", target_id: full_name };
      await recordAct(tx, { ...act, after: { job_run_id: born?.job_run_id }, reason: options.reason });
      return born?.job_run_id;
    });
    if (options.json) return printJson({ id });
    console.log(`run ${id} enqueued, with the args of ${full_name}`);
  });
}

export interface BackfillOptions extends Reasoned {
  from: string;
  to: string;
  parallel: number;
  priority: string;
  skipped?: boolean;
  yes?: boolean;
}

export async function backfillCommand(name: string, options: BackfillOptions): Promise<void> {
  const priority = priorityNumber(priorityFrom(options.priority));
  const range = { from: Temporal.Instant.from(instantFrom(options.from).toISOString()), until: untilOf(options) };
  if (Temporal.Instant.compare(range.from, range.until) >= 0) {
    throw new CommandError(`Cannot backfill: --from ${options.from} is not before --to ${options.to}`, EXIT.usage);
  }
  await withDb(async (sql) => {
    const { now, schedules } = await schedulesNamed(sql, name);
    if (Temporal.Instant.compare(range.until, now) > 0) {
      throw new CommandError(
        `Cannot backfill what is to come: --to ${options.to} is after now, ${
          now.round("second")
        }; slots of the future come by themselves`,
        EXIT.usage,
      );
    }
    const { slots, shares } = await planBackfill(sql, schedules, { ...range, again: options.skipped === true });
    const runs = shares.reduce((sum, share) => sum + share.to_make, 0);
    if (!options.json) showPlan(shares, options.skipped === true);
    if (runs === 0) {
      return report({ plan: shares, bulk_id: null, runs: 0 }, options, "nothing to do: every slot has its run");
    }
    if (!options.yes) throw new CommandError(`This would make ${runs} runs: add --yes to do it`, EXIT.usage);
    const made = await createBackfill(sql, {
      job_name: (schedules[0] as ScheduleView).job_name,
      name: `backfill of ${name}`,
      slots,
      skipped: options.skipped === true,
      parallel: options.parallel,
      priority,
      actor: actor(),
      reason: options.reason,
    });
    if (!made) {
      return report(
        { plan: shares, bulk_id: null, runs: 0 },
        options,
        "nothing to do: every slot has got its run meanwhile",
      );
    }
    const how = options.parallel === 1 ? "one after the other, oldest first" : `${options.parallel} at once`;
    report(
      { plan: shares, ...made },
      options,
      `bulk ${made.bulk_id} made: ${made.runs} runs, ${how}; see \`deno task bulk show ${made.bulk_id}\``,
    );
  });
}

function untilOf({ to }: BackfillOptions): Temporal.Instant {
  return Temporal.Instant.from(instantFrom(to).toISOString());
}

function report(
  answer: { plan: Share[]; bulk_id: number | null; runs: number },
  options: { json?: boolean },
  said: string,
) {
  if (options.json) printJson(answer);
  else console.log(said);
}

function showPlan(shares: Share[], again: boolean): void {
  printTable(
    ["schedule", "slots", "first", "last", "have a run", "of them SKIPPED", "runs to make"],
    shares.map((one) => [one.schedule, one.slots, one.first, one.last, one.exist, one.skipped, one.to_make]),
    "",
  );
  if (!again && shares.some(({ skipped }) => skipped > 0)) {
    console.log("add --skipped to repeat those that were SKIPPED");
  }
}

function parts(name: string): { job_name: string; schedule_id?: string } {
  const [job_name = "", schedule_id, more] = name.split("/");
  if (job_name !== "" && schedule_id !== "" && more === undefined) return { job_name, schedule_id };
  throw new CommandError(`Cannot use "${name}": write JOB, or JOB/ID for one of its schedules`, EXIT.usage);
}

/** The schedules that JOB or JOB/ID means: at least one. */
export async function schedulesNamed(
  sql: Sql,
  name: string,
): Promise<{ now: Temporal.Instant; schedules: ScheduleView[] }> {
  const { job_name, schedule_id } = parts(name);
  const { now, schedules } = await readSchedules(sql, { job_name });
  const meant = schedules.filter((one) => schedule_id === undefined || one.schedule_id === schedule_id);
  if (meant.length === 0) throw await noSuchSchedule(sql, name);
  return { now, schedules: meant };
}

async function noSuchSchedule(sql: Sql, name: string): Promise<CommandError> {
  const { job_name, schedule_id } = parts(name);
  const { schedules } = await readSchedules(sql, { job_name });
  const why = schedules.length === 0
    ? `no job "${job_name}" with a schedule is synced; \`deno task schedule ls\` shows them all`
    : `job "${job_name}" has no schedule "${schedule_id}", but ${namesOf(schedules)}`;
  return new CommandError(`Cannot find schedule "${name}": ${why}`);
}

function namesOf(schedules: ScheduleView[]): string {
  return schedules.map((one) => `${one.job_name}/${one.schedule_id}`).join(", ");
}
