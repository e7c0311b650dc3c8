/**
 * Looks what has come for the waits of bodies that are here, and suspends runs that wait for nothing else.
 *
 *   frozen --look--> something has come: the body is told, and goes on
 *                    nothing: Q2, with the `wakes` of that look --row--> SUSPENDED: the process goes, the slot is free
 *                                                              --no row--> looked at again: something has come since, or it is to be canceled
 *
 * A look is taken when a body freezes, when it waits for something new, when Q1 finds other `wakes`, when Postgres notifies of a run that is here,
 * and every 5 s. Looks of many runs share a statement, and so do suspensions; the next gathers while one is under way.
 *
 * A body whose first wait ends by itself within 5 s stays loaded, unless slots are wanted: to start it again would cost more than that.
 */
import { loopFailed } from "../../platform/facts.ts";
import { failpoint } from "../../platform/failpoint.ts";
import { after, KeyedBatcher, monotonicMs } from "../../platform/timers.ts";
import { isUnreachable, onRunArrived, type Sql } from "../../postgres/connection.ts";
import { type Arrivals, findArrivals } from "../../steps/arrivals.ts";
import { readExecutions, type SuspendedOrOurs } from "../../runs/started_runs.ts";
import { suspendRuns } from "../../steps/suspend_runs.ts";
import { untilHeard } from "../retry_until_available.ts";
import type { StepExecution } from "./step_execution.ts";

export interface SuspenderParts {
  sql: Sql;
  worker_id: string;
  /** Fires when Postgres is no longer waited for. */
  over: AbortSignal;
  /** Whether nobody wants the slot of a body that waits for a moment. */
  mayLinger(): boolean;
  /** Its row is SUSPENDED. */
  onSuspended(execution: StepExecution): void;
  /** It is not this worker's any more. */
  onLost(execution: StepExecution): void;
}

const LOOK_EVERY_MS = 5_000;
const LINGER_MS = 5_000;
/** A body's clock and the database's differ: what has not ended by the one yet is not asked for at once again. */
const LEAST_LINGER_MS = 20;
const MOST_AT_ONCE = 400;

export class Suspender {
  readonly #parts: SuspenderParts;
  /** By run. */
  readonly #executions = new Map<number, StepExecution>();
  readonly #looks = new KeyedBatcher<StepExecution>((group) => this.#look(group), { most: MOST_AT_ONCE });
  readonly #suspensions = new KeyedBatcher<StepExecution>((group) => this.#suspend(group), { most: MOST_AT_ONCE });
  readonly #settled = new Map<StepExecution, () => void>();
  #listens = false;
  #cancelNext: (() => void) | undefined;

  constructor(parts: SuspenderParts) {
    this.#parts = parts;
    parts.over.addEventListener("abort", () => this.#cancelNext?.(), { once: true });
  }

  add(execution: StepExecution): void {
    this.#executions.set(execution.job_run_id, execution);
    this.#listen();
    this.#lookLater();
  }

  remove(execution: StepExecution): void {
    if (this.#executions.get(execution.job_run_id) === execution) this.#executions.delete(execution.job_run_id);
  }

  look(execution: StepExecution): void {
    if (execution.wants_look || execution.state.at === "over") return;
    execution.wants_look = true;
    if (execution.state.at !== "suspending") this.#looks.add(execution);
  }

  /** Waits for what Postgres says of a suspension; undefined: none is under way. */
  settled(execution: StepExecution): Promise<void> | undefined {
    if (execution.state.at !== "suspending") return undefined;
    return new Promise((resolve) => this.#settled.set(execution, resolve));
  }

  /** Those that only wait, however short: their slots are wanted, or the worker stops. */
  hurry(): void {
    for (const execution of this.#executions.values()) if (execution.state.at === "frozen") this.look(execution);
  }

  /** Once, when the first body waits. It is told again after each reconnect, when something may have been missed. */
  #listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    const { sql, over } = this.#parts;
    const heard = onRunArrived(sql, (job_run_id) => {
      if (job_run_id === undefined) return this.#lookAtAll();
      const execution = this.#executions.get(job_run_id);
      if (execution) this.look(execution);
    });
    heard.then((stop) => over.aborted ? stop() : undefined).catch((error) => {
      this.#listens = false;
      if (!isUnreachable(error)) loopFailed("listening for arrivals", error);
    });
  }

  #lookLater(): void {
    this.#cancelNext ??= after(LOOK_EVERY_MS, () => {
      this.#cancelNext = undefined;
      this.#lookAtAll();
      if (this.#executions.size > 0) this.#lookLater();
    });
  }

  #lookAtAll(): void {
    for (const execution of this.#executions.values()) if (execution.waits) this.look(execution);
  }

  async #look(group: StepExecution[]): Promise<void> {
    const { sql, over } = this.#parts;
    for (const execution of group) execution.wants_look = false; // what is wanted from now on this one may not see
    let found: Arrivals[];
    try {
      found = await untilHeard(() => findArrivals(sql, group.map(({ job_run_id }) => job_run_id)), over);
    } catch (error) {
      return loopFailed("looking what has come for runs", error);
    }
    const of_run = new Map(found.map((arrivals) => [arrivals.job_run_id, arrivals]));
    for (const execution of group) {
      const arrivals = of_run.get(execution.job_run_id);
      if (arrivals) this.#answer(execution, arrivals);
    }
  }

