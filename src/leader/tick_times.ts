/**
 * How long the leader's ticks are: told every ten seconds in which something was there to do, as quantiles of all ticks
 * of that time, so that a log of a busy leader gets a line now and then and that of an idle one none.
 */
import { observe } from "../platform/facts.ts";
import { monotonicMs } from "../platform/timers.ts";
import type { LeaderContext } from "./leader_context.ts";

const TELL_EVERY_MS = 10_000;

export class TickTimes {
  #ticks_ms: number[] = [];
  #busy = false;
  #since_ms = monotonicMs();
  readonly #tell_every_ms: number;

  constructor(tell_every_ms = TELL_EVERY_MS) {
    this.#tell_every_ms = tell_every_ms;
  }

  /** One tick has taken so long. `busy`: it had work. One that is longer than its interval is told by itself. */
  note(
    { term: { worker_id, epoch }, settings }: Pick<LeaderContext, "term" | "settings">,
    tick_ms: number,
    busy: boolean,
  ): void {
    if (tick_ms > settings.leader_tick_seconds * 1000) {
      observe("leader.tick_slow", { worker_id, epoch, tick_ms: Math.round(tick_ms) });
    }
    this.#ticks_ms.push(tick_ms);
    this.#busy ||= busy;
    if (monotonicMs() - this.#since_ms < this.#tell_every_ms) return;
    if (this.#busy) observe("leader.ticks", { worker_id, epoch, ...quantiles(this.#ticks_ms) });
    this.#ticks_ms = [];
    this.#busy = false;
    this.#since_ms = monotonicMs();
  }
}

/** In ms, to a tenth. */
export function quantiles(took_ms: number[]): { ticks: number; p50_ms: number; p99_ms: number; max_ms: number } {
  const sorted = took_ms.toSorted((one, other) => one - other);
  const at = (share: number) => Math.round((sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0) * 10) / 10;
  return { ticks: sorted.length, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}
