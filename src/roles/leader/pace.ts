/**
 * How fast a worker's bodies end, told from its rows: what it had and was given, less what it has. By that the leader sends so
 * many more than it has slots as end within HORIZON_MS, so that short bodies follow each other without waiting for an
 * order, and long ones have nobody waiting behind them. What is sent so waits that long at most, as long as bodies go on
 * ending at that pace; when they do not, the worker gives it back (hand.ts). That is also all by which one of lower
 * priority can go before one that comes later.
 */
import { monotonicMs } from "../../base/loop.ts";

const HORIZON_MS = 200;
/** Older ends count less and less. */
const MEMORY_MS = 250;
const MOST = 500;

export class Pace {
  #ends_per_ms = 0;
  #expected_load = 0;
  #seen_ms = -Infinity;

  /** Its load as rows have it now; gives how many can be sent beyond its free slots. */
  seen(load: number, now_ms = monotonicMs()): number {
    const ended = Math.max(0, this.#expected_load - load);
    const faded = Math.exp(-(now_ms - this.#seen_ms) / MEMORY_MS);
    this.#ends_per_ms = this.#ends_per_ms * faded + ended / MEMORY_MS;
    this.#expected_load = load;
    this.#seen_ms = now_ms;
    return Math.min(MOST, Math.floor(this.#ends_per_ms * HORIZON_MS));
  }

  gave(runs: number): void {
    this.#expected_load += runs;
  }
}
