/** What is given to a client, checked at the door; what does not fit is refused with an `EnqueueError`. */
import { messageOf } from "../platform/text.ts";
import type { Complaint } from "../job_options/complaint.ts";
import type { Shortage } from "../dispatch/feasibility.ts";
import { type Job, type Priority, priorityNumber, type SchemaIssue } from "../job.ts";
import { whyNotJson } from "../sandbox/json_values.ts";
import { isStorableDate } from "../postgres/connection.ts";

/** Where args do not fit their schema, e.g. "tenant" or "devices.0.id"; an empty path is the whole. */
export interface ArgsIssue {
  path: string;
  message: string;
}

/** `invalid`: what was given; `not_found`: no such job, run, bulk or node; `conflict`: its state does not allow it; `late`: no answer came; `forbidden`: not by this caller. */
export type Why = "invalid" | "not_found" | "conflict" | "late" | "forbidden";

/** A refusal for whoever says it in other words than English: every refusal has one. */
export type RefusalCode =
  | Shortage["says"]
  | { code: "none"; what: string }
  | { code: "nobody_leads" }
  | { code: "steps_down" }
  | { code: "node_lives"; worker_id: string }
  | { code: "node_carries"; job_run_id: number }
  | { code: "no_such_worker"; name: string; state: string }
  | { code: "not_detachable"; name: string }
  | { code: "taken"; name: string }
  | { code: "hook_name" }
  | { code: "user_disabled"; name: string }
  | { code: "user_enabled"; name: string }
  | { code: "last_admin"; name: string }
  | { code: "length"; option: string; least: number; most: number }
  | { code: "whole_number"; option: string; least: number; most: number }
  | { code: "run_ended"; state: string }
  | { code: "run_goes_on"; state: string }
  | { code: "no_followers"; job_name: string }
  | { code: "job_gone"; job_name: string }
  | { code: "args_unfit"; found: readonly SchemaIssue[]; item?: number }
  | { code: "message_unfit"; found: readonly SchemaIssue[] }
  | { code: "no_such_message"; job_name: string; names: readonly string[] }
  | { code: "message_not_for_emit"; name: string }
  | { code: "not_yours_to_answer"; who: string }
  | { code: "asks_others"; who: string }
  | { code: "unread_full"; most: number }
  | { code: "fork_refused"; text: string }
  | { code: "no_such_wait"; names: readonly string[] }
  | { code: "wait_not_by_time"; key: string }
  | { code: "too_large"; bytes: number; most: number; item?: number }
  | { code: "too_deep"; most: number; item?: number }
  | { code: "unstorable"; item?: number }
  | { code: "too_many_slots"; most: number }
  | { code: "range_empty" }
  | { code: "range_to_come" }
  | { code: "which_schedule"; names: readonly string[] }
  | { code: "leader_silent" }
  | { code: "capacity_zero"; name: string }
  | { code: "waits_not"; state: string }
  | { code: "bulk_over"; bulk_id: number; state: "FINISHED" | "CANCELED" }
  | { code: "query_failed"; text: string }
  | { code: "next_is_itself"; option: string }
  | { code: "number"; option: string; least: number; most: number }
  | { code: "share"; option: string }
  | { code: "choice"; option: string; words: readonly string[] }
  | { code: "forbidden"; needs: string }
  | { code: "reason_needed" }
  | { code: "too_many_tries" }
  | { code: "settings_conflict"; text: string }
  | { code: "nothing_failed"; bulk_id: number }
  | { code: "input_unfit"; found: readonly SchemaIssue[] }
  | { code: "priority" }
  | { code: "date"; option: string }
  | { code: "no_event_type" }
  | { code: "key_of_other" }
  | { code: "options"; complaints: readonly Complaint[] }
  /** What only a program can ask for, and no page or command. */
  | { code: "misuse" };

/** What was asked for cannot be done, and nothing was changed. */
export class Refused extends Error {
  override name = "Refused";
  readonly why: Why;
  /** When args do not fit: each place. */
  readonly issues: readonly ArgsIssue[];
  /** What to do about it on the command line, where the message does not say it. */
  readonly fix: string | undefined;
  readonly says: RefusalCode;

  constructor(
    message: string,
    more: { says: RefusalCode; why?: Why; issues?: readonly ArgsIssue[]; fix?: string },
  ) {
    super(message);
    this.why = more.why ?? "invalid";
    this.issues = more.issues ?? [];
    this.fix = more.fix;
    this.says = more.says;
  }
}

/** Thrown when a run cannot be enqueued, an event not emitted, a bulk not made or changed. Nothing was stored. */
export class EnqueueError extends Refused {
  override name = "EnqueueError";
}

/** Args beyond this do not belong in a queue: store them and enqueue a reference. */
const MOST_ARGS_BYTES = 256 * 1024;
/** Lists and objects within each other. Some thousands are more than a body's process can be given, or Postgres read, and fill a page with blanks. */
const MOST_LEVELS = 100;
const MOST_KEY_CHARACTERS = 500;

