/**
 * What bodies of workflows do besides: each body of a step, and each answer that the code gets, is a line of one file. What is told twice must be
 * told alike, so what a step returns is of chance. A body of a step holds a lock of the kernel, as runs of other jobs do.
 */
import type { RunContext } from "dandori";
import { FOLDER } from "./_place.ts";

export const permissions = { read: [FOLDER], write: [FOLDER] };

export class Traces {
  readonly #who: { job_run_id: number; fence: number; pid: number };
  #place = 0;

  constructor({ jobRunId: job_run_id, fence }: Pick<RunContext<unknown>, "jobRunId" | "fence">) {
    this.#who = { job_run_id, fence, pid: Deno.pid };
    this.note({ what: "start" });
  }

  note(line: Record<string, unknown>): void {
    const text = JSON.stringify({ at_ms: Date.now(), ...this.#who, ...line }) + "\n";
    Deno.writeTextFileSync(`${FOLDER}/steps.jsonl`, text, { append: true });
  }

  /** The body of a step. */
  async body<T>(key: string, about: { tries: number; once?: boolean }, work: () => Promise<T> | T): Promise<T> {
    const name = `${FOLDER}/locks/run ${this.#who.job_run_id} ${key}`;
    using file = Deno.openSync(name, { read: true, write: true, create: true });
    const overlaps = file.tryLockSync(true) ? undefined : true;
    this.note({ what: "began", key, ...about, overlaps });
    try {
      const value = await work();
      this.note({ what: "did", key, ...about, value });
      return value;
    } catch (error) {
      this.note({ what: "threw", key, ...about });
      throw error;
    }
  }

  /** Waits for an answer and notes it in the same turn. Of one that is only cut off by a cancel there is nothing to note. */
  async told<T>(key: string, answer: Promise<T>, shown: (value: T) => unknown = (value) => value): Promise<T> {
    try {
      const value = await answer;
      this.note({ what: "told", key, place: ++this.#place, outcome: "DONE", value: shown(value) ?? null });
      return value;
    } catch (error) {
      const { name } = error as Error;
      if (name !== "Canceled") this.note({ what: "told", key, place: ++this.#place, outcome: name });
      throw error;
    }
  }
}

export function rest(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
