/**
 * Orders that a worker has taken in hand and does not start yet, since they are not due, or no slot is free and they cannot wait behind
 * others in a process that serves many.
 *
 *   order --due, a slot is free--> executor
 *         --due, none is--> next, by priority and then in the order in which they came --a body ends--> executor
 *         --not yet due--> its process is loaded --START_AHEAD_MS before, a slot is free--> executor, which lets it begin when it is due
 *                                                --the database's clock reaches it--> as one that is due
 *         --cannot start then, or no slot came free for QUEUE_MS--> given back, ASSIGNED -> ORPHANED, uncharged
 *
 * The leader sends more than there are slots only where bodies end faster than an order takes to come (workers.ts), so that no
 * slot waits for a round trip. QUEUE_MS bounds what a wrong guess costs.
 *
 * Nothing here says that a run may start. Its row does, as for every order, in the statement that makes it RUNNING: that asks
 * the database's clock, tells how long its body has to wait for it, and finds a run that was canceled, taken back or paused
 * meanwhile to be no longer ours. So an order in hand that nobody wants any more is harmless, and no message has to reach it.
 *
 * A worker that drains or is detached gives back at once what it has in hand.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { monotonicMs, rest, restUntil, Wakeup } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import type { Digests } from "../sync/module_graph.ts";
import type { Permissions } from "../job.ts";
import type { ProcessPool } from "../sandbox/process_pool.ts";
import type { Sql } from "../postgres/connection.ts";
import { DatabaseClock } from "../postgres/database_clock.ts";
import { readBodyPlan } from "../definitions/definition_rows.ts";
import { giveBack } from "../runs/lost_runs.ts";
import { attemptKey, START_AHEAD_MS } from "../runs/states.ts";
import type { Executor } from "./executor.ts";
import type { Acceptance, RunOrder } from "./inflight_run.ts";
import { OrderQueue } from "./order_queue.ts";
import type { LocalWorkerState } from "./worker_state.ts";
import { stored } from "../locale/message.ts";

/** Before a run is due its time is asked for once more. */
const ASK_AHEAD_MS = 250;
/** A timer may end sooner than it was asked to, and a statement that comes too soon is refused. */
const TIMER_MS = 5;
/** Longer than a slot is expected to be awaited, shorter than it matters. */
const QUEUE_MS = 1_000;
/** As much as a leader sends ahead, and more (leader/prefetch.ts). */
const MOST_QUEUED = 2_000;
/** Longer than the leader remembers how fast runs left this worker (leader/prefetch.ts): those that are given back have left it as well. */
const LATE_MS = 2_000;

const QUEUED: Acceptance = { result: "ACCEPTED", message: "" };

export interface PendingStartsParts {
  sql: Sql;
  executor: Executor;
  local: LocalWorkerState;
  sandbox: Pick<ProcessPool, "expect">;
  digests: Pick<Digests, "of">;
  jobs_dir: string;
}

/** An order that may lie ahead. */
export interface TimedOrder extends RunOrder {
  /** By the database's clock, in microseconds since 1970; 0: now. */
  due_unix_us: number;
  /** Lower goes first. */
  priority: number;
}

export class PendingStarts {
  readonly #parts: PendingStartsParts;
  readonly #clock: DatabaseClock;
  readonly #held = new Map<string, { digest: string; until: AbortController }>();
  readonly #queue = new OrderQueue<TimedOrder>();
  #late_until_ms = -Infinity;

  constructor(parts: PendingStartsParts) {
    this.#parts = parts;
    this.#clock = new DatabaseClock(parts.sql);
  }

