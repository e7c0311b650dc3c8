/**
 * One run of one body: from the order to the outcome.
 *
 * How a body is ended: endable_body.ts.
 *
 * A body may wait behind others in a process that serves several (process_queue.ts). Its timeout counts from when it is the front. To
 * end it before that is to take it back, and to tell it when it has become the front meanwhile.
 */
import { monotonicMs } from "../platform/timers.ts";
import { type FromBody, MOST_UNTOLD_MS } from "./frames.ts";
import type { ToStepBody } from "./frames/step_frames.ts";
import { shortageOf } from "./resource_shortage.ts";
import {
  type BodyListener,
  type BodyOrder,
  type OrderWords,
  orderWords,
  type StepBody,
  type StepsFrame,
} from "./body_order.ts";
import { type BodyState, endingBy, runningSince, verdictIn, type Wish } from "./body_state.ts";
import {
  type BodyHistory,
  type BodyVerdict,
  type EndedByUs,
  notStarted,
  type Outcome,
  outcomeOf,
  type OutcomeSubject,
  succeeded,
  verdictOutcome,
} from "./outcome.ts";
import { alarms, type BodyLine, EndableBody } from "./endable_body.ts";
import { Output, type Stream } from "./output.ts";
import type { ChildEnd } from "./process.ts";

/** Of all bodies of a sandbox. */
export interface BodySetting {
  project_dir: string;
  /** A process of its own for the body, in place of one that was there before and turns out to be dead. */
  replace(body: RunningBody): BodyLine;
  /** The last one that its process serves has begun. */
  onLastStarted(body: RunningBody): void;
  onOver(body: RunningBody): void;
  /** How often the guard of bodies may have struck until now. */
  lapses(): number;
}

/** Of a body that no process has begun. */
const UNBEGUN: ChildEnd = {
  code: null,
  signal: null,
  was_ready: true,
  last_words: "",
  left_others: false,
  heard: true,
  unguarded: undefined,
};

export class RunningBody extends EndableBody implements StepBody {
  readonly outcome: Promise<Outcome>;
  /** The kind of process that it needs. */
  readonly key: string;
  /** A process that had served others ended when it was to begin there: should that come again it is to blame. */
  suspect = false;
  readonly #listener: BodyListener;
  readonly #setting: BodySetting;
  #uses_steps: boolean;
  /** Made when it says something: most say nothing. */
  #made_output: Output | undefined;
  #last = true;
  #own = false;
  #first = false;
  #lapses_before = 0;
  #exiting: number | undefined;
  #took_ms: number | undefined;
  #resolve: (outcome: Outcome) => void = () => {};

