/**
 * The only place that touches clocks and timers.
 *
 * Three clocks, three jobs: rows are stamped by Postgres, deadlines inside one process use `monotonicMs`
 * (a step of the wall clock cannot shorten or lengthen them), and `wallClock` is for showing a time to a person.
 */
import { loopFailed } from "./facts.ts";

/** Milliseconds on a clock that never goes back. Comparable only within one process. */
export function monotonicMs(): number {
  return performance.now();
}

/** The time of day, for display and file names only; never compared with a time of another process. */
export function wallClock(): Date {
  return new Date();
}

/** A number in [0, 1). One door, so that tests of jitter can see where chance comes in. */
export function chance(): number {
  return Math.random();
}

/** Resolves after `ms`, or at once when `stop` fires. Never rejects. */
export function rest(ms: number, stop?: AbortSignal): Promise<void> {
  if (stop?.aborted || ms <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop?.addEventListener("abort", done, { once: true });
  });
}

/**
 * Resolves at that instant of the monotonic clock, and not a timer's whole milliseconds later: the last of them is spent
 * looking at the clock between other work. At once when `stop` fires.
 */
export async function restUntil(at_ms: number, stop?: AbortSignal): Promise<void> {
  await rest(at_ms - monotonicMs() - TIMER_MS, stop);
  while (monotonicMs() < at_ms && !stop?.aborted) await afterWrites();
}

const TIMER_MS = 1.5;

