/** `run` and `emit`: work from the command line, by the same calls that applications use, and in the audit. */
import { harmless } from "../../platform/text.ts";
import { monotonicMs, rest } from "../../platform/timers.ts";
import { wordLike } from "../../platform/shown.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { type EventFit, unfitText } from "../../actions/event_fit.ts";
import { emit, enqueue } from "../../actions/run_actions.ts";
import type { Sql } from "../../postgres/connection.ts";
import { listEventTypes } from "../../runs/job_view.ts";
import { readLogs } from "../../runs/run_logs.ts";
import { readAttempts, readRun, readState, type RunView } from "../../runs/run_view.ts";
import { TERMINAL } from "../../runs/run_states.ts";
import { type JsonOption, performOn, withDb } from "../operator.ts";
import { instantFrom, parseJson, priorityFrom } from "../inputs.ts";
import { CommandError, EXIT, isReaderGone, printJson, say, type Signals, warn } from "../../app/output.ts";
import { localTimes } from "../times.ts";
import { english } from "../../locale/english.ts";
import { firstLine } from "../../platform/text.ts";

interface RunOptions extends JsonOption {
  args: string;
  priority?: string;
  at?: string;
  key?: string;
  serialKey?: string;
  node?: string;
  wait?: boolean;
}

export async function runCommand(name: string, options: RunOptions, signals: Signals): Promise<void> {
  const args = parseJson("--args", options.args);
  const unknown = new UnknownKeys();
  const given = {
    job_name: name,
    args,
    unknown,
    priority: options.priority === undefined ? undefined : priorityFrom(options.priority),
    run_at: options.at === undefined ? undefined : instantFrom(options.at, "ahead"),
    idempotency_key: options.key,
    serial_key: options.serialKey,
    node: options.node,
  };
  await withDb(async (sql) => {
    const { id, isNew } = await performOn(sql, enqueue, given, {});
    warn(unknown.texts());
    if (!options.wait) {
      if (options.json) return printJson({ id, is_new: isNew });
      return say(isNew ? `run ${id} created` : `run ${id} already exists with this key`);
    }
    const run = await waitForEnd(sql, id, { show_log: !options.json, stop: signals.stop });
    if (options.json) printJson(run);
    else say(endText(run));
    if (run.state !== "SUCCEEDED") throw new CommandError("", EXIT.failed);
  });
}

export async function emitCommand(
  type: string,
  options: JsonOption & { payload: string; dedupeKey?: string },
): Promise<void> {
  const payload = parseJson("--payload", options.payload);
  await withDb(async (sql) => {
    const given = { event_type: type, payload, dedupe_key: options.dedupeKey };
    const { id, isNew, fit } = await performOn(sql, emit, given, {});
    if (options.json) printJson({ id, event_type: type });
    else say(isNew ? `event ${id} emitted` : `event ${id} already exists with this key`);
    if (fit) warn(await emitWarnings(sql, type, fit));
  });
}

async function emitWarnings(sql: Sql, type: string, fit: EventFit): Promise<string[]> {
  const unfit = unfitText(fit);
  if (unfit !== undefined) return [unfit];
  return fit.listening > 0 ? [] : [unheardText(type, await listEventTypes(sql))];
}

/** No mistake, since a job for it may come one day, but most likely one. */
function unheardText(type: string, known: string[]): string {
  const meant = wordLike(type, known);
  const hint = meant
    ? `, did you mean "${meant}"?`
    : known.length > 0
    ? `; jobs are triggered by ${listText(known)}`
    : "";
  return `no job is triggered by "${type}"${hint}`;
}

function listText(types: string[]): string {
  return types.slice(0, TYPES_SHOWN).join(", ") + (types.length > TYPES_SHOWN ? ", ..." : "");
}

const TYPES_SHOWN = 10;

/** A run that has not started after this long has a reason worth telling. */
const TELL_WHY_AFTER_MS = 2_000;

/** Polls the run's state: fast at first, then gently; failed attempts and log lines are shown as they come. */
async function waitForEnd(sql: Sql, id: number, how: { show_log: boolean; stop: AbortSignal }): Promise<RunView> {
  let [line, attempts, told] = [0, 0, false];
  const began_ms = monotonicMs();
  while (true) {
    const state = await readState(sql, id);
    if (how.show_log) line = await showLog(sql, id, line);
    if (how.show_log) attempts = await showAttempts(sql, id, attempts);
    if (state === undefined || TERMINAL.includes(state)) break;
    if (how.stop.aborted || isReaderGone()) {
      throw new CommandError(`Stopped waiting: run ${id} is ${state}, and goes on`);
    }
    if (!told && monotonicMs() - began_ms > TELL_WHY_AFTER_MS) {
      told = true;
      const why = (await readRun(sql, id))?.wait_reason;
      if (why) console.error(harmless(`run ${id} waits: ${localTimes(why)}`));
    }
    await rest(Math.min(20 + (monotonicMs() - began_ms) / 20, 500), how.stop);
  }
  return await readRun(sql, id) as RunView;
}

async function showLog(sql: Sql, id: number, after: number): Promise<number> {
  const lines = await readLogs(sql, id, { after, most: 1000 });
  for (const line of lines) say(`${line.level.padEnd(6)} ${line.message}`);
  return lines.at(-1)?.id ?? after;
}

/** The attempts that ended and are followed by another; gives how many there were. */
async function showAttempts(sql: Sql, id: number, shown: number): Promise<number> {
  const attempts = await readAttempts(sql, id);
  for (const { attempt, outcome, error_summary } of attempts.slice(shown)) {
    say(`attempt ${attempt} ${outcome}: ${firstLine(english(error_summary ?? ""))}`);
  }
  return attempts.length;
}

function endText(run: RunView): string {
  const took = run.started_at && run.finished_at
    ? ` in ${((run.finished_at.getTime() - run.started_at.getTime()) / 1000).toFixed(2)} s`
    : "";
  const what = run.state === "SUCCEEDED" ? JSON.stringify(run.result) : english(run.error_summary ?? "");
  return `run ${run.id} ${run.state}${took}, attempt ${run.attempt}: ${what}`;
}
