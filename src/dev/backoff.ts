/** How long what has ended waits until it is started again: longer each time, until it has lived for a while. */
import { monotonicMs } from "../platform/timers.ts";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** What lived this long had no trouble in starting. */
const SETTLED_MS = 30_000;

export class Backoff {
  #wait_ms = FIRST_WAIT_MS;
  #began_ms = monotonicMs();

  /** It starts now. */
  began(): void {
    this.#began_ms = monotonicMs();
  }

  /** It has ended: how long to wait. */
  ended(): number {
    if (monotonicMs() - this.#began_ms > SETTLED_MS) this.#wait_ms = FIRST_WAIT_MS;
    const wait_ms = this.#wait_ms;
    this.#wait_ms = Math.min(wait_ms * 2, LONGEST_WAIT_MS);
    return wait_ms;
  }
}
