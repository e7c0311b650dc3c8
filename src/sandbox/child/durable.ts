/**
 * A durable run: its journal (journal.ts), what it waits for, and what it has asked, over a host (durable_host.ts) that is a body's
 * process or the test kit. Loaded into a body when that first asks for something durable.
 *
 *   replaying -> live -> over
 *             -> ending (canceled, failed or timed out for good): nothing new begins, its waits reject, and what may have begun is undone
 */
import type { Json, StepTools } from "../../job.ts";
import { Canceled, DeadlinePassed } from "../../job.ts";
import type { Arrival, RunJournal, ToStepBody } from "../frames/step_frames.ts";
import { isStartKey } from "./child_requests.ts";
import type { DurableHost, DurableOrder } from "./durable_host.ts";
import type { DurableParts, Question } from "./durable_parts.ts";
import { type AnyDurable, toolsOf } from "./durable_tools.ts";
import { Journal } from "./journal.ts";
import { OpenWaits } from "./open_waits.ts";
import { named } from "./step_names.ts";
import { isCalledByWork, Step } from "./step_work.ts";

const MOST_STEPS = 10_000;
const MOST_JOURNAL_MB = 32;
/** A replay that has made no request for so long, while something keeps the process alive, gets none any more. */
const REPLAY_LOOK_MS = 30_000;

export class DurableRun {
  /** What `run` receives. */
  readonly tools: AnyDurable;
  /** Resolves when the body of a run that is to end can do nothing more. */
  readonly idled = Promise.withResolvers<void>();
  readonly #parts: DurableParts;
  readonly #answers = new Map<number, { resolve(value: Json): void; reject(error: Error): void }>();
  #asked = 0;
  #requests = 0;
  #undoing = false;
  #over = false;

  constructor(order: DurableOrder, host: DurableHost) {
    const journal = this.#journalOf(order, host);
    this.#parts = {
      ...{ order, host, journal, retry: order.retry ?? {}, waits: new OpenWaits({ host, order }) },
      ...{ working: new Set(), inside: false, closed: undefined, undos: [], counts: new Map() },
      requested: () => this.#requested(),
      ask: (question) => this.#ask(question),
      look: (then) => void this.#ask({ what: "arrivals" }).then(then, then),
    };
    this.tools = toolsOf(this.#parts);
    if (order.journal) host.send({ kind: "replaying", on: true });
    if (order.journal) this.#watchReplay(-1);
  }

