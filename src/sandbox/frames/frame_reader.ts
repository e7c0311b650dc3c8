/**
 * The worker's side of the frames of a body (../frames.ts): tells them from text, and checks every field. What is malformed is
 * text, what is too large is dropped; nothing that a body writes is more than either.
 */
import {
  type BodyError,
  type FromBody,
  HEAD_BYTES,
  joined,
  LAST,
  LOG_LEVELS,
  type LogLevel,
  MARK,
  MORE,
  MOST_RESULT_BYTES,
  NONCE_BYTES,
  PHASES,
  RECORD_BYTES,
} from "../frames.ts";
import { readStepFrame } from "./step_frame_reader.ts";

const MOST_FRAME_BYTES = MOST_RESULT_BYTES + 64 * 1024;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NOTHING = new Uint8Array();

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
      return Object.hasOwn(frame, "result") && ["number", "undefined"].includes(typeof frame.took_ms) &&
          (frame.again === undefined || Object.hasOwn(Object(frame.again), "args"))
        ? frame as FromBody
        : undefined;
    case "error":
      return isBodyError(frame.error) ? { kind: "error", error: frame.error } : undefined;
    case "described":
      return Object.hasOwn(frame, "described") ? frame as FromBody : undefined;
    case "step":
    case "ask":
    case "waiting":
    case "replaying":
      return readStepFrame(frame, text);
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
