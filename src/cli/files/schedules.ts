/** `schedule ls`, `pause`, `resume`, `run` and `backfill`. Acts are audited under the name of the shell's user. */
import { scheduleText } from "../../sync/plan.ts";
import { nextSlots } from "../../schedules/calendar.ts";
import {
  backfill,
  type BackfillShare,
  pauseSchedule,
  planBackfill,
  resumeSchedule,
  runScheduleNow,
  type ScheduleRef,
} from "../../actions/schedule_actions.ts";
import { priorityNumber } from "../../job.ts";
import { readSchedules, type ScheduleView } from "../../schedules/schedule_view.ts";
import { act, type JsonOption, performOn, type Reasoned, withDb } from "../operator.ts";
import { instantFrom, priorityFrom } from "../inputs.ts";
import { CommandError, EXIT, pausedText, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { localTimes } from "../times.ts";

const FIRES_SHOWN = 2;

export async function listCommand(options: JsonOption & { job?: string }): Promise<void> {
  const { now, schedules } = await withDb((sql) => readSchedules(sql, { job_name: options.job }));
  const rows = schedules.map((one) => ({ ...one, text: scheduleText(one), next: firesOf(one, now) }));
  if (options.json) return printJson(rows);
  printTable(
    ["schedule", "when", "next", "last run", "stopped"],
    rows.map((row) => [
      `${row.job_name}/${row.schedule_id}`,
      row.text,
      row.next.length === 0 ? "never" : localTimes(row.next.join(", ")),
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
    return [`unreadable on this machine: ${(error as Error).message}`];
  }
}

/** Why none of its slots comes; null: nothing stops it. */
export function stoppedText({ enabled, job_paused, ...schedule }: ScheduleView): string | null {
  if (!enabled) return "disabled";
  return schedule.paused_by === null ? null : `${job_paused ? "its job is " : ""}${pausedText(schedule)}`;
}

export async function pauseCommand(name: string, options: Reasoned, paused: boolean): Promise<void> {
  const which = whichOf(name);
  const all = await act(paused ? pauseSchedule : resumeSchedule, which, options);
  if (options.json) return printJson(all.map((one) => ({ job_name: which.job_name, ...one, paused })));
  for (const one of all) {
    const how = paused
      ? "paused; when it resumes, its misfire rule decides what happens to the slots missed until then"
      : "resumed";
    const was = `was already ${paused ? "paused" : "running"}`;
    say(`schedule ${which.job_name}/${one.schedule_id} ${one.changed ? `is ${how}` : was}`);
  }
}

/** A run now, with the args that the schedule gives; its slots stay as they are. */
export async function runCommand(name: string, options: Reasoned): Promise<void> {
  const { id, schedule } = await act(runScheduleNow, whichOf(name), options);
  if (options.json) return printJson({ id });
  say(`run ${id} created, with the args of ${schedule}`);
}

export interface BackfillOptions extends Reasoned {
  from: string;
  to: string;
  parallel: number;
  priority: string;
  skipped?: boolean;
  alone?: boolean;
  yes?: boolean;
}

export async function backfillCommand(name: string, options: BackfillOptions): Promise<void> {
  const which = whichOf(name);
  const how = {
    parallel: options.parallel,
    priority: priorityNumber(priorityFrom(options.priority)),
    alone: options.alone,
  };
  const range = {
    from: instantFrom(options.from, "ago").toTemporalInstant(),
    until: instantFrom(options.to, "ago").toTemporalInstant(),
    skipped: options.skipped === true,
  };
  await withDb(async (sql) => {
    const plan = await planBackfill(sql, which, range);
    if (!options.json) showPlan(plan.shares, range.skipped);
    if (plan.runs > 0 && !options.yes) {
      throw new CommandError(`This would create ${plan.runs} runs; add --yes to create them`, EXIT.usage);
    }
    const made = await performOn(sql, backfill, { ...which, ...range, ...how }, options);
    if (options.json) return printJson({ plan: plan.shares, ...made ?? { bulk_id: null, runs: 0 } });
    const forgotten = plan.shares.some((share) => share.forgotten > 0) ? ", or is too old" : "";
    if (!made) return say(`nothing to do: every slot has its run${forgotten}`);
    const pace = how.parallel === 1 ? "one after another, oldest first" : `${how.parallel} at once`;
    say(`bulk ${made.bulk_id} created: ${made.runs} runs, ${pace}; see \`deno task bulk show ${made.bulk_id}\``);
  });
}

function showPlan(shares: BackfillShare[], again: boolean): void {
  const some_forgotten = shares.some(({ forgotten }) => forgotten > 0);
  const also = <T>(value: T) => some_forgotten ? [value] : [];
  printTable(
    ["schedule", "slots", "first", "last", "have a run", "of these SKIPPED", ...also("too old"), "runs to create"],
    shares.map((one) => [
      one.schedule,
      one.slots,
      one.first && localTimes(one.first),
      one.last && localTimes(one.last),
      one.exist,
      one.skipped,
      ...also(one.forgotten),
      one.to_make,
    ]),
    "",
  );
  if (some_forgotten) {
    say("too old: their runs may already be deleted (run_retention_days), so no runs are created");
  }
  if (!again && shares.some(({ skipped }) => skipped > 0)) {
    say("add --skipped to repeat the SKIPPED ones");
  }
}

/** JOB, or JOB/ID for one of its schedules. */
export function whichOf(name: string): ScheduleRef {
  const [job_name = "", schedule_id, more] = name.split("/");
  if (job_name !== "" && schedule_id !== "" && more === undefined) return { job_name, schedule_id };
  throw new CommandError(`Cannot use "${name}": write JOB, or JOB/ID for one of its schedules`, EXIT.usage);
}
