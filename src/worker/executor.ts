/**
 * Runs bodies: order -> accepted? -> RUNNING in Postgres -> body -> outcome -> recorded.
 *
 * A body is started strictly after the proof that the run is ours: the row that `startRuns` gave back or, when that
 * reply was lost, our own token read back from the row. An outcome is recorded only when the body's process group is
 * proven empty, and is repeated until Postgres has answered; a run that was meanwhile given to another is left alone
 * and the result is kept in the audit.
 *
 * A start is asked for while the job's files are looked at, if they were right when they were looked at before. Nothing begins until both have
 * answered; a run whose files are others is refused, also if it is RUNNING by then: it is no attempt, and its row is as before (code_report.ts).
 *
 * Not promised: that an ASSIGNED run starts here. The leader gives it to another worker after `reassign_after_seconds`,
 * and of the two only one gets the row.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import type { CallbackConfig } from "../platform/config.ts";
import { failpoint } from "../platform/failpoint.ts";
import { after, monotonicMs, restUntil, Wakeup } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import { messageOf } from "../platform/text.ts";
import type { Digest, Digests } from "../sync/module_graph.ts";
import type { CodeDuration } from "../sandbox/duration_estimate.ts";
import type { ProcessPool } from "../sandbox/process_pool.ts";
import type { Sql } from "../postgres/connection.ts";
import type { AttemptRef } from "../runs/states.ts";
import type { StartedRun } from "../runs/started_runs.ts";
import { bodyOrder } from "./body_order.ts";
import { CodeReport } from "./code_report.ts";
import {
  type Acceptance,
  againAfter,
  bodyOf,
  codeRefusal,
  type FinishedBody,
  type InflightRun,
  move,
  newInflightRun,
  notAssigned,
  type RunOrder,
  startFailure,
} from "./inflight_run.ts";
import { InflightRuns } from "./inflight_runs.ts";
import { journalSize } from "./steps/step_execution.ts";
import { StepRuns } from "./steps/step_runs.ts";
import { OutcomeRecorder } from "./results/outcome_recorder.ts";
import { beginsAt, type Started, Starts } from "./start_batcher.ts";
import { LogWriter } from "./log_writer.ts";
import type { ResultJournal } from "./results/result_journal.ts";
import type { LocalWorkerState } from "./worker_state.ts";
import { untilHeard } from "./retry_until_available.ts";
import { stored } from "../locale/message.ts";

/** For bodies to be proven gone and their runs recorded, while Postgres answers. */
const LEAVE_MS = 5_000;
const LOOK_MS = 250;
const ACCEPTED: Acceptance = { result: "ACCEPTED", message: "" };

export class Executor {
  readonly #sql: Sql;
  readonly #sandbox: ProcessPool;
  readonly #digests: Digests;
  readonly #me: LocalWorkerState;
  readonly #jobs_dir: string;
  /** Absolute paths of job files, by their names in orders. */
  readonly #files = new Map<string, string>();
  readonly #inflight = new InflightRuns();
  #starting = 0;
  readonly #starts: Starts<InflightRun>;
  readonly #outcomes: OutcomeRecorder;
  readonly #steps: StepRuns;
  /** Fires when outcomes are no longer waited for. */
  readonly #over = new AbortController();
  /** Why bodies are ended, once that has begun: one whose start was under way ends with them. */
  #ending_why: string | undefined;
  readonly #log_writer: LogWriter;
  /** What it says of its job files. */
  readonly code: CodeReport;

