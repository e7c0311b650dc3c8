/**
 * The frames of a run's steps, besides those in ../frames.ts. Types only: a body loads nothing of this.
 *
 *   body                                       worker
 *   step n=1 WAITING message:approval     ->   Q1
 *                                         <-   committed upto=1
 *   waiting                               ->   looks; nothing has come: Q2, then `suspend`, and the process exits with 0
 *                                         <-   arrived [message:approval DONE]
 *   step n=2 seq=1 DONE message:approval  ->   Q1
 *                                         <-   committed upto=2; only now does the code go on
 *
 * - A frame `step` is one write of one row. `n` counts them in one execution, from 1. Order is kept: what comes before the verdict is
 *   committed before it.
 * - `seq` is given with states that end a row and goes on after the journal's last. CANCELED has none when nobody was told of it: an
 *   open wait that the changed code does not request.
 * - `start` has one row, DONE from the beginning. The worker creates the run, writes `{ id }` as the row's result, and answers with an
 *   arrival of the key (DONE with `child_run_id`) *before* the `committed` that covers it. Refused: the row is FAILED under the
 *   same `seq`, and the arrival says so.
 * - `call` and `bulk` are WAITING rows with `child`. Refused: an arrival FAILED, which the body answers with the row's end.
 *   The items of a bulk come before its row, in pieces (`ask` "items", each answered before the next).
 * - Loaded but busy, a body does not read. To be heard then, write `arrived` and send SIGURG: it answers with `ask` "arrivals", and reads
 *   until the `told` of that. It asks so by itself when the limit of an open wait has passed: look, send what there is as `arrived`,
 *   then `told` null. So the database decides what came before a limit.
 * - `waiting`: the body is frozen in a read until `arrived` (may be empty: it looks at itself again), `awake` or `suspend`.
 *   After `awake` it takes signals for a second, then it is `waiting` again unless something came of them.
 * - `ask` "restart" (onChange: "restart"): drop the run's journal, then `told` null.
 * - With `ending` in the journal: the body runs against its rows, begins nothing new, undoes, and ends with `result` null when all is
 *   undone, with the error `UndoFailed` when not.
 */
import type { Json, Retry } from "../../job.ts";

export type StepKind = "step" | "sleep" | "message" | "event" | "call" | "start" | "bulk" | "mark" | "undo";
export type OpenStepState = "BEGUN" | "TRYING" | "WAITING";
export type EndedStepState = "DONE" | "FAILED" | "TIMED_OUT" | "CANCELED";

/** A row that was delivered, or is to be: it has its place in the order. */
export interface JournalRow {
  key: string;
  kind: StepKind;
  state: EndedStepState;
  seq: number;
  tries: number;
  /** Of a `call` the child's result, of a `bulk` `{ succeeded, failed }`. */
  result: Json;
  error_name: string | null;
  error_summary: string | null;
  /** Whole milliseconds, the same as in `committed`. */
  ended_unix_ms: number;
  code_digest: string;
  child_run_id?: number | null;
  child_bulk_id?: number | null;
  has_undo: boolean;
}

export interface OpenRow {
  key: string;
  kind: StepKind;
  state: OpenStepState;
  tries: number;
  error_name: string | null;
  error_summary: string | null;
  /** How long until its limit; null: none. */
  until_in_ms: number | null;
  code_digest: string;
  child_run_id?: number | null;
  child_bulk_id?: number | null;
  has_undo: boolean;
}

/** What has come for an open row. */
export interface Arrival {
  key: string;
  outcome: "DONE" | "FAILED" | "TIMED_OUT";
  /** The message's payload, the child's result, or of a bulk `{ succeeded, failed }`. */
  result?: Json;
  error_name?: string | null;
  error_summary?: string | null;
  message_id?: number | null;
  sent_by?: string | null;
  child_run_id?: number | null;
  child_bulk_id?: number | null;
}

/** What is known of a run that has rows, or that is to be undone. */
export interface RunJournal {
  /** By `seq`. */
  rows: JournalRow[];
  open: OpenRow[];
  arrived: Arrival[];
  /** Of the run's first start. */
  started_unix_ms: number;
  /** Of the code that runs now. */
  code_digest: string;
  on_change: "continue" | "restart" | "fail";
  /** How the run ends once all is undone. */
  ending?: "FAILED" | "CANCELED" | "TIMED_OUT";
}

/** What an order holds for steps. All may be missing: no retry, no message, no limit but the usual ones. */
export interface StepOrder {
  /** The job's policy. */
  retry?: Retry;
  suspensions?: number;
  /** Names of the messages that the job takes. */
  messages?: string[];
  /** Of the run's first start, by the database's clock: what `now()` gives before anything was delivered. */
  started_unix_ms?: number;
  journal?: RunJournal;
  limits?: { max_steps?: number; max_journal_mb?: number; max_open_waits?: number };
}

export type ToStepBody =
  /** `ended_unix_ms`: the `ended_at` that these rows have, in whole milliseconds. `now()` gives it, and must give the same in a replay. */
  | { kind: "committed"; upto: number; ended_unix_ms?: number }
  | { kind: "arrived"; arrivals: Arrival[] }
  | { kind: "told"; n: number; value: Json; error?: undefined }
  | { kind: "told"; n: number; error: string }
  | { kind: "awake" }
  | { kind: "suspend" };

/** The run, or the bulk, that a step asks for. */
export interface ChildOrder {
  job: string;
  /** Of `call` and `start`. */
  args?: Json;
  /** Of `start`: what `DelayOptions` has, dates as ISO 8601. Of `bulk`: `{ parallel, maxFailures }`. */
  options?: { [name: string]: Json };
  /** Of `bulk`: how many items were told. */
  items?: number;
}

export interface StepFrame {
  kind: "step";
  n: number;
  key: string;
  /** The row's kind. */
  request: StepKind;
  state: OpenStepState | EndedStepState;
  seq?: number;
  tries: number;
  result?: Json;
  error_name?: string;
  error_summary?: string;
  took_ms?: number;
  /** Its limit, by one of the two; of a TRYING row: not before. */
  until_in_ms?: number;
  until_unix_ms?: number;
  /** The message's name or the event's type. */
  waits_for?: string;
  /** Of an event. */
  where?: { [field: string]: Json };
  /** For people. */
  prompt?: { ask?: string; show?: Json; who?: string[]; notBy?: string; remind_seconds?: number };
  /** The message that it takes. */
  message_id?: number;
  has_undo?: boolean;
  child?: ChildOrder;
}

/** Counted from 1 in an execution, by itself. Answered by `told`. */
export type AskFrame =
  & { kind: "ask"; n: number }
  & (
    /** The URL at which a message of this name is taken. */
    | { what: "callback"; name: string; expires_unix_ms: number }
    | { what: "arrivals" }
    | { what: "restart" }
    /** More items of the bulk of this key, from the place `at` on. */
    | { what: "items"; key: string; at: number; items: Json[] }
    /** Results of a bulk's items after this place: `{ results: [{ at, result }], next: number | null }`. */
    | { what: "results"; bulk_id: number; after: number }
  );

export type FromStepBody =
  | StepFrame
  | AskFrame
  /** `handles`: something that is no step is open, and is cut off when the run is suspended. */
  | { kind: "waiting"; soonest_in_ms: number | null; handles: boolean }
  | { kind: "replaying"; on: boolean };
