/** Requests for runs of other jobs: `call` waits for one, `callMany` for a bulk of them, `start` for none. */
import type { CallsDone, DelayOptions, Json } from "../../job.ts";
import { ChildFailed, StepFailed } from "../../job.ts";
import type { JournalRow, OpenRow } from "../frames/step_frames.ts";
import type { DurableParts } from "./durable_parts.ts";
import { request } from "./durable_request.ts";
import type { StepRequest } from "./journal.ts";
import { WaitRequest } from "./wait_request.ts";
import { withKey } from "./step_names.ts";
import { storedText } from "./step_work.ts";

/** Of the items of a bulk, what one frame brings. */
const MOST_ITEMS_CHARS = 256 * 1024;

type Callee = string | { readonly name: string | undefined };

export function isStartKey(key: string): boolean {
  return /^(\[.*\])?start:/s.test(key);
}

export function requestCall(
  parts: DurableParts,
  scope: string,
  { job, args, key: more }: { job: Callee; args: unknown; key: string | undefined },
): Promise<unknown> {
  return request(parts, ({ resolve, reject }) => {
    const name = nameOf(job);
    const key = parts.journal.keyFor(scope, "call", withKey(name, more));
    const child = { job: name, args: jsonOf(args, `Cannot call "${name}": its args`) };
    const deliver = (row: JournalRow) =>
      row.state === "DONE" ? resolve(row.result) : reject(failureOf(row, name, "call"));
    return new WaitRequest({ kind: "call", key, waited_for: { child }, deliver, refuse: reject }, parts);
  });
}

export function requestStart(
  parts: DurableParts,
  scope: string,
  { job, args, options }: { job: Callee; args: unknown; options: DelayOptions },
): Promise<{ id: number }> {
  return request(parts, ({ resolve, reject }) => {
    const name = nameOf(job);
    const key = parts.journal.keyFor(scope, "start", name);
    const child = {
      job: name,
      args: jsonOf(args, `Cannot start "${name}": its args`),
      options: jsonOf(options, `Cannot start "${name}": its options`) as { [name: string]: Json },
    };
    const start: StepRequest = {
      ...{ kind: "start", key, refuse: reject },
      begin: () => parts.journal.end(start, { key, request: "start", state: "DONE", tries: 1, child }),
      deliver: (row) => row.state === "DONE" ? resolve(row.result) : reject(failureOf(row, name, "start")),
    };
    return start;
  });
}

export function requestBulk(
  parts: DurableParts,
  scope: string,
  { job, list, options }: {
    job: Callee;
    list: Iterable<unknown>;
    options: { parallel?: number; maxFailures?: number };
  },
): Promise<CallsDone<Json>> {
  return request(parts, ({ resolve, reject }) => {
    const name = nameOf(job);
    const key = parts.journal.keyFor(scope, "bulk", name);
    const items = [...list];
    const child = {
      job: name,
      items: items.length,
      options: jsonOf(options, `Cannot call "${name}": its options`) as { [name: string]: Json },
    };
    const deliver = (row: JournalRow) =>
      row.state === "DONE" ? resolve(doneOf(parts, row)) : reject(failureOf(row, name, "bulk"));
    const wait = new WaitRequest({ kind: "bulk", key, waited_for: { child }, deliver, refuse: reject }, parts);
    const begin = async (open: OpenRow | undefined) => {
      try {
        if (!open) await tellItems(parts, key, items);
        if (parts.closed) throw parts.closed;
        wait.begin(open);
      } catch (error) {
        parts.journal.refuse(wait, error as Error);
      }
    };
    return {
      ...{ kind: "bulk", key, refuse: reject, deliver },
      begin: (open) => void begin(open),
    };
  });
}

/** In pieces, one after another; the worker keeps each before it answers. */
async function tellItems(parts: DurableParts, key: string, items: unknown[]): Promise<void> {
  let piece: Json[] = [];
  let chars = 0;
  let at = 0;
  const tell = async () => {
    await parts.ask({ what: "items", key, at, items: piece });
    at += piece.length;
    [piece, chars] = [[], 0];
  };
  for (const [place, item] of items.entries()) {
    const stored = storedText(item, `item ${place} of the list`);
    if ("problem" in stored) throw new TypeError(`Cannot request "${key}": ${stored.problem}`);
    if (piece.length > 0 && chars + stored.text.length > MOST_ITEMS_CHARS) await tell();
    piece.push(JSON.parse(stored.text));
    chars += stored.text.length;
  }
  if (piece.length > 0) await tell();
}

function doneOf(parts: DurableParts, row: JournalRow): CallsDone<Json> {
  const { succeeded = 0, failed = 0 } = row.result as { succeeded?: number; failed?: number };
  const id = row.child_bulk_id ?? 0;
  return { id, succeeded, failed, results: () => resultsOf(parts, id) };
}

async function* resultsOf(parts: DurableParts, bulk_id: number): AsyncGenerator<Json> {
  for (let after: number | null = -1; after !== null;) {
    const page = await parts.ask({ what: "results", bulk_id, after }) as unknown as {
      results: { at: number; result: Json }[];
      next: number | null;
    };
    for (const { result } of page.results) yield result;
    after = page.next;
  }
}

function nameOf(job: Callee): string {
  const name = typeof job === "string" ? job : job?.name;
  if (typeof name === "string" && name !== "") return name;
  throw new TypeError("Cannot call a job that has no name: its file was bundled into another; give its name as a text");
}

function jsonOf(value: unknown, what: string): Json {
  const stored = storedText(value, what);
  if ("problem" in stored) throw new TypeError(stored.problem);
  return JSON.parse(stored.text);
}

function failureOf(row: JournalRow, name: string, kind: string): Error {
  const failed = { errorName: row.error_name ?? row.state, summary: row.error_summary ?? "" };
  if (row.child_run_id) return new ChildFailed(name, { run: row.child_run_id, ...failed });
  return new StepFailed(name, { tries: row.tries, ...failed }, kind);
}
