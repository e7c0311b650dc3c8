/** What a body's outcome means for its run: pure rules, so that they can be read and tested as a table. */
import type { Outcome } from "../sandbox/process_pool.ts";
import type { Ending } from "./finished_runs.ts";
import type { StartedRun } from "./started_runs.ts";
import { stored } from "../locale/message.ts";

type Decided = Exclude<Outcome, { kind: "LOST" | "SUSPENDED" }>;

/** `luck` in [0, 1) moves the wait within its jitter. */
export function endingOf(run: StartedRun, outcome: Decided, luck: number): Ending {
  const ending = { ...plainEndingOf(run, outcome, luck), ...(run.leaves_waits && { leaves_waits: true as const }) };
  if (run.ending) return { ...ending, undo: "ends" };
  const undoes = run.may_undo && outcome.kind !== "SUCCEEDED" && !STRANGERS.has(ending.error_name ?? "");
  return undoes ? { ...ending, undo: "begins" } : ending;
}

/** The code is not that which did the steps: what it would undo is not known. */
const STRANGERS = new Set(["Diverged", "CodeChanged"]);

function plainEndingOf(run: StartedRun, outcome: Decided, luck: number): Ending {
  const base = {
    job_run_id: run.job_run_id,
    attempt: run.attempt,
    start_token: run.start_token,
    exit_code: outcome.exit_code,
    retry_max: 0,
    retry_after_ms: 0,
    other_node: false,
  };
  switch (outcome.kind) {
    case "SUCCEEDED":
      return isStorable(outcome.result)
        ? { ...base, outcome: "SUCCEEDED", error_name: null, error_summary: null, result: outcome.result }
        : {
          ...base,
          outcome: "FAILED",
          error_name: "InvalidResult",
          error_summary: stored("runs.end.result_unfit"),
          result: null,
        };
    case "FAILED": {
      const failed = {
        ...base,
        outcome: "FAILED" as const,
        error_name: storableText(outcome.error_name),
        error_summary: storableText(outcome.error_summary),
        result: null,
      };
      return outcome.retry === "never" ? failed : { ...failed, ...retryOf(run, outcome, luck) };
    }
    case "TIMED_OUT": {
      const timed_out = { ...base, outcome: "TIMED_OUT" as const, error_name: "TimedOut", result: null };
      return {
        ...timed_out,
        error_summary: storableText(outcome.error_summary),
        ...retryOf(run, { error_name: "TimedOut", retry: "policy" }, luck),
      };
    }
    case "CANCELED":
      return {
        ...base,
        outcome: "CANCELED",
        error_name: "Canceled",
        error_summary: storableText(outcome.error_summary),
        result: null,
      };
  }
}

/** The policy of the error's name if there is one, else the job's; a wait that the body asked for goes before both. */
function retryOf(
  run: StartedRun,
  failure: { error_name: string; retry: "policy" | "never" | { after_seconds: number } },
  luck: number,
): Pick<Ending, "retry_max" | "retry_after_ms" | "other_node"> {
  const named = Object.hasOwn(run.retry_on, failure.error_name) ? run.retry_on[failure.error_name] : undefined;
  const retry_max = named?.max ?? run.max_retries;
  const other_node = named?.otherNode ?? false;
  if (typeof failure.retry === "object") {
    return {
      retry_max,
      other_node,
      retry_after_ms: Math.min(failure.retry.after_seconds, LONGEST_WAIT_ASKED_SECONDS) * 1000,
    };
  }
  const first_seconds = named?.backoffSeconds ?? run.retry_backoff_seconds;
  const factor = Math.min(run.retry_factor ** run.failures, Number.MAX_VALUE); // at last it is Infinity, and 0 times that is no number
  const seconds = Math.min(first_seconds * factor, LONGEST_WAIT_SECONDS);
  return { retry_max, other_node, retry_after_ms: seconds * 1000 * (1 + run.retry_jitter * (2 * luck - 1)) };
}

const LONGEST_WAIT_SECONDS = 7 * 86_400;
const LONGEST_WAIT_ASKED_SECONDS = 366 * 86_400;

/** The end of a run whose own ending Postgres refused: it must end all the same, or it would be RUNNING for ever. */
export function unstorable(ending: Ending, problem: string): Ending {
  return {
    ...ending,
    outcome: "FAILED",
    error_name: "InvalidResult",
    error_summary: stored("runs.end.unstorable", { outcome: ending.outcome, problem: storableText(problem) }),
    exit_code: null,
    result: null,
    retry_max: 0,
    retry_after_ms: 0,
  };
}

/** Postgres' jsonb takes neither \u0000 nor a lone surrogate. */
function isStorable(result: unknown): boolean {
  if (result === null || typeof result === "number" || typeof result === "boolean") return true;
  const text = JSON.stringify(result) ?? "null";
  return !/\\u0000|\\ud[89a-f]/i.test(text.replaceAll("\\\\", ""));
}

/** A text that Postgres takes, whatever a body put into it. */
export function storableText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}
