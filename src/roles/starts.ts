/**
 * Makes runs RUNNING here, those that come together in one statement, and tells when their bodies may begin: that of a run which is
 * known ahead at the instant when it is due, which its row, asked a moment before, says better than any clock of this machine.
 */
import { failpoint } from "../base/failpoint.ts";
import { Gather, monotonicMs, Tempo } from "../base/loop.ts";
import { isUnreachable, type Sql } from "../store/db.ts";
import { readStarted, type StartOrder, startRuns } from "../store/runs.ts";
import type { StartedRun } from "../store/started_runs.ts";
import type { Standing } from "./standing.ts";

/** A run that is RUNNING here, and between which instants its row was read. */
export interface Started extends StartedRun {
  asked_ms: number;
  answered_ms: number;
}

export interface StartsParts {
  sql: Sql;
  standing: Standing;
  /** Asks until Postgres answers. */
  untilHeard<T>(ask: () => Promise<T>): Promise<T>;
}

const MOST_AT_ONCE = 200;
const FLUSH_GAP_MS = 15;
const FLUSH_BURST = 10;

/** Between the statements of a busy worker. A run that comes now and then waits for none of this. */
export function flushTempo(): Tempo {
  return new Tempo(FLUSH_GAP_MS, FLUSH_BURST);
}

export class Starts {
  readonly #parts: StartsParts;
  readonly #starts = new Gather<StartOrder, Started | undefined>(
    (orders) => this.#startAll(orders),
    MOST_AT_ONCE,
    flushTempo(),
  );

  constructor(parts: StartsParts) {
    this.#parts = parts;
  }

  /** The run, or undefined: it is not ours to start. */
  add(order: StartOrder): Promise<Started | undefined> {
    return this.#starts.add(order);
  }

  /** When the reply is lost the statement may have been carried out: read our own tokens back before anything else. */
  async #startAll(orders: StartOrder[]): Promise<(Started | undefined | Promise<never>)[]> {
    const { sql, standing, untilHeard } = this.#parts;
    const me = { worker_id: standing.worker_id, epoch: standing.epoch };
    let asked_ms = monotonicMs();
    let started: StartedRun[];
    let unheard: (() => Promise<never>) | undefined;
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
      unheard = () => Promise.reject(error);
    }
    const heard = { asked_ms, answered_ms: monotonicMs() };
    const found = new Map(started.map((run) => [run.job_run_id, { ...run, ...heard }]));
    return orders.map((order) => found.get(order.job_run_id) ?? unheard?.());
  }
}

/** When its body may begin: as it was reckoned, within what its start has shown of the database's clock; else at the latest of that. */
export function beginsAt({ due_in_ms, asked_ms, answered_ms }: Started, due_ms = Infinity): number {
  return Math.max(asked_ms + due_in_ms, Math.min(answered_ms + due_in_ms, due_ms));
}
