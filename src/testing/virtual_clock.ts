/** Time that passes only when a test, or a run that has nothing else to do, says so. */

interface VirtualTimer {
  at_ms: number;
  act: () => void;
  /** A run would stay loaded for it. */
  keeps: boolean;
}

export class VirtualClock {
  now_ms: number;
  readonly #timers = new Set<VirtualTimer>();

  constructor(now_ms: number) {
    this.now_ms = now_ms;
  }

  later(act: () => void, ms: number, keeps: boolean): () => void {
    const timer = { at_ms: this.now_ms + ms, act, keeps };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Jumps to the next timer that a run would stay loaded for, and lets it strike. False: there is none. */
  strikeNext(): boolean {
    const [next] = [...this.#timers].filter(({ keeps }) => keeps).sort((a, b) => a.at_ms - b.at_ms);
    if (!next) return false;
    this.#timers.delete(next);
    this.now_ms = Math.max(this.now_ms, next.at_ms);
    next.act();
    return true;
  }

  /** Nothing that was set strikes any more. */
  clear(): void {
    this.#timers.clear();
  }
}
