/**
 * How a body is ended, and where it stands meanwhile (body_state.ts).
 *
 * How a body is ended, at its timeout or on cancel, each step only if the one before did not do:
 *   signal   `ctx.signal` fires. Skipped when `run` was not called yet
 *   TERM     to the whole group: at once when the body never took its `signal`, after 1 s when it does not even notice
 *            (it spins), else after the kill grace
 *   KILL     to the whole group, after the kill grace again
 * After a verdict the process has 1 s to end by itself, whatever timers and handles it left open.
 */
import { observe } from "../platform/facts.ts";
import { TimerSet } from "../platform/timers.ts";
import type { BodyOrder } from "./body_order.ts";
import { type BodyState, checkMove, type EndingBody, endingBy, isActive } from "./body_state.ts";
import type { EndedByUs } from "./outcome.ts";
import type { Child } from "./process.ts";

/** The line of a process (process_queue.ts), as a body that stands in it knows it. */
export interface BodyLine {
  readonly child: Child;
  readonly length: number;
  add(body: EndableBody): void;
  recall(): void;
  alone(act: () => void): void;
  terminate(of: EndableBody, grace_ms: number): void;
  kill(of: EndableBody): void;
}

/** Of all bodies: several for each, and few that ever ring. */
export const alarms = new TimerSet();
const nothing = () => {};
const NOTICE_MS = 1_000;
/** Of a process after the verdict of its last run, or once that is suspended. */
const LEAVE_MS = 1_000;

export abstract class EndableBody {
  readonly order: BodyOrder;
  protected line: BodyLine | undefined;
  protected cancelTimeout = nothing;
  /** Of the step by which it is ended, or of the time that its process has to leave. */
  protected cancelStep = nothing;
  #state: BodyState = { at: "queued", wish: undefined };

  constructor(order: BodyOrder) {
    this.order = order;
  }

  protected get state(): BodyState {
    return this.#state;
  }

  protected move(to: BodyState): void {
    checkMove(this.order.job_run_id, this.#state, to);
    this.#state = to;
  }

  get pid(): number {
    return this.line?.child.pid ?? 0;
  }

  /** Its process has a second to end by itself. */
  protected awaitLeave(): void {
    this.cancelTimeout();
    this.cancelStep();
    this.cancelStep = alarms.after(LEAVE_MS, () => this.killProcess());
  }

  protected killProcess(): void {
    this.line?.kill(this);
  }

  protected end(cause: "timeout" | "cancel", reason: string): void {
    if (!isActive(this.#state)) return;
    const ending = endingBy({ cause, reason, step: "signal" }, this.#state);
    this.move(ending);
    this.cancelTimeout();
    this.cancelStep = alarms.after(Math.min(NOTICE_MS, this.order.kill_grace_ms), () => this.#terminate());
    this.line?.alone(() => this.#tellEnd(ending));
  }

  /** Nobody waits behind it any more, who could have become the one that a signal reaches. */
  #tellEnd(ending: EndingBody): void {
    if (this.#state !== ending || ending.told) return;
    const { cause, reason } = ending.by;
    if (ending.since_ms === undefined) return this.killFor(cause, reason);
    ending.told = true;
    this.line?.child.signal(cause === "timeout" ? "SIGUSR2" : "SIGHUP");
    if (ending.frozen) this.line?.child.tell({ kind: "awake" }); // the signal is there when it comes out of its read
  }

  protected noticed(listening: boolean): void {
    const state = this.#state;
    if (state.at !== "ending" || state.by.step !== "signal" || state.noticed) return; // once, or it could put off its end for ever
    state.noticed = true;
    this.cancelStep();
    if (listening) this.cancelStep = alarms.after(this.order.kill_grace_ms, () => this.#terminate());
    else this.#terminate();
  }

  #terminate(): void {
    if (this.#state.at !== "ending") return;
    this.#state.told = true;
    this.#state.by.step = "TERM";
    this.#observeKill("SIGTERM", this.#state.by.reason);
    this.line?.terminate(this, this.order.kill_grace_ms);
    this.cancelStep = alarms.after(this.order.kill_grace_ms, () => this.#kill());
  }

  protected killFor(cause: EndedByUs["cause"], reason: string, error_name?: string): void {
    const state = this.#state;
    if (state.at === "over") return;
    const by: EndedByUs = { cause, reason, step: "KILL", ...error_name !== undefined && { error_name } };
    if (isActive(state) || state.at === "queued") this.move(endingBy(by, state));
    this.cancelTimeout();
    this.cancelStep();
    this.#kill();
  }

  #kill(): void {
    const state = this.#state;
    if (state.at === "ending") {
      state.told = true;
      state.by.step = "KILL";
    }
    this.#observeKill("SIGKILL", state.at === "ending" ? state.by.reason : "it did not end after its verdict");
    this.killProcess();
  }

  #observeKill(signal: string, reason: string): void {
    observe("body.killed", { job_run_id: this.order.job_run_id, pid: this.pid, signal, reason });
  }
}