  #journalOf(order: DurableOrder, host: DurableHost): Journal {
    const { journal: recorded, limits, job_run_id, job_name } = order;
    const subject = {
      ...{ job_run_id, job_name },
      started_unix_ms: recorded?.started_unix_ms ?? order.started_unix_ms ?? host.unixMs(),
      max_steps: limits?.max_steps ?? MOST_STEPS,
      max_journal_mb: limits?.max_journal_mb ?? MOST_JOURNAL_MB,
    };
    return new Journal(recorded, subject, {
      send: (frame) => this.#over || host.send(frame),
      onReplayed: () => this.#onReplayed(),
      onAmbiguous: (name) =>
        host.onAmbiguous(
          `"${name}" was requested again before it had ended: which of the two gets which result may differ when the run ` +
            "goes on; give it a key ({ key }), or put each into a scope of its own (each)",
        ),
      onNearlyFull: (message) => host.log("warn", message),
      onDiverged: (message) => host.onImpossible({ name: "Diverged", message }),
    });
  }

  get replaying(): boolean {
    return this.#parts.journal.replaying;
  }

  /** Something was said that is to be answered. */
  get unanswered(): boolean {
    return this.#parts.journal.waits || this.#answers.size > 0;
  }

  /** How often something was requested: a sign of life. */
  get requests(): number {
    return this.#requests;
  }

  get isWorking(): boolean {
    return this.#parts.working.size > 0;
  }

  get isWaiting(): boolean {
    return this.#parts.waits.any;
  }

  isWaitingFor(key: string): boolean {
    return this.#parts.waits.has(key);
  }

  get soonest_in_ms(): number | null {
    return this.#parts.waits.soonest_in_ms;
  }

  hear(said: ToStepBody): void {
    switch (said.kind) {
      case "committed":
        return this.#parts.journal.committed(said.upto, said.ended_unix_ms ?? this.#parts.host.unixMs());
      case "arrived":
        for (const arrival of said.arrivals) if (isStartKey(arrival.key)) this.#onStarted(arrival);
        return this.#parts.waits.arrive(said.arrivals);
      case "told": {
        const answer = this.#answers.get(said.n);
        this.#answers.delete(said.n);
        return said.error === undefined ? answer?.resolve(said.value) : answer?.reject(new Error(said.error));
      }
    }
  }

  /** Looks for what has come. */
  look(): void {
    if (!this.#over) this.#parts.look(() => {});
  }

  /** Has the rows of the run dropped, which is served without them. */
  async restart(): Promise<void> {
    await this.#ask({ what: "restart" });
  }

  /** The process was frozen. */
  thawed(): void {
    this.#parts.waits.checkLimits();
  }

  /** Nothing new is begun, and what is waited for rejects; in a replay at its end. */
  cancel(error: Error): void {
    if (this.#parts.closed) return;
    this.#parts.closed = error;
    this.#parts.journal.close(error);
    if (!this.replaying) this.#parts.waits.refuseAll(error);
  }

  /**
   * Nothing that the body has begun can come to an end by itself. `going`: something has become of that.
   * `waiting`: only what is not in this process can move it on. `nothing`: it waits for what cannot come.
   */
  idle(): "going" | "waiting" | "nothing" {
    const { journal, working, waits, order } = this.#parts;
    if (journal.replaying) return journal.stuck() ? "going" : "nothing";
    if (working.size > 0) {
      const error = new Error("its work never settled: it waits for something that can no longer come");
      for (const one of [...working]) one.fail(Object.assign(error, { name: "NeverSettled" }));
      return "going";
    }
    if (order.journal?.ending && !this.#undoing) {
      this.idled.resolve();
      return "going";
    }
    if (!waits.any) return "nothing";
    return this.#dropUnrequested() ? "going" : "waiting";
  }

  /** Open rows that the code, which has changed, does not ask for: what comes for them would wake the run for nothing. */
  #dropUnrequested(): boolean {
    const { journal, host } = this.#parts;
    const rows = journal.unrequestedOpen();
    for (const { key, kind, tries } of rows) {
      host.log("warn", `the code that runs now does not request "${key}", which the run had begun`);
      journal.drop({ key, request: kind, state: "CANCELED", tries });
    }
    return rows.length > 0;
  }

  /** `run` has returned. Why that cannot be the run's result. */
  whyNotOver(): string | undefined {
    return this.#parts.journal.whyNotOver();
  }

  /** It says nothing any more. True: something of it goes on all the same. */
  end(): boolean {
    const unfinished = this.isWorking || this.unanswered || this.isWaiting;
    this.#over = true;
    this.#parts.waits.stop();
    return unfinished;
  }

  /** Why nothing new is begun. */
  get closed(): Error | undefined {
    return this.#parts.closed;
  }

  /** In reverse order of request, what may have begun. @throws Error UndoFailed */
  async undo(): Promise<void> {
    this.#undoing = true;
    const { journal, undos } = this.#parts;
    for (const { key, name, idempotency_key, undo, timeoutSeconds } of undos.reverse()) {
      const row = journal.recorded(key);
      if (!row) continue;
      const result = "result" in row && row.state === "DONE" ? row.result : undefined;
      const { promise, resolve, reject } = Promise.withResolvers<Json>();
      const step = new Step({
        ...{ kind: "undo", name, idempotency_key, resolve, reject, options: { timeoutSeconds } },
        key: key.replace(/^((?:\[.*\])?)step:/s, "$1undo:"),
        work: (tools: StepTools) => undo(result, tools),
      }, this.#parts);
      journal.request(step);
      await promise.catch((cause) => {
        throw undoFailed(cause.message, cause);
      });
    }
    const left = journal.toUndo().filter((key) => undos.every((one) => one.key !== key)).map(named);
    if (left.length > 0) {
      throw undoFailed(`the code that runs now does not request ${left.join(", ")}, and so cannot undo it`);
    }
  }

  #requested(): void {
    const { inside, working } = this.#parts;
    if (inside || (working.size > 0 && isCalledByWork())) {
      const problem = new Error(
        "Cannot request this inside the work of a step: that is done once, and not when the run goes on; do it before or after",
      );
      throw Object.assign(problem, { name: "Fatal" });
    }
    this.#requests++;
  }

  #ask(question: Question): Promise<Json> {
    const n = ++this.#asked;
    const { promise, resolve, reject } = Promise.withResolvers<Json>();
    this.#answers.set(n, { resolve, reject });
    if (!this.#over) this.#parts.host.send({ kind: "ask", n, ...question });
    return promise;
  }

  /** The run that a `start` has made, or why it has not, is known before its row is committed. */
  #onStarted({ key, outcome, child_run_id = null, error_name, error_summary }: Arrival): void {
    const row = this.#parts.journal.sentRow(key);
    if (!row) return;
    if (outcome === "DONE") Object.assign(row, { child_run_id, result: { id: child_run_id } });
    else Object.assign(row, { state: "FAILED", error_name, error_summary });
  }

  #onReplayed(): void {
    const { order, host } = this.#parts;
    host.send({ kind: "replaying", on: false });
    const { ending } = order.journal as RunJournal;
    if (!ending) return;
    const error = errorFor(ending);
    this.cancel(error);
    host.onEnding(error);
  }

  #watchReplay(requests_before: number): void {
    this.#parts.host.later(
      () => {
        if (!this.replaying || this.#over) return;
        if (this.#requests === requests_before) this.#parts.journal.stuck();
        this.#watchReplay(this.#requests);
      },
      REPLAY_LOOK_MS,
      false,
    );
  }
}

function undoFailed(message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { name: "UndoFailed" });
}

/** What other code has recorded. */
export function hasOtherCode(journal: RunJournal | undefined): boolean {
  return journal !== undefined &&
    [...journal.rows, ...journal.open].some(({ code_digest }) => code_digest !== journal.code_digest);
}

function errorFor(ending: NonNullable<RunJournal["ending"]>): Error {
  switch (ending) {
    case "CANCELED":
      return new Canceled("The run was canceled");
    case "TIMED_OUT":
      return new DeadlinePassed("The run has run out of time");
    case "FAILED":
      return new Canceled("The run has failed; what it has done is being undone");
  }
}
