/**
 * One run of one body: from the order to the outcome.
 *
 * How a body is ended, at its timeout or on cancel, each step only if the one before did not do:
 *   signal   `ctx.signal` fires. Skipped when `run` was not called yet
 *   TERM     to the whole group: at once when the body never took its `signal`, after 1 s when it does not even notice
 *            (it spins), else after the kill grace
 *   KILL     to the whole group, after the kill grace again
 * After a verdict the process has 1 s to end by itself, whatever timers and handles it left open.
 */
import { observe } from "../base/facts.ts";
import { after } from "../base/loop.ts";
import type { Permissions } from "../job.ts";
import type { FromBody } from "./frames.ts";
import { type EndedByUs, type Outcome, outcomeOf, type Verdict, verdictOutcome } from "./outcome.ts";
import { type LogLine, Output } from "./output.ts";
import type { Child, ChildEnd } from "./process.ts";
import { emptyFolder } from "./temp_folders.ts";

/** What the worker wants run. */
export interface BodyOrder {
  job_run_id: number;
  attempt: number;
  fence: number;
  job_name: string;
  /** Absolute path. */
  job_file: string;
  /** Of the file's module graph: a process that was loaded ahead for another digest is never used. */
  digest: string;
  args: unknown;
  scheduled_for: string;
  permissions: Permissions;
  timeout_ms: number;
  kill_grace_ms: number;
  memory_mb: number;
  /** How many runs one process may serve, one after another; 0 and 1: a fresh one for each. */
  isolation_reuse: number;
}

export interface BodyEars {
  onLog(lines: LogLine[]): void;
  onProgress(fraction: number, message: string | undefined): void;
}

/** A body that was started. */
export interface Body {
  readonly pid: number;
  /** Never rejects. Resolves only when the body's process group is proven empty, or the process is fit to serve another run. */
  readonly outcome: Promise<Outcome>;
  /** Signal, TERM, KILL; CANCELED, unless it has ended already. */
  cancel(reason: string): void;
  /** KILL; LOST, unless it has ended already. */
  abandon(reason: string): void;
}

export interface BodySetting {
  project_dir: string;
  /** The process ends with this run. */
  last: boolean;
  /** A process of its own for the body, in place of one that was there before and turns out to be dead. */
  replace: (() => Child) | undefined;
  onStarted(): void;
  /** How often the guard of bodies may have struck until now. */
  lapses(): number;
}

const NOTICE_MS = 1_000;
const LEAVE_MS = 1_000;

export class RunningBody implements Body {
  readonly outcome: Promise<Outcome>;
  #child: Child;
  readonly #order: BodyOrder;
  readonly #ears: BodyEars;
  readonly #setting: BodySetting;
  readonly #output: Output;
  readonly #lapses_before: number;
  #verdict: Verdict | undefined;
  #ended_by_us: EndedByUs | undefined;
  #exiting: number | undefined;
  #started = false;
  #idle = false;
  #over = false;
  #cancelTimeout: () => void;
  #cancelStep = () => {};
  #resolve: (outcome: Outcome) => void = () => {};