  #answer(execution: StepExecution, { wakes, arrivals }: Arrivals): void {
    const { state, body } = execution;
    if (state.at === "over") return;
    execution.looked_wakes = wakes;
    const news = execution.news(arrivals);
    if (news.length > 0) this.#tell(execution, () => body.tell({ kind: "arrived", arrivals: news }));
    for (const n of execution.asks.splice(0)) body.tell({ kind: "told", n, value: null });
    if (news.length > 0 || state.at !== "frozen" || execution.wants_look) return;
    if (state.is_due) return this.#tell(execution, () => body.tell({ kind: "arrived", arrivals: [] })); // a try that has paused, say
    const left_ms = state.soonest_at_ms - monotonicMs();
    if (left_ms > LINGER_MS || !this.#parts.mayLinger()) return this.#beginSuspending(execution);
    after(Math.max(left_ms, LEAST_LINGER_MS), () => {
      if (execution.state !== state) return;
      state.is_due = true;
      this.look(execution);
    });
  }

  /** One that is frozen reads it; one that is busy is alerted, unless it has asked. */
  #tell(execution: StepExecution, tell: () => void): void {
    const is_frozen = execution.state.at === "frozen";
    tell();
    if (is_frozen) execution.state = { at: "busy" };
    else if (execution.asks.length === 0) {
      execution.alerted = true;
      execution.body.alert();
    }
  }

  #beginSuspending(execution: StepExecution): void {
    if (execution.state.at !== "frozen") return;
    const { soonest_at_ms } = execution.state;
    execution.state = { at: "suspending", soonest_at_ms };
    this.#suspensions.add(execution);
  }

  async #suspend(group: StepExecution[]): Promise<void> {
    const { onSuspended, onLost } = this.#parts;
    let suspended: Set<number>;
    let others: Map<number, SuspendedOrOurs>;
    try {
      ({ suspended, others } = await this.#askToSuspend(group));
    } catch (error) {
      for (const execution of group) this.#thaw(execution);
      return loopFailed("suspending runs", error);
    }
    for (const execution of group) {
      const { job_run_id } = execution;
      const is_suspended = suspended.has(job_run_id) || others.get(job_run_id)?.is_suspended === true;
      if (is_suspended) {
        execution.state = { at: "over" };
        onSuspended(execution);
      } else {
        this.#thaw(execution);
        if (!others.has(job_run_id)) onLost(execution);
      }
      this.#settled.get(execution)?.();
      this.#settled.delete(execution);
    }
  }

  /** Not suspended: frozen as before, and looked at again if something has come since the look. */
  #thaw(execution: StepExecution): void {
    if (execution.state.at !== "suspending") return;
    const { soonest_at_ms } = execution.state;
    execution.state = { at: "frozen", soonest_at_ms, is_due: false };
    if (!execution.wants_look) return;
    execution.wants_look = false;
    this.look(execution);
  }

  /** `others`: what became of those that gave no row; one that is not among them is not ours. */
  async #askToSuspend(group: StepExecution[]) {
    const { sql, worker_id, over } = this.#parts;
    const runs = group.map(({ run, looked_wakes, state }) => {
      const soonest_at_ms = state.at === "suspending" ? state.soonest_at_ms : Infinity;
      return {
        job_run_id: run.job_run_id,
        attempt: run.attempt,
        start_token: run.start_token,
        wakes: looked_wakes ?? -1,
        wakes_in_ms: soonest_at_ms === Infinity ? null : Math.max(0, soonest_at_ms - monotonicMs()),
      };
    });
    const suspended = await untilHeard(async () => {
      await failpoint("before-suspend");
      const ids = await suspendRuns(sql, worker_id, runs);
      await failpoint("after-suspend-commit");
      return new Set(ids);
    }, over);
    const rest = runs.filter(({ job_run_id }) => !suspended.has(job_run_id));
    const others = rest.length === 0
      ? new Map<number, SuspendedOrOurs>()
      : await untilHeard(() => readExecutions(sql, worker_id, rest), over);
    for (const execution of group) {
      const other = others.get(execution.job_run_id);
      if (other && other.wakes !== execution.looked_wakes) execution.wants_look = true; // else it is to be canceled
    }
    return { suspended, others };
  }
}
