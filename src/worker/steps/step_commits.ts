/**
 * Writes the steps of all bodies of this worker, those that come together in one statement, and tells each body what is in Postgres: only then
 * does its code go on. One statement at a time; the next gathers while it is under way. The frames of a body are written in its order, and at most one of a
 * row goes with a statement. While Postgres is away the statement is repeated, and the bodies wait.
 *
 * A run that is no longer this worker's comes back in no answer: nothing of it was written. A row that Postgres cannot take refuses its own run.
 */
import { failpoint } from "../../platform/failpoint.ts";
import { after } from "../../platform/timers.ts";
import { isLockTimeout, isTooLong, type Sql } from "../../postgres/connection.ts";
import { lockedRows } from "../../postgres/row_locks.ts";
import { commitSteps, type CommittedRun, type StepWrite } from "../../steps/run_steps.ts";
import { untilHeard } from "../retry_until_available.ts";
import { bytesOf, type StepExecution, type WrittenStep } from "./step_execution.ts";

export interface StepCommitsParts {
  sql: Sql;
  worker_id: string;
  /** Fires when Postgres is no longer waited for. */
  over: AbortSignal;
  /** `frames`: those that are done, in their order. */
  onCommitted(execution: StepExecution, run: CommittedRun, frames: WrittenStep[]): void;
  /** It is not this worker's any more. */
  onLost(execution: StepExecution): void;
  /** Postgres did not say. */
  onFailed(execution: StepExecution, error: unknown): void;
}

interface Queued {
  frame: WrittenStep;
  bytes: number;
}

/** What one execution writes with the statement. */
interface Share {
  execution: StepExecution;
  frames: WrittenStep[];
}

const MOST_WRITES = 1_000;
const MOST_BYTES = 8 * 1024 * 1024;
/** From one try of a run whose row is locked to the next. */
const LOCKED_PAUSE_MS = 500;

/** More than one statement can do in its time, or a row that all had to wait for: asked again as it is it would be asked for ever. */
class NotTogether extends Error {
  override name = "NotTogether";
}

export class StepCommits {
  readonly #parts: StepCommitsParts;
  /** Who waited longest comes first. */
  readonly #queues = new Map<StepExecution, Queued[]>();
  /** In the statement under way. */
  readonly #writing = new Set<StepExecution>();
  /** Their rows are locked by somebody's transaction. */
  readonly #locked = new Set<StepExecution>();
  readonly #settled = new Map<StepExecution, () => void>();
  #flushing = false;

  constructor(parts: StepCommitsParts) {
    this.#parts = parts;
  }

