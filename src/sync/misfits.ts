/** Runs that wait, and items of bulks that are no runs yet, with args of an earlier schema: each of them would fail at its start. */
import type { Json } from "../job.ts";
import { issuesText } from "../sandbox/child/issues.ts";
import type { Sql } from "../postgres/connection.ts";
import { readUnfedBulks, readUnfedItems } from "../bulks/unfed_items.ts";
import { readWaitingArgs, type WaitingArgs } from "../runs/waiting_args.ts";
import { unfitIn } from "../definitions/args_schema.ts";

export interface Misfits {
  runs: number;
  /** So many were looked at. */
  of: number;
  /** There are others, which were not. */
  more: boolean;
  /** The ids of the first of them. */
  first: number[];
  /** What does not fit with the first one. */
  why: string;
}

/** What of a job its new schema refuses. */
export interface ArgsMisfits {
  /** Runs that wait. */
  misfits?: Misfits;
  /** Items of bulks that are no runs yet. */
  bulk_misfits?: BulkMisfits[];
}

/** A sync is waited for: of a million runs the first ones tell enough. */
const MOST_RUNS = 5_000;
const AT_ONCE = 100;
const MOST_CHARS = 20_000_000;
const IDS_SHOWN = 5;

/** Undefined: all that were looked at fit. */
export async function misfitsOf(sql: Sql, job_definition_id: number, args_schema: Json): Promise<Misfits | undefined> {
  if (args_schema === null) return undefined;
  const schema = JSON.stringify(args_schema);
  const found = { runs: 0, of: 0, more: false, first: [] as number[], why: "" };
  let after: WaitingArgs["place"] | undefined;
  for (let chars = 0; !found.more;) {
    const page = await readWaitingArgs(sql, job_definition_id, { after, most: AT_ONCE });
    for (const { id, args } of page) {
      found.of++;
      chars += JSON.stringify(args).length;
      const issues = unfitIn(schema, args);
      if (!issues) continue;
      if (found.runs++ === 0) found.why = issuesText(issues);
      if (found.first.length < IDS_SHOWN) found.first.push(id);
    }
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.place;
    found.more = found.of >= MOST_RUNS || chars >= MOST_CHARS;
  }
  return found.runs > 0 ? found : undefined;
}

/** Of the items of one bulk that are not made into runs yet. */
export interface BulkMisfits {
  bulk_id: number;
  items: number;
  /** So many were looked at, of `left`. */
  of: number;
  left: number;
  /** Which is the first of them, and what does not fit with it. */
  first: number;
  why: string;
}

/** The same of bulks that have not ended. All of them together cost no more than the waiting runs of a job may. */
export async function bulkMisfitsOf(sql: Sql, job_definition_id: number, args_schema: Json): Promise<BulkMisfits[]> {
  if (args_schema === null) return [];
  const schema = JSON.stringify(args_schema);
  const budget = { items: MOST_RUNS, chars: MOST_CHARS };
  const all: BulkMisfits[] = [];
  for (const { id, next_seq, left } of await readUnfedBulks(sql, job_definition_id, MOST_BULKS)) {
    const found: BulkMisfits = { bulk_id: id, items: 0, of: 0, left, first: 0, why: "" };
    for (let seq = next_seq; budget.items > 0 && budget.chars > 0;) {
      const page = await readUnfedItems(sql, id, { from: seq, most: Math.min(AT_ONCE, budget.items) });
      for (const { seq, args } of page) {
        found.of++;
        budget.items--;
        budget.chars -= JSON.stringify(args).length;
        const issues = unfitIn(schema, args);
        if (issues && found.items++ === 0) Object.assign(found, { first: seq, why: issuesText(issues) });
      }
      const last = page.at(-1);
      if (!last) break;
      seq = last.seq + 1;
    }
    if (found.items > 0) all.push(found);
  }
  return all;
}

/** More bulks of one job than these that are not fed are rare, and the first ones tell enough. */
const MOST_BULKS = 20;
