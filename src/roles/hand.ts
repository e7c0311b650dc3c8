/**
 * Orders that a worker has taken in hand and does not start yet, since they are not due.
 *
 *   order --due--> executor
 *         --not yet--> in hand, its process loaded --the database's clock reaches it--> executor
 *                                                  --cannot start then--> given back, ASSIGNED -> ORPHANED, uncharged
 *
 * Nothing here says that a run may start. Its row does, as for every order, in the statement that makes it RUNNING: that asks
 * the database's clock, and finds a run that was canceled, taken back or paused meanwhile to be no longer ours. So
 * an order in hand that nobody wants any more is harmless, and no message has to reach it.
 *
 * A worker that drains or is detached gives back at once what it has in hand.
 */
import { observe } from "../base/facts.ts";
import { monotonicMs, restUntil } from "../base/loop.ts";
import { resolvePath } from "../base/paths.ts";
import type { Digests } from "../catalog/graph.ts";
import type { Permissions } from "../job.ts";
import type { Sandbox } from "../sandbox/pool.ts";
import type { Sql } from "../store/db.ts";
import { DatabaseClock } from "../store/db_clock.ts";
import { readBodyPlan } from "../store/definitions.ts";
import { type AttemptRef, giveBack } from "../store/runs.ts";
import type { Acceptance, Executor, Order } from "./executor.ts";
import type { Standing } from "./standing.ts";

export interface HandParts {
  sql: Sql;
  executor: Executor;
  standing: Standing;
  sandbox: Pick<Sandbox, "expect">;
  digests: Pick<Digests, "of">;
  jobs_dir: string;
}

/** An order that may lie ahead. */
export interface TimedOrder extends Order {
  /** By the database's clock, in microseconds since 1970; 0: now. */
  due_unix_us: number;
}

export class Hand {
  readonly #parts: HandParts;
  readonly #clock: DatabaseClock;
  readonly #held = new Map<string, { digest: string; until: AbortController }>();

  constructor(parts: HandParts) {
    this.#parts = parts;
    this.#clock = new DatabaseClock(parts.sql);
  }

  /** Idempotent, as the executor is. An order that lies ahead is accepted at once: what comes of it shows in its row. */
  take(order: TimedOrder): Promise<Acceptance> {
    const { executor, standing } = this.#parts;
    if (order.due_unix_us === 0 || executor.knows(order)) return executor.accept(order);
    if (this.#held.has(keyOf(order))) return Promise.resolve(IN_HAND);
    if (standing.detached || standing.draining || !standing.mayRun) return executor.accept(order); // which refuses it
    const held = { digest: order.digest, until: new AbortController() };
    this.#held.set(keyOf(order), held);
    this.#hold(order, held.until.signal).catch((error) => {
      observe("loop.failed", { loop: `holding run ${order.job_run_id}`, error: messageOf(error) });
    }).finally(() => this.#held.delete(keyOf(order)));
    return Promise.resolve(IN_HAND);
  }

  /** Lets go of everything: the worker takes no work any more. What was in hand is given back. */
  empty(): void {
    for (const { until } of this.#held.values()) until.abort();
  }

  async #hold(order: TimedOrder, stop: AbortSignal): Promise<void> {
    const { executor, standing } = this.#parts;
    const at_ms = await this.#clock.reaches(order.due_unix_us / 1000);
    if (at_ms > monotonicMs()) await this.#prepare(order);
    await restUntil(at_ms, stop);
    const answer: Acceptance = stop.aborted
      ? { result: "REJECTED_DRAINING", message: "its worker takes no work any more" }
      : await executor.accept(order);
    if (answer.result === "ACCEPTED") return;
    const { job_run_id, attempt } = order;
    const { worker_id } = standing;
    observe("run.refused", { job_run_id, attempt, worker_id, ...answer });
    const back = { job_run_id, attempt, from: "ASSIGNED" as const, outcome: "GIVEN_BACK" as const };
    for (const run of await giveBack(this.#parts.sql, worker_id, [{ ...back, cause: answer.message }])) {
      observe("run.orphaned", { ...run, worker_id, cause: answer.message });
    }
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

const IN_HAND: Acceptance = { result: "ACCEPTED", message: "" };

function keyOf({ job_run_id, attempt }: AttemptRef): string {
  return `${job_run_id}:${attempt}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
