/** `runs`: what ran, why it ended as it did, and acts on single runs. Acts are audited under the name of the shell's user. */
import { rest, wallClock } from "../../platform/timers.ts";
import { openArchive } from "../../archive/open_archive.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { RunLog } from "../../actions/run_log.ts";
import { existingJob } from "../../actions/job_actions.ts";
import { cancel, close, existingRun, retry } from "../../actions/run_actions.ts";
import { listRuns, readAttempts, readState, type RunView } from "../../runs/run_view.ts";
import { TERMINAL } from "../../runs/run_states.ts";
import { act, type JsonOption, performOn, type Reasoned, withDb } from "../operator.ts";
import { filterFrom, idFrom, parseJson } from "../inputs.ts";
import { readConfigForDb } from "../../app/opening.ts";
import {
  CommandError,
  EXIT,
  isReaderGone,
  printJson,
  printJsonLine,
  say,
  type Signals,
  warn,
} from "../../app/output.ts";
import { attemptText, describeRun, RUN_COLUMNS, runRow, whyText } from "./run_text.ts";
import { printTable } from "../table.ts";
import { timeText } from "../times.ts";
import type { AnyMessage } from "../../locale/message.ts";

export async function listCommand(
  options: JsonOption & { job?: string; state?: string[]; where?: string[]; limit: number },
): Promise<void> {
  const filter = filterFrom([
    ...options.where ?? [],
    ...options.job === undefined ? [] : [`job=${options.job}`],
    ...options.state ? [`state=${options.state.join(",")}`] : [],
  ]);
  const runs = await withDb(async (sql) => {
    const found = await listRuns(sql, { ...filter, most: options.limit });
    if (found.length === 0 && filter.job_name !== undefined) await existingJob(sql, filter.job_name);
    return found;
  });
  if (options.json) return printJson(runs);
  const now = wallClock();
  printTable(
    RUN_COLUMNS,
    runs.map((run) => runRow(run, now)),
    Object.keys(filter).length > 0 ? "no matching runs" : "no runs yet; start one: deno task run NAME",
  );
}

export async function showCommand(id: string, options: JsonOption): Promise<void> {
  await withDb(async (sql) => {
    const run = await existingRun(sql, idFrom(id));
    const attempts = await readAttempts(sql, run.id);
    if (options.json) return printJson({ ...run, waits: openWaits(run), why: run.waits, attempts });
    say(describeRun(run));
    if (attempts.length === 0) return;
    say("\nearlier attempts");
    for (const one of attempts) say(attemptText(one));
  });
}

/** What a suspended run waits for. */
function openWaits({ waits }: RunView): object[] {
  if (waits?.code !== "suspended") return [];
  return (waits.params as { waits: AnyMessage[] }).waits.map(({ params }) => params);
}

export async function logsCommand(
  id: string,
  options: JsonOption & { follow?: boolean },
  signals: Signals,
): Promise<void> {
  await withDb(async (sql) => {
    const run = await existingRun(sql, idFrom(id));
    const log = new RunLog({ sql, archive: openArchive(readConfigForDb().archive) }, run);
    const { stop } = signals;
    let after = 0;
    while (true) {
      const state = await readState(sql, run.id); // before the lines: what an ended run said is all stored
      const lines = await log.read({ after, most: 1000 });
      for (const line of lines) {
        if (options.json) printJsonLine(line);
        else say(`${timeText(line.at)} ${line.level.padEnd(6)} ${line.message}${fieldsText(line.fields)}`);
      }
      after = lines.at(-1)?.id ?? after;
      if (stop.aborted || isReaderGone()) return;
      if (lines.length === 1000) continue;
      if (after === 0 && log.deleted_on) console.error(deletedText(run.id, log.deleted_on));
      if (!options.follow || state === undefined || TERMINAL.includes(state)) return;
      await rest(300, stop);
    }
  });
}

function deletedText(id: number, day: string): string {
  return `the log lines of run ${id} were deleted on ${day}: settings log_retention_days_db and old_logs`;
}

export async function cancelCommand(id: string, options: Reasoned): Promise<void> {
  const job_run_id = idFrom(id);
  const answer = await act(cancel, { id: job_run_id }, options);
  if (options.json) return printJson({ id: job_run_id, ...answer });
  say(
    answer.requested
      ? `run ${id}: cancel requested; its state was ${answer.state}`
      : `run ${id}: its cancel was already requested`,
  );
}

/** Without `yes` nothing is done: what is closed so looks as if it had failed, and its body may go on. */
export async function closeCommand(id: string, options: Reasoned & { yes?: boolean }): Promise<void> {
  const job_run_id = idFrom(id);
  await withDb(async (sql) => {
    const run = await existingRun(sql, job_run_id);
    if (!options.yes && !TERMINAL.includes(run.state)) {
      throw new CommandError(
        `This would mark run ${id} of ${run.job_name}, now ${run.state}, as FAILED (Missing), without stopping a body that may still be running; add --yes to do it, or stop the body too: deno task runs cancel ${id}`,
        EXIT.usage,
      );
    }
    await performOn(sql, close, { id: job_run_id }, options);
  });
  if (options.json) return printJson({ id: job_run_id, state: "FAILED" });
  say(`run ${id} is closed as FAILED (Missing)`);
}

/** A sentence for people, or the run with its `wait_reason` for programs. */
export async function explainCommand(id: string, options: JsonOption): Promise<void> {
  const run = await withDb((sql) => existingRun(sql, idFrom(id)));
  if (options.json) return printJson({ id: run.id, state: run.state, wait_reason: run.wait_reason });
  say(`run ${run.id} of ${run.job_name} is ${run.state}: ${whyText(run)}`);
}

export async function retryCommand(
  id: string,
  options: Reasoned & { args?: string; withFollowers?: boolean },
): Promise<void> {
  const args = options.args === undefined ? undefined : parseJson("--args", options.args);
  const unknown = new UnknownKeys();
  const given = { id: idFrom(id), args, unknown, with_followers: options.withFollowers };
  const fresh = await act(retry, given, options);
  warn(unknown.texts());
  if (options.json) return printJson({ id: fresh.id, rerun_of: fresh.rerun_of });
  const which = args === undefined ? "the args" : "other args than those";
  say(`run ${fresh.id} created, with ${which} of run ${fresh.rerun_of}`);
}

function fieldsText(fields: unknown): string {
  return fields === null ? "" : ` ${JSON.stringify(fields)}`;
}
