/**
 * Attempts whose end was recorded a moment ago: a question that was asked before that may still be under way. A moment, and not until another
 * one ends: Postgres that fails over can have lost the record, and then its row, RUNNING without a body, is to be given back.
 */
import { monotonicMs } from "../../platform/timers.ts";
import type { AttemptRef } from "../../runs/states.ts";

const FORGET_MS = 30_000;

/** By halves, since there are thousands a second: those since FORGET_MS, and those of as long before. */
export class EndedLately {
  #ended = new Map<number, number>();
  #before = new Map<number, number>();
  #forgot_ms: number;

  constructor(now_ms = monotonicMs()) {
    this.#forgot_ms = now_ms;
  }

  has({ job_run_id, attempt }: AttemptRef, now_ms = monotonicMs()): boolean {
    this.#forget(now_ms);
    return this.#ended.get(job_run_id) === attempt || this.#before.get(job_run_id) === attempt;
  }

  add({ job_run_id, attempt }: AttemptRef, now_ms = monotonicMs()): void {
    this.#forget(now_ms);
    this.#ended.set(job_run_id, attempt);
  }

  #forget(now_ms: number): void {
    const for_ms = now_ms - this.#forgot_ms;
    if (for_ms <= FORGET_MS) return;
    this.#before = for_ms <= 2 * FORGET_MS ? this.#ended : new Map();
    this.#ended = new Map();
    this.#forgot_ms = now_ms;
  }
}
