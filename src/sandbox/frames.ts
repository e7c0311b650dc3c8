/**
 * The words between a worker and a body's process.
 *
 * To the body: one JSON object a line on its stdin. From the body: frames on its stdout (one kind also on stderr), in between whatever the body
 * prints itself, which is log text. A frame is JSON cut into records of at most 512 bytes, each written at once: POSIX
 * keeps such a write in one piece, so threads and grandchildren that print to the same pipe can come between records
 * but never into one. A record begins with a byte and a nonce that printed text does not hold by accident:
 *
 *   0x1E  nonce (16)  "+" more follow | "." last  a piece of the JSON  0x1E
 *
 * Stdin and stdout are used because a process without permissions reaches them without loading Node's part of Deno,
 * which would double its start time. The nonce stops accidents, not malice: body and host share one process. So the
 * reader promises that nothing a body writes can hurt the worker: what is malformed is text, what is too large is
 * dropped, and every field is checked.
 */
import type { Json } from "../job.ts";
import type { FromStepBody, StepOrder, ToStepBody } from "./frames/step_frames.ts";

export type ToBody =
  /** The first line. `granted`: the kinds of permission that were given without limits; any other one held in full is refused. */
  | { kind: "hello"; nonce: string; granted: string[] }
  /** `last`: the process ends after this run. */
  | {
    kind: "order";
    job_run_id: number;
    attempt: number;
    fence: number;
    job_name: string;
    args: unknown;
    scheduled_for: string;
    temp_dir: string;
    last: boolean;
  } & StepOrder
  /** After a recall: the orders that follow are to be served again. */
  | { kind: "resume" }
  | ToStepBody;

/**
 * What a process that waits loaded is told once, as a run's order will come: it goes its way up to `run`, says nothing, and waits on.
 * To be woken by what it reads for the first time takes it a third of a millisecond more than later.
 */
export const REHEARSAL: Extract<ToBody, { kind: "order" }> = {
  kind: "order",
  job_run_id: 0,
  attempt: 0,
  fence: 0,
  job_name: "",
  args: {},
  scheduled_for: "",
  temp_dir: "",
  last: true,
};

export function isRehearsal({ job_run_id }: { job_run_id: number }): boolean {
  return job_run_id === REHEARSAL.job_run_id;
}

export type FromBody =
  /** The job file is loaded; an order may come. */
  | { kind: "ready" }
  /** The args fit; `run` is being called. */
  | { kind: "started" }
  | { kind: "log"; level: LogLevel; message: string; fields?: Json }
  | { kind: "progress"; fraction: number; message?: string }
  /** The abort signal arrived. `listening`: the body has taken its `signal`, so it may be about to end by itself. */
  | { kind: "noticed"; listening: boolean }
  /** The body called `Deno.exit` or `process.exit`. */
  | { kind: "exiting"; code: number }
  /** `took_ms`: how long `run` took, where that is MOST_UNTOLD_MS or more. `again`: a new run with these args goes on. */
  | { kind: "result"; result: Json; took_ms?: number; again?: { args: Json } }
  /** Answers SIGWINCH: of all orders written so far only this one, if any (0), is or will be begun. */
  | { kind: "recalled"; job_run_id: number }
  /** The only frame on stderr, after the verdict of a process that goes on: both streams are read up to here. */
  | { kind: "idle" }
  | { kind: "error"; error: BodyError }
  | { kind: "described"; described: Json }
  | FromStepBody;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = typeof LOG_LEVELS[number];

/** `uncaught`: thrown outside of `run`, in a timer, an event or a promise that nobody waited for. */
export const PHASES = ["grants", "load", "args", "run", "uncaught", "result"] as const;

/** Why there is no result, as the host saw it. */
export interface BodyError {
  phase: typeof PHASES[number];
  name: string;
  message: string;
  /** Only its `at` lines are used. */
  stack: string;
  /** "CauseName: message" and its `at` lines, for each error that this one names as its cause. */
  causes: string[];
  retry: "policy" | "never" | { after_seconds: number };
  /** Deno's own sentence, when a permission was missing. */
  denied?: string;
}

/** A run that takes less says nothing of it, and so what most quick ones say is known by its bytes. */
export const MOST_UNTOLD_MS = 1;
export const MOST_RESULT_BYTES = 1024 * 1024;
/** Message or fields of one log line. */
export const MOST_LINE_BYTES = 8 * 1024;
export const MARK = 0x1e;
export const NONCE_BYTES = 16;
export const HEAD_BYTES = 1 + NONCE_BYTES + 1;
export const RECORD_BYTES = 512;
export const MORE = 0x2b;
export const LAST = 0x2e;

const encoder = new TextEncoder();

/** A frame as records, ready to be written one by one. */
export function* records(frame: FromBody, nonce: Uint8Array): Generator<Uint8Array> {
  const json = encoder.encode(JSON.stringify(frame)); // never holds 0x1E: JSON escapes it
  const room = RECORD_BYTES - HEAD_BYTES - 1;
  for (let at = 0; at < json.length; at += room) {
    const piece = json.subarray(at, at + room);
    const record = new Uint8Array(HEAD_BYTES + piece.length + 1);
    record[0] = MARK;
    record.set(nonce, 1);
    record[HEAD_BYTES - 1] = at + room < json.length ? MORE : LAST;
    record.set(piece, HEAD_BYTES);
    record[record.length - 1] = MARK;
    yield record;
  }
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
