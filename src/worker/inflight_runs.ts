/** The runs in the hands of an executor, by id, and those that left them a moment ago. */
import { ChurnMap } from "../platform/churn_map.ts";
import type { AttemptRef } from "../runs/states.ts";
import { holdsSlot, type InflightRun, isHeld, refOf } from "./inflight_run.ts";
import { EndedLately } from "./results/recently_ended.ts";

export class InflightRuns {
  readonly #runs = new ChurnMap<number, InflightRun>();
  readonly #ended = new EndedLately();

  get size(): number {
    return this.#runs.size;
  }

  /** How many are not in hand any more, since it began. */
  get released(): number {
    return this.#runs.deletions;
  }

  /** Bodies that hold a slot, as those behind another in its process do not. One that has ended frees it before Postgres knows. */
  get load(): number {
    let load = 0;
    for (const inflight of this.#runs.values()) if (holdsSlot(inflight)) load++;
    return load;
  }

  /** Runs that have or will have a body here. */
  get refs(): AttemptRef[] {
    return [...this.#runs.values()].map(refOf);
  }

  /** RUNNING as far as we know and worth keeping: their body is here, or its outcome waits to be recorded. */
  get held(): AttemptRef[] {
    return [...this.#runs.values()].filter(isHeld).map(refOf);
  }

  get(job_run_id: number): InflightRun | undefined {
    return this.#runs.get(job_run_id);
  }

  values(): MapIterator<InflightRun> {
    return this.#runs.values();
  }

  add(inflight: InflightRun): void {
    this.#runs.set(inflight.job_run_id, inflight);
  }

  /** Unless another attempt has its place. */
  remove(inflight: InflightRun): void {
    if (this.#runs.get(inflight.job_run_id) === inflight) this.#runs.delete(inflight.job_run_id);
  }

  /** Its end is recorded: questions that were asked before may still be under way. */
  ended(run: AttemptRef): void {
    this.#ended.add(run);
  }

  hasEnded(run: AttemptRef): boolean {
    return this.#ended.has(run);
  }

  /** Whether this very attempt is in hand here, or was recorded a moment ago, which an answer under way cannot know. */
  knows(run: AttemptRef): boolean {
    return this.#runs.get(run.job_run_id)?.attempt === run.attempt || this.#ended.has(run);
  }
}
