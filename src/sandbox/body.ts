/**
 * One run of one body: from the order to the outcome.
 *
 * How a body is ended, at its timeout or on cancel, each step only if the one before did not do:
 *   signal   `ctx.signal` fires. Skipped when `run` was not called yet
 *   TERM     to the whole group: at once when the body never took its `signal`, after 1 s when it does not even notice
 *            (it spins), else after the kill grace
 *   KILL     to the whole group, after the kill grace again
 * After a verdict the process has 1 s to end by itself, whatever timers and handles it left open.
 *
 * A body may wait behind others in a process that serves several (process_queue.ts). Its timeout counts from when it is the front. To
 * end it before that is to take it back, and to tell it when it has become the front meanwhile.
 */
import { observe } from "../platform/facts.ts";
import { monotonicMs, TimerSet } from "../platform/timers.ts";
import { type FromBody, MOST_UNTOLD_MS, type ToBody } from "./frames.ts";
import { shortageOf } from "./resource_shortage.ts";
import type { Body, BodyListener, BodyOrder } from "./body_order.ts";
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
import { Output, type Stream } from "./output.ts";
import type { Child, ChildEnd } from "./process.ts";

/** The line of a process (process_queue.ts), as a body that stands in it knows it. */
export interface BodyLine {
  readonly child: Child;
  readonly length: number;
  add(body: RunningBody): void;
  isFront(body: RunningBody): boolean;
  recall(): void;
  alone(act: () => void): void;
  terminate(of: RunningBody, grace_ms: number): void;
  kill(of: RunningBody): void;
}

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

/** Of all bodies: several for each, and few that ever ring. */
export const alarms = new TimerSet();
const nothing = () => {};
const NOTICE_MS = 1_000;
const LEAVE_MS = 1_000;
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

export class RunningBody implements Body {
  readonly outcome: Promise<Outcome>;
  readonly order: BodyOrder;
  /** The kind of process that it needs. */
  readonly key: string;
  /** A process that had served others ended when it was to begin there: should that come again it is to blame. */
  suspect = false;
  readonly #listener: BodyListener;
  readonly #setting: BodySetting;
  /** Made when it says something: most say nothing. */
  #made_output: Output | undefined;
  #line: BodyLine | undefined;
  #last = true;
  #own = false;
  #first = false;
  #lapses_before = 0;
  #verdict: BodyVerdict | undefined;
  #ended_by_us: EndedByUs | undefined;
  /** It was really told; until then an end of its own comes first. */
  #told = false;
  /** It has said that it was. */
  #has_noticed = false;
  /** What is to become of it instead of its turn. */
  #wish: { cause: "cancel" | "abandon"; reason: string } | undefined;
  #exiting: number | undefined;
  #started_ms: number | undefined;
  #took_ms: number | undefined;
  #over = false;
  #cancelTimeout = nothing;
  #cancelStep = nothing;
  #resolve: (outcome: Outcome) => void = nothing;

