/**
 * How commands speak: results on stdout, everything else on stderr, one exit code for each kind of end.
 * With --json stdout holds exactly one JSON value (or one per line where a command follows something).
 */
import { harmless } from "../platform/text.ts";
import { english, inEnglish } from "../locale/english.ts";

/** Stable: scripts rely on these. */
export const EXIT = {
  ok: 0,
  /** What was asked for was done and did not succeed, or cannot be as things are: the run failed, there is none of that name. */
  failed: 1,
  /** It was not understood, or what was given does not fit: written otherwise it would do. Or (`sync --check`) the files differ from what is stored. */
  usage: 2,
  /** Postgres, Redis or a worker could not be reached. */
  unreachable: 3,
} as const;

/** Ends a command with a message and an exit code; no stack is shown. */
export class CommandError extends Error {
  override name = "CommandError";
  constructor(message: string, readonly exit_code: number = EXIT.failed) {
    super(message);
  }
}

/** What each command is given by main.ts. */
export interface Signals {
  /** Fires at the first SIGINT or SIGTERM: end well. */
  stop: AbortSignal;
  /** Fires at the second: end now. */
  hurry: AbortSignal;
}

/** The one way for lines on stdout: whatever others named in them, the terminal obeys none of it. */
export function say(text: string): void {
  print(harmless(text));
}

let reader_gone = false;

/** Whether nobody reads what is said any more, as after `| head`. Known at the first line that was in vain; whoever follows something ends. */
export function isReaderGone(): boolean {
  return reader_gone;
}

/** As console.log, which does not tell that the reader is gone. */
function print(text: string): void {
  const bytes = new TextEncoder().encode(`${text}\n`);
  try {
    for (let at = 0; at < bytes.length && !reader_gone;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    reader_gone = true;
  }
}

/** What is no failure and most likely a mistake: on stderr, a line each, also beside --json. */
export function warn(texts: readonly string[]): void {
  for (const text of texts) console.error(harmless(`warning: ${text}`));
}

export function printJson(value: unknown): void {
  print(jsonText(value, 2));
}

export function printJsonLine(value: unknown): void {
  print(jsonText(value));
}

/** Of what moves a terminal JSON itself writes only the first 32 as \u00XX; the rest are the same value written so. */
function jsonText(value: unknown, indent?: number): string {
  const escaped = (letter: string) => `\\u00${letter.charCodeAt(0).toString(16)}`;
  return JSON.stringify(inEnglish(value, { messages: true }), null, indent).replace(/[\x7f-\x9f]/g, escaped);
}

/** Names and values, one a line, and further lines of a value below it. What has none is left out. */
export function pairsText(pairs: [name: string, value: unknown][]): string {
  return pairs.filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name.padEnd(14)} ${english(String(value)).replaceAll("\n", "\n" + " ".repeat(15))}`)
    .join("\n");
}

/** Who paused it and why. */
export function pausedText(it: { paused_by: string | null; paused_reason: string | null }): string {
  return `paused by ${it.paused_by}${it.paused_reason === null ? "" : `: ${english(it.paused_reason)}`}`;
}
