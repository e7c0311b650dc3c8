/**
 * Records how runs ended, those that end together in one statement, and asks until Postgres has answered: an outcome is not lost because
 * the database is away. One that Postgres cannot take does not keep the others of its group from being recorded, nor do large results that take
 * too long together, nor one whose row somebody's transaction keeps: that one is asked for again and again, apart from the others.
 *
 * No row back means that either an earlier try was recorded and its reply lost, or that the run was meanwhile given to another: then
 * it is left alone, and the result is kept in the audit.
 */
import { observe } from "../../platform/facts.ts";
import { failpoint } from "../../platform/failpoint.ts";
import { KeyedBatcher, rest } from "../../platform/timers.ts";
import { messageOf } from "../../platform/text.ts";
import { recordAudit } from "../../access/audit.ts";
import { isLockTimeout, isTooLong, isUnreachable, type Sql } from "../../postgres/connection.ts";
import type { Ending } from "../../runs/finished_runs.ts";
import { lockedRows } from "../../postgres/row_locks.ts";
import { readAttempts, readRun } from "../../runs/run_view.ts";
import type { RunState } from "../../runs/run_states.ts";
import { endRuns } from "../../steps/undo_runs.ts";
import type { StartedRun } from "../../runs/started_runs.ts";
import { unstorable } from "../../runs/retry_policy.ts";
import { batchInterval } from "../batch_interval.ts";

/** A run whose body is gone, and what came of it. */
export interface BodyResult {
  run: StartedRun;
  ending: Ending;
}

export interface RecordsParts<End> {
  sql: Sql;
  worker_id: string;
  /** Asks until Postgres answers. */
  untilHeard<T>(ask: () => Promise<T>): Promise<T>;
  /** Fires when that is given up. */
  over: AbortSignal;
  /** `state`: what the run is now; undefined: it is not ours any more. */
  onRecorded(ended: End, state: string | undefined): void;
  /** Its row is given up at the next look at what is ours. */
  onFailed(ended: End, error: unknown): void;
}

const MOST_AT_ONCE = 400;
/** From one try of runs whose rows are kept to the next. */
const KEPT_PAUSE_MS = 500;

/** More than one statement can do in its time: asked again as it is it would be asked for ever. */
class TooMuch extends Error {
  override name = "TooMuch";
}

/** A row that all of them had to wait for is kept by somebody's transaction. */
class Kept extends Error {
  override name = "Kept";
}

export class Records<End extends BodyResult> {
  readonly #parts: RecordsParts<End>;
  readonly #groups = new KeyedBatcher<End>((group) => this.#recordAll(group), {
    most: MOST_AT_ONCE,
    tempo: batchInterval(),
  });
  /** Those whose rows were found kept: only they wait for one another. */
  readonly #kept = new KeyedBatcher<End>(async (group) => {
    await rest(KEPT_PAUSE_MS, this.#parts.over);
    await this.#recordFree(group);
  }, { most: MOST_AT_ONCE });

  constructor(parts: RecordsParts<End>) {
    this.#parts = parts;
  }

  add(ended: End): void {
    this.#groups.add(ended);
  }

  async #recordAll(group: End[]): Promise<void> {
    let found: Map<number, RunState>;
    try {
      found = await this.#finish(group.map(({ ending }) => ending), { together: true });
    } catch (error) {
      if (error instanceof TooMuch) return await this.#recordHalves(group);
      if (error instanceof Kept) return await this.#recordFree(group);
      for (const ended of group) {
        if (isUnreachable(error)) this.#parts.onFailed(ended, error);
        else this.#answer(ended, this.#recordAlone(ended));
      }
      return;
    }
    for (const ended of group) {
      const state = found.get(ended.run.job_run_id);
      if (state) this.#parts.onRecorded(ended, state);
      else this.#answer(ended, this.#parts.untilHeard(() => this.#readBack(ended)));
    }
  }

  /** One after the other: that it took long may as well be Postgres' fault. */
  async #recordHalves(group: End[]): Promise<void> {
    const half = Math.ceil(group.length / 2);
    await this.#recordAll(group.slice(0, half));
    await this.#recordAll(group.slice(half));
  }

  /** Those that are kept wait apart from now on; once trying is over they are tried a last time. */
  async #recordFree(group: End[]): Promise<void> {
    const { sql, over, untilHeard, onFailed } = this.#parts;
    const ids = group.map(({ run }) => run.job_run_id);
    let kept: Set<number>;
    try {
      kept = new Set(over.aborted ? [] : await untilHeard(() => lockedRows(sql, "job_run", ids)));
    } catch (error) {
      return group.forEach((ended) => onFailed(ended, error));
    }
    const free = group.filter(({ run }) => !kept.has(run.job_run_id));
    for (const ended of group) if (!free.includes(ended)) this.#kept.add(ended);
    if (free.length > 0) await this.#recordAll(free);
  }

  #answer(ended: End, state: Promise<string | undefined>): void {
    state.then((state) => this.#parts.onRecorded(ended, state), (error) => this.#parts.onFailed(ended, error));
  }

  /** `together`: with others that are not to wait for what keeps one of them. */
  #finish(endings: Ending[], { together = false } = {}): Promise<Map<number, RunState>> {
    const { sql, worker_id, untilHeard, over } = this.#parts;
    return untilHeard(async () => {
      await failpoint("after-body-exit-before-finish");
      const rows = await endRuns(sql, worker_id, endings).catch((error) => {
        if (together && isLockTimeout(error) && !over.aborted) throw new Kept();
        throw endings.length > 1 && isTooLong(error) ? new TooMuch() : error;
      });
      await failpoint("after-finish-commit");
      return new Map(rows.map((row) => [row.job_run_id, row.state]));
    });
  }

  async #recordAlone(ended: End): Promise<string | undefined> {
    const { run: { job_run_id }, ending } = ended;
    const found = await this.#finish([ending]).catch((error) => {
      if (isUnreachable(error)) throw error;
      return this.#finish([unstorable(ending, messageOf(error))]);
    });
    return found.get(job_run_id) ?? await this.#parts.untilHeard(() => this.#readBack(ended));
  }

  async #readBack({ run, ending }: End): Promise<string | undefined> {
    const { sql, worker_id } = this.#parts;
    const { job_run_id, attempt } = run;
    const row = await readRun(sql, job_run_id);
    const same = row?.fence === run.fence && row.execution === attempt;
    if (same && (row.state === ending.outcome || row.state === "RETRYING")) return row.state;
    const attempts = await readAttempts(sql, job_run_id);
    const kept = attempts.find(({ execution }) => execution === attempt);
    if (kept?.outcome === ending.outcome) return "RETRYING";
    if (kept?.outcome === "SUSPENDED") return kept.outcome;
    const late = { job_run_id, attempt, worker_id, outcome: ending.outcome };
    observe("run.late_result", late);
    await recordAudit(sql, {
      actor: worker_id,
      action: "run.late_result",
      target_type: "run",
      target_id: job_run_id,
      before: { state: row?.state, attempt: row?.attempt },
      after: late,
      reason: "the run had been taken from this worker before its outcome could be recorded",
    });
    return undefined;
  }
}
