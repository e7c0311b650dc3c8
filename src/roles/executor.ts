/**
 * Runs bodies: order -> accepted? -> RUNNING in Postgres -> body -> outcome -> recorded.
 *
 * A body is started strictly after the proof that the run is ours: the row that `startRuns` gave back or, when that
 * reply was lost, our own token read back from the row. An outcome is recorded only when the body's process group is
 * proven empty, and is repeated until Postgres has answered; a run that was meanwhile given to another is left alone
 * and the result is kept in the audit.
 *
 * Not promised: that an ASSIGNED run starts here. The leader gives it to another worker after `reassign_after_seconds`,
 * and of the two only one gets the row.
 */
import { observe } from "../base/facts.ts";
import { failpoint } from "../base/failpoint.ts";
import { Bell, chance, Gather, monotonicMs, rest, restUntil } from "../base/loop.ts";
import { resolvePath } from "../base/paths.ts";
import type { StartJobResponse } from "../cluster/protocol.ts";
import type { Digests } from "../catalog/graph.ts";
import type { Body, Outcome, Sandbox } from "../sandbox/pool.ts";
import { recordAct } from "../store/audit.ts";
import { isUnreachable, type Sql } from "../store/db.ts";
import { readAttempts, readRun } from "../store/run_view.ts";
import { type AttemptRef, type Ending, finishRuns, giveBack, type RunState } from "../store/runs.ts";
import type { StartedRun } from "../store/started_runs.ts";
import { bodyOrder } from "./body_order.ts";
import { endingOf, unstorable } from "./ending.ts";
import { beginsAt, flushTempo, Starts } from "./starts.ts";
import { Sayings } from "./sayings.ts";
import type { Spool } from "./spool.ts";
import type { Standing } from "./standing.ts";

/** What a leader may say about a run; everything else is read from Postgres. */
export interface Order extends AttemptRef {
  command_name: string;
  digest: string;
  /** Monotonic: when it is due, as the worker reckons. What its row says of that goes before. */
  due_ms?: number;
}

export type Acceptance = Pick<StartJobResponse, "result" | "message">;

interface Going extends AttemptRef {
  stage: "starting" | "running" | "recording";
  body?: Body;
  accepted: Promise<Acceptance>;
  cancel_reason?: string;
  /** Taken from us before its body began. */
  abandoned_why?: string;
  /** Its body is gone without an outcome: there is nothing that another worker would repeat in vain. */
  lost?: boolean;
}

/** No end of its own: the body was ended before it had one. */
type Lost = Extract<Outcome, { kind: "LOST" }>;

/** For bodies to be proven gone and their runs recorded, while Postgres answers. */
const LEAVE_MS = 5_000;
const LOOK_MS = 250;
const FORGET_MS = 30_000;

export class Executor {
  readonly #sql: Sql;
  readonly #sandbox: Sandbox;
  readonly #digests: Digests;
  readonly #me: Standing;
  readonly #jobs_dir: string;
  readonly #going = new Map<number, Going>();
  #starting = 0;
  /** Attempts that were recorded lately, by their runs: since FORGET_MS, and in that time before. */
  #ended = new Map<number, number>();
  #ended_before = new Map<number, number>();
  #forgot_ms = monotonicMs();
  readonly #starts: Starts;
  readonly #endings: Gather<Ending, RunState | undefined>;
  /** Fires when outcomes are no longer waited for. */
  readonly #over = new AbortController();
  /** Why bodies are ended, once that has begun: one whose start was under way ends with them. */
  #ending_why: string | undefined;
  readonly #sayings: Sayings;
  readonly #spool: Spool | undefined;

  constructor(
    parts: { sql: Sql; sandbox: Sandbox; digests: Digests; standing: Standing; jobs_dir: string; spool?: Spool },
  ) {
    this.#sql = parts.sql;
    this.#sandbox = parts.sandbox;
    this.#digests = parts.digests;
    this.#me = parts.standing;
    this.#jobs_dir = parts.jobs_dir;
    this.#spool = parts.spool;
    this.#sayings = new Sayings(parts.sql);
    this.#starts = new Starts({ ...parts, untilHeard: (ask) => this.#untilHeard(ask) });
    this.#endings = new Gather((endings) => this.#finishAll(endings), 200, flushTempo());
  }

