/**
 * What a run waits for: sleeps, messages, events, calls, and pauses between the tries of a step. None of them keeps the process alive.
 * A sleep of a few seconds does, since to suspend the run for it would cost more.
 */
import type { Arrival } from "../frames/step_frames.ts";
import type { DurableHost, DurableOrder } from "./durable_host.ts";

/** What is shorter is waited for in the process. */
export const LINGER_MS = 5_000;
const MOST_OPEN_WAITS = 1_000;
/** The longest that a timer can be set to. */
const MOST_TIMER_MS = 2 ** 31 - 1;
/** The database has not seen a limit pass that has passed here. */
const LOOK_AGAIN_MS = 250;

interface OpenWait {
  /** By the monotonic clock. */
  until_ms: number | undefined;
  /** So short that the process stays for it. */
  lingers?: boolean;
  onLimit(): void;
  onArrival(arrival: Arrival): void;
  refuse(error: Error): void;
}

export class OpenWaits {
  readonly #waits = new Map<string, OpenWait>();
  readonly #timers = new Map<string, () => void>();
  readonly #host: DurableHost;
  readonly #most: number;
  /** Of requests that have not begun yet, or only now. */
  #arrived = new Map<string, Arrival>();
  /** Each message is taken once. */
  readonly #taken = new Set<number>();

  constructor({ host, order }: { host: DurableHost; order: DurableOrder }) {
    this.#host = host;
    this.#most = order.limits?.max_open_waits ?? MOST_OPEN_WAITS;
    for (const arrival of order.journal?.arrived ?? []) this.#arrived.set(arrival.key, arrival);
  }

  /** Whether the process is not needed until one of them has ended. */
  get any(): boolean {
    return this.#waits.size > 0;
  }

  has(key: string): boolean {
    return this.#waits.has(key);
  }

  get soonest_in_ms(): number | null {
    const soonest_ms = Math.min(...[...this.#waits.values()].map(({ until_ms }) => until_ms ?? Infinity));
    return soonest_ms === Infinity ? null : Math.max(0, soonest_ms - this.#host.monotonicMs());
  }

  /** Why there can be no further one. */
  whyFull(): string | undefined {
    return this.#waits.size < this.#most
      ? undefined
      : `the run waits for ${this.#most} things already: wait for some of them first, or let other jobs wait`;
  }

  add(key: string, wait: OpenWait): void {
    this.#waits.set(key, wait);
    this.#arm(key, wait);
    const arrival = this.#arrived.get(key);
    this.#arrived.delete(key);
    if (arrival) this.arrive([arrival]);
  }

  /** Looks at its limit again in a moment. */
  lookAgain(key: string): void {
    const wait = this.#waits.get(key);
    if (wait) this.#arm(key, wait, LOOK_AGAIN_MS);
  }

  arrive(arrivals: Arrival[]): void {
    for (const arrival of arrivals) {
      const wait = this.#waits.get(arrival.key);
      const { message_id } = arrival;
      if (!wait || (typeof message_id === "number" && this.#taken.has(message_id))) continue;
      if (typeof message_id === "number") this.#taken.add(message_id);
      this.#remove(arrival.key);
      wait.onArrival(arrival);
    }
  }

  /** The process was frozen: limits may have passed without a timer. */
  checkLimits(): void {
    const now_ms = this.#host.monotonicMs();
    for (const wait of [...this.#waits.values()]) if ((wait.until_ms ?? Infinity) <= now_ms) wait.onLimit();
  }

  /** Nothing happens by itself any more. */
  stop(): void {
    for (const cancel of this.#timers.values()) cancel();
  }

  refuseAll(error: Error): void {
    for (const [key, wait] of [...this.#waits]) {
      this.#remove(key);
      wait.refuse(error);
    }
  }

  #remove(key: string): void {
    this.#waits.delete(key);
    this.#timers.get(key)?.();
    this.#timers.delete(key);
  }

  #arm(key: string, wait: OpenWait, least_ms = 0): void {
    if (wait.until_ms === undefined) return;
    const left_ms = wait.until_ms - this.#host.monotonicMs();
    const act = () => left_ms > MOST_TIMER_MS ? this.#arm(key, wait) : wait.onLimit();
    this.#timers.set(
      key,
      this.#host.later(act, Math.min(Math.max(left_ms, least_ms), MOST_TIMER_MS), wait.lingers ?? false),
    );
  }

  /** It has come to its end by its own limit. */
  ended(key: string): void {
    this.#remove(key);
  }
}
