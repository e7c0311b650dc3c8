/**
 * A durable run in a body's process: reads what the worker answers, and freezes where there is nothing to do but to wait.
 *
 * A pending read keeps the event loop alive, so one is only pending while something is unanswered. A loop that has run dry with waits open
 * is frozen in a synchronous read: nothing of the body runs until the worker has looked for what has come. It is so too where the body is
 * silent for 5 s and only handles that are no steps keep it alive.
 */
import type { Json } from "../../job.ts";
import type { BodyChannel } from "./channel.ts";
import { DurableRun, hasOtherCode } from "./durable.ts";
import type { DurableHost, DurableOrder } from "./durable_host.ts";

export type DurableBodyOrder = DurableOrder;

/** What the host does for it. */
export interface BodyHooks {
  channel: BodyChannel;
  signal(): AbortSignal;
  abort(error: Error): void;
  fail(error: { name: string; message: string }): void;
  /** The run goes on in a new one, with these args. */
  onAgain(args: Json): void;
  /** Ends this process without a verdict. */
  leaveSuspended(): void;
  later(act: () => void, ms: number): number;
  forget(timer: number): void;
}

const QUIET_MS = 5_000;
/** How long it can hear a signal after it was told to be awake. */
const AWAKE_MS = 1_000;
/** What came was for nothing that is waited for. */
const PAUSE_MS = 1_000;

const now = performance.now.bind(performance);
const unixNow = Date.now.bind(Date);
const chance = Math.random.bind(Math);

/** The one in hand hears the signal. */
let in_hand: DurableBody | undefined;
let hears_signal = false;

export class DurableBody {
  readonly #run: DurableRun;
  readonly #hooks: BodyHooks;
  readonly #order: DurableOrder;
  /** Its journal is of other code, and is to be dropped. */
  readonly #restarts: boolean;
  #reads = false;
  #watches = false;
  #told_of_handles = false;
  #over = false;

  constructor(order: DurableOrder, hooks: BodyHooks) {
    const { journal } = order;
    this.#hooks = hooks;
    this.#order = order;
    this.#restarts = journal?.on_change === "restart" && !journal.ending && hasOtherCode(journal);
    const kept = this.#restarts ? { ...order, journal: undefined, started_unix_ms: journal?.started_unix_ms } : order;
    this.#run = new DurableRun(kept, this.#host());
    in_hand = this;
    if (!hears_signal) Deno.addSignalListener("SIGURG", () => in_hand?.look());
    hears_signal = true;
  }

  get tools(): DurableRun["tools"] {
    return this.#run.tools;
  }

  get replaying(): boolean {
    return this.#run.replaying;
  }

  /** Calls `run` with what other code has recorded only where that is wanted. Gives its result. */
  async serve(run: () => unknown): Promise<unknown> {
    const { journal } = this.#order;
    if (this.#restarts) await this.#run.restart();
    if (journal?.on_change === "fail" && !journal.ending && hasOtherCode(journal)) {
      this.#hooks.fail({
        name: "CodeChanged",
        message:
          `the code of ${this.#order.job_name} has changed since the run recorded its steps, and its job says onChange: "fail". ` +
          `Continue with the new code: deno task runs fork ${this.#order.job_run_id}`,
      });
    }
    const running = (async () => await run())();
    if (journal?.ending) {
      await Promise.race([running.catch(() => {}), this.#run.idled.promise]);
      await this.#run.undo();
      return null;
    }
    const result = await running;
    const message = this.#run.whyNotOver();
    if (message !== undefined) this.#hooks.fail({ name: "Diverged", message });
    return result;
  }

  /** What it has refused is nobody's mistake, though nobody may have waited for it. */
  hasRefused(reason: unknown): boolean {
    return reason !== undefined && reason === this.#run.closed;
  }

  look(): void {
    this.#run.look();
  }

  cancel(error: Error): void {
    this.#run.cancel(error);
  }

  /** It says nothing any more. True: something of it goes on all the same. */
  end(): boolean {
    this.#over = true;
    if (in_hand === this) in_hand = undefined;
    return this.#run.end();
  }

  /** The event loop has run dry. Whether it goes on. */
  onIdle(): boolean {
    const state = this.#run.idle();
    if (state === "waiting") this.#freeze(false);
    return state !== "nothing";
  }

  #host(): DurableHost {
    const { channel, signal, abort, fail } = this.#hooks;
    return {
      send: (frame) => {
        channel.send(frame);
        if (frame.kind === "step" || frame.kind === "ask") void this.#read();
        if (frame.kind === "step" && frame.state === "WAITING") this.#watchQuiet();
      },
      later: (act, ms, keeps) => {
        const timer = this.#hooks.later(act, ms);
        if (!keeps) Deno.unrefTimer(timer);
        return () => this.#hooks.forget(timer);
      },
      ...{ monotonicMs: now, unixMs: unixNow, luck: chance, signal, onImpossible: fail },
      log: (level, message) => {
        if (!this.#over) channel.send({ kind: "log", level, message: message.slice(0, 8_000) });
      },
      onAmbiguous: (message) => channel.send({ kind: "log", level: "warn", message }),
      onEnding: abort,
      onAgain: this.#hooks.onAgain,
    };
  }

  async #read(): Promise<void> {
    if (this.#reads) return;
    this.#reads = true;
    await undefined; // what is said at once is said before
    while (this.#run.unanswered && !this.#over) {
      const words = await this.#hooks.channel.nextWords();
      if (!words) return this.#hooks.channel.leave(0);
      if (words.kind === "suspend") return this.#hooks.leaveSuspended();
      if (!this.#over) this.#run.hear(words);
    }
    this.#reads = false;
  }

  /** Only the worker can move the run on; it looks, and says so. */
  #freeze(handles: boolean): void {
    const { channel } = this.#hooks;
    for (;;) {
      channel.send({ kind: "waiting", soonest_in_ms: this.#run.soonest_in_ms, handles });
      const words = channel.nextWordsSync();
      if (!words) return channel.leave(0);
      if (words.kind === "suspend") return this.#hooks.leaveSuspended();
      if (words.kind !== "awake") this.#run.hear(words);
      this.#run.thawed();
      if (words.kind === "awake") this.#hooks.later(() => {}, AWAKE_MS);
      if (words.kind === "awake" || this.#run.unanswered || !this.#run.isWaiting) return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
  }

  /** What is open besides is no more than told of. */
  #freezeOpen(): void {
    const message =
      "Nothing has happened for 5 s, and the run waits: what is open here that is no step, such as a timer or a " +
      "connection, is cut off when it is suspended";
    if (!this.#told_of_handles) this.#hooks.channel.send({ kind: "log", level: "warn", message });
    this.#told_of_handles = true;
    this.#freeze(true);
  }

  /** Where this timer strikes something else keeps the loop alive: handles that are no steps. */
  #watchQuiet(): void {
    if (this.#watches) return;
    this.#watches = true;
    const [run, channel] = [this.#run, this.#hooks.channel];
    const signs = run.requests + channel.said;
    Deno.unrefTimer(this.#hooks.later(() => {
      this.#watches = false;
      if (this.#over || !run.isWaiting) return;
      const can_wait = !run.isWorking && !run.unanswered && !run.replaying;
      if (can_wait && signs === run.requests + channel.said) this.#freezeOpen();
      this.#watchQuiet();
    }, QUIET_MS));
  }
}
