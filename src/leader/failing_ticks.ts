/**
 * When a leader gives up: its ticks have failed for so long, one after another, that another worker shall try. What is broken may be its own, such as a
 * session or a network that lets only short messages through.
 *
 *   tick fails --again and again for `leader_failing_seconds`, and another worker is there--> it steps down
 *
 * What is broken may as well be everybody's, such as an event that no leader can read. So a worker waits twice as long before it steps down
 * once more, up to MOST_DOUBLED times, until a tick of its own has succeeded. While Postgres is away nobody steps down by this: a term that cannot be
 * renewed ends by itself, and none is won.
 */
import { monotonicMs } from "../platform/timers.ts";
import { messageOf } from "../platform/text.ts";
import type { LocalWorkerState } from "../worker/worker_state.ts";

/** Of ticks that last longer than the time, so many must have failed. */
const LEAST_TICKS = 3;
const MOST_DOUBLED = 6;

export class FailingTicks {
  readonly #local: Pick<LocalWorkerState, "failed_terms">;
  #since_ms: number | undefined;
  #ticks = 0;
  #error: unknown;

  constructor(local: Pick<LocalWorkerState, "failed_terms">) {
    this.#local = local;
  }

  /** One has ended; `error` is why it failed, in part or as a whole. */
  note(error: unknown, now_ms = monotonicMs()): void {
    if (error === undefined) {
      this.#local.failed_terms = 0;
      this.#since_ms = undefined;
      this.#ticks = 0;
      return;
    }
    this.#since_ms ??= now_ms;
    this.#ticks++;
    this.#error = error;
  }

  /** Why to step down; undefined: it goes on. `others`: there is another worker that may lead. */
  givesUp(on: { failing_seconds: number; others: boolean }, now_ms = monotonicMs()): string | undefined {
    if (this.#since_ms === undefined || !on.others || this.#ticks < LEAST_TICKS) return undefined;
    const patience_ms = on.failing_seconds * 1000 * 2 ** Math.min(this.#local.failed_terms, MOST_DOUBLED);
    const failed_ms = now_ms - this.#since_ms;
    if (failed_ms < patience_ms) return undefined;
    this.#local.failed_terms++;
    return `its last ${this.#ticks} ticks failed, for ${Math.round(failed_ms / 1000)} s: ${messageOf(this.#error)}`;
  }
}