  /** Bodies that hold a slot, as those behind another in its process do not. One that has ended frees it before Postgres knows. */
  get load(): number {
    let load = 0;
    for (const { stage, body } of this.#going.values()) if (stage !== "recording" && !body?.waits) load++;
    return load;
  }

  /** Runs that have or will have a body here. */
  get runs(): AttemptRef[] {
    return [...this.#going.values()].map(({ job_run_id, attempt }) => ({ job_run_id, attempt }));
  }

  /** Runs that are RUNNING as far as we know and worth keeping: their body is here, or its outcome waits to be recorded. */
  get held(): AttemptRef[] {
    return [...this.#going.values()].filter(({ stage, lost }) => stage !== "starting" && !lost).map(refOf);
  }

  /** Whether this very attempt is in hand here, or was recorded a moment ago, which an answer under way cannot know. */
  knows(run: AttemptRef): boolean {
    const { job_run_id, attempt } = run;
    return this.#going.get(job_run_id)?.attempt === attempt || this.#ended.get(job_run_id) === attempt ||
      this.#ended_before.get(job_run_id) === attempt;
  }

  /** Idempotent: an order that is repeated gets the answer of the first. */
  accept(order: Order): Promise<Acceptance> {
    const going = this.#going.get(order.job_run_id);
    if (going?.attempt === order.attempt) return going.accepted;
    const refusal = this.#refusal(order, going);
    if (refusal) return Promise.resolve(refusal);
    const fresh: Going = {
      ...refOf(order),
      stage: "starting",
      accepted: Promise.resolve({ result: "ACCEPTED", message: "" }),
    };
    this.#going.set(order.job_run_id, fresh);
    this.#starting++;
    fresh.accepted = this.#start(order, fresh);
    return fresh.accepted;
  }

  #refusal(order: Order, going: Going | undefined): Acceptance | undefined {
    const run = `run "${order.job_run_id}"`;
    if (this.#me.detached) {
      return { result: "REJECTED_DETACHED", message: `Cannot start ${run}: this worker is detached` };
    }
    if (this.#me.draining) {
      return { result: "REJECTED_DRAINING", message: `Cannot start ${run}: this worker is draining` };
    }
    if (!this.#me.mayRun) {
      return { result: "REJECTED_DETACHED", message: `Cannot start ${run}: this worker's lease is over` };
    }
    if (going) {
      const message = `Cannot start ${run}: attempt ${going.attempt} of it is still here`;
      return { result: "REJECTED_ALREADY_RUNNING", message };
    }
    if (!this.hasRoomFor(order)) {
      return { result: "REJECTED_FULL", message: `Cannot start ${run}: all ${this.#me.slots} slots are taken` };
    }
  }

  /** A free slot, or a place behind others of a quick job. */
  hasRoomFor(order: Order): boolean {
    const { slots } = this.#me;
    return this.#going.size < slots || this.#mayWaitBehind(order) || this.load < slots; // the load is counted one by one
  }

  /** Whether its job is so quick that it is soon served by a process that serves others of it: that takes no slot more. */
  #mayWaitBehind({ command_name, digest }: Order): boolean {
    return this.#sandbox.roomBehind({ job_file: resolvePath(this.#jobs_dir, command_name), digest }) > this.#starting;
  }

  async #start(order: Order, going: Going): Promise<Acceptance> {
    try {
      const mine = await this.#digests.of(order.command_name);
      if (!("digest" in mine) || mine.digest !== order.digest) {
        const found = "digest" in mine ? `this worker has ${mine.digest.slice(0, 12)}` : mine.problem;
        return this.#drop(going, {
          result: "REJECTED_INVALID",
          message: `Code mismatch for run "${order.job_run_id}": ${order.command_name} was synced as ${
            order.digest.slice(0, 12)
          }, ${found}`,
        });
      }
      const run = await this.#starts.add({ ...refOf(order), token: crypto.randomUUID(), digest: order.digest });
      if (!run) {
        observe("run.start_lost", { ...refOf(order), worker_id: this.#me.worker_id });
        this.#me.lease_bell.ring(); // it may be more than this run that is no longer ours
        const message =
          `Cannot start run "${order.job_run_id}": it is no longer assigned to this worker as attempt ${order.attempt}`;
        return this.#drop(going, { result: "REJECTED_INVALID", message });
      }
      await restUntil(beginsAt(run, order.due_ms));
      this.#launch(run, going);
      await failpoint("after-spawn");
      return { result: "ACCEPTED", message: "" };
    } catch (error) {
      const message = `Cannot start run "${order.job_run_id}": ${messageOf(error)}`;
      // Without Postgres it says nothing of the run nor of the code: another order will do.
      const result = isUnreachable(error) ? "REJECTED_DETACHED" : "REJECTED_INVALID";
      return this.#drop(going, { result, message });
    }
  }

