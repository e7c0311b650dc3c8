/**
 * The runs that use steps, of this worker: what their bodies ask is written (step_commits.ts), looked for and waited for (suspension.ts), and answered.
 * A run that uses none is never in here.
 */
import { loopFailed, observe } from "../../platform/facts.ts";
import type { CallbackConfig } from "../../platform/config.ts";
import { monotonicMs } from "../../platform/timers.ts";
import type { Outcome } from "../../sandbox/outcome.ts";
import type { StepBody, StepsFrame } from "../../sandbox/process_pool.ts";
import type { Json } from "../../job.ts";
import type { AskFrame, StepFrame, ToStepBody } from "../../sandbox/frames/step_frames.ts";
import type { Sql } from "../../postgres/connection.ts";
import type { AttemptRef } from "../../runs/states.ts";
import type { StartedRun } from "../../runs/started_runs.ts";
import { type CommittedRun, dropJournal } from "../../steps/run_steps.ts";
import { callbackAddress } from "../../steps/callback_address.ts";
import { untilHeard } from "../retry_until_available.ts";
import type { LocalWorkerState } from "../worker_state.ts";
import { ChildRequests } from "./child_requests.ts";
import { StepCommits } from "./step_commits.ts";
import { type JournalSize, StepExecution, type WrittenStep } from "./step_execution.ts";
import { Suspender } from "./suspension.ts";

export interface StepRunsParts {
  sql: Sql;
  local: LocalWorkerState;
  /** Fires when Postgres is no longer waited for. */
  over: AbortSignal;
  /** Undefined: bodies get no callback addresses. */
  callback: CallbackConfig | undefined;
  /** Whether nobody wants the slot of a body that waits for a moment. */
  mayLinger(): boolean;
  /** The run is SUSPENDED in Postgres. */
  onSuspended(run: AttemptRef): void;
}

export class StepRuns {
  readonly #parts: StepRunsParts;
  readonly #commits: StepCommits;
  readonly #suspender: Suspender;
  readonly #executions = new Map<string, StepExecution>();
  readonly #children: ChildRequests;

