/**
 * Makes runs RUNNING here, those that come together in one statement, and tells when their bodies may begin: that of a run which is
 * known ahead at the instant when it is due, which its row, asked a moment before, says better than any clock of this machine.
 */
import { failpoint } from "../platform/failpoint.ts";
import { BatchInterval, KeyedBatcher, monotonicMs } from "../platform/timers.ts";
import { isLockTimeout, isUnreachable, type Sql } from "../postgres/connection.ts";
import { lockedRows } from "../postgres/row_locks.ts";
import { type StartRequest, startRuns } from "../runs/states.ts";
import { readStarted, type StartedRun } from "../runs/started_runs.ts";
import { readJournals, type StoredJournal } from "../steps/run_steps.ts";
import { batchInterval } from "./batch_interval.ts";
import type { LocalWorkerState } from "./worker_state.ts";

/** A run that is RUNNING here, and between which instants its row was read. */
export interface Started extends StartedRun {
  asked_ms: number;
  answered_ms: number;
}

export interface StartsParts<Order> {
  sql: Sql;
  local: LocalWorkerState;
  /** Asks until Postgres answers. */
  untilHeard<T>(ask: () => Promise<T>): Promise<T>;
  onStarted(order: Order, run: Started): void;
  /** It is not ours to start. */
  onLost(order: Order): void;
  /** Postgres did not say. */
  onFailed(order: Order, error: unknown): void;
  /** Whether it has the slot that a run which waits could use. */
  presses(order: Order): boolean;
}

interface Begun<Order> {
  order: Order;
  run: Started;
}

const MOST_AT_ONCE = 400;
/** A journal may have many rows. */
const JOURNALS_AT_ONCE = 50;
/** A line of quick runs: bodies would be done with it before the tempo lets the next begin. */
const ENOUGH = 200;
/** While all slots are taken each that waits for its run to be started is idle; more statements than these would cost more than that. */
const PRESSING_GAP_MS = 5;
const PRESSING_BURST = 10;

export class Starts<Order extends StartRequest> {
  readonly #parts: StartsParts<Order>;
  readonly #groups = new KeyedBatcher<Order>((orders) => this.#startAll(orders), {
    most: MOST_AT_ONCE,
    tempo: batchInterval(),
    enough: ENOUGH,
  });

  /** Those that press do not wait for more to come. */
  readonly #pressing = new KeyedBatcher<Order>((orders) => this.#startAll(orders), {
    most: MOST_AT_ONCE,
    tempo: new BatchInterval(PRESSING_GAP_MS, PRESSING_BURST),
  });

  constructor(parts: StartsParts<Order>) {
    this.#parts = parts;
  }

  add(order: Order): void {
    if (this.#parts.presses(order)) this.#pressing.add(order);
    else this.#groups.add(order);
  }

  async #startAll(orders: Order[]): Promise<void> {
    const { onStarted, onLost, onFailed } = this.#parts;
    let found: Map<number, Started>;
    let unheard: { error: unknown } | undefined;
    try {
      ({ found, unheard } = await this.#ask(orders));
      if (unheard && isLockTimeout(unheard.error)) return await this.#startFree(orders, unheard.error);
    } catch (error) {
      return orders.forEach((order) => onFailed(order, error));
    }
    const with_journal: Begun<Order>[] = [];
    for (const order of orders) {
      const run = found.get(order.job_run_id);
      if (run?.may_have_journal) with_journal.push({ order, run });
      else if (run) onStarted(order, run);
      else if (unheard) onFailed(order, unheard.error);
      else onLost(order);
    }
    for (let at = 0; at < with_journal.length; at += JOURNALS_AT_ONCE) {
      this.#readJournals(with_journal.slice(at, at + JOURNALS_AT_ONCE)); // not awaited: others need not wait for that
    }
  }

  /** What runs have done before. Such a run begins a statement later; without the answer it does not begin at all. */
  async #readJournals(begun: Begun<Order>[]): Promise<void> {
    const { sql, untilHeard, onStarted, onFailed } = this.#parts;
    let journals: Map<number, StoredJournal>;
    try {
      journals = await untilHeard(() => readJournals(sql, begun.map(({ run }) => run.job_run_id)));
    } catch (error) {
      return begun.forEach(({ order }) => onFailed(order, error));
    }
    for (const { order, run } of begun) {
      const stored = journals.get(run.job_run_id);
      if (!stored) {
        onFailed(order, new Error("its row was deleted"));
        continue;
      }
      const { wakes: _, ...journal } = stored;
      run.started_unix_ms = journal.started_unix_ms;
      if (journal.rows.length > 0 || journal.open.length > 0 || run.ending) {
        const { digest, on_change, ending } = run;
        run.may_undo = [...journal.rows, ...journal.open].some(({ has_undo }) => has_undo);
        run.journal = { ...journal, code_digest: digest.slice(0, 12), on_change, ...ending && { ending } };
      }
      onStarted(order, run);
    }
  }

  /** All have waited for a row that somebody's transaction keeps, and none was started: the others are asked for once more. */
  async #startFree(orders: Order[], error: unknown): Promise<void> {
    const { sql, untilHeard, onFailed } = this.#parts;
    const ids = orders.map(({ job_run_id }) => job_run_id);
    const kept = new Set(await untilHeard(() => lockedRows(sql, "job_run", ids)));
    const free = kept.size > 0 ? orders.filter(({ job_run_id }) => !kept.has(job_run_id)) : [];
    for (const order of orders) if (!free.includes(order)) onFailed(order, error);
    if (free.length > 0) await this.#startAll(free);
  }

  /** When the reply is lost the statement may have been carried out: read our own tokens back before anything else. */
  async #ask(orders: Order[]): Promise<{ found: Map<number, Started>; unheard: { error: unknown } | undefined }> {
    const { sql, local, untilHeard } = this.#parts;
    const me = { worker_id: local.worker_id, epoch: local.epoch };
    let asked_ms = monotonicMs();
    let started: StartedRun[];
    let unheard: { error: unknown } | undefined;
    try {
      await failpoint("before-start-commit");
      started = await startRuns(sql, me, orders);
      await failpoint("after-start-commit-before-spawn");
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      started = await untilHeard(() => {
        asked_ms = monotonicMs();
        return readStarted(sql, me.worker_id, orders);
      });
      unheard = { error };
    }
    const heard = { asked_ms, answered_ms: monotonicMs() };
    return { found: new Map(started.map((run) => [run.job_run_id, Object.assign(run, heard)])), unheard };
  }
}

/** When its body may begin: as it was reckoned, within what its start has shown of the database's clock; else at the latest of that. */
export function beginsAt({ due_in_ms, asked_ms, answered_ms }: Started, due_ms = Infinity): number {
  return Math.max(asked_ms + due_in_ms, Math.min(answered_ms + due_in_ms, due_ms));
}
