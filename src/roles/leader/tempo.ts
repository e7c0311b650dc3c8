/**
 * How soon after another the leader may tick. A bell that rings now and then is answered at once. Under load it rings all the
 * time, for each body that ends, and a tick for each costs Postgres the same whether it assigns one run or hundreds: then
 * ticks come GAP_MS apart, and what is sent beyond the slots (pace.ts) bridges that.
 */
import { monotonicMs } from "../../base/loop.ts";

const GAP_MS = 20;
/** So many may follow each other at once. */
const BURST = 10;

export class Tempo {
  #allowed = BURST;
  #last_ms = -Infinity;

  /** Milliseconds to wait before the tick that is wanted now. */
  wait(now_ms = monotonicMs()): number {
    this.#allowed = Math.min(BURST, this.#allowed + (now_ms - this.#last_ms) / GAP_MS);
    this.#last_ms = now_ms;
    this.#allowed -= 1;
    return Math.max(0, -this.#allowed * GAP_MS);
  }
}
