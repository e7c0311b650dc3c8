/** What is given to a client, checked at the door; what does not fit is refused with an `EnqueueError`. */
import { type Job, type Priority, priorityNumber, type SchemaIssue } from "../job.ts";

/** Thrown when a run cannot be enqueued, an event not emitted, a bulk not made or changed. Nothing was stored. */
export class EnqueueError extends Error {
  override name = "EnqueueError";
}

/** Args beyond this do not belong in a queue: store them and enqueue a reference. */
const MOST_ARGS_BYTES = 256 * 1024;
const MOST_KEY_CHARACTERS = 500;

export function nameOf(job: Job | string): string {
  const name = typeof job === "string" ? job : job.name;
  if (name) return name;
  throw new EnqueueError(
    "Cannot tell the job's name, since its file was bundled into another: give the name as a string",
  );
}

/** An empty text is a mistake of the caller: it would name a node that never comes, or one key for all. */
export function checkText(what: string, option: string, text: string | undefined): void {
  if (text === undefined || (text.length >= 1 && text.length <= MOST_KEY_CHARACTERS)) return;
  throw new EnqueueError(
    `Cannot ${what}: ${option} has 1 to ${MOST_KEY_CHARACTERS} characters: current value has ${text.length}`,
  );
}

export function priorityFrom(what: string, priority: Priority): number {
  try {
    return priorityNumber(priority);
  } catch (error) {
    throw new EnqueueError(`Cannot ${what}: ${(error as Error).message}`);
  }
}

export function storable(what: string, value: unknown): unknown {
  jsonText(what, value);
  return value;
}

/** What jsonb can hold of a value, or a clear refusal. */
export function jsonText(what: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new EnqueueError(`Cannot store ${what}: ${(error as Error).message}`);
  }
  if (text === undefined) throw new EnqueueError(`Cannot store ${what}: ${typeof value} is not JSON`);
  if (text.length > MOST_ARGS_BYTES) {
    throw new EnqueueError(
      `Cannot store ${what}: ${text.length} bytes of JSON, at most ${MOST_ARGS_BYTES}; enqueue a reference instead`,
    );
  }
  if (text.includes("\\u0000")) {
    throw new EnqueueError(`Cannot store ${what}: it holds a text with \\u0000, which Postgres refuses`);
  }
  return text;
}

export function issueText(issues: readonly SchemaIssue[]): string {
  return issues.map((issue) => {
    const path = issue.path?.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
    return path ? `${path}: ${issue.message}` : issue.message;
  }).join("; ");
}