  #drop(going: Going, answer: Acceptance): Acceptance {
    if (going.stage === "starting") this.#starting--;
    if (this.#going.get(going.job_run_id) === going) this.#going.delete(going.job_run_id);
    this.#me.tell();
    return answer;
  }

  #launch(run: StartedRun, going: Going): void {
    const began_ms = monotonicMs();
    going.stage = "running";
    this.#starting--;
    going.body = this.#sandbox.start(bodyOrder(run, this.#jobs_dir), this.#sayings.earsOf(run));
    const abandoned_why = this.#ending_why ?? going.abandoned_why;
    if (abandoned_why) going.body.abandon(abandoned_why);
    else if (going.cancel_reason) going.body.cancel(going.cancel_reason);
    observe("run.started", {
      ...refOf(run),
      job_name: run.job_name,
      worker_id: this.#me.worker_id,
      epoch: run.leader_epoch,
      fence: run.fence,
    });
    this.#me.tell();
    going.body.outcome.then((outcome) => this.#end(going, run, { outcome, duration_ms: monotonicMs() - began_ms }));
  }

  async #end(going: Going, run: StartedRun, ended: { outcome: Outcome; duration_ms: number }): Promise<void> {
    going.stage = "recording";
    going.lost = ended.outcome.kind === "LOST";
    const end = ended.outcome.kind === "LOST" ? ended.outcome : endingOf(run, ended.outcome, chance());
    if (!("kind" in end)) this.#spool?.keep(end); // before anything that waits for Postgres
    this.#me.tell();
    await this.#sayings.settled(run);
    let state = "not recorded"; // its row is given up at the next look at what is mine
    try {
      state = await this.#record(run, end) ?? "not ours any more";
      if (!("kind" in end)) this.#spool?.drop(end);
      this.#remember(run);
    } catch (error) {
      observe("loop.failed", { loop: `recording run ${run.job_run_id}`, error: messageOf(error) });
    }
    if (this.#going.get(run.job_run_id) === going) this.#going.delete(run.job_run_id);
    observe("run.finished", {
      ...refOf(run),
      job_name: run.job_name,
      worker_id: this.#me.worker_id,
      outcome: ended.outcome.kind,
      state,
      duration_ms: Math.round(ended.duration_ms),
    });
    this.#me.tell();
  }