  constructor(parts: StepRunsParts) {
    this.#parts = parts;
    const { sql, local: { worker_id }, over } = parts;
    this.#children = new ChildRequests({ sql, worker_id, over });
    const onLost = (execution: StepExecution) => this.#lose(execution);
    this.#commits = new StepCommits({
      ...{ sql, worker_id, over, onLost },
      onCommitted: (execution, run, frames) => this.#committed(execution, run, frames),
      onFailed: (execution, error) => this.#unrecorded(execution, error),
    });
    this.#suspender = new Suspender({
      ...{ sql, worker_id, over, onLost },
      mayLinger: () => !parts.local.draining && parts.mayLinger(),
      onSuspended: (execution) => this.#suspended(execution),
    });
  }

  /** What the body of a run says of its steps. `size`: of the journal that it was given. */
  hear(run: StartedRun, size: JournalSize | undefined, frame: StepsFrame, body: StepBody): void {
    let execution = this.#executions.get(run.start_token);
    if (!execution) {
      this.#executions.set(run.start_token, execution = new StepExecution(run, body, size));
      if (execution.waits) this.#suspender.add(execution);
    }
    if (execution.state.at === "over") return;
    switch (frame.kind) {
      case "step":
        return this.#write(execution, frame);
      case "ask":
        return this.#answer(execution, frame);
      case "waiting": {
        if (execution.alerted) return; // it has not read yet what it was told: by that it goes on
        const { soonest_in_ms } = frame;
        const soonest_at_ms = soonest_in_ms === null ? Infinity : monotonicMs() + soonest_in_ms;
        execution.state = { at: "frozen", soonest_at_ms, is_due: false };
        return this.#suspender.look(execution);
      }
    }
  }

  /** Its body is gone: waits until Postgres has what it said, and has answered whether it is suspended. */
  ended(run: StartedRun): Promise<void> | undefined {
    const execution = this.#executions.get(run.start_token);
    if (!execution) return undefined;
    if (execution.waits) run.leaves_waits = true;
    return this.#settle(execution);
  }

  /**
   * The end of a run whose body has asked for `again`: the new run is there before the old one has ended, so that it is made whoever dies
   * between the two; who does the old one again finds it by its key.
   */
  async goOn(run: StartedRun, outcome: Extract<Outcome, { kind: "SUCCEEDED" }>): Promise<Outcome> {
    const { again, exit_code } = outcome;
    const next = await this.#children.nextRun(run, again?.args ?? null);
    if (!next) {
      return { kind: "LOST", error_summary: "another run was to go on, and this one is not ours any more", exit_code };
    }
    if (!("refused" in next)) return outcome;
    return { kind: "FAILED", error_name: "AgainRefused", error_summary: next.refused, exit_code, retry: "never" };
  }

  /** Bodies that only wait give up their slots at once. */
  hurry(): void {
    this.#suspender.hurry();
  }

  async #settle(execution: StepExecution): Promise<void> {
    await this.#suspender.settled(execution);
    await execution.preparing;
    await this.#commits.settled(execution);
    execution.state = { at: "over" };
    this.#forget(execution);
  }

  #forget(execution: StepExecution): void {
    this.#executions.delete(execution.run.start_token);
    this.#suspender.remove(execution);
  }

  #write(execution: StepExecution, frame: StepFrame): void {
    const refused = execution.count(frame);
    if (refused) return execution.body.fail(refused);
    if (!frame.child && !execution.preparing) return this.#commits.add(execution, frame);
    execution.unprepared.push(frame);
    execution.preparing ??= this.#prepare(execution).catch((error) => this.#unrecorded(execution, error))
      .finally(() => execution.preparing = undefined);
  }

  /** What its frames ask for is there before their rows are; those behind them wait. */
  async #prepare(execution: StepExecution): Promise<void> {
    await Promise.resolve(); // what the same turn of the event loop brings goes along
    while (execution.unprepared.length > 0) {
      const rows = await this.#children.rowsOf(execution, execution.unprepared.splice(0));
      if (!rows) return void execution.unprepared.splice(0); // its cancel is on the way, or that it is not ours any more
      for (const row of rows) this.#commits.add(execution, row);
    }
  }

  #committed(execution: StepExecution, run: CommittedRun, frames: WrittenStep[]): void {
    const { body } = execution;
    if (run.refused !== undefined) return body.fail({ error_name: "StepNotStored", error_summary: run.refused });
    const answers = this.#children.answersTo(frames);
    if (answers.length > 0) body.tell({ kind: "arrived", arrivals: answers });
    const endedOf = (frame: WrittenStep) => run.earlier?.[frame.key] ?? run.ended_unix_ms;
    for (const [place, frame] of frames.entries()) {
      const next = frames[place + 1];
      if (next && endedOf(next) === endedOf(frame)) continue;
      body.tell({ kind: "committed", upto: frame.n, ended_unix_ms: endedOf(frame) });
    }
    if (!execution.waits) return;
    this.#suspender.add(execution);
    const begun = frames.some(({ state, request }) => state === "WAITING" && request !== "sleep");
    if (begun || run.wakes !== execution.looked_wakes) this.#suspender.look(execution);
  }

  #answer(execution: StepExecution, frame: AskFrame): void {
    if (frame.what === "arrivals") {
      execution.alerted = false;
      execution.asks.push(frame.n);
      return this.#suspender.look(execution);
    }
    const tell = (answer: { value: Json } | { error: string }) =>
      execution.body.tell({ kind: "told", n: frame.n, ...answer } as ToStepBody);
    this.#answerTo(execution, frame).then(tell, (error) => this.#unrecorded(execution, error));
  }

  async #answerTo(
    execution: StepExecution,
    frame: Exclude<AskFrame, { what: "arrivals" }>,
  ): Promise<{ value: Json } | { error: string }> {
    const { sql, local: { worker_id }, over, callback } = this.#parts;
    switch (frame.what) {
      case "items": {
        const error = this.#children.keepItems(execution, frame);
        return error === undefined ? { value: null } : { error };
      }
      case "results": {
        const value = await this.#children.resultsOf(execution, frame);
        return value === undefined
          ? { error: `Cannot read results of bulk ${frame.bulk_id}: this run has not called it` }
          : { value };
      }
      case "restart":
        execution.restart();
        if (!await untilHeard(() => dropJournal(sql, worker_id, execution.run), over)) this.#lose(execution);
        return { value: null };
      case "callback": {
        const { job_run_id } = execution;
        if (callback) return { value: callbackAddress(callback.base, callback.secret, { ...frame, job_run_id }) };
        const fix =
          "set SCHEDULER_CALLBACK_SECRET (make one with deno task secret) and SCHEDULER_ADMIN_URL for all workers";
        return { error: `Cannot make a callback URL for "${frame.name}": this worker has no key for it; ${fix}` };
      }
    }
  }

  #lose(execution: StepExecution): void {
    const { run, body } = execution;
    const { worker_id, lease_wakeup } = this.#parts.local;
    this.#commits.drop(execution);
    observe("run.steps_refused", { job_run_id: run.job_run_id, attempt: run.attempt, worker_id });
    body.abandon("Postgres says that this run is not this worker's");
    lease_wakeup.signal(); // it may be more than this run that is no longer ours
  }

  #unrecorded(execution: StepExecution, error: unknown): void {
    loopFailed(`recording steps of run ${execution.job_run_id}`, error);
    this.#commits.drop(execution);
    execution.body.abandon("its steps could not be recorded");
  }

  #suspended(execution: StepExecution): void {
    this.#forget(execution);
    this.#parts.onSuspended(execution.run);
    execution.body.suspend();
  }
}