/** Resolves when what was written in this turn of the event loop is on its way: postgres.js sends at its end. */
export function afterWrites(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * Calls `act` once after `ms` unless cancelled; the returned function cancels it, and lets go of `act` and all that it knows: Deno keeps timers
 * in a Map, whose old tables hold those that are over until the whole heap is collected (churn_map.ts), and a statement's timer its rows.
 */
export function after(ms: number, act: () => void): () => void {
  let due: (() => void) | undefined = act;
  const timer = setTimeout(() => {
    const act = due;
    due = undefined;
    act?.();
  }, ms);
  return () => {
    due = undefined;
    clearTimeout(timer);
  };
}

/**
 * For what is nearly always called off before its time, many times a second: one timer for all of them, which is not moved
 * when one is called off. When the last one is, a timer that rings soon is left to find nothing: the next alarm comes before.
 */
export class TimerSet {
  /** In no order: one that is called off gives its place to the last. */
  readonly #set: Alarm[] = [];
  #armed_ms = Infinity;
  #disarm = () => {};

  /** Calls `act` once after `ms` unless cancelled; the returned function cancels it. */
  after(ms: number, act: () => void): () => void {
    return this.at(monotonicMs() + ms, act);
  }

  /** The same at an instant of the monotonic clock. */
  at(at_ms: number, act: () => void): () => void {
    const alarm: Alarm = { at_ms, act, place: this.#set.length };
    this.#set.push(alarm);
    if (alarm.at_ms < this.#armed_ms) this.#arm(alarm.at_ms);
    return () => {
      if (this.#take(alarm) && this.#set.length === 0 && this.#armed_ms > monotonicMs() + LINGER_MS) {
        this.#arm(Infinity);
      }
    };
  }

  /** Leaves no timer behind where nothing is set. */
  quit(): void {
    if (this.#set.length === 0) this.#arm(Infinity);
  }

  /** Whether it was still set. */
  #take(alarm: Alarm): boolean {
    const { place } = alarm;
    if (place < 0) return false;
    const last = this.#set.pop() as Alarm;
    if (last !== alarm) this.#set[last.place = place] = last;
    alarm.place = -1;
    return true;
  }

  #arm(at_ms: number): void {
    this.#disarm();
    this.#armed_ms = at_ms;
    const ms = Math.min(Math.ceil(at_ms - monotonicMs()), MOST_TIMER_MS); // a timer that rang early would be set again
    this.#disarm = at_ms === Infinity ? () => {} : after(ms, () => this.#signal());
  }

  #signal(): void {
    const now_ms = monotonicMs();
    try {
      const due = this.#set.filter(({ at_ms }) => at_ms <= now_ms).sort((a, b) => a.at_ms - b.at_ms);
      for (const alarm of due) if (this.#take(alarm)) alarm.act(); // one may have called off the next
    } finally {
      let first_ms = Infinity;
      for (const { at_ms } of this.#set) first_ms = Math.min(first_ms, at_ms);
      this.#arm(first_ms);
    }
  }
}

interface Alarm {
  at_ms: number;
  act: () => void;
  /** Among those that are set; -1: it has rung or was called off. */
  place: number;
}

const LINGER_MS = 2_000;
/** A timer that is set to more rings at once. */
const MOST_TIMER_MS = 2 ** 31 - 1;

/**
 * Rests of a second or more end on a beat, at most a second early: a process that does nothing wakes once a second for
 * all that it does each second, since waking costs more than most of that. Each process has a beat of its own, so that
 * those of one machine do not all wake at once.
 */
const BEAT_MS = 1_000;
const beats = new TimerSet();

function restOnBeat(ms: number, act: () => void): () => void {
  if (ms < BEAT_MS) return after(ms, act);
  return beats.at(Math.floor((monotonicMs() + ms) / BEAT_MS) * BEAT_MS, act);
}

/**
 * Calls `act` once after `ms` and at most a second more, on a beat, unless cancelled; the returned function cancels it. For
 * patience that is needed again and again, and hardly ever runs out: it wakes nobody.
 */
export function afterOnBeat(ms: number, act: () => void): () => void {
  return beats.at(Math.ceil((monotonicMs() + ms) / BEAT_MS) * BEAT_MS, act);
}

export class DeadlineExceeded extends Error {
  override name = "DeadlineExceeded";
}

/** The promise's answer, or a `DeadlineExceeded` after `ms`. The work itself is not stopped; the caller must not trust it any more. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let cancel = () => {};
  const late = new Promise<never>((_, reject) => {
    cancel = after(ms, () => reject(new DeadlineExceeded(`${what} gave no answer within ${ms} ms`)));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    cancel();
  }
}

/** Wakes one sleeper early. A ring while nobody sleeps is kept, so nothing that happened during a tick is missed. */
export class Wakeup {
  #rings = 0;
  #wake: (() => void) | undefined;

  signal(): void {
    this.#rings += 1;
    this.#wake?.();
  }

  /** Sleeps up to `ms`, less if rung or stopped, and up to a second less if it is long; how often it was rung. */
  async rest(ms: number, stop?: AbortSignal): Promise<number> {
    if (this.#rings === 0 && !stop?.aborted && ms > 0) {
      await new Promise<void>((resolve) => this.#sleep(resolve, { ms, stop }));
    }
    const rings = this.#rings;
    this.#rings = 0;
    return rings;
  }

  /** Without an AbortController: rung for every run, its errors alone were a twentieth of a busy worker's time. */
  #sleep(resolve: () => void, { ms, stop }: { ms: number; stop: AbortSignal | undefined }): void {
    const wake = () => {
      if (this.#wake === wake) this.#wake = undefined;
      cancel();
      stop?.removeEventListener("abort", wake);
      resolve();
    };
    const cancel = restOnBeat(ms, wake);
    stop?.addEventListener("abort", wake, { once: true });
    this.#wake = wake;
  }
}

/**
 * How soon one round may follow another. What is wanted now and then is done at once; what is wanted all the time, a gap
 * apart, so that a round does the work of many: after `burst` rounds that were done at once, for which it may be too early to know. The gap
 * is TIMES_AS_LONG as what the last round took, at most `gap_ms`: where rounds are quick, who waits for the next one (the next run of
 * a serial key does) need not wait long, and where all are busy they are rare.
 */
export class BatchInterval {
  readonly #gap_ms: number;
  readonly #burst: number;
  #allowed: number;
  #last_ms = -Infinity;

  constructor(gap_ms: number, burst: number) {
    this.#gap_ms = gap_ms;
    this.#burst = this.#allowed = burst;
  }

  /** Milliseconds to wait before the round that is wanted now. */
  wait(took_ms = Infinity, now_ms = monotonicMs()): number {
    const gap_ms = Math.min(this.#gap_ms, TIMES_AS_LONG * took_ms);
    this.#allowed = Math.min(this.#burst, this.#allowed + (now_ms - this.#last_ms) / Math.max(gap_ms, 1));
    this.#last_ms = now_ms;
    this.#allowed -= 1;
    return Math.max(0, -this.#allowed * gap_ms);
  }
}

const TIMES_AS_LONG = 4;

export interface LoopOptions {
  name: string;
  stop: AbortSignal;
  wakeup?: Wakeup;
}

/**
 * Repeats `tick` with a rest between the end of one and the start of the next: ticks never overlap. A rest is as of a bell.
 * A tick that throws is reported and tried again. `tick` may return how many ms to rest instead of `interval_ms`.
 */
export async function every(interval_ms: number, tick: () => Promise<number | void>, on: LoopOptions): Promise<void> {
  const wakeup = on.wakeup ?? new Wakeup();
  while (!on.stop.aborted) {
    let rest_ms: number | void = undefined;
    try {
      rest_ms = await tick();
    } catch (error) {
      loopFailed(on.name, error);
    }
    await wakeup.rest(rest_ms ?? interval_ms, on.stop);
  }
}

export interface KeyedBatcherOptions {
  /** Of one group; default 500. */
  most?: number;
  /** How soon one group may follow another; default: at once. */
  tempo?: BatchInterval;
  /** So many that wait need not wait for the tempo; default: as many as one group has at most. */
  enough?: number;
  /** Groups that may be dealt with at a time; default 1. */
  at_once?: number;
}

/**
 * Gathers items while a group of them is being dealt with and hands them over as the next group, so that transitions of many runs share
 * one statement without a timer and without added latency: a lone item is dealt with at once. With a `tempo` that bounds the
 * groups of a busy time, since a statement of three items costs nearly what one of thirty does; `enough` of them do not wait for it.
 * What becomes of each item is for `act` to tell; it is not to throw.
 */
export class KeyedBatcher<Item> {
  #waiting: Item[] = [];
  #busy = 0;
  readonly #act: (items: Item[]) => Promise<void>;
  readonly #most: number;
  readonly #tempo: BatchInterval | undefined;
  readonly #enough: number;
  readonly #at_once: number;
  readonly #wakeup = new Wakeup();
  #resting = false;
  #took_ms = 0;

  constructor(
    act: (items: Item[]) => Promise<void>,
    { most = 500, tempo, enough = most, at_once = 1 }: KeyedBatcherOptions = {},
  ) {
    this.#act = act;
    this.#most = most;
    this.#tempo = tempo;
    this.#enough = enough;
    this.#at_once = at_once;
  }

  add(item: Item): void {
    this.#waiting.push(item);
    if (this.#busy < this.#at_once) this.#drain();
    else if (this.#resting && this.#waiting.length >= this.#enough) this.#wakeup.signal();
  }

  async #drain(): Promise<void> {
    this.#busy++;
    await Promise.resolve(); // what the same turn of the event loop adds goes along
    while (this.#waiting.length > 0) {
      const wait_ms = this.#waiting.length < this.#enough ? this.#tempo?.wait(this.#took_ms) ?? 0 : 0;
      this.#resting = true;
      if (wait_ms > 0) await this.#wakeup.rest(wait_ms);
      this.#resting = false;
      const began_ms = monotonicMs();
      await this.#act(this.#waiting.splice(0, this.#most));
      this.#took_ms = monotonicMs() - began_ms;
    }
    this.#busy--;
  }
}

/**
 * Groups whose items are questions. `flush` answers in the order of its items, also with promises; when it throws, each of its
 * items is rejected with that error.
 */
export class Batcher<Item, Answer> {
  readonly #groups: KeyedBatcher<Asked<Item, Answer>>;

  constructor(flush: (items: Item[]) => Promise<(Answer | Promise<Answer>)[]>, on?: KeyedBatcherOptions) {
    this.#groups = new KeyedBatcher(
      async (asked) => {
        try {
          const answers = await flush(asked.map(({ item }) => item));
          asked.forEach(({ resolve }, place) => resolve(answers[place] as Answer | Promise<Answer>));
        } catch (error) {
          asked.forEach(({ reject }) => reject(error));
        }
      },
      on,
    );
  }

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => this.#groups.add({ item, resolve, reject }));
  }
}

interface Asked<Item, Answer> {
  item: Item;
  resolve: (answer: Answer | Promise<Answer>) => void;
  reject: (error: unknown) => void;
}