  constructor(child: Child, order: BodyOrder, on: { ears: BodyEars; setting: BodySetting }) {
    this.#child = child;
    this.#order = order;
    this.#ears = on.ears;
    this.#setting = on.setting;
    this.#lapses_before = on.setting.lapses();
    this.#output = new Output({
      onLog: (lines) => this.#ears.onLog(lines),
      onFlood: () => this.#killFor("flood", "too much output"),
    });
    this.outcome = new Promise((resolve) => this.#resolve = resolve);
    this.#cancelTimeout = after(order.timeout_ms, () => this.#end("timeout", "timeout"));
    this.#begin(child);
  }

  #begin(child: Child): void {
    const order = this.#order;
    child.listen({
      onFrame: (frame) => this.#hear(frame),
      onText: (stream, bytes) => this.#output.text(stream, bytes),
      onEnd: (end) => this.#processEnded(end),
    });
    const { job_run_id, attempt, fence, job_name, args, scheduled_for } = order;
    const temp_dir = child.temp_dir ?? "";
    child.order({
      kind: "order",
      job_run_id,
      attempt,
      fence,
      job_name,
      args,
      scheduled_for,
      temp_dir,
      last: this.#setting.last,
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  get child(): Child {
    return this.#child;
  }

  /** The process is unharmed and idle: it may serve another run. */
  get reusable(): boolean {
    return !this.#setting.last && this.#verdict !== undefined && !this.#ended_by_us && this.#child.alive;
  }

  cancel(reason: string): void {
    this.#end("cancel", reason);
  }

  abandon(reason: string): void {
    this.#killFor("abandon", reason);
  }

  #hear(frame: FromBody): void {
    if (this.#over) return;
    switch (frame.kind) {
      case "started":
        if (!this.#started) this.#setting.onStarted();
        this.#started = true;
        return;
      case "log":
        return this.#output.log(frame.level, frame.message, frame.fields);
      case "progress":
        return this.#ears.onProgress(Math.min(Math.max(frame.fraction, 0), 1), frame.message?.slice(0, 500));
      case "noticed":
        return this.#noticed(frame.listening);
      case "exiting":
        this.#exiting ??= frame.code;
        return;
      case "idle":
        this.#idle = true;
        return this.#finishAlive();
      case "result":
      case "error":
        return this.#judged(frame);
    }
  }

  #judged(verdict: Verdict): void {
    if (this.#verdict) return;
    this.#verdict = verdict;
    this.#cancelTimeout();
    this.#cancelStep();
    this.#cancelStep = after(LEAVE_MS, () => this.#child.kill());
    if (!this.#setting.last && this.#ended_by_us) this.#child.kill();
    else this.#finishAlive();
  }

  /** When the process goes on to serve: both of its streams are read up to the end of this run. */
  #finishAlive(): void {
    const verdict = this.#verdict;
    if (!this.#idle || !verdict || !this.reusable) return;
    this.#child.hush();
    const exit_code = verdict.kind === "result" ? 0 : 1;
    const outcome = verdictOutcome(verdict, { ...this.#order, project_dir: this.#setting.project_dir, exit_code });
    const emptied = emptyFolder(this.#child.temp_dir as string);
    if (emptied === true) return this.#finish(outcome);
    emptied.then((clean) => {
      if (!clean) this.#child.kill(); // its end is the end of this run too
      else if (!this.#over) this.#finish(outcome);
    });
  }

  #processEnded(end: ChildEnd): void {
    if (this.#over || this.#beginAgain(end)) return;
    this.#finish(outcomeOf({
      ended_by_us: this.#ended_by_us,
      verdict: this.#verdict,
      exiting: this.#exiting,
      started: this.#started,
      lapsed: this.#lapsed,
      end,
    }, { ...this.#order, project_dir: this.#setting.project_dir }));
  }

  /** A waiting process can be killed, by the kernel for want of memory say, and be chosen before that is known here. */
  #beginAgain(end: ChildEnd): boolean {
    const { replace } = this.#setting;
    if (!replace || !end.signal || this.#started || this.#verdict || this.#ended_by_us || this.#lapsed) return false;
    this.#setting.replace = undefined;
    try {
      this.#begin(this.#child = replace());
      return true;
    } catch {
      return false; // what ended the first one is then the outcome
    }
  }

  get #lapsed(): boolean {
    return this.#setting.lapses() > this.#lapses_before;
  }

  #finish(outcome: Outcome): void {
    this.#over = true;
    this.#cancelTimeout();
    this.#cancelStep();
    this.#output.end();
    this.#resolve(outcome);
  }

  #end(cause: "timeout" | "cancel", reason: string): void {
    if (this.#over || this.#verdict || this.#ended_by_us) return;
    if (!this.#started) return this.#killFor(cause, reason);
    this.#ended_by_us = { cause, reason, step: "signal" };
    this.#cancelTimeout();
    this.#child.signal(cause === "timeout" ? "SIGUSR2" : "SIGHUP");
    this.#cancelStep = after(Math.min(NOTICE_MS, this.#order.kill_grace_ms), () => this.#terminate());
  }

  #noticed(listening: boolean): void {
    if (this.#ended_by_us?.step !== "signal") return;
    this.#cancelStep();
    if (listening) this.#cancelStep = after(this.#order.kill_grace_ms, () => this.#terminate());
    else this.#terminate();
  }

  #terminate(): void {
    if (!this.#ended_by_us || this.#over) return;
    this.#ended_by_us.step = "TERM";
    this.#tellKill("SIGTERM", this.#ended_by_us.reason);
    this.#child.terminate(this.#order.kill_grace_ms);
    this.#cancelStep = after(this.#order.kill_grace_ms, () => this.#kill());
  }

  #killFor(cause: EndedByUs["cause"], reason: string): void {
    if (this.#over) return;
    if (!this.#verdict) this.#ended_by_us ??= { cause, reason, step: "KILL" };
    this.#cancelTimeout();
    this.#cancelStep();
    this.#kill();
  }

  #kill(): void {
    if (this.#ended_by_us) this.#ended_by_us.step = "KILL";
    this.#tellKill("SIGKILL", this.#ended_by_us?.reason ?? "it did not end after its verdict");
    this.#child.kill();
  }

  #tellKill(signal: string, reason: string): void {
    observe("body.killed", { job_run_id: this.#order.job_run_id, pid: this.pid, signal, reason });
  }
}
