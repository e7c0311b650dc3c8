/** One execution of a run in a test: its body from the top, until it has ended or waits for what is not there. */
import { rest } from "../platform/timers.ts";
import { type Job, type Json, type Log, type RunContext, StepFailed } from "../job.ts";
import { DurableRun } from "../sandbox/child/durable.ts";
import type { DurableHost, DurableOrder } from "../sandbox/child/durable_host.ts";
import { storedText } from "../sandbox/child/step_work.ts";
import type { Arrival, AskFrame, FromStepBody, RunJournal, StepFrame } from "../sandbox/frames/step_frames.ts";
import type { StepStore } from "./step_store.ts";

/** So often nothing has happened: then nothing will. */
const QUIET_LOOKS = 3;

export type TestOutcome =
  | { state: "SUCCEEDED"; result: Json; again?: { args: Json } }
  | { state: "FAILED" | "CANCELED"; error: Error };

export interface ExecutionPlan {
  job: Job;
  args: unknown;
  store: StepStore;
  order: DurableOrder;
  attempt: number;
  ending: RunJournal["ending"];
  started_unix_ms: number;
  unixMs(): number;
  later: DurableHost["later"];
  workOf: NonNullable<DurableHost["workOf"]>;
  log(level: string, message: string): void;
  /** Answers all but `arrivals`. */
  answer(question: AskFrame): Json;
  /** The id of the run that a `start` makes. */
  start(frame: StepFrame): number;
}

export class Execution {
  outcome: TestOutcome | undefined;
  readonly run: DurableRun;
  readonly #plan: ExecutionPlan;
  readonly #abort = new AbortController();
  #uncommitted: StepFrame[] = [];
  #questions: AskFrame[] = [];
  #signs = 0;

  constructor(plan: ExecutionPlan) {
    this.#plan = plan;
    const journal = plan.store.journal(plan.unixMs(), plan.started_unix_ms, plan.ending);
    const { started_unix_ms } = plan;
    this.run = new DurableRun({ ...plan.order, started_unix_ms, ...(journal ? { journal } : {}) }, this.#host());
    void this.#serve();
  }

  /** Until it has ended, or nothing but what comes from outside can move it on. */
  async untilQuiet(): Promise<"ended" | "waiting"> {
    for (let looks = 0; !this.outcome;) {
      const signs = this.#signs + this.run.requests;
      const did = this.#commitNext() || this.#answerNext();
      await rest(did ? 0 : 1);
      const is_quiet = !did && signs === this.#signs + this.run.requests && !this.run.isWorking;
      looks = is_quiet ? looks + 1 : 0;
      if (looks < QUIET_LOOKS || this.outcome) continue;
      const state = this.run.idle();
      if (state === "waiting") return "waiting";
      looks = 0;
    }
    this.run.end();
    return "ended";
  }

  /** Until nothing happens any more, though the work of steps may not have ended. */
  async untilStill(): Promise<void> {
    for (let looks = 0; looks < QUIET_LOOKS && !this.outcome;) {
      const signs = this.#signs + this.run.requests;
      const did = this.#commitNext() || this.#answerNext();
      await rest(did ? 0 : 1);
      looks = did || signs !== this.#signs + this.run.requests ? 0 : looks + 1;
      if (looks === QUIET_LOOKS && this.run.replaying && this.run.idle() === "going") looks = 0;
    }
  }

  /** It is thrown away, as when it is suspended. */
  drop(): void {
    this.run.end();
  }

  cancel(error: Error): void {
    this.#abort.abort(error);
    this.run.cancel(error);
  }

  async #serve(): Promise<void> {
    const { job, ending } = this.#plan;
    const context = this.#context();
    const running = (async () => await job.options.run(context))();
    try {
      if (!ending) {
        const stored = storedText(await running, "what run() returned");
        if ("problem" in stored) throw new TypeError(stored.problem);
        const why = this.run.whyNotOver();
        if (why) throw Object.assign(new Error(why), { name: "Diverged" });
        this.outcome ??= { state: "SUCCEEDED", result: JSON.parse(stored.text) };
        return;
      }
      await Promise.race([running.catch(() => {}), this.run.idled.promise]);
      await this.run.undo();
      this.outcome ??= { state: "SUCCEEDED", result: null };
    } catch (error) {
      this.outcome ??= { state: "FAILED", error: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  #commitNext(): boolean {
    const frame = this.#uncommitted.shift();
    if (!frame) return false;
    const { store, unixMs, start } = this.#plan;
    const { key } = frame;
    if (frame.request === "start") {
      const arrival: Arrival = { key, outcome: "DONE", child_run_id: start(frame) };
      store.child_ends.set(key, { ...arrival, result: { id: arrival.child_run_id as number } });
      this.run.hear({ kind: "arrived", arrivals: [arrival] });
    }
    store.commit(frame, unixMs());
    this.run.hear({ kind: "committed", upto: frame.n, ended_unix_ms: unixMs() });
    return true;
  }

  #answerNext(): boolean {
    const question = this.#questions.shift();
    if (!question) return false;
    const { n, what } = question;
    if (what === "arrivals") {
      this.run.hear({ kind: "arrived", arrivals: this.#plan.store.arrivals(this.#plan.unixMs()) });
      this.run.hear({ kind: "told", n, value: null });
    } else {
      try {
        this.run.hear({ kind: "told", n, value: this.#plan.answer(question) });
      } catch (error) {
        this.run.hear({ kind: "told", n, error: (error as Error).message });
      }
    }
    return true;
  }

  #send(frame: FromStepBody): void {
    this.#signs++;
    if (frame.kind === "step") this.#uncommitted.push(JSON.parse(JSON.stringify(frame)));
    if (frame.kind === "ask") this.#questions.push(frame);
  }

  #host(): DurableHost {
    const { log, unixMs, later, workOf } = this.#plan;
    const fail = (error: Error) => void (this.outcome ??= { state: "FAILED", error });
    return {
      ...{ later, unixMs, monotonicMs: unixMs, luck: () => 0.5, workOf, log },
      send: (frame) => this.#send(frame),
      signal: () => this.#abort.signal,
      onAmbiguous: (message) => fail(Object.assign(new Error(message), { name: "AmbiguousName" })),
      onImpossible: ({ name, message }) => fail(Object.assign(new Error(message), { name })),
      onEnding: (error) => this.#abort.abort(error),
      onAgain: (args) => void (this.outcome ??= { state: "SUCCEEDED", result: null, again: { args } }),
    };
  }

  #context(): RunContext<unknown> {
    const { args, order, attempt, log } = this.#plan;
    const at = (level: string) => (message: string) => this.run.replaying || log(level, String(message));
    return {
      ...this.run.tools,
      ...{ args, attempt, fence: order.fence, jobRunId: order.job_run_id, scheduledFor: order.scheduled_for },
      log: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") } as Log,
      progress: () => Promise.resolve(),
      signal: this.#abort.signal,
      get tempDir(): string {
        throw new Error(
          "Cannot give tempDir in a test of a workflow: make a folder with Deno.makeTempDir() in the test",
        );
      },
    };
  }
}

/** What a step has failed with, as its row tells it, and not to be tried again. */
export function failureAgain(key: string, row: { error_name?: string; error_summary?: string; tries: number }): Error {
  const { error_name: errorName = "Error", error_summary: summary = "", tries } = row;
  const cause = new StepFailed(key, { tries, errorName, summary });
  return Object.assign(new Error(summary, { cause }), { name: errorName });
}
