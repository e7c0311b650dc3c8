/**
 * Lets bodies go on whose worker cannot renew its own lease: since it is detached, or since Postgres is out of its reach.
 *
 *   renewing itself --no renewal for half a turn too long, or detached--> asking --yes: the lease is renewed by proxy--> asking
 *   asking --no--> that body is ended       asking --nobody answers until the lease's deadline--> the guard ends all bodies
 *
 * It asks the leader, then subleaders, whose addresses it keeps in memory from its last renewal. A yes counts from before
 * the question. The next question goes out when half of the lease is left, so that one answer may fail. One run is asked
 * for first; who decides about that one is asked for the others: while Postgres is away from everyone, the questions stay few.
 *
 * Not promised: that a body goes on. Where nobody leads and nobody watches the leader, nobody can say yes. And the lease is
 * the worker's: a run whose body got lost here while Postgres is out of reach waits as long as others here are confirmed.
 */
import { observe } from "../platform/facts.ts";
import { DeadlineExceeded, every, monotonicMs, rest, within } from "../platform/timers.ts";
import type { Peers } from "../rpc/peers.ts";
import type { ConfirmContinuationResponse } from "../rpc/messages.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import { beginConfirming } from "../dispatch/detach.ts";
import type { Renewal, WorkerAddress } from "../nodes/workers.ts";
import type { AttemptRef } from "../runs/states.ts";
import type { Executor } from "./executor.ts";
import type { LocalWorkerState } from "./worker_state.ts";
import { stored } from "../locale/message.ts";

export interface ContinuationParts {
  sql: Sql;
  peers: Pick<Peers, "to">;
  executor: Pick<Executor, "held" | "cancel" | "abandon">;
  local: LocalWorkerState;
}

/** After a round in which nobody decided. */
const PAUSE_MS = 1_000;
/** Questions at once. */
const WAVE = 20;
const PATIENCE_MS = 1_000;

/** What a renewal says of a detach is taken over; the reason to leave once nothing runs here. */
export function heedDetach(local: LocalWorkerState, renewal: Renewal): void {
  if (renewal.state !== "DETACHED" || local.detached) return;
  const [by, reason] = [renewal.detached_by ?? "unknown", renewal.detach_reason ?? ""];
  local.detached = true;
  local.detached_why = `detached by ${by}: ${reason}`;
  observe("worker.detached", { worker_id: local.worker_id, by, reason });
  local.watchers.add(local.lease_wakeup); // the end of the last body is when it may leave
  local.continuation_wakeup.signal();
  local.tell();
}

export class Continuation {
  readonly #parts: ContinuationParts;
  /** When the last question was asked that was answered for all runs. */
  #answered_ms = -Infinity;
  /** Who said last that they could not decide: that is told once. */
  readonly #undecided = new Set<string>();

  constructor(parts: ContinuationParts) {
    this.#parts = parts;
  }

  async tend(stop: AbortSignal): Promise<void> {
    const wakeup = this.#parts.local.continuation_wakeup;
    await every(PAUSE_MS, () => this.look(stop), { name: "continuation", stop, wakeup });
  }

  /** Asks if it is time to; gives how long to rest. */
  async look(stop: AbortSignal): Promise<number> {
    const { local, executor } = this.#parts;
    const { worker_lease_seconds, worker_margin_seconds, worker_renew_seconds } = local.settings;
    const renew_ms = worker_renew_seconds * 1000;
    const half_ms = (worker_lease_seconds - worker_margin_seconds) * 500;
    const overdue_ms = local.detached ? -Infinity : local.renewed_ms + 1.5 * renew_ms;
    const now_ms = monotonicMs();
    const ask_ms = Math.max(overdue_ms, this.#answered_ms + half_ms);
    if (now_ms < ask_ms) return Math.min(ask_ms - now_ms, renew_ms);
    if (executor.held.length === 0) return renew_ms;
    if (local.detached) await this.#sayThatWeAsk();
    const all_decided = await this.#ask(executor.held, stop);
    if (all_decided) this.#answered_ms = now_ms;
    return all_decided ? Math.min(half_ms, renew_ms) : PAUSE_MS;
  }

  /** Without Postgres the questions are asked all the same. */
  async #sayThatWeAsk(): Promise<void> {
    const { sql, local } = this.#parts;
    try {
      await within(PATIENCE_MS, "saying that runs are being confirmed", beginConfirming(sql, local.worker_id));
    } catch (error) {
      if (!isUnreachable(error) && !(error instanceof DeadlineExceeded)) throw error;
    }
  }

  /** One round. True: somebody decided about each of the runs. */
  async #ask(runs: AttemptRef[], stop: AbortSignal): Promise<boolean> {
    const { local } = this.#parts;
    const { continuation_retry_count, continuation_retry_interval_seconds } = local.settings;
    const [first, ...others] = runs;
    if (!first) return true;
    for (let tries = 0; tries < continuation_retry_count && !stop.aborted; tries++) {
      if (tries > 0) await rest(continuation_retry_interval_seconds * 1000, stop);
      for (const answerer of local.answerers) {
        if (stop.aborted) return false;
        if (!await this.#askOne(answerer, first)) continue;
        return await this.#askForAll(answerer, others);
      }
    }
    return false;
  }

  async #askForAll(answerer: WorkerAddress, runs: AttemptRef[]): Promise<boolean> {
    for (let from = 0; from < runs.length; from += WAVE) {
      const wave = runs.slice(from, from + WAVE).map((run) => this.#askOne(answerer, run));
      if (!(await Promise.all(wave)).every((decided) => decided)) return false;
    }
    return true;
  }

  /** Asks one about one run, and does what it says. False: it did not decide. */
  async #askOne(answerer: WorkerAddress, run: AttemptRef): Promise<boolean> {
    const { peers, local } = this.#parts;
    const asked_ms = monotonicMs();
    const answer = await peers.to(answerer).confirmContinuation({
      leader_epoch: local.epoch,
      worker_id: local.worker_id,
      ...run,
    });
    if (!answer.ok) return false; // told by the peer itself, once
    const { decision, message } = answer.value;
    const { worker_id } = local;
    const decided = this.#obey(run, answer.value, asked_ms);
    if (decided || !this.#undecided.has(answerer.worker_id)) {
      observe("run.continuation", { ...run, worker_id, asked: answerer.worker_id, decision, message });
    }
    if (decided) this.#undecided.clear();
    else this.#undecided.add(answerer.worker_id);
    return decided;
  }

  #obey(run: AttemptRef, said: ConfirmContinuationResponse, asked_ms: number): boolean {
    const { executor, local } = this.#parts;
    if (said.decision === "ALLOW_CONTINUE") {
      local.confirmedUntil(asked_ms + said.lease_ms);
    } else if (said.decision === "MUST_ABORT") {
      if (said.canceled) executor.cancel(run, stored("reason.requested"));
      else executor.abandon(run, said.message);
    } else return false;
    return true;
  }
}
