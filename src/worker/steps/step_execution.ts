/**
 * One execution of a run that uses steps, as its worker knows it: from its first frame to the end of its body.
 *
 *   busy --it waits for its steps alone--> frozen --something has come--> busy
 *   frozen --Postgres is asked--> suspending --its row is SUSPENDED--> over
 *   suspending --something has come since the look--> frozen
 *   any --its body is gone--> over
 *
 * What its body says is checked here: the body counts too, and is not trusted.
 */
import type { StepBody } from "../../sandbox/process_pool.ts";
import type { Arrival, RunJournal, StepFrame } from "../../sandbox/frames/step_frames.ts";
import type { StartedRun } from "../../runs/started_runs.ts";

export type ExecutionState =
  | { at: "busy" }
  /** `soonest_at_ms`, monotonic: when the first of its waits ends by itself; Infinity: none does. `is_due`: that has come. */
  | { at: "frozen"; soonest_at_ms: number; is_due: boolean }
  | { at: "suspending"; soonest_at_ms: number }
  | { at: "over" };

/** Settings of a body's host as well, which says so before a frame is written. */
const MOST_STEPS = 10_000;
const MOST_JOURNAL_BYTES = 32 * 1024 * 1024;
const MOST_OPEN_WAITS = 1_000;

/** Of a journal that its body was given. */
export interface JournalSize {
  steps: number;
  bytes: number;
  /** Keys of its open rows; true: it waits. */
  open: [string, boolean][];
}

/** Undefined: it was given none. */
export function journalSize(journal: RunJournal | undefined): JournalSize | undefined {
  if (!journal) return undefined;
  const { rows, open } = journal;
  return {
    steps: rows.length + open.length,
    bytes: rows.reduce((sum, { result }) => sum + bytesOf(result), 0),
    open: open.map(({ key, state }) => [key, state === "WAITING"]),
  };
}

export function bytesOf(result: unknown): number {
  return result === undefined || result === null ? 0 : JSON.stringify(result).length;
}

/** What is written of a frame. */
export interface WrittenStep extends Omit<StepFrame, "child"> {
  child_run_id?: number;
  child_bulk_id?: number;
}

export interface StepRefusal {
  error_name: string;
  error_summary: string;
}

export class StepExecution {
  readonly run: StartedRun;
  readonly body: StepBody;
  state: ExecutionState = { at: "busy" };
  /** As the last look found them. */
  looked_wakes: number | undefined;
  /** A look that is under way may not have seen the newest of its waits. */
  wants_look = false;
  /** It was told something while busy, and has not answered that it reads: what it said before that may be out of date. */
  alerted = false;
  /** Frames that wait, in their order, for what one of them asks of other jobs. */
  unprepared: StepFrame[] = [];
  preparing: Promise<void> | undefined;
  /** Numbers of its questions for arrivals. */
  asks: number[] = [];
  /** Keys whose arrival it was told: a row that changed code does not ask for any more is answered by each look. */
  readonly #passed_on = new Set<string>();
  readonly #open: Map<string, boolean>;
  #steps: number;
  #bytes: number;
  #waits: number;

  constructor(run: StartedRun, body: StepBody, size: JournalSize | undefined) {
    this.run = run;
    this.body = body;
    this.#steps = size?.steps ?? 0;
    this.#bytes = size?.bytes ?? 0;
    this.#open = new Map(size?.open);
    this.#waits = [...this.#open.values()].filter((waits) => waits).length;
  }

  get job_run_id(): number {
    return this.run.job_run_id;
  }

  /** Something may come for it. */
  get waits(): boolean {
    return this.#waits > 0 && this.state.at !== "over";
  }

  /** Counts a write. Why it may not be, if it may not. */
  count({ key, state, result, has_undo }: StepFrame): StepRefusal | undefined {
    if (has_undo) this.run.may_undo = true;
    const is_wait = state === "WAITING";
    const is_open = is_wait || state === "BEGUN" || state === "TRYING";
    const was = this.#open.get(key);
    if (was === undefined) this.#steps++;
    if (was) this.#waits--;
    if (is_wait) this.#waits++;
    if (is_open) this.#open.set(key, is_wait);
    else this.#open.delete(key);
    this.#bytes += bytesOf(result);
    return this.#excess(key);
  }

  #excess(key: string): StepRefusal | undefined {
    const no = (error_name: string, why: string) => ({ error_name, error_summary: `Cannot record ${key}: ${why}` });
    if (this.#steps > MOST_STEPS) {
      return no(
        "TooManySteps",
        `a run has at most ${MOST_STEPS} steps; do more in each, or let a new run go on: again()`,
      );
    }
    if (this.#bytes > MOST_JOURNAL_BYTES) {
      const mib = MOST_JOURNAL_BYTES / 1024 / 1024;
      return no(
        "JournalTooLarge",
        `the results of a run's steps have at most ${mib} MiB; store them elsewhere, return where`,
      );
    }
    if (this.#waits > MOST_OPEN_WAITS) {
      return no(
        "TooManyWaits",
        `a run waits for at most ${MOST_OPEN_WAITS} things at once; callMany waits for any number of runs`,
      );
    }
  }

  /** Its journal was dropped. */
  restart(): void {
    this.#open.clear();
    [this.#steps, this.#bytes, this.#waits] = [0, 0, 0];
  }

  /** Those of a look that it was not told yet. */
  news(arrivals: Arrival[]): Arrival[] {
    const news = arrivals.filter(({ key }) => !this.#passed_on.has(key));
    for (const { key } of news) this.#passed_on.add(key);
    return news;
  }
}