  constructor(
    parts: {
      sql: Sql;
      sandbox: ProcessPool;
      digests: Digests;
      local: LocalWorkerState;
      jobs_dir: string;
      journal?: ResultJournal;
      callback?: CallbackConfig;
    },
  ) {
    this.#sql = parts.sql;
    this.#sandbox = parts.sandbox;
    this.#digests = parts.digests;
    this.#me = parts.local;
    this.#jobs_dir = parts.jobs_dir;
    this.code = new CodeReport({ sql: parts.sql, worker_id: parts.local.worker_id, digests: parts.digests });
    this.#log_writer = new LogWriter(parts.sql);
    const { sql, local, journal } = parts;
    this.#starts = new Starts({
      sql,
      local,
      untilHeard: (ask) => untilHeard(ask, this.#over.signal),
      onStarted: (inflight, run) => this.#begin(inflight, run),
      onLost: (inflight) => this.#lose(inflight),
      onFailed: (inflight, error) => this.#fail(inflight, error),
      presses: (inflight) => this.#inflight.size >= this.#me.slots && !this.#sandbox.isQuick(this.#codeOf(inflight)),
    });
    this.#outcomes = new OutcomeRecorder({
      sql,
      local,
      journal,
      inflight: this.#inflight,
      log_writer: this.#log_writer,
      over: this.#over.signal,
    });
    this.#steps = new StepRuns({
      sql,
      local,
      over: this.#over.signal,
      callback: parts.callback,
      mayLinger: () => this.load < this.#me.slots,
      onSuspended: (run) => this.#suspended(run),
    });
  }

  get load(): number {
    return this.#inflight.load;
  }

  get runs(): AttemptRef[] {
    return this.#inflight.refs;
  }

  get held(): AttemptRef[] {
    return this.#inflight.held;
  }

  /** How many are not in hand any more, since it began. */
  get released(): number {
    return this.#inflight.released;
  }

  knows(run: AttemptRef): boolean {
    return this.#inflight.knows(run);
  }

  /** What a run of each code takes of its slot. */
  codeTimes(): CodeDuration[] {
    return this.#sandbox.codeTimes();
  }

  /** Rises when there is one more of these. */
  get codesKnown(): number {
    return this.#sandbox.codesKnown;
  }

  /** Idempotent: an order that is repeated gets the answer of the first. */
  accept(order: RunOrder): Promise<Acceptance> {
    const inflight = this.#inflight.get(order.job_run_id);
    if (inflight?.attempt === order.attempt) {
      if (inflight.assigning && !order.assigning) inflight.assigned_since = true;
      return inflight.accepted;
    }
    const refusal = this.#refusal(order, inflight);
    if (refusal) return Promise.resolve(refusal);
    const fresh = newInflightRun(order);
    this.#inflight.add(fresh);
    this.#starting++;
    const mine = this.#digests.of(order.command_name);
    const start = (mine: Digest) => this.#withCode(fresh, mine, () => this.#start(fresh));
    if (!(mine instanceof Promise)) start(mine);
    else if (this.#digests.last(order.command_name) === order.digest) this.#startMeanwhile(fresh, mine);
    else mine.then(start, (error) => this.#fail(fresh, error));
    return fresh.accepted;
  }

  #refusal(order: RunOrder, inflight: InflightRun | undefined): Acceptance | undefined {
    const run = `run "${order.job_run_id}"`;
    const refusal = this.#me.refusal(run);
    if (refusal) return refusal;
    const refuse = (result: Acceptance["result"], why: string) => ({ result, message: `Cannot start ${run}: ${why}` });
    if (inflight && inflight.stage.at !== "suspended") {
      return refuse("REJECTED_ALREADY_RUNNING", `attempt ${inflight.attempt} of it is still here`);
    }
    if (!this.hasRoomFor(order)) return refuse("REJECTED_FULL", `all ${this.#me.slots} slots are taken`);
  }

  /** A free slot, or a place behind others of a quick job. */
  hasRoomFor(order: RunOrder): boolean {
    const { slots } = this.#me;
    return this.#inflight.size < slots || this.#mayWaitBehind(order) || this.load < slots; // the load is counted one by one
  }

  /** Whether its job is so quick that it is soon served by a process that serves others of it: that takes no slot more. */
  #mayWaitBehind(order: RunOrder): boolean {
    return this.#sandbox.roomBehind(this.#codeOf(order)) > this.#starting;
  }

  #codeOf({ command_name, digest }: RunOrder): { job_file: string; digest: string } {
    return { job_file: this.#fileOf(command_name), digest };
  }

  #fileOf(command_name: string): string {
    let job_file = this.#files.get(command_name);
    if (job_file === undefined) this.#files.set(command_name, job_file = resolvePath(this.#jobs_dir, command_name));
    return job_file;
  }

  /** Its files were as they should be at the last look, and the next one takes as long as half the statement. */
  #startMeanwhile(inflight: InflightRun, look: Promise<Digest>): void {
    inflight.look = look.catch((error) => ({ problem: messageOf(error) }));
    this.#start(inflight);
  }

  #start(inflight: InflightRun): void {
    move(inflight, { at: "starting" });
    this.#starts.add(inflight);
  }

  /** Goes on with the files that were synced. With others nothing of it may begin here, also if it is RUNNING by now: it is as before its assignment. */
  #withCode(inflight: InflightRun, mine: Digest, goOn: () => void): void {
    const refusal = codeRefusal(inflight, mine);
    if (!refusal) return goOn();
    untilHeard(() => this.code.refuse(inflight, mine), this.#over.signal)
      .catch((error) => loopFailed(`refusing run ${inflight.job_run_id}`, error))
      .then(() => this.#drop(inflight, refusal));
  }

  #lose(inflight: InflightRun): void {
    const again_ms = againAfter(inflight);
    const { job_run_id, attempt, assigning } = inflight;
    if (again_ms === 0) return this.#starts.add(inflight);
    if (again_ms) return void after(again_ms, () => this.#starts.add(inflight));
    if (!assigning) {
      observe("run.start_lost", { job_run_id, attempt, worker_id: this.#me.worker_id });
      this.#me.lease_wakeup.signal(); // it may be more than this run that is no longer ours
    }
    this.#drop(inflight, notAssigned(inflight));
  }

  #fail(inflight: InflightRun, error: unknown): void {
    this.#drop(inflight, startFailure(inflight, error));
  }

  #drop(inflight: InflightRun, answer: Acceptance): void {
    move(inflight, { at: "done" });
    this.#starting--;
    this.#inflight.remove(inflight);
    this.#me.tell();
    inflight.answer(answer);
  }

  /** At its time, which is now for all but those that are known ahead; and not before its files have been looked at. */
  #begin(inflight: InflightRun, run: Started): void {
    if (!inflight.look) this.#beginAtTime(inflight, run);
    else inflight.look.then((mine) => this.#withCode(inflight, mine, () => this.#beginAtTime(inflight, run)));
  }

  #beginAtTime(inflight: InflightRun, run: Started): void {
    if (run.due_in_ms <= 0) this.#launch(inflight, run);
    else restUntil(beginsAt(run, inflight.due_ms)).then(() => this.#launch(inflight, run));
  }

  #launch(inflight: InflightRun, run: StartedRun): void {
    const began_ms = monotonicMs();
    const order = bodyOrder(run, this.#fileOf(run.command_name));
    const size = journalSize(run.journal);
    run.journal = undefined; // the body has it
    const body = this.#sandbox.start(
      order,
      this.#log_writer.listenerOf(run, (frame, body) => this.#steps.hear(run, size, frame, body)),
    );
    move(inflight, { at: "running", body });
    this.#starting--;
    const abandoned_why = this.#ending_why ?? inflight.abandoned_why;
    if (abandoned_why) body.abandon(abandoned_why);
    else if (inflight.cancel_reason) body.cancel(inflight.cancel_reason);
    observe("run.started", {
      job_run_id: run.job_run_id,
      attempt: run.attempt,
      job_name: run.job_name,
      worker_id: this.#me.worker_id,
      epoch: run.leader_epoch,
      fence: run.fence,
    });
    this.#me.tell();
    body.outcome.then((outcome) => this.#bodyGone({ inflight, run, outcome, duration_ms: monotonicMs() - began_ms }));
    this.#answer(inflight).catch((error) => inflight.answer(startFailure(inflight, error)));
  }

  /** Its steps come before its end: one that is suspended has none. */
  #bodyGone(gone: FinishedBody): void {
    const end = () => gone.inflight.stage.at === "suspended" ? this.#outcomes.leave(gone) : this.#outcomes.add(gone);
    const settled = this.#steps.ended(gone.run);
    if (gone.outcome.kind === "SUCCEEDED" && gone.outcome.again) void this.#goOn(gone, gone.outcome, settled);
    else if (settled) settled.then(end);
    else end();
  }

  async #goOn(
    gone: FinishedBody,
    outcome: Extract<FinishedBody["outcome"], { kind: "SUCCEEDED" }>,
    settled?: Promise<void>,
  ): Promise<void> {
    await settled;
    const lost = (error: unknown) => {
      loopFailed(`going on after run ${gone.run.job_run_id}`, error);
      return {
        kind: "LOST" as const,
        error_summary: "the run that was to go on could not be made",
        exit_code: outcome.exit_code,
      };
    };
    this.#outcomes.add({ ...gone, outcome: await this.#steps.goOn(gone.run, outcome).catch(lost) });
  }

  /** Its row is SUSPENDED: its slot is free, though its process has a moment to go. */
  #suspended({ job_run_id, attempt }: AttemptRef): void {
    const inflight = this.#inflight.get(job_run_id);
    if (inflight?.attempt !== attempt) return;
    move(inflight, { at: "suspended" });
    this.#me.tell();
  }

  async #answer(inflight: InflightRun): Promise<void> {
    await failpoint("after-spawn");
    inflight.answer(ACCEPTED);
  }

  /** Tells the body to end; attempt 0 is whichever is here. The run becomes CANCELED when the body is gone. */
  cancel(run: AttemptRef, reason: string): "ACCEPTED" | "ALREADY_FINISHED" | "NOT_FOUND" {
    const inflight = this.#inflight.get(run.job_run_id);
    const other = !inflight || (run.attempt !== 0 && inflight.attempt !== run.attempt);
    if (other) return this.#inflight.hasEnded(run) ? "ALREADY_FINISHED" : "NOT_FOUND";
    if (inflight.stage.at === "recording" || inflight.stage.at === "suspended") return "ALREADY_FINISHED";
    inflight.cancel_reason = reason;
    bodyOf(inflight)?.cancel(reason);
    return "ACCEPTED";
  }

  /** Kills a body that Postgres does not know as ours; nothing is recorded for it by that. */
  abandon(run: AttemptRef, reason: string): void {
    const inflight = this.#inflight.get(run.job_run_id);
    if (inflight?.attempt !== run.attempt) return;
    inflight.abandoned_why = reason;
    bodyOf(inflight)?.abandon(reason);
  }

  /** Waits until nothing runs; at the end of the grace the bodies are ended and their runs given back, uncharged. */
  async drain(grace_ms: number, hurry: AbortSignal): Promise<void> {
    this.#me.draining = true;
    this.#steps.hurry();
    await failpoint("during-drain");
    const until_ms = monotonicMs() + grace_ms;
    await this.#whileInflight(() => monotonicMs() < until_ms && !hurry.aborted, hurry);
    await this.stop(stored("runs.cause.worker_stopping"), hurry);
  }

  /**
   * Ends the bodies and waits until all is recorded: with Postgres away as long as our lease may hold there, since after
   * it the runs are given to others anyway, and not that long when there is no time left.
   */
  async stop(reason: string, hurry: AbortSignal): Promise<void> {
    this.#ending_why = reason;
    for (const inflight of this.#inflight.values()) bodyOf(inflight)?.abandon(reason);
    const until_ms = monotonicMs() + LEAVE_MS;
    await this.#whileInflight(() => monotonicMs() < until_ms || (this.#me.mayRun && !hurry.aborted));
    this.#over.abort();
  }

  async #whileInflight(patient: () => boolean, stop?: AbortSignal): Promise<void> {
    const wakeup = new Wakeup();
    this.#me.watchers.add(wakeup);
    while (this.#inflight.size > 0 && patient()) await wakeup.rest(LOOK_MS, stop);
    this.#me.watchers.delete(wakeup);
  }
}
