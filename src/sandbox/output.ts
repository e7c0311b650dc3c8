/**
 * What a body says -> lines for the run's log, within limits, whatever the body does.
 *
 * Kept: the first MiB and, of what comes after it, the last 64 KiB; 5,000 lines at once, 500 a second from then on, and of
 * what is faster than that the last 200 before it became slower or ended: the end of an output is what explains a failure.
 * Where something is left out, in the middle, a `system` line says how much. Lines have at most 8 KiB; invalid UTF-8 is
 * replaced; control characters and terminal escapes are taken out, except tabs. A body that writes more than 64 MiB is a
 * flood, and ended.
 */
import type { Json } from "../job.ts";
import { monotonicMs } from "../platform/timers.ts";
import { type LogLevel, MOST_LINE_BYTES } from "./frames.ts";

export interface LogLine {
  level: LogLevel | "stdout" | "stderr" | "system";
  message: string;
  fields?: Json;
}

export type Stream = "stdout" | "stderr";

export const HEAD_BYTES = 1024 * 1024;
export const TAIL_BYTES = 64 * 1024;
export const FLOOD_BYTES = 64 * 1024 * 1024;
/** What a body writes around each line of its log. Of one that logs a few words without end that is most of all that its worker has to read. */
const FRAME_BYTES = 64;
const BURST_LINES = 5_000;
const LINES_PER_SECOND = 500;
/** Of lines that come too fast, so many of the last are kept. */
export const LAST_LINES = 200;
/** Of a line without end; longer ones are cut into several. */
const MOST_UNENDED_CHARS = MOST_LINE_BYTES;
const CONTROL =
  // deno-lint-ignore no-control-regex
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0a-\x1f\x7f-\x9f]/g;

export interface OutputListener {
  onLog(lines: LogLine[]): void;
  /** Called once. */
  onFlood(): void;
}

export class Output {
  /** What it prints it has printed before: its run goes through its journal. */
  replaying = false;
  readonly #listener: OutputListener;
  /** Made when there is text: most bodies print nothing. */
  readonly #texts: Partial<Record<Stream, LineCutter>> = {};
  #batch: LogLine[] = [];
  #said_bytes = 0;
  #kept_bytes = 0;
  /** After the cut. */
  readonly #tail = new LastLines({ bytes: TAIL_BYTES, lines: Infinity });
  #cut = false;
  #left_out_bytes = 0;
  #tokens = BURST_LINES;
  #counted_ms = monotonicMs();
  #dropping = false;
  /** Of those that came too fast, and are not handed over yet. */
  #too_fast = new LastLines({ bytes: TAIL_BYTES, lines: LAST_LINES });

  constructor(listener: OutputListener) {
    this.#listener = listener;
  }

  text(stream: Stream, bytes: Uint8Array): void {
    this.#count(bytes.length);
    const lost = this.#cut ? bytes.length - TAIL_BYTES : 0;
    if (lost > 0) this.#left_out_bytes += lost; // a flood is not even decoded
    for (const line of (this.#texts[stream] ??= new LineCutter()).feed(lost > 0 ? bytes.subarray(lost) : bytes)) {
      this.#keep({ level: stream, message: line, ...this.replaying && { fields: { replay: true } } });
    }
  }

  log(level: LogLevel, message: string, fields?: Json): void {
    const bytes = fields === undefined ? 0 : JSON.stringify(fields).length;
    this.#count((this.#dropping ? FRAME_BYTES : 0) + message.length + bytes);
    const kept = bytes > MOST_LINE_BYTES
      ? { dropped: `fields of ${bytes} bytes, at most ${MOST_LINE_BYTES} are kept` }
      : fields;
    message.split("\n").forEach((line, place) =>
      this.#keep({ level, message: line, ...(kept === undefined || place > 0 ? {} : { fields: kept }) })
    );
  }

  /** Nothing more comes: hands over what is left, with what there is to say about the rest. */
  end(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      for (const line of this.#texts[stream]?.end() ?? []) this.#keep({ level: stream, message: line });
    }
    this.#endGap();
    const left_out = this.#left_out_bytes + this.#tail.left_out_bytes;
    if (left_out > 0) this.#say(`${left_out} bytes of output are left out here`);
    this.#batch = [...this.#batch, ...this.#tail.take()];
    this.#flush();
  }

  #count(bytes: number): void {
    const before = this.#said_bytes;
    this.#said_bytes += bytes;
    if (before <= FLOOD_BYTES && this.#said_bytes > FLOOD_BYTES) this.#listener.onFlood();
  }

  #keep(line: LogLine): void {
    const clean = line.message.replace(CONTROL, "");
    piecesOf(clean).forEach((message, place) =>
      this.#place(place === 0 ? { ...line, message } : { level: line.level, message })
    );
  }

