/** What would be said again and again is said once in a while. */
import { monotonicMs } from "./timers.ts";

/** Of so many different things it is known when they were last said; then all of them are forgotten. */
const MOST_KNOWN = 1_000;

export class LogThrottle {
  readonly #again_ms: number;
  readonly #said = new Map<string, { until_ms: number; times: number }>();

  constructor(again_ms: number) {
    this.#again_ms = again_ms;
  }

  /** How often it came since it was said last, this time included; undefined: it was said a moment ago. */
  times(what: string): number | undefined {
    const now_ms = monotonicMs();
    const known = this.#said.get(what);
    if (known && now_ms < known.until_ms) {
      known.times += 1;
      return undefined;
    }
    if (this.#said.size >= MOST_KNOWN) this.#said.clear();
    this.#said.set(what, { until_ms: now_ms + this.#again_ms, times: 0 });
    return 1 + (known?.times ?? 0);
  }
}
