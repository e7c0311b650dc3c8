/** Attempts whose end was recorded a moment ago: a question that was asked before that may still be under way. */
import { monotonicMs } from "../base/loop.ts";
import type { AttemptRef } from "../store/runs.ts";

const FORGET_MS = 30_000;

/** By halves, since there are thousands a second: those since FORGET_MS, and those of as long before. */
export class EndedLately {
  #ended = new Map<number, number>();
  #before = new Map<number, number>();
  #forgot_ms = monotonicMs();

  has({ job_run_id, attempt }: AttemptRef): boolean {
    return this.#ended.get(job_run_id) === attempt || this.#before.get(job_run_id) === attempt;
  }

  add({ job_run_id, attempt }: AttemptRef): void {
    if (monotonicMs() - this.#forgot_ms > FORGET_MS) {
      this.#before = this.#ended;
      this.#ended = new Map();
      this.#forgot_ms = monotonicMs();
    }
    this.#ended.set(job_run_id, attempt);
  }
}
