/** Names and keys of what a body requests, and how they are told to people. */
import type { JournalRow } from "../frames/step_frames.ts";

const MOST_KEY_BYTES = 300;
const MOST_NAME_CHARS = 200;

/** What comes after "its name". */
export function problemWithName(name: unknown): string | undefined {
  if (typeof name !== "string") return `is no text but ${name === null ? "null" : `of type ${typeof name}`}`;
  if (name.length > MOST_NAME_CHARS) return `has ${name.length} characters, at most ${MOST_NAME_CHARS}`;
  // deno-lint-ignore no-control-regex
  return /[\x00-\x1f\x7f]/.test(name) || !name.isWellFormed()
    ? `holds what is no character: ${JSON.stringify(name)}`
    : undefined;
}

export function problemWithKey(key: string): string | undefined {
  const bytes = new TextEncoder().encode(key).length;
  return bytes <= MOST_KEY_BYTES
    ? undefined
    : `Cannot request "${key.slice(0, 80)}...": its key has ${bytes} bytes, at most ${MOST_KEY_BYTES}: ` +
      "shorten its name, or its key or scope";
}

/** The scope of an item of `each`. */
export function scopeOf(scope: string, item: string): string {
  return `${scope}[${item.replace(/[\\\]]/g, "\\$&")}]`;
}

/** A name with what tells it from equal ones in parallel. */
export function withKey(name: string, key: string | undefined): string {
  return key === undefined ? name : `${name}[${key}]`;
}

/** Why a run cannot go on: this row is next, and its code, which is the same, asks for something else. */
export function divergenceText(
  row: JournalRow,
  run: { job_run_id: number; job_name: string; instead: string | undefined },
): string {
  const { job_run_id, job_name, instead } = run;
  return `run ${job_run_id} of ${job_name} has ${named(row.key)} next in its journal (${atText(row.ended_unix_ms)}). ` +
    `Its code, unchanged since (${row.code_digest}), ${
      instead === undefined ? "does not request it" : `requests ${named(instead)} instead`
    }. Nothing was done twice: new work begins only after the journal. Something between steps differs, such as Date.now(), ` +
    "Math.random() or a fetch: put it into a step, or use now() and random(). " +
    `Continue by hand: deno task runs fork ${job_run_id} --from ${quoted(row.key)}`;
}

/** `step:charge#2` as people say it. */
export function named(key: string): string {
  const [, scope = "", kind = key, name = ""] = /^((?:\[.*\])?)([a-z]+):(.*)$/s.exec(key) ?? [];
  return scope + name === "" ? kind : `${kind} "${scope}${name}"`;
}

/** As it can be given to a shell. */
function quoted(key: string): string {
  const short = key.replace(/^step:/, "");
  return /^[\w.-]+$/.test(short) ? short : `'${short.replaceAll("'", `'\\''`)}'`;
}

function atText(unix_ms: number): string {
  return new Date(unix_ms).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}
