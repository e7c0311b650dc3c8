/**
 * When the database's clock shows a certain time, told by the local monotonic clock: what is due is decided by the former, and
 * a process can wait only by the latter.
 *
 * A question that left at `asked` and whose answer came at `answered` brought a time that was read in between. So the
 * database reached that time at the latest when the answer came; the error is at most the round trip, and what the two
 * clocks drift apart since. What several questions promise holds together, so the one counts that promises a time soonest. A
 * database whose clock is set makes this wrong for ten seconds: the statement that starts a run asks the clock itself.
 */
import { monotonicMs } from "../platform/timers.ts";
import type { Sql } from "./connection.ts";

/** More than two quartz clocks differ, 100 ms in 1,000 s. */
const DRIFT = 1e-4;
/** By then the drift is a tenth of a millisecond, a third of a short round trip. */
const FRESH_MS = 1_000;
/** Quick enough to start a body by. */
const QUICK_MS = 1;
const TRIES = 3;
/** Then its promise is a millisecond vaguer than that of a new one, and a clock that was set back would be believed for as long. */
const KEPT_MS = 10_000;

interface Reading {
  answered_ms: number;
  database_ms: number;
}

export class DatabaseClock {
  readonly #sql: Sql;
  #best: Reading | undefined;
  #asked_ms = -Infinity;
  #asking: Promise<void> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The first monotonic instant at which the database's clock surely shows `unix_ms`. Asks Postgres, at most once a second. */
  async reaches(unix_ms: number): Promise<number> {
    if (monotonicMs() - this.#asked_ms > FRESH_MS) {
      await (this.#asking ??= this.#ask().finally(() => this.#asking = undefined));
    }
    return reachedBy(this.#best as Reading, unix_ms);
  }

  async #ask(): Promise<void> {
    for (let tried = 0, took_ms = Infinity; tried < TRIES && took_ms > QUICK_MS; tried++) {
      const asked_ms = monotonicMs();
      const [row] = await this.#sql<{ now_ms: number }[]>`
        select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`;
      const reading = { answered_ms: monotonicMs(), database_ms: (row as { now_ms: number }).now_ms };
      took_ms = reading.answered_ms - asked_ms;
      this.#asked_ms = asked_ms;
      if (!this.#best || !sooner(this.#best, reading)) this.#best = reading;
    }
  }
}

function sooner(before: Reading, now: Reading): boolean {
  const { answered_ms, database_ms } = now;
  return answered_ms - before.answered_ms < KEPT_MS && reachedBy(before, database_ms) < reachedBy(now, database_ms);
}

/** At the latest. */
function reachedBy({ answered_ms, database_ms }: Reading, unix_ms: number): number {
  return answered_ms + (unix_ms - database_ms) + Math.abs(monotonicMs() - answered_ms) * DRIFT;
}
