/**
 * What bodies ask of other jobs: the run that a `call` or `start` names, and the bulk of a `callMany`, are made before the row of the step is written,
 * by a key that is the step's: a body that asks again, after its worker died say, gets the same. Calls of all bodies share a statement.
 */
import { Batcher } from "../../platform/timers.ts";
import type { AskFrame, ChildOrder, StepFrame } from "../../sandbox/frames/step_frames.ts";
import type { Json } from "../../job.ts";
import type { Sql } from "../../postgres/connection.ts";
import { createChildBulk, readBulkResults } from "../../steps/child_bulks.ts";
import { type ChildRun, type ChildWish, createChildren } from "../../steps/child_runs.ts";
import { untilHeard } from "../retry_until_available.ts";
import type { StartedRun } from "../../runs/started_runs.ts";
import type { StepExecution, WrittenStep } from "./step_execution.ts";

/** `child`: what it asks for. */
type Asking = StepFrame & { child: ChildOrder };

/** Of one bulk, until it is made. */
const MOST_ITEMS = 100_000;

export class ChildRequests {
  readonly #sql: Sql;
  readonly #worker_id: string;
  readonly #over: AbortSignal;
  readonly #made: Batcher<ChildWish[], ChildRun[]>;
  /** Items that were told of bulks that are not made yet, by step. */
  readonly #items = new WeakMap<StepExecution, Map<string, Json[]>>();
  /** Rows of what was refused, or was made and is not awaited: its body is told before it hears that they are written. */
  readonly #answers = new WeakSet<WrittenStep>();

  constructor(parts: { sql: Sql; worker_id: string; over: AbortSignal }) {
    this.#sql = parts.sql;
    this.#worker_id = parts.worker_id;
    this.#over = parts.over;
    this.#made = new Batcher(async (groups) => {
      const made = await untilHeard(() => createChildren(this.#sql, this.#worker_id, groups.flat()), this.#over);
      return groups.map((wishes) =>
        wishes.flatMap(({ job_run_id, key }) =>
          made.find((one) => one.job_run_id === job_run_id && one.key === key) ?? []
        )
      );
    }, { most: 50 });
  }

  /** The run that takes the place of one that ends with `again`; undefined: that one is not ours any more, or is to be canceled. */
  async nextRun({ job_run_id, attempt, start_token, job_name }: StartedRun, args: Json): Promise<ChildRun | undefined> {
    const wish = { job_run_id, attempt, start_token, key: "again", job_name, args, is_awaited: false, goes_on: true };
    return (await this.#made.add([wish]))[0];
  }

  /** The rows of what it asks, in its order; undefined: it may make none any more, and is about to end. */
  async rowsOf(execution: StepExecution, frames: StepFrame[]): Promise<WrittenStep[] | undefined> {
    const asking = frames.filter(isAsking);
    const runs = asking.filter(({ request }) => request !== "bulk").map((frame) => wishOf(execution, frame));
    const made = runs.length === 0 ? [] : await this.#made.add(runs);
    const of_key = new Map(made.map((one) => [one.key, one]));
    const rows: WrittenStep[] = [];
    for (const frame of frames) {
      if (!isAsking(frame)) {
        rows.push(frame);
        continue;
      }
      const child = frame.request === "bulk" ? await this.#bulkOf(execution, frame) : of_key.get(frame.key);
      if (!child) return undefined;
      rows.push(this.#rowOf(frame, child));
    }
    return rows;
  }

  #rowOf(
    { child: _, ...frame }: Asking,
    made: { refused: string } | { child_run_id: number } | { child_bulk_id: number },
  ): WrittenStep {
    const is_start = frame.request === "start";
    const { result: _result, ...rest } = frame;
    // Of a call that is refused the body writes the end when it hears so; until then its row is none that the code is given.
    const row: WrittenStep = "refused" in made
      ? { ...rest, state: is_start ? "FAILED" : "CANCELED", error_name: "CallRefused", error_summary: made.refused }
      : is_start && "child_run_id" in made
      ? { ...frame, ...made, result: { id: made.child_run_id } }
      : { ...frame, ...made };
    if ("refused" in made || is_start) this.#answers.add(row);
    return row;
  }

  /** What a body is told of its requests before it hears that these rows are written. */
  answersTo(rows: WrittenStep[]) {
    return rows.filter((row) => this.#answers.has(row)).map((
      { key, state, result, error_name, error_summary, child_run_id },
    ) =>
      state === "DONE"
        ? { key, outcome: "DONE" as const, result, child_run_id }
        : { key, outcome: "FAILED" as const, error_name, error_summary }
    );
  }

  /** Undefined: they are kept; else why not. */
  keepItems(execution: StepExecution, { key, at, items }: Extract<AskFrame, { what: "items" }>): string | undefined {
    const of_run = this.#items.get(execution) ?? new Map<string, Json[]>();
    this.#items.set(execution, of_run);
    const before = at === 0 ? [] : of_run.get(key) ?? [];
    if (before.length + items.length > MOST_ITEMS) {
      return `Cannot call ${key}: at most ${MOST_ITEMS} items; make several calls of it`;
    }
    of_run.set(key, [...before.slice(0, at), ...items]);
  }

  async resultsOf(
    execution: StepExecution,
    { bulk_id, after }: Extract<AskFrame, { what: "results" }>,
  ): Promise<Json | undefined> {
    const { job_run_id } = execution;
    const page = await untilHeard(() => readBulkResults(this.#sql, { job_run_id, bulk_id, after }), this.#over);
    return page as unknown as Json | undefined;
  }

  #bulkOf(execution: StepExecution, { key, child }: Asking) {
    const { job_run_id, attempt, start_token } = execution.run;
    const items = this.#items.get(execution)?.get(key) ?? [];
    this.#items.get(execution)?.delete(key);
    const wish = { job_run_id, attempt, start_token, key, job_name: child.job, items, options: child.options };
    return untilHeard(() => createChildBulk(this.#sql, this.#worker_id, wish), this.#over);
  }
}

function isAsking(frame: StepFrame): frame is Asking {
  return frame.child !== undefined;
}

function wishOf({ run }: StepExecution, { key, request, child }: Asking): ChildWish {
  const { job_run_id, attempt, start_token } = run;
  const { job: job_name, args, options } = child;
  const is_awaited = request === "call";
  return { job_run_id, attempt, start_token, key, job_name, args, is_awaited, ...!is_awaited && { options } };
}
