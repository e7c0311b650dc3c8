/**
 * How fast a worker's bodies end, told from its rows: what it had and was given, less what it has. By that the leader sends so
 * many more than it has slots as end within HORIZON_MS, so that short bodies follow each other without waiting for an
 * order, and long ones have nobody waiting behind them. What is sent so waits that long at most, as long as bodies go on
 * ending at that pace; when they do not, the worker gives it back, says that it is late, and is sent none beyond its slots for a while
 * (pending_starts.ts): what was given back looks here as if it had ended.
 *
 * The pace is that of what has ended, and what is sent next may take longer: slow runs behind quick ones. So what waits behind
 * the slots of a worker takes, by what is known of its code, no more of them than they have within WAIT_MS (Line). Of code that is
 * unknown or slow that is one run for each slot, of quick code it is more than the pace allows.
 *
 * Each order costs statements of its own, however few runs it brings. Where a large group of workers shares short runs each of its workers
 * ends only a few within that time: then one is sent up to GROUP, if they end within GROUP_HORIZON_MS, and nothing until
 * half of such a group has ended, as long as it has a run for each slot.
 *
 * Runs that are quick (their workers say what they take) are not dealt out to whoever is free, one here and one there: those who have
 * some already get more, up to a pack, before another is woken, as long as no more are in hand than end within HORIZON_MS.
 * So of sixty workers a few do all of them, each being sent as much at once as one of five would be.
 */
import { monotonicMs } from "../platform/timers.ts";

const HORIZON_MS = 300;
const GROUP = 32;
const GROUP_HORIZON_MS = 800;
/** Ends of each slot within that time from which on bodies are short. */
const SHORT = 3;
/** Older ends count less and less, and so does the time in which they came. */
const MEMORY_MS = 250;
/** Less time than this tells nothing. */
const LEAST_MS = 50;
const MOST = 1_600;

export class EndRate {
  #ends = 0;
  /** Of the time that is remembered, that in which it had something to do. */
  #busy_ms = 0;
  #expected_load = 0;
  #seen_ms = -Infinity;

  /** Its load as rows have it now. To be told with each look: what ended since the last one is taken to have ended throughout. */
  seen(load: number, now_ms = monotonicMs()): void {
    const since_ms = now_ms - this.#seen_ms;
    const faded = Math.exp(-since_ms / MEMORY_MS);
    const remembered_ms = MEMORY_MS * (1 - faded);
    const ended = Math.max(0, this.#expected_load - load);
    this.#ends = this.#ends * faded + ended * (since_ms > 0 ? remembered_ms / since_ms : 1);
    this.#busy_ms = this.#busy_ms * faded + (this.#expected_load > 0 ? remembered_ms : 0);
    this.#expected_load = load;
    this.#seen_ms = now_ms;
  }

  /** How many can be sent beyond its free slots. */
  beyond(slots: number): number {
    const ends_per_ms = this.#ends / Math.max(this.#busy_ms, LEAST_MS);
    const soon = Math.min(MOST, ends_per_ms * HORIZON_MS);
    const later = ends_per_ms * GROUP_HORIZON_MS;
    return Math.floor(later < SHORT * slots ? soon : Math.max(soon, Math.min(GROUP, later)));
  }

  /** What it has done lately, whether it had something to do all that time or not. */
  get endsPerMs(): number {
    return this.#ends / MEMORY_MS;
  }

  gave(runs: number): void {
    this.#expected_load += runs;
  }
}

/** So soon what waits for a slot is to have one. Less than the time after which it would be given back (pending_starts.ts). */
const WAIT_MS = GROUP_HORIZON_MS;
/** Of what a run takes: counted in full, a time that is told a little too long would keep slots waiting. */
const SPENT = 0.9;
/** A slot is taken to be free again after this, however long its run: by then the pace says so. */
const LONG_MS = 3_000;

type BodyMs = (digest: string) => number;

/**
 * What a run takes of the WAIT_MS of a slot, by what is known of its code (Infinity: nothing is). Rounded up to 1, 2, 4, ... ms: who has
 * room is found out for each of them, among all workers.
 */
export function waitCost(body_ms: number): number {
  return Math.min(2 ** Math.ceil(Math.log2(Math.max(1, body_ms))), WAIT_MS);
}

/** The time of its slots that a worker was given and cannot have spent yet. */
export class SlotBacklog {
  #ms = 0;
  #seen_ms = -Infinity;
  /** Runs that have a slot for longer than WAIT_MS, or may, and since when. */
  #long: { digest: string; since_ms: number }[] = [];

  /**
   * How much of the next WAIT_MS of its slots is not spoken for; 0 or less: nothing may be sent to wait for them. `bodyMs` says what a
   * run of some code takes; Infinity: that is not known.
   */
  left({ slots, load }: { slots: number; load: number }, bodyMs: BodyMs, now_ms = monotonicMs()): number {
    if (load === 0) [this.#ms, this.#long] = [0, []];
    this.#long = this.#long.filter(({ digest, since_ms }) => {
      const body_ms = bodyMs(digest);
      return body_ms > WAIT_MS && now_ms < since_ms + Math.min(body_ms, LONG_MS);
    });
    const free = Math.max(0, slots - this.#long.length);
    this.#ms = Math.max(0, this.#ms - Math.max(free, 1) * (now_ms - this.#seen_ms));
    this.#seen_ms = now_ms;
    return free * WAIT_MS - this.#ms;
  }

  gave(digest: string, bodyMs: BodyMs, now_ms = monotonicMs()): void {
    const body_ms = bodyMs(digest);
    if (body_ms > WAIT_MS) this.#long.push({ digest, since_ms: now_ms });
    else this.#ms += SPENT * body_ms;
  }
}

/** Of so many that can be sent beyond the slots of a worker, those that are worth an order now. */
export function worthSending(prefetch: number, idle: number): number {
  const room = idle + prefetch;
  return idle > 0 || room >= Math.min(GROUP, prefetch) / 2 ? room : Math.min(idle, room);
}

/** A line of quick runs. */
export const PACK = 200;
const MOST_LINES = 2;
/** What a run takes at most to be quick: a line of them is done within two fifths of a second. */
export const QUICK_MS = 2;
/** Quick runs that a worker is given: a line for each of its slots. More than two of them are better done by others as well. */
export function packOf(slots: number): number {
  return PACK * Math.min(slots, MOST_LINES);
}

/** So many may be in hand before anything is known of how fast they end. */
const FIRST_PACKS = 5 * PACK;
/** How long more of them wait for an end of those, and nobody else is woken for them. */
const PATIENCE_MS = 1_000;

/** `wait`: when none is left, what is in hand ends so soon that nobody else need be woken. */
export interface PackAllowance {
  left: number;
  wait: boolean;
}

export class Packing {
  /** Since when there has been no room for half a pack. */
  #full_since_ms: number | undefined;

  /** How many quick runs may be sent now, when so many are in hand. */
  packs({ ends_per_ms, in_hand }: { ends_per_ms: number; in_hand: number }, now_ms = monotonicMs()): PackAllowance {
    const left = Math.floor(Math.max(FIRST_PACKS, ends_per_ms * HORIZON_MS)) - in_hand; // also asked of Postgres, as a number of rows
    if (left >= PACK / 2) {
      this.#full_since_ms = undefined;
      return { left, wait: true };
    }
    this.#full_since_ms ??= now_ms;
    return { left: 0, wait: now_ms - this.#full_since_ms < PATIENCE_MS };
  }
}