export function nameOf(job: Job | string): string {
  const name = typeof job === "string" ? job : job.name;
  if (name === undefined) {
    throw new EnqueueError(
      "Cannot tell the job's name, since its file was bundled into another: give the name as a string",
      { says: { code: "misuse" } },
    );
  }
  checkText("tell the job", "its name", name);
  return name;
}

/**
 * An empty text is a mistake of the caller: it would name a node that never comes, or one key for all. What Postgres cannot
 * store it would refuse in words of its own, or the driver would store something else.
 */
export function checkText(what: string, option: string, text: string | undefined): void {
  if (text === undefined) return;
  if (typeof text !== "string") { // from JavaScript, or a column that was empty
    throw new EnqueueError(`Cannot ${what}: ${option} is a text, or left out: current value is ${text}`, {
      says: { code: "misuse" },
    });
  }
  if (text.includes("\0") || !text.isWellFormed()) {
    throw new EnqueueError(`Cannot ${what}: ${option} holds NUL or half a character, which Postgres refuses`, {
      says: { code: "unstorable" },
    });
  }
  if (text.length >= 1 && text.length <= MOST_KEY_CHARACTERS) return;
  throw new EnqueueError(
    `Cannot ${what}: ${option} has 1 to ${MOST_KEY_CHARACTERS} characters: current value has ${text.length}`,
    { says: { code: "length", option, least: 1, most: MOST_KEY_CHARACTERS } },
  );
}

export function priorityFrom(what: string, priority: Priority): number {
  try {
    return priorityNumber(priority);
  } catch (error) {
    throw new EnqueueError(`Cannot ${what}: ${(error as Error).message}`, { says: { code: "priority" } });
  }
}

/** One that is given is one that Postgres can hold. @throws EnqueueError */
export function checkDate(what: string, option: string, date: Date | undefined): void {
  if (!date || (date instanceof Date && isStorableDate(date))) return;
  throw new EnqueueError(`Cannot ${what}: ${option} is an invalid date, or not of the years 1 to 9999`, {
    says: { code: "date", option },
  });
}

/** `called`: what the caller calls the value. */
export function storable(what: string, value: unknown, called = "payload"): unknown {
  jsonText({ what, called }, value);
  return value;
}

/** In JSON, where it is no backslash followed by a u: NUL, and halves of characters. */
const UNSTORABLE = /(?<=(?<!\\)(?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/;

/** What jsonb can hold of a value, or a clear refusal; `item`: which of many it is. */
export function jsonText(
  { what, item, called = "args" }: { what: string; item?: number; called?: string },
  value: unknown,
): string {
  const refuse = (why: string) => new EnqueueError(`Cannot store ${what}: ${why}`, { says: { code: "misuse" } });
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw refuse(whyNotJson(value, called) ?? messageOf(error));
  }
  if (text === undefined) throw refuse(`${typeof value} is not JSON`);
  if (text.length > MOST_ARGS_BYTES) {
    throw new EnqueueError(
      `Cannot store ${what}: ${text.length} bytes of JSON, at most ${MOST_ARGS_BYTES}; enqueue a reference instead`,
      { says: { code: "too_large", bytes: text.length, most: MOST_ARGS_BYTES, item } },
    );
  }
  if (isDeep(text)) {
    throw new EnqueueError(`Cannot store ${what}: it is nested more than ${MOST_LEVELS} levels deep`, {
      says: { code: "too_deep", most: MOST_LEVELS, item },
    });
  }
  const lost = whyNotJson(value, called); // JSON.stringify makes null of NaN, {} of a Map, and nothing of a function, without a word
  if (lost) throw refuse(lost);
  const [unstorable] = text.match(UNSTORABLE) ?? [];
  if (unstorable) {
    throw new EnqueueError(`Cannot store ${what}: it holds a text with ${unstorable}, which Postgres refuses`, {
      says: { code: "unstorable", item },
    });
  }
  return text;
}

/** By what opens and closes outside the texts; what is short cannot be deep, and most args are. */
function isDeep(json: string): boolean {
  if (json.length <= 2 * MOST_LEVELS) return false;
  let [levels, quoted] = [0, false];
  for (let at = 0; at < json.length; at++) {
    const sign = json[at];
    if (quoted && sign === "\\") at++;
    else if (sign === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (sign === "[" || sign === "{") levels++;
    else if (sign === "]" || sign === "}") levels--;
    if (levels > MOST_LEVELS) return true;
  }
  return false;
}

/** What says why args do not fit, or a message; `what` such as `enqueue "hello": its args`, `item` which of many they are. */
export function doNotFit(
  { what, item, code = "args_unfit" }: { what: string; item?: number; code?: "args_unfit" | "message_unfit" },
  found: readonly SchemaIssue[],
): EnqueueError {
  const issues = found.map(({ path, message }) => ({
    path: path?.map((step) => String(typeof step === "object" ? step.key : step)).join(".") ?? "",
    message,
  }));
  const text = issues.map(({ path, message }) => path ? `${path}: ${message}` : message).join("; ");
  return new EnqueueError(`Cannot ${what} do not fit: ${text}`, { issues, says: { code, found, item } });
}