  constructor(order: BodyOrder, on: { key: string; listener: BodyListener; setting: BodySetting }) {
    this.order = order;
    this.key = on.key;
    this.#listener = on.listener;
    this.#setting = on.setting;
    this.outcome = new Promise((resolve) => this.#resolve = resolve);
  }

  /** Joins the runs of a process. `last`: the process ends with this one. `own`: it was started for this one. */
  enter(line: BodyLine, { last, own }: { last: boolean; own: boolean }): void {
    this.#line = line;
    this.#last = last;
    this.#own = own;
    this.#first = line.length === 0;
    line.add(this);
  }

  get words(): Extract<ToBody, { kind: "order" }> {
    const { job_run_id, attempt, fence, job_name, args, scheduled_for } = this.order;
    const temp_dir = this.#line?.child.temp_dir ?? "";
    return {
      kind: "order",
      job_run_id,
      attempt,
      fence,
      job_name,
      args,
      scheduled_for,
      temp_dir,
      last: this.#last,
    };
  }

  get job_run_id(): number {
    return this.order.job_run_id;
  }

  get pid(): number {
    return this.#line?.child.pid ?? 0;
  }

  /** Whether others may be put behind it. */
  get leavesRoom(): boolean {
    return !this.#last && !this.#ended_by_us;
  }

  /** Its process is to end although it could serve others. */
  get condemned(): boolean {
    return this.#ended_by_us !== undefined;
  }

  /** Something of it was called. */
  get begun(): boolean {
    return this.#started_ms !== undefined || this.#verdict !== undefined;
  }

  /** It did not wait behind another. */
  get first(): boolean {
    return this.#first;
  }

  /** From `started` to the verdict; undefined: it had no such end. */
  get took_ms(): number | undefined {
    return this.#took_ms;
  }

  /**
   * It has waited in vain: its process will not begin it. False: and it is not to be begun anywhere, since that was wished while it waited, or
   * since it was ended as the front and the process was killed for it before it had begun.
   */
  returned(): boolean {
    this.#cancelTimeout();
    if (this.#wish) this.#ended_by_us ??= { ...this.#wish, step: "KILL" };
    if (!this.#ended_by_us) return true;
    this.#finish(outcomeOf(this.#story(UNBEGUN), this.#subject));
    return false;
  }

  /** Nothing can begin it. */
  refuse(why: Error): void {
    this.#finish(notStarted(why));
  }

  /** Those before it are done: from now on what the process says is its. */
  front(): void {
    this.#lapses_before = this.#setting.lapses();
    this.#cancelTimeout = alarms.after(this.order.timeout_ms, () => this.#end("timeout", "timeout"));
    if (this.#wish?.cause === "abandon") this.#killFor("abandon", this.#wish.reason);
    else if (this.#wish) this.#end("cancel", this.#wish.reason);
  }

  cancel(reason: string): void {
    if (this.waits) this.#wishFor("cancel", reason);
    else this.#end("cancel", reason);
  }

  abandon(reason: string): void {
    if (this.waits) this.#wishFor("abandon", reason);
    else this.#killFor("abandon", reason);
  }

  get waits(): boolean {
    return !this.#over && !this.#verdict && this.#line?.isFront(this) === false;
  }

  #wishFor(cause: "cancel" | "abandon", reason: string): void {
    if (this.#wish?.cause !== "abandon") this.#wish = { cause, reason };
    this.#line?.recall();
  }

  get #output(): Output {
    return this.#made_output ??= new Output({
      onLog: (lines) => this.#listener.onLog(lines),
      onFlood: () => this.#killFor("flood", "too much output"),
    });
  }

  text(stream: Stream, bytes: Uint8Array): void {
    this.#output.text(stream, bytes);
  }

  hear(frame: FromBody): void {
    if (this.#over) return;
    switch (frame.kind) {
      case "started":
        if (this.#started_ms === undefined && this.#last) this.#setting.onLastStarted(this);
        this.#started_ms ??= monotonicMs();
        return;
      case "log":
        return this.#output.log(frame.level, frame.message, frame.fields);
      case "progress":
        return this.#listener.onProgress(frame.fraction, frame.message?.slice(0, 500));
      case "noticed":
        return this.#noticed(frame.listening);
      case "exiting":
        this.#exiting ??= frame.code;
        return;
      case "result":
      case "error":
        return this.#judged(frame);
    }
  }

  #judged(verdict: BodyVerdict): void {
    if (this.#verdict) return;
    this.#verdict = verdict;
    if (this.#started_ms !== undefined) this.#took_ms = tookMs(verdict, monotonicMs() - this.#started_ms);
    this.#cancelTimeout();
    this.#cancelStep();
    if (!this.#told) this.#ended_by_us = undefined; // an end that came first wins
    this.#cancelStep = alarms.after(LEAVE_MS, () => this.#line?.kill(this));
    if (!this.#last && this.#ended_by_us) this.#line?.kill(this);
  }

  /** The process goes on to serve: both of its streams are read up to the end of this run. */
  closed(): void {
    const verdict = this.#verdict;
    if (!verdict || this.#over) return;
    if (verdict.kind === "result") this.#finish(succeeded(verdict, 0));
    else this.#finish(verdictOutcome(verdict, { ...this.#subject, exit_code: 1 }));
  }

  /** The process has ended. `because_of`: another run of it, for which it was killed. */
  ended(end: ChildEnd, because_of: RunningBody | undefined): void {
    if (this.#over) return;
    if (because_of && !this.#verdict) {
      const reason = `its process was ended because of run ${because_of.job_run_id}, which it served before`;
      this.#ended_by_us = { cause: "abandon", reason, step: "KILL" };
    } else if (this.#beginAgain(end)) return;
    this.#finish(outcomeOf(this.#story(end), this.#subject));
  }

  #story(end: ChildEnd): BodyHistory {
    return {
      ended_by_us: this.#ended_by_us,
      verdict: this.#verdict,
      exiting: this.#exiting,
      started: this.#started_ms !== undefined,
      lapsed: this.#lapsed,
      end,
    };
  }

  get #subject(): OutcomeSubject {
    return { ...this.order, project_dir: this.#setting.project_dir };
  }

  /** A waiting process can be killed, by the kernel for want of memory say, and be chosen before that is known here. */
  #beginAgain(end: ChildEnd): boolean {
    if (this.#own || !end.signal || this.begun || this.#ended_by_us || this.#lapsed) return false;
    try {
      this.#cancelTimeout();
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
    this.#over = true;
    this.#cancelTimeout();
    this.#cancelStep();
    this.#made_output?.end();
    this.#setting.onOver(this);
    this.#resolve(outcome);
  }

  #end(cause: "timeout" | "cancel", reason: string): void {
    if (this.#over || this.#verdict || this.#ended_by_us) return;
    this.#ended_by_us = { cause, reason, step: "signal" };
    this.#cancelTimeout();
    this.#cancelStep = alarms.after(Math.min(NOTICE_MS, this.order.kill_grace_ms), () => this.#terminate());
    this.#line?.alone(() => this.#tell());
  }

  /** Nobody waits behind it any more, who could have become the one that a signal reaches. */
  #tell(): void {
    if (this.#over || this.#verdict || this.#told || !this.#ended_by_us) return;
    const { cause, reason } = this.#ended_by_us;
    if (this.#started_ms === undefined) return this.#killFor(cause, reason);
    this.#told = true;
    this.#line?.child.signal(cause === "timeout" ? "SIGUSR2" : "SIGHUP");
  }

  #noticed(listening: boolean): void {
    if (this.#ended_by_us?.step !== "signal" || this.#has_noticed) return; // once, or it could put off its end for ever
    this.#has_noticed = true;
    this.#cancelStep();
    if (listening) this.#cancelStep = alarms.after(this.order.kill_grace_ms, () => this.#terminate());
    else this.#terminate();
  }

  #terminate(): void {
    if (!this.#ended_by_us || this.#over) return;
    this.#told = true;
    this.#ended_by_us.step = "TERM";
    this.#tellKill("SIGTERM", this.#ended_by_us.reason);
    this.#line?.terminate(this, this.order.kill_grace_ms);
    this.#cancelStep = alarms.after(this.order.kill_grace_ms, () => this.#kill());
  }

  #killFor(cause: EndedByUs["cause"], reason: string): void {
    if (this.#over) return;
    if (!this.#verdict) this.#ended_by_us ??= { cause, reason, step: "KILL" };
    this.#cancelTimeout();
    this.#cancelStep();
    this.#kill();
  }

  #kill(): void {
    this.#told = true;
    if (this.#ended_by_us) this.#ended_by_us.step = "KILL";
    this.#tellKill("SIGKILL", this.#ended_by_us?.reason ?? "it did not end after its verdict");
    this.#line?.kill(this);
  }

  #tellKill(signal: string, reason: string): void {
    observe("body.killed", { job_run_id: this.order.job_run_id, pid: this.pid, signal, reason });
  }
}

/** By its own clock where it tells: both words may be heard at once, by a worker that was busy, or long after they were said. */
function tookMs(verdict: BodyVerdict, heard_ms: number): number {
  if (verdict.kind === "error") return heard_ms;
  return Math.max(0, verdict.took_ms ?? Math.min(heard_ms, MOST_UNTOLD_MS));
}