  constructor(order: BodyOrder, on: { key: string; listener: BodyListener; setting: BodySetting }) {
    super(order);
    this.key = on.key;
    this.#listener = on.listener;
    this.#setting = on.setting;
    this.#uses_steps = order.steps?.journal !== undefined;
    this.outcome = new Promise((resolve) => this.#resolve = resolve);
  }

  /** Joins the runs of a process. `last`: the process ends with this one. `own`: it was started for this one. */
  enter(line: BodyLine, { last, own }: { last: boolean; own: boolean }): void {
    this.line = line;
    this.#last = last;
    this.#own = own;
    this.#first = line.length === 0;
    line.add(this);
  }

  get words(): OrderWords {
    return orderWords(this.order, { temp_dir: this.line?.child.temp_dir ?? "", last: this.#last });
  }

  get job_run_id(): number {
    return this.order.job_run_id;
  }

  /** Whether others may be put behind it: what one that uses steps is told must not wait behind orders. */
  get leavesRoom(): boolean {
    return !this.#last && !this.condemned && !this.#uses_steps;
  }

  /** Its process is to end although it could serve others. */
  get condemned(): boolean {
    return this.state.at === "ending" || this.state.at === "suspending";
  }

  /** Something of it was called. */
  get begun(): boolean {
    return runningSince(this.state) !== undefined || verdictIn(this.state) !== undefined;
  }

  /** It did not wait behind another. */
  get first(): boolean {
    return this.#first;
  }

  /** From `started` to the verdict; undefined: it had no such end. */
  get took_ms(): number | undefined {
    return this.#took_ms;
  }

  get waits(): boolean {
    return this.state.at === "queued" && this.line !== undefined;
  }

  /**
   * It has waited in vain: its process will not begin it. False: and it is not to be begun anywhere, since that was wished while it waited, or
   * since it was ended as the front and the process was killed for it before it had begun.
   */
  returned(): boolean {
    this.cancelTimeout();
    const state = this.state;
    if (state.at === "queued" && state.wish) this.move(endingBy({ ...state.wish, step: "KILL" }, state));
    if (this.state.at === "ending") {
      this.#finish(outcomeOf(this.#story(UNBEGUN), this.#subject));
      return false;
    }
    if (state.at === "front") this.move({ at: "queued", wish: undefined });
    return true;
  }

  /** Nothing can begin it. */
  refuse(why: Error): void {
    this.#finish(notStarted(why));
  }

  /** Those before it are done: from now on what the process says is its. */
  front(): void {
    const wish = this.state.at === "queued" ? this.state.wish : undefined;
    this.move({ at: "front" });
    this.#lapses_before = this.#setting.lapses();
    this.cancelTimeout = alarms.after(this.order.timeout_ms, () => this.end("timeout", "timeout"));
    if (wish?.cause === "abandon") this.killFor("abandon", wish.reason);
    else if (wish) this.end("cancel", wish.reason);
  }

  cancel(reason: string): void {
    if (this.state.at === "queued") this.#wishFor(this.state, { cause: "cancel", reason });
    else this.end("cancel", reason);
  }

  abandon(reason: string): void {
    if (this.state.at === "queued") this.#wishFor(this.state, { cause: "abandon", reason });
    else this.killFor("abandon", reason);
  }

  #wishFor(queued: Extract<BodyState, { at: "queued" }>, wish: Wish): void {
    if (queued.wish?.cause !== "abandon") queued.wish = wish;
    this.line?.recall();
  }

  get #output(): Output {
    return this.#made_output ??= new Output({
      onLog: (lines) => this.#listener.onLog(lines),
      onFlood: () => this.killFor("flood", "too much output"),
    });
  }

  text(stream: Stream, bytes: Uint8Array): void {
    this.#output.text(stream, bytes);
  }

  hear(frame: FromBody): void {
    if (this.state.at === "over") return;
    switch (frame.kind) {
      case "started":
        return this.#started();
      case "log":
        return this.#output.log(frame.level, frame.message, frame.fields);
      case "progress":
        return this.#listener.onProgress(frame.fraction, frame.message?.slice(0, 500));
      case "noticed":
        return this.noticed(frame.listening);
      case "exiting":
        this.#exiting ??= frame.code;
        return;
      case "result":
      case "error":
        return this.#judged(frame);
      case "step":
      case "ask":
      case "waiting":
        return this.#hearSteps(frame);
      case "replaying":
        this.#output.replaying = frame.on;
        return;
    }
  }

  #hearSteps(frame: StepsFrame): void {
    this.#useSteps();
    if (frame.kind === "waiting" && this.state.at === "running") {
      this.move({ at: "frozen", since_ms: this.state.since_ms });
    }
    this.#listener.onSteps(frame, this);
  }

  #useSteps(): void {
    if (this.#uses_steps) return;
    this.#uses_steps = true;
    this.line?.recall();
  }

  tell(words: ToStepBody): void {
    const state = this.state;
    if (state.at === "over" || state.at === "suspending") return;
    this.line?.alone(() => this.line?.child.tell(words));
    if (state.at === "frozen" && words.kind === "arrived") this.move({ at: "running", since_ms: state.since_ms });
  }

  alert(): void {
    if (this.state.at === "running") this.line?.alone(() => this.line?.child.signal("SIGURG"));
  }

  suspend(): void {
    const state = this.state;
    if (state.at === "over" || state.at === "suspending") return;
    if (state.at === "frozen") this.tell({ kind: "suspend" });
    this.move({ at: "suspending", since_ms: runningSince(state) });
    this.awaitLeave();
    if (state.at !== "frozen") this.killProcess();
  }

  fail({ error_name, error_summary }: { error_name: string; error_summary: string }): void {
    this.killFor("refused", error_summary, error_name);
  }

  #started(): void {
    if (runningSince(this.state) !== undefined) return;
    if (this.#last) this.#setting.onLastStarted(this);
    delete this.order.steps?.journal;
    if (this.state.at === "front") this.move({ at: "running", since_ms: monotonicMs() });
    else if (this.state.at === "ending") this.state.since_ms = monotonicMs();
  }

  #judged(verdict: BodyVerdict): void {
    const state = this.state;
    if (verdictIn(state)) return;
    const since_ms = runningSince(state);
    if (since_ms !== undefined) this.#took_ms = tookMs(verdict, monotonicMs() - since_ms);
    if (state.at === "ending" && state.told) state.verdict = verdict;
    else this.move({ at: "judged", verdict, since_ms }); // an end that came first wins
    this.awaitLeave();
    if (!this.#last && this.condemned) this.killProcess();
  }

  /** The process goes on to serve: both of its streams are read up to the end of this run. */
  closed(): void {
    if (this.state.at !== "judged") return;
    const { verdict } = this.state;
    if (verdict.kind === "result") this.#finish(succeeded(verdict, 0));
    else this.#finish(verdictOutcome(verdict, { ...this.#subject, exit_code: 1 }));
  }

  /** The process has ended. `because_of`: another run of it, for which it was killed. */
  ended(end: ChildEnd, because_of: RunningBody | undefined): void {
    const state = this.state;
    if (state.at === "over") return;
    if (state.at === "suspending") return this.#finish({ kind: "SUSPENDED", exit_code: null });
    if (because_of && !verdictIn(state)) {
      const reason = `its process was ended because of run ${because_of.job_run_id}, which it served before`;
      const by: EndedByUs = { cause: "abandon", reason, step: "KILL" };
      if (state.at === "ending") state.by = by;
      else this.move(endingBy(by, state));
    } else if (this.#beginAgain(end)) return;
    this.#finish(outcomeOf(this.#story(end), this.#subject));
  }

  #story(end: ChildEnd): BodyHistory {
    const state = this.state;
    return {
      ended_by_us: state.at === "ending" ? state.by : undefined,
      verdict: verdictIn(state),
      exiting: this.#exiting,
      started: runningSince(state) !== undefined,
      lapsed: this.#lapsed,
      end,
    };
  }

  get #subject(): OutcomeSubject {
    return { ...this.order, project_dir: this.#setting.project_dir };
  }

  /** A waiting process can be killed, by the kernel for want of memory say, and be chosen before that is known here. */
  #beginAgain(end: ChildEnd): boolean {
    const unbegun = this.state.at === "queued" || this.state.at === "front";
    if (this.#own || !end.signal || !unbegun || this.#lapsed) return false;
    try {
      this.cancelTimeout();
      if (this.state.at === "front") this.move({ at: "queued", wish: undefined });
      this.enter(this.#setting.replace(this), { last: this.#last, own: true });
    } catch (error) {
      if (shortageOf(error) === undefined) return false; // what ended the first one is then the outcome
      this.refuse(error as Error);
    }
    return true;
  }

  get #lapsed(): boolean {
    return this.#setting.lapses() > this.#lapses_before;
  }

  #finish(outcome: Outcome): void {
    this.move({ at: "over" });
    this.cancelTimeout();
    this.cancelStep();
    this.#made_output?.end();
    this.#setting.onOver(this);
    this.#resolve(outcome);
  }
}

/** By its own clock where it tells: both words may be heard at once, by a worker that was busy, or long after they were said. */
function tookMs(verdict: BodyVerdict, heard_ms: number): number {
  if (verdict.kind === "error") return heard_ms;
  return Math.max(0, verdict.took_ms ?? Math.min(heard_ms, MOST_UNTOLD_MS));
}
