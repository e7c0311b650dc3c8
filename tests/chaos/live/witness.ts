/**
 * What was seen of a chaos run from outside: the marks that bodies left, and the facts that workers printed, by the one
 * clock of this process. Nothing of it comes from Postgres, which is judged by it.
 */
import type { Effect } from "../checker.ts";
import { bodyOf, type Mark, readMarks } from "./marks.ts";
import type { Happened } from "./nemesis.ts";
import type { HeardFact } from "./seat.ts";

interface Election {
  at_ms: number;
  epoch: number;
  worker_id: string;
  /** When the first run after it started. */
  start_ms?: number;
}

export interface Unseated {
  name: string;
  /** Until another leader was elected, and until a run had started under it. */
  elected_ms: number;
  started_ms: number;
}

export class Witness {
  /** How often each fact was stated. */
  readonly facts = new Map<string, number>();
  /** What loops failed with, without numbers and ids, and how often. */
  readonly failures = new Map<string, number>();
  readonly #outcomes = new Map<string, { outcome: Effect["outcome"]; worker_id: string }>();
  readonly #elections: Election[] = [];

  hear(fact: HeardFact, at_ms: number): void {
    this.facts.set(fact.fact, (this.facts.get(fact.fact) ?? 0) + 1);
    if (fact.fact === "leader.elected") {
      this.#elections.push({ at_ms, epoch: fact.epoch, worker_id: fact.worker_id });
    } else if (fact.fact === "run.started") {
      for (const election of this.#elections.slice(-3)) if (fact.epoch >= election.epoch) election.start_ms ??= at_ms;
    } else if (fact.fact === "run.finished") {
      const { worker_id } = fact;
      this.#outcomes.set(keyOf(fact), { outcome: fact.outcome as Effect["outcome"], worker_id });
    } else if (fact.fact === "loop.failed") {
      const what = `${fact.loop}: ${fact.error}`.replace(/w\d+-[0-9a-f]{8}/g, "W").replace(/\d+/g, "N");
      this.failures.set(what, (this.failures.get(what) ?? 0) + 1);
    }
  }

  /** The bodies, and which began while another held what they must not share. `seen`: the last sight of each. */
  bodies(
    marks_file: string,
    seen: ReadonlyMap<string, number>,
  ): { effects: Effect[]; overlaps: { job_run_id: number; detail: string }[] } {
    const marks = readMarks(marks_file);
    const ends = new Map(marks.filter(({ mark }) => mark === "end").map((end) => [bodyOf(end), end]));
    const starts = marks.filter(({ mark }) => mark === "start");
    const effects = starts.map((start) =>
      this.#effectOf(start, { end: ends.get(bodyOf(start)), seen_ms: seen.get(bodyOf(start)) })
    );
    const overlaps = starts.flatMap(({ job_run_id, attempt, overlaps }) =>
      (overlaps ?? []).map((lock) => ({
        job_run_id,
        detail: `attempt ${attempt} began while another body held the lock "${lock}"`,
      }))
    );
    return { effects, overlaps };
  }

  outcomeOf(
    of: { job_run_id: number; attempt: number },
  ): { outcome: Effect["outcome"]; worker_id: string } | undefined {
    return this.#outcomes.get(keyOf(of));
  }

  /**
   * What a body came to is its worker's word alone: one that had just done its work may have been ended all the same,
   * and when the worker died before it said so, nobody knows.
   */
  #effectOf(start: Mark, { end, seen_ms }: { end: Mark | undefined; seen_ms: number | undefined }): Effect {
    const ended_ms = end?.at_ms ?? seen_ms;
    const told = this.#outcomes.get(keyOf(start));
    const threw = end?.how === "failed" || end?.how === "fatal";
    return {
      job_run_id: start.job_run_id,
      attempt: start.attempt,
      fence: start.fence,
      started_ms: start.at_ms,
      ...(ended_ms === undefined ? {} : { ended_ms }),
      ...told,
      ...(told?.outcome === "FAILED" && threw ? { retryable: end?.how === "failed" } : {}),
      ...(told?.outcome === "TIMED_OUT" ? { retryable: true } : {}),
    };
  }

  /** How long each fault that took a leader away was without one, as far as another came. */
  failovers(faults: Happened[]): Unseated[] {
    return faults.flatMap(({ name, unseats, struck_ms }) => {
      if (!unseats) return [];
      const next = this.#elections.find(({ at_ms, worker_id }) => at_ms > struck_ms && worker_id !== unseats);
      if (!next?.start_ms) return [];
      return [{ name, elected_ms: next.at_ms - struck_ms, started_ms: next.start_ms - struck_ms }];
    });
  }
}

function keyOf({ job_run_id, attempt }: { job_run_id: number; attempt: number }): string {
  return `${job_run_id}:${attempt}`;
}
