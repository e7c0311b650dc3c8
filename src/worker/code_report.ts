/**
 * What a worker says of its job files: which of them are not what was synced. It compares them soon after its start and then every few seconds, so
 * that the leader knows before it gives it a run; and what it is ordered to start in spite of that it refuses, which is no attempt of the run.
 */
import { loopFailed } from "../platform/facts.ts";
import { Batcher, chance, every, monotonicMs, Wakeup } from "../platform/timers.ts";
import type { Digest, Digests } from "../sync/module_graph.ts";
import { type Mismatch, type Refusal, refuseCode, reportCode, syncedJobs } from "../runs/code_mismatch.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import type { AttemptRef } from "../runs/states.ts";

/** So soon files that were brought here are known to be here. */
const LOOK_MS = 3_000;
/** After a refusal: the files may just have been brought, and been looked at a moment too early. */
const LOOK_AGAIN_MS = 500;
/** With many files a look takes a while: it is followed by a rest of so many times that. */
const REST_FACTOR = 20;
/** Of files asked for at a time: others wait for the answer, an order to start one of them too. */
const FILES_AT_ONCE = 100;

interface Parts {
  sql: Sql;
  worker_id: string;
  digests: Pick<Digests, "of">;
}

export class CodeReport {
  readonly #parts: Parts;
  /** What Postgres has of it; undefined: not known. */
  #reported: string | undefined;
  readonly #refusals: Batcher<Refusal, undefined>;
  readonly #wakeup = new Wakeup();
  #not_before_ms = -Infinity;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#refusals = new Batcher(async (refusals) => {
      this.#reported = undefined;
      await refuseCode(parts.sql, parts.worker_id, refusals);
      this.#lookAgain();
      return refusals.map(() => undefined);
    });
  }

  /** Undoes the assignment of a run whose code this worker does not have, and says what it has instead. */
  async refuse(order: AttemptRef & { digest: string; token: string }, mine: Digest): Promise<void> {
    const { job_run_id, attempt, token, digest } = order;
    await this.#refusals.add({ job_run_id, attempt, token, digest, ...foundIn(mine) });
  }

  /** Until stopped. */
  async keep(stop: AbortSignal): Promise<void> {
    await every(LOOK_MS, async () => {
      const began_ms = monotonicMs();
      if (began_ms < this.#not_before_ms) return this.#not_before_ms - began_ms;
      await this.look().catch((error) => {
        if (!isUnreachable(error)) loopFailed("comparing job files", error);
      });
      return Math.max(LOOK_MS, REST_FACTOR * (monotonicMs() - began_ms)) * (0.8 + 0.4 * chance());
    }, { name: "job files", stop, wakeup: this.#wakeup });
  }

  #lookAgain(): void {
    const now_ms = monotonicMs();
    if (this.#not_before_ms > now_ms) return;
    this.#not_before_ms = now_ms + LOOK_AGAIN_MS;
    this.#wakeup.signal();
  }

  /** Compares all files once, and reports what has changed. */
  async look(): Promise<void> {
    const { sql, worker_id, digests } = this.#parts;
    const jobs = await syncedJobs(sql);
    const mismatches: Mismatch[] = [];
    for (let first = 0; first < jobs.length; first += FILES_AT_ONCE) {
      const share = jobs.slice(first, first + FILES_AT_ONCE);
      const found = await Promise.all(share.map(({ command_name }) => digests.of(command_name)));
      for (const [place, { id, digest }] of share.entries()) {
        const mine = found[place] as Digest;
        if ("digest" in mine && mine.digest === digest) continue;
        mismatches.push({ job_definition_id: id, digest, ...foundIn(mine) });
      }
    }
    const text = JSON.stringify(mismatches);
    if (text === this.#reported) return;
    this.#reported = text; // a refusal meanwhile makes it unknown again
    await reportCode(sql, worker_id, mismatches).catch((error) => {
      this.#reported = undefined;
      throw error;
    });
  }
}

function foundIn(mine: Digest): Pick<Refusal, "found" | "problem"> {
  return "digest" in mine ? { found: mine.digest, problem: null } : { found: null, problem: mine.problem };
}