  #place(line: LogLine): void {
    const may_pass = this.#mayPass(); // also after the cut: a flood is told by it
    if (this.#cut) return this.#tail.add(line);
    if (!may_pass) return this.#too_fast.add(line);
    this.#endGap();
    this.#pass(line);
  }

  #pass(line: LogLine): void {
    const bytes = sizeOf(line);
    if (!this.#cut && this.#kept_bytes + bytes > HEAD_BYTES) {
      this.#say(
        `output cut: more than ${HEAD_BYTES} bytes; of what follows only the last ${TAIL_BYTES} bytes are kept`,
      );
      this.#cut = true;
    }
    if (this.#cut) return this.#tail.add(line);
    this.#kept_bytes += bytes;
    this.#hand(line);
  }

  #mayPass(): boolean {
    const now_ms = monotonicMs();
    this.#tokens = Math.min(BURST_LINES, this.#tokens + (now_ms - this.#counted_ms) * LINES_PER_SECOND / 1_000);
    this.#counted_ms = now_ms;
    if (this.#tokens < 1) this.#dropping = true;
    else if (this.#tokens >= LINES_PER_SECOND) this.#dropping = false; // a second's worth at a time, one note for each gap
    if (this.#dropping) return false;
    this.#tokens--;
    return true;
  }

  /** The last of the lines that came too fast, below how many of them are left out. */
  #endGap(): void {
    const { left_out } = this.#too_fast;
    if (left_out > 0) this.#say(`${left_out} lines are left out here: more than ${LINES_PER_SECOND} lines a second`);
    for (const line of this.#too_fast.take()) this.#pass(line);
  }

  #say(message: string): void {
    this.#hand({ level: "system", message });
  }

  /** What one chunk from the body brings is handed over together. */
  #hand(line: LogLine): void {
    this.#batch.push(line);
    if (this.#batch.length === 1) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const lines = this.#batch;
    this.#batch = [];
    if (lines.length > 0) this.#listener.onLog(lines);
  }
}

/** The last of many lines, within limits. */
class LastLines {
  readonly #most: { bytes: number; lines: number };
  #lines: LogLine[] = [];
  /** How many of these are left out already: to shift each would move all that follow, of blank lines 65,536. */
  #passed = 0;
  #bytes = 0;
  left_out = 0;
  left_out_bytes = 0;

  constructor(most: { bytes: number; lines: number }) {
    this.#most = most;
  }

  add(line: LogLine): void {
    this.#lines.push(line);
    this.#bytes += sizeOf(line);
    while (this.#bytes > this.#most.bytes || this.#lines.length - this.#passed > this.#most.lines) this.#leaveOut();
    if (this.#passed * 2 > this.#lines.length) this.#trim();
  }

  /** All that are kept; from here on it is empty again. */
  take(): LogLine[] {
    this.#trim();
    const lines = this.#lines;
    [this.#lines, this.#bytes, this.left_out, this.left_out_bytes] = [[], 0, 0, 0];
    return lines;
  }

  #leaveOut(): void {
    const bytes = sizeOf(this.#lines[this.#passed++] as LogLine);
    this.#bytes -= bytes;
    this.left_out_bytes += bytes;
    this.left_out++;
  }

  #trim(): void {
    this.#lines = this.#lines.slice(this.#passed);
    this.#passed = 0;
  }
}

function sizeOf(line: LogLine): number {
  return line.message.length + 1 + (line.fields === undefined ? 0 : JSON.stringify(line.fields).length);
}

/** Bytes -> whole lines. Bytes that are no UTF-8 become U+FFFD. */
class LineCutter {
  readonly #decoder = new TextDecoder();
  #open = "";

  feed(bytes: Uint8Array): string[] {
    return this.#lines(this.#decoder.decode(bytes, { stream: true }));
  }

  end(): string[] {
    const lines = this.#lines(this.#decoder.decode());
    if (this.#open !== "") lines.push(this.#open);
    this.#open = "";
    return lines;
  }

  #lines(text: string): string[] {
    const lines = (this.#open + text).split("\n");
    this.#open = lines.pop() as string;
    while (this.#open.length > MOST_UNENDED_CHARS) {
      lines.push(this.#open.slice(0, MOST_UNENDED_CHARS));
      this.#open = this.#open.slice(MOST_UNENDED_CHARS);
    }
    return lines;
  }
}

const scratch = new Uint8Array(MOST_LINE_BYTES);

/** The text in pieces that each fit into a line, no character cut in two. */
function piecesOf(text: string): string[] {
  if (text.length * 3 <= MOST_LINE_BYTES) return [text];
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + MOST_LINE_BYTES);
    const { read } = new TextEncoder().encodeInto(piece, scratch);
    pieces.push(piece.slice(0, read));
    at += Math.max(read, 1);
  }
  return pieces;
}
