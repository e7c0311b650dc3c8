/**
 * When the database's clock shows a certain time, told by the local monotonic clock: what is due is decided by the former, and
 * a process can wait only by the latter.
 *
 * A question that left at `asked` and whose answer came at `answered` brought a time that was read in between. So the
 * database reached that time at the latest when the answer came; the error is at most the round trip, and what the two
 * clocks drift apart since. Of several questions the narrowest counts. A database whose clock is set meanwhile makes
 * this wrong: the statement that starts a run asks the clock itself.
 */
import { monotonicMs } from "../base/loop.ts";
import type { Sql } from "./db.ts";

/** More than two quartz clocks differ, 100 ms in 1,000 s. */
const DRIFT = 1e-4;
/** Narrow enough to start a body by. */
const NARROW_MS = 1;
const TRIES = 3;

interface Reading {
  asked_ms: number;
  answered_ms: number;
  database_ms: number;
}

export class DatabaseClock {
  readonly #sql: Sql;
  #best: Reading | undefined;
  #asking: Promise<void> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The first monotonic instant at which the database's clock surely shows `unix_ms`. Asks Postgres when what is known has grown vague. */
  async reaches(unix_ms: number): Promise<number> {
    if (this.#vagueness() > NARROW_MS) await (this.#asking ??= this.#ask().finally(() => this.#asking = undefined));
    const best = this.#best as Reading;
    const age_ms = Math.abs(monotonicMs() - best.answered_ms);
    return best.answered_ms + (unix_ms - best.database_ms) + age_ms * DRIFT;
  }

  async #ask(): Promise<void> {
    for (let tried = 0; tried < TRIES && this.#vagueness() > NARROW_MS; tried++) {
      const asked_ms = monotonicMs();
      const [row] = await this.#sql<{ now_ms: number }[]>`
        select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`;
      const reading = { asked_ms, answered_ms: monotonicMs(), database_ms: (row as { now_ms: number }).now_ms };
      if (this.#vagueness() > reading.answered_ms - asked_ms) this.#best = reading;
    }
  }

  #vagueness(): number {
    const { asked_ms, answered_ms } = this.#best ?? { asked_ms: -Infinity, answered_ms: 0 };
    return answered_ms - asked_ms + (monotonicMs() - answered_ms) * DRIFT;
  }
}