  async #record(run: StartedRun, ending: Ending | Lost): Promise<string | undefined> {
    if ("kind" in ending) {
      const how = this.#me.draining || ending.unbegun ? "GIVEN_BACK" as const : "LOST" as const;
      const back = { ...refOf(run), from: "RUNNING" as const, outcome: how, cause: ending.error_summary };
      await failpoint("before-give-back");
      const given = await this.#untilHeard(() => giveBack(this.#sql, this.#me.worker_id, [back]));
      return given.length > 0 ? "ORPHANED" : undefined;
    }
    const state = await this.#untilHeard(() => this.#endings.add(ending)).catch((error) => {
      if (isUnreachable(error)) throw error;
      return this.#untilHeard(() => this.#endings.add(unstorable(ending, messageOf(error))));
    });
    if (state) return state;
    return await this.#untilHeard(() => this.#readBack(run, ending));
  }

  /** No row: either an earlier try was recorded and its reply lost, or the run is no longer ours and the result too late. */
  async #readBack(run: StartedRun, ending: Ending): Promise<string | undefined> {
    const row = await readRun(this.#sql, run.job_run_id);
    const same = row?.fence === run.fence && row.attempt === run.attempt;
    if (same && (row.state === ending.outcome || row.state === "RETRYING")) return row.state;
    const attempts = await readAttempts(this.#sql, run.job_run_id);
    if (attempts.some((kept) => kept.attempt === run.attempt && kept.outcome === ending.outcome)) return "RETRYING";
    const late = { ...refOf(run), worker_id: this.#me.worker_id, outcome: ending.outcome };
    observe("run.late_result", late);
    await recordAct(this.#sql, {
      actor: this.#me.worker_id,
      action: "run.late_result",
      target_type: "run",
      target_id: run.job_run_id,
      before: { state: row?.state, attempt: row?.attempt },
      after: late,
      reason: "the run had been taken from this worker before its outcome could be recorded",
    });
    return undefined;
  }

  /** One ending that Postgres cannot take must not keep the others of its batch from being recorded. */
  async #finishAll(endings: Ending[]): Promise<(RunState | undefined | Promise<RunState | undefined>)[]> {
    try {
      await failpoint("after-body-exit-before-finish");
      const rows = await finishRuns(this.#sql, this.#me.worker_id, endings);
      await failpoint("after-finish-commit");
      const found = new Map(rows.map((row) => [row.job_run_id, row.state]));
      return endings.map((ending) => found.get(ending.job_run_id));
    } catch (error) {
      if (isUnreachable(error) || endings.length === 1) throw error;
      return endings.map(async (one) => (await finishRuns(this.#sql, this.#me.worker_id, [one]))[0]?.state);
    }
  }

  /** Asks until Postgres answers: an outcome is not lost because the database is away. Other errors are errors. */
  async #untilHeard<T>(ask: () => Promise<T>): Promise<T> {
    for (let wait_ms = 100;; wait_ms = Math.min(wait_ms * 2, 2_000)) {
      try {
        return await ask();
      } catch (error) {
        if (!isUnreachable(error) || this.#over.signal.aborted) throw error;
        await rest(wait_ms, this.#over.signal);
      }
    }
  }

  /** Tells the body to end; attempt 0 is whichever is here. The run becomes CANCELED when the body is gone. */
  cancel(run: AttemptRef, reason: string): boolean {
    const going = this.#going.get(run.job_run_id);
    if (run.attempt !== 0 && going?.attempt !== run.attempt) return false;
    if (!going || going.stage === "recording") return false;
    going.cancel_reason = reason;
    going.body?.cancel(reason);
    return true;
  }

  /** Kills a body that Postgres does not know as ours; nothing is recorded for it by that. */
  abandon(run: AttemptRef, reason: string): void {
    const going = this.#going.get(run.job_run_id);
    if (going?.attempt !== run.attempt) return;
    going.abandoned_why = reason;
    going.body?.abandon(reason);
  }

  /** Waits until nothing runs; at the end of the grace the bodies are ended and their runs given back, uncharged. */
  async drain(grace_ms: number, hurry: AbortSignal): Promise<void> {
    this.#me.draining = true;
    await failpoint("during-drain");
    const until_ms = monotonicMs() + grace_ms;
    await this.#whileGoing(() => monotonicMs() < until_ms && !hurry.aborted, hurry);
    await this.stop("its worker is stopping", hurry);
  }

  /**
   * Ends the bodies and waits until all is recorded: with Postgres away as long as our lease may hold there, since after
   * it the runs are given to others anyway, and not that long when there is no time left.
   */
  async stop(reason: string, hurry: AbortSignal): Promise<void> {
    this.#ending_why = reason;
    for (const going of this.#going.values()) going.body?.abandon(reason);
    const until_ms = monotonicMs() + LEAVE_MS;
    await this.#whileGoing(() => monotonicMs() < until_ms || (this.#me.mayRun && !hurry.aborted));
    this.#over.abort();
  }

  async #whileGoing(patient: () => boolean, stop?: AbortSignal): Promise<void> {
    const bell = new Bell();
    this.#me.watchers.add(bell);
    while (this.#going.size > 0 && patient()) await bell.rest(LOOK_MS, stop);
    this.#me.watchers.delete(bell);
  }

  /** For as long as a question that was asked before it ended may be under way; by halves, since there are thousands a second. */
  #remember({ job_run_id, attempt }: AttemptRef): void {
    if (monotonicMs() - this.#forgot_ms > FORGET_MS) {
      this.#ended_before = this.#ended;
      this.#ended = new Map();
      this.#forgot_ms = monotonicMs();
    }
    this.#ended.set(job_run_id, attempt);
  }
}

function refOf({ job_run_id, attempt }: AttemptRef): AttemptRef {
  return { job_run_id, attempt };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
