/**
 * Carries log lines and progress of bodies to Postgres, many runs to a statement. Lines wait in memory while Postgres
 * is away, up to a cap; beyond it they are dropped and counted, since an outcome matters more than its log.
 */
import { loopFailed } from "../platform/facts.ts";
import { Batcher, rest, within } from "../platform/timers.ts";
import type { BodyListener, LogLine, StepBody, StepsFrame } from "../sandbox/process_pool.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import { appendLogs, type LogRow, reportProgress } from "../runs/run_logs.ts";
import type { StartedRun } from "../runs/started_runs.ts";
import { storableText } from "../runs/retry_policy.ts";

const MOST_WAITING_LINES = 20_000;
/** Lines of one statement: a body may end with 65,536 blank ones, and of three that do one took longer than a statement may. */
const MOST_AT_ONCE = 5_000;
const PATIENCE_MS = 2_000;

interface Report {
  job_run_id: number;
  start_token: string;
  fraction: number;
  message: string | null;
}

export class LogWriter {
  readonly #logs: Batcher<LogRow[], undefined>;
  readonly #reports: Batcher<Report, undefined>;
  /** What is not on its way to Postgres yet: a newer report takes its place, however long Postgres is away. */
  readonly #newest = new Map<string, Report>();
  readonly #last = new Map<string, Promise<unknown>>();
  #waiting = 0;

  constructor(sql: Sql) {
    this.#logs = new Batcher(async (batches) => {
      const lines = batches.flat();
      for (let at = 0; at < lines.length; at += MOST_AT_ONCE) {
        await persist(() => appendLogs(sql, lines.slice(at, at + MOST_AT_ONCE)));
      }
      return batches.map(() => undefined);
    }, { most: 50 });
    this.#reports = new Batcher(async (reports) => {
      for (const { start_token } of reports) this.#newest.delete(start_token);
      await persist(() => reportProgress(sql, reports));
      return reports.map(() => undefined);
    });
  }

  /** `onSteps`: what else it says. */
  listenerOf(run: StartedRun, onSteps: (frame: StepsFrame, body: StepBody) => void): BodyListener {
    return new Listener(this, run, onSteps);
  }

  log(run: StartedRun, lines: LogLine[]): void {
    const stored = this.#logs.add(this.#rows(run, lines)).finally(() => this.#waiting -= lines.length);
    this.#keep("log", run, stored);
  }

  progress(run: StartedRun, fraction: number, message: string | undefined): void {
    const { job_run_id, start_token } = run;
    const report = { job_run_id, start_token, fraction, message: message === undefined ? null : storableText(message) };
    const waiting = this.#newest.get(start_token);
    if (waiting) return void Object.assign(waiting, report);
    this.#newest.set(start_token, report);
    this.#keep("progress", run, this.#reports.add(report));
  }

  /** Everything that the run said is stored, or has been given up. */
  settled(run: StartedRun): Promise<void> | undefined {
    if (this.#last.size > 0) return this.#settled(run);
  }

  async #settled(run: StartedRun): Promise<void> {
    const last = ["log", "progress"].map((kind) => this.#last.get(`${kind} ${run.start_token}`));
    for (const kind of ["log", "progress"]) this.#last.delete(`${kind} ${run.start_token}`);
    if (last.every((stored) => stored === undefined)) return;
    await within(PATIENCE_MS, "storing what a body said", Promise.all(last)).catch(() => undefined);
  }

  /** Each kind is stored in its order, so the last one of each is the end of all. */
  #keep(kind: "log" | "progress", run: StartedRun, stored: Promise<unknown>): void {
    const told = stored.catch((error) => loopFailed(`storing the ${kind} of run ${run.job_run_id}`, error));
    this.#last.set(`${kind} ${run.start_token}`, told);
  }

  #rows(run: StartedRun, lines: LogLine[]): LogRow[] {
    const full = this.#waiting > MOST_WAITING_LINES;
    this.#waiting += lines.length;
    const kept: LogLine[] = full
      ? [{ level: "system", message: `${lines.length} lines dropped: Postgres does not keep up` }]
      : lines;
    return kept.map((line) => ({
      job_run_id: run.job_run_id,
      attempt: run.attempt,
      level: line.level,
      message: storableText(line.message),
      fields: line.fields === undefined ? null : JSON.parse(storableJson(line.fields)),
    }));
  }
}

/** Of one run; most say nothing. */
class Listener implements BodyListener {
  readonly #log_writer: LogWriter;
  readonly #run: StartedRun;
  readonly onSteps: (frame: StepsFrame, body: StepBody) => void;

  constructor(log_writer: LogWriter, run: StartedRun, onSteps: (frame: StepsFrame, body: StepBody) => void) {
    this.#log_writer = log_writer;
    this.#run = run;
    this.onSteps = onSteps;
  }

  onLog(lines: LogLine[]): void {
    this.#log_writer.log(this.#run, lines);
  }

  onProgress(fraction: number, message: string | undefined): void {
    this.#log_writer.progress(this.#run, fraction, message);
  }
}

function storableJson(value: unknown): string {
  return (JSON.stringify(value) ?? "null").replaceAll("\\u0000", "\\ufffd").replaceAll(
    /\\ud[89a-f][0-9a-f]{2}/gi,
    "\\ufffd",
  );
}

/** A few tries over a few seconds, then the lines are given up: logs never hold back what matters. */
async function persist(store: () => Promise<void>): Promise<void> {
  for (let tries = 1;; tries++) {
    try {
      return await store();
    } catch (error) {
      if (!isUnreachable(error) || tries === 5) throw error;
      await rest(200 * 2 ** tries);
    }
  }
}