  /** Idempotent, as the executor is. An order that must wait is accepted at once: what comes of it shows in its row. */
  take(order: TimedOrder): Acceptance | Promise<Acceptance> {
    const { executor, local } = this.#parts;
    if (executor.knows(order)) return executor.accept(order);
    if (this.#has(order)) return QUEUED;
    if (local.detached || local.draining || !local.mayRun) return executor.accept(order); // which refuses it
    if (order.due_unix_us === 0) return this.#startOrQueue(order);
    const key = attemptKey(order);
    const held = { digest: order.digest, until: new AbortController() };
    this.#held.set(key, held);
    this.#hold(order, held.until.signal).catch(reportFailure).finally(() => this.#held.delete(key));
    return QUEUED;
  }

  /** Whether it was sent more lately than it has slots for: told to the leader, which else would send as many again. */
  get late(): boolean {
    return monotonicMs() < this.#late_until_ms;
  }

  #has(order: TimedOrder): boolean {
    if (this.#held.size === 0 && this.#queue.size === 0) return false;
    return this.#held.has(attemptKey(order)) || this.#queue.has(order);
  }

  /** Lets go of everything: the worker takes no work any more. What was in hand is given back. */
  empty(): void {
    for (const { until } of this.#held.values()) until.abort();
    this.#giveBack(this.#queue.take(), stored("runs.cause.takes_nothing")).catch(reportFailure);
  }

  #startOrQueue(order: TimedOrder): Acceptance | Promise<Acceptance> {
    const { executor } = this.#parts;
    const full = this.#queue.size > 0 || !executor.hasRoomFor(order);
    if (!full || this.#queue.size >= MOST_QUEUED) return executor.accept(order);
    this.#queue.add(order, monotonicMs() + QUEUE_MS);
    if (this.#queue.size === 1) this.#serve();
    return QUEUED;
  }

  /** Starts who is next whenever a slot is free, until nobody waits. */
  async #serve(): Promise<void> {
    const { executor, local } = this.#parts;
    const wakeup = new Wakeup();
    local.watchers.add(wakeup);
    try {
      for (let next = this.#queue.first; next; next = this.#queue.first) {
        const left_ms = this.#queue.until_ms - monotonicMs();
        if (left_ms <= 0) {
          this.#late_until_ms = monotonicMs() + LATE_MS;
          local.tell(); // before its rows do
          const overdue = this.#queue.take(monotonicMs());
          this.#giveBack(overdue, stored("runs.cause.no_slot", { ms: QUEUE_MS })).catch(reportFailure);
        } else if (executor.hasRoomFor(next)) {
          this.#queue.remove(next);
          this.#settle(next, executor.accept(next));
        } else await wakeup.rest(left_ms);
      }
    } finally {
      local.watchers.delete(wakeup);
    }
  }

  async #hold(order: TimedOrder, stop: AbortSignal): Promise<void> {
    const due_unix_ms = order.due_unix_us / 1000;
    let due_ms = await this.#clock.reaches(due_unix_ms);
    if (due_ms > monotonicMs()) await this.#prepare(order);
    await rest(due_ms - ASK_AHEAD_MS - monotonicMs(), stop);
    due_ms = await this.#clock.reaches(due_unix_ms); // what was known of it has grown vague
    await rest(due_ms - START_AHEAD_MS + TIMER_MS - monotonicMs(), stop);
    const { executor } = this.#parts;
    if (!stop.aborted && this.#queue.size === 0 && executor.hasRoomFor(order)) {
      return this.#settle(order, executor.accept({ ...order, due_ms }));
    }
    await restUntil(due_ms, stop);
    if (stop.aborted) await this.#giveBack([order], stored("runs.cause.takes_nothing"));
    else this.#settle(order, this.#startOrQueue(order));
  }

  /** Nobody waits for the answer any more, so one that is refused is given back here. */
  #settle(order: TimedOrder, answer: Acceptance | Promise<Acceptance>): void {
    if (answer instanceof Promise) answer.then((answer) => this.#settle(order, answer), reportFailure);
    else if (answer.result !== "ACCEPTED") this.#refuse(order, answer);
  }

  #refuse(order: TimedOrder, { result, message, other_code }: Acceptance): void {
    const { job_run_id, attempt } = order;
    observe("run.refused", { job_run_id, attempt, worker_id: this.#parts.local.worker_id, result, message });
    if (other_code) return; // it is not ours any more
    this.#giveBack([order], message).catch(reportFailure);
  }

  async #giveBack(orders: TimedOrder[], cause: string): Promise<void> {
    if (orders.length === 0) return;
    const { sql, local: { worker_id } } = this.#parts;
    const back = { from: "ASSIGNED" as const, outcome: "GIVEN_BACK" as const, cause };
    const runs = orders.map(({ job_run_id, attempt }) => ({ job_run_id, attempt, ...back }));
    for (const run of await giveBack(sql, worker_id, runs)) observe("run.orphaned", { ...run, worker_id, cause });
  }

  /** Loads its process, so that the body begins at its time and not a process start later. */
  async #prepare({ command_name, digest }: TimedOrder): Promise<void> {
    const { sql, sandbox, digests, jobs_dir } = this.#parts;
    const [plan, mine] = await Promise.all([readBodyPlan(sql, command_name, digest), digests.of(command_name)]);
    if (!plan || !("digest" in mine) || mine.digest !== digest) return; // it is refused when its time comes
    const wanted = [...this.#held.values()].filter((held) => held.digest === digest).length;
    sandbox.expect({
      job_file: resolvePath(jobs_dir, command_name),
      digest,
      permissions: plan.permissions as Permissions,
      memory_mb: plan.memory_mb,
    }, wanted);
  }
}

/** Its row tells what became of it, and the leader takes back what was not started. */
function reportFailure(error: unknown): void {
  loopFailed("orders in hand", error);
}
