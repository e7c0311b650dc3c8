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
  }
  /** After a recall: the orders that follow are to be served again. */
  | { kind: "resume" };

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
  /** `took_ms`: how long `run` took, where that is MOST_UNTOLD_MS or more. */
  | { kind: "result"; result: Json; took_ms?: number }
  /** Answers SIGWINCH: of all orders written so far only this one, if any (0), is or will be begun. */
  | { kind: "recalled"; job_run_id: number }
  /** The only frame on stderr, after the verdict of a process that goes on: both streams are read up to here. */
  | { kind: "idle" }
  | { kind: "error"; error: BodyError }
  | { kind: "described"; described: Json };

const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = typeof LOG_LEVELS[number];

/** `uncaught`: thrown outside of `run`, in a timer, an event or a promise that nobody waited for. */
const PHASES = ["grants", "load", "args", "run", "uncaught", "result"] as const;

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
const MOST_FRAME_BYTES = MOST_RESULT_BYTES + 64 * 1024;
const MARK = 0x1e;
const NONCE_BYTES = 16;
const HEAD_BYTES = 1 + NONCE_BYTES + 1;
export const RECORD_BYTES = 512;
const MORE = 0x2b;
const LAST = 0x2e;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NOTHING = new Uint8Array();

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

export interface FrameListener {
  onText(bytes: Uint8Array): void;
  onFrame(frame: FromBody): void;
}

/** Tells frames from text in a stream of bytes. Keeps at most one frame and one record in memory. */
export class FrameReader {
  readonly #nonce: Uint8Array;
  readonly #listener: FrameListener;
  #rest: Uint8Array = new Uint8Array();
  #pieces: Uint8Array[] = [];
  #piece_bytes = 0;

  constructor(nonce: Uint8Array, listener: FrameListener) {
    this.#nonce = nonce;
    this.#listener = listener;
  }

  feed(chunk: Uint8Array): void {
    const bytes = this.#rest.length > 0 ? joined([this.#rest, chunk]) : chunk;
    let text_from = 0;
    let at = bytes.indexOf(MARK);
    while (at !== -1) {
      const end = this.#recordEnd(bytes, at);
      if (end === "unfinished") break;
      if (end === "none") {
        at = bytes.indexOf(MARK, at + 1);
        continue;
      }
      if (at > text_from) this.#listener.onText(bytes.subarray(text_from, at));
      this.#take(bytes.subarray(at + HEAD_BYTES - 1, end));
      text_from = end + 1;
      at = bytes.indexOf(MARK, text_from);
    }
    const text_to = at === -1 ? bytes.length : at;
    if (text_to > text_from) this.#listener.onText(bytes.subarray(text_from, text_to));
    this.#rest = text_to < bytes.length ? bytes.slice(text_to) : NOTHING;
  }

  /** The stream is over: what looked like the beginning of a record is text. */
  end(): void {
    if (this.#rest.length > 0) this.#listener.onText(this.#rest);
    this.#rest = new Uint8Array();
  }

  /** Where the record that begins at `at` has its closing mark. */
  #recordEnd(bytes: Uint8Array, at: number): number | "none" | "unfinished" {
    for (let place = 0; place < NONCE_BYTES; place++) {
      if (at + 1 + place >= bytes.length) return "unfinished";
      if (bytes[at + 1 + place] !== this.#nonce[place]) return "none";
    }
    const end = bytes.indexOf(MARK, at + HEAD_BYTES);
    if (end === -1) return bytes.length - at < RECORD_BYTES ? "unfinished" : "none";
    return end - at < RECORD_BYTES ? end : "none";
  }

  #take(record: Uint8Array): void {
    if (record[0] === LAST && this.#piece_bytes === 0) return this.#hear(record.subarray(1)); // most are one record
    const piece = record.slice(1);
    this.#piece_bytes += piece.length;
    if (this.#piece_bytes <= MOST_FRAME_BYTES) this.#pieces.push(piece);
    else this.#pieces = [];
    if (record[0] === MORE) return;
    const whole = this.#piece_bytes <= MOST_FRAME_BYTES ? joined(this.#pieces) : undefined;
    this.#pieces = [];
    this.#piece_bytes = 0;
    if (whole) this.#hear(whole);
  }

  #hear(json: Uint8Array): void {
    const frame = usual(json) ?? readFrame(decoder.decode(json));
    if (frame) this.#listener.onFrame(frame);
  }
}

/** What comes with nearly every run, known by its bytes. */
const USUAL = ([{ kind: "started" }, { kind: "idle" }, { kind: "result", result: null }] satisfies FromBody[])
  .map((frame) => ({ frame: frame as FromBody, json: encoder.encode(JSON.stringify(frame)) }));

function usual(json: Uint8Array): FromBody | undefined {
  for (const one of USUAL) if (isSame(one.json, json)) return one.frame;
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let place = 0; place < one.length; place++) if (one[place] !== other[place]) return false;
  return true;
}

/** A frame with every field of the right type, or undefined. */
export function readFrame(text: string): FromBody | undefined {
  let frame: Record<string, unknown>;
  try {
    frame = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof frame !== "object" || frame === null) return undefined;
  switch (frame.kind) {
    case "ready":
    case "started":
    case "idle":
      return { kind: frame.kind };
    case "log":
      return LOG_LEVELS.includes(frame.level as LogLevel) && typeof frame.message === "string"
        ? frame as FromBody
        : undefined;
    case "progress":
      return isShare(frame.fraction) && ["string", "undefined"].includes(typeof frame.message)
        ? frame as FromBody
        : undefined;
    case "noticed":
      return { kind: "noticed", listening: frame.listening === true };
    case "recalled":
      return Number.isSafeInteger(frame.job_run_id) ? frame as FromBody : undefined;
    case "exiting":
      return Number.isInteger(frame.code) ? frame as FromBody : undefined;
    case "result":
      return Object.hasOwn(frame, "result") && ["number", "undefined"].includes(typeof frame.took_ms)
        ? frame as FromBody
        : undefined;
    case "error":
      return isBodyError(frame.error) ? { kind: "error", error: frame.error } : undefined;
    case "described":
      return Object.hasOwn(frame, "described") ? frame as FromBody : undefined;
  }
}

function isShare(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value <= 1;
}

function isBodyError(value: unknown): value is BodyError {
  if (typeof value !== "object" || value === null) return false;
  const error = value as Record<string, unknown>;
  const after = (error.retry as { after_seconds?: unknown } | null)?.after_seconds;
  return PHASES.includes(error.phase as BodyError["phase"]) &&
    [error.name, error.message, error.stack].every((text) => typeof text === "string") &&
    Array.isArray(error.causes) && error.causes.every((cause) => typeof cause === "string") &&
    (error.retry === "policy" || error.retry === "never" || (typeof after === "number" && after >= 0)) &&
    ["string", "undefined"].includes(typeof error.denied);
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