  add(execution: StepExecution, frame: WrittenStep): void {
    const queued = { frame, bytes: bytesOf(frame.result) };
    const queue = this.#queues.get(execution);
    if (queue) queue.push(queued);
    else this.#queues.set(execution, [queued]);
    if (!this.#flushing) this.#flush();
  }

  /** Resolves when nothing of it waits any more; undefined: nothing does. */
  settled(execution: StepExecution): Promise<void> | undefined {
    if (!this.#isPending(execution)) return undefined;
    return new Promise((resolve) => this.#settled.set(execution, resolve));
  }

  /** What it has said is not written any more. */
  drop(execution: StepExecution): void {
    this.#queues.delete(execution);
    this.#settle(execution);
  }

  #isPending(execution: StepExecution): boolean {
    return this.#queues.has(execution) || this.#writing.has(execution);
  }

  #settle(execution: StepExecution): void {
    if (this.#isPending(execution)) return;
    this.#settled.get(execution)?.();
    this.#settled.delete(execution);
  }

  async #flush(): Promise<void> {
    this.#flushing = true;
    await Promise.resolve(); // what the same turn of the event loop brings goes along
    for (let shares = this.#take(); shares.length > 0; shares = this.#take()) {
      for (const { execution } of shares) this.#writing.add(execution);
      await this.#write(shares);
      this.#writing.clear();
      for (const { execution } of shares) this.#settle(execution);
    }
    this.#flushing = false;
  }

  /** As much as one statement takes: of each execution its first frames, up to one of a row that is among them. */
  #take(): Share[] {
    const shares: Share[] = [];
    let [writes, bytes] = [0, 0];
    for (const [execution, queue] of [...this.#queues]) {
      if (writes >= MOST_WRITES || bytes >= MOST_BYTES) break;
      if (this.#locked.has(execution)) continue;
      const keys = new Set<string>();
      let count = 0;
      for (const queued of queue) {
        if (keys.has(queued.frame.key) || writes >= MOST_WRITES || bytes >= MOST_BYTES) break;
        keys.add(queued.frame.key);
        count++;
        writes++;
        bytes += queued.bytes;
      }
      shares.push({ execution, frames: queue.splice(0, count).map(({ frame }) => frame) });
      this.#queues.delete(execution);
      if (queue.length > 0) this.#queues.set(execution, queue);
    }
    return shares;
  }

  async #write(shares: Share[]): Promise<void> {
    const { onCommitted, onLost, onFailed } = this.#parts;
    let committed: CommittedRun[];
    try {
      committed = await this.#commit(shares);
    } catch (error) {
      if (error instanceof NotTogether) return await this.#writeApart(shares, error.cause);
      for (const { execution } of shares) onFailed(execution, error);
      return;
    }
    const runs = new Map(committed.map((run) => [run.job_run_id, run]));
    for (const { execution, frames } of shares) {
      const run = runs.get(execution.job_run_id);
      if (run?.attempt === execution.run.attempt) onCommitted(execution, run, frames);
      else onLost(execution);
    }
  }

  /** Again and again while Postgres is away. */
  #commit(shares: Share[]): Promise<CommittedRun[]> {
    const { sql, worker_id, over } = this.#parts;
    const writes = shares.flatMap(({ execution, frames }) => frames.map((frame) => writeOf(execution, frame)));
    return untilHeard(async () => {
      await failpoint("before-step-commit");
      const committed = await commitSteps(sql, worker_id, writes).catch((error) => {
        const apart = !over.aborted && (isLockTimeout(error) || (isTooLong(error) && shares.length > 1));
        throw apart ? new NotTogether("its row is locked, or it is too much", { cause: error }) : error;
      });
      await failpoint("after-step-commit");
      return committed;
    }, over);
  }

  /** Runs whose rows are locked wait apart; of what is too much for one statement each half has its own. */
  async #writeApart(shares: Share[], cause: unknown): Promise<void> {
    if (!isLockTimeout(cause)) {
      const half = Math.ceil(shares.length / 2);
      await this.#write(shares.slice(0, half));
      return await this.#write(shares.slice(half));
    }
    const { sql, over, onFailed } = this.#parts;
    const ids = shares.map(({ execution }) => execution.job_run_id);
    try {
      const locked = new Set(await untilHeard(() => lockedRows(sql, "job_run", ids), over));
      for (const share of shares) if (locked.has(share.execution.job_run_id)) this.#putOff(share);
      const free = shares.filter(({ execution }) => !locked.has(execution.job_run_id));
      if (free.length > 0) await this.#write(free);
    } catch (error) {
      for (const { execution } of shares) onFailed(execution, error);
    }
  }

  #putOff({ execution, frames }: Share): void {
    const back = frames.map((frame) => ({ frame, bytes: bytesOf(frame.result) }));
    this.#queues.set(execution, [...back, ...this.#queues.get(execution) ?? []]);
    this.#locked.add(execution);
    after(LOCKED_PAUSE_MS, () => {
      this.#locked.delete(execution);
      if (!this.#flushing) this.#flush();
    });
  }
}

function writeOf({ run }: StepExecution, frame: WrittenStep): StepWrite {
  const { kind: _, n: _n, request, ...columns } = frame;
  const { job_run_id, attempt, start_token, digest } = run;
  return { job_run_id, attempt, start_token, code_digest: digest.slice(0, 12), ...columns, kind: request };
}
