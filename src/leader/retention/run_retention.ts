/**
 * Deletes what ended more than run_retention_days ago, in pieces that take turns (retention.ts): bulks with their runs, runs, events. What may go,
 * and why something stays, is in runs/retention/run_retention.ts; each statement asks again, under the term. A statement deletes few rows, for all that
 * hangs on them: an election may wait for it.
 */
import { observe } from "../../platform/facts.ts";
import {
  deleteBulk,
  deleteItems,
  deleteLines,
  deleteOldEvents,
  deleteRuns,
  type DoomedItem,
  type DoomedRun,
  findOldBulk,
  findOldRuns,
  MOST_LINES,
  MOST_RUNS,
} from "../../runs/retention/run_retention.ts";
import type { LeaderContext } from "../leader_context.ts";

type Deleting = Pick<LeaderContext, "sql" | "term" | "settings">;

/** Items of the oldest bulk, after bulk `after`; or that bulk, when it has none any more. */
export async function deleteOldBulks(me: Deleting, after: number): Promise<number | null> {
  const { sql, settings: { run_retention_days: days } } = me;
  const found = await findOldBulk(sql, { after, days });
  if (!found) return null;
  const { bulk_id, items } = found;
  if (items.length === 0) {
    if (await deleteBulk(sql, me.term, { bulk_id, days })) observe("history.deleted", { bulks: 1, runs: 0, events: 0 });
    return bulk_id;
  }
  let runs = 0;
  for (const part of await shortened(me, items)) {
    if (!me.term.trusted) break;
    runs += await deleteItems(sql, me.term, { bulk_id, seq: (part.at(-1) as DoomedItem).seq, days });
  }
  if (runs > 0) observe("history.deleted", { bulks: 0, runs, events: 0 });
  return bulk_id - 1; // there may be more of it
}

/** Runs that belong to no bulk that is there, after run `after`. */
export async function deleteOldRuns(me: Deleting, after: number): Promise<number | null> {
  const { sql, settings: { run_retention_days: days } } = me;
  const { rows, looked_to } = await findOldRuns(sql, { after, days });
  let runs = 0;
  for (const part of await shortened(me, rows)) {
    if (!me.term.trusted) break;
    runs += await deleteRuns(sql, me.term, { job_run_ids: part.map(({ job_run_id }) => job_run_id), days });
  }
  if (runs > 0) observe("history.deleted", { bulks: 0, runs, events: 0 });
  return looked_to;
}

export async function deleteEvents(me: Deleting, after: number): Promise<number | null> {
  const { events, looked_to } = await deleteOldEvents(me.sql, me.term, { after, days: me.settings.run_retention_days });
  if (events > 0) observe("history.deleted", { bulks: 0, runs: 0, events });
  return looked_to;
}

/** For one statement each: of few runs, which have few lines left, and few steps together. */
async function shortened<Run extends DoomedRun>(me: Deleting, runs: Run[]): Promise<Run[][]> {
  const parts: Run[][] = [];
  let lines = 0;
  for (const run of runs) {
    const left = run.steps + (run.lines > MOST_LINES ? await trimLines(me, run.job_run_id) : run.lines);
    lines += left;
    const part = parts.at(-1);
    if (part && part.length < MOST_RUNS && lines <= MOST_LINES) {
      part.push(run);
      continue;
    }
    parts.push([run]);
    lines = left;
  }
  return parts;
}

/** How many are left. */
async function trimLines(me: Deleting, job_run_id: number): Promise<number> {
  const days = me.settings.run_retention_days;
  while (me.term.trusted && await deleteLines(me.sql, me.term, { job_run_id, days }) === MOST_LINES);
  return 0;
}
