/**
 * Forks: an ended run is gone on with from one of its steps, by a new run (`rerun_of`) that has copies of the rows before it. The old
 * run stays as it is. Copies of calls and waits keep what they were given, so nothing of that is asked for again. Made, filled and audited in
 * one transaction: a worker never sees the run without its rows.
 *
 * Rows of steps that have been undone are not copied: what they did is there no more, and the code would be told that it was.
 */
import type { Actor } from "../access/audit.ts";
import { unfitIn } from "../definitions/args_schema.ts";
import { type Db, json, type Sql } from "../postgres/connection.ts";
import { createRuns, givenOwn } from "../runs/create_runs.ts";
import { stepsNamed } from "./run_steps.ts";

export interface Fork {
  job_run_id: number;
  /** The first step that is done anew, by its key or its name; undefined: what comes after all that was given to the code. */
  from?: string;
  /** Other results, by key or name of a step before that. */
  set?: Record<string, unknown>;
  /** Other args; undefined: the same. */
  args?: unknown;
  by: Actor;
}

export type ForkedRun = { id: number; steps: number } | { refused: string };

interface ForkedRow {
  key: string;
  kind: string;
  seq: number | null;
  has_undo: boolean;
}

interface ForkedFrom {
  job_name: string;
  job_removed: boolean;
  args_schema: string | null;
  args_json: unknown;
  state: string;
  ended: boolean;
  priority: number;
}

/** The new run and how many rows it has, or why there is none. */
export async function forkRun(sql: Sql, fork: Fork): Promise<ForkedRun> {
  const { job_run_id, by } = fork;
  return await sql.begin(async (tx): Promise<ForkedRun> => {
    const [run] = await tx<ForkedFrom[]>`
      select d.name as job_name, d.removed_at is not null as job_removed, d.args_schema::text, r.args_json, r.state, r.priority,
             r.finished_at is not null as ended
        from job_run r join job_definition d on d.id = r.job_definition_id where r.id = ${job_run_id}`;
    const rows = await tx<ForkedRow[]>`
      select key, kind, seq, has_undo from run_step where job_run_id = ${job_run_id} order by seq nulls last, began_at, key`;
    const planned = planFork(fork, run, rows);
    if (typeof planned === "string") {
      return {
        refused: `Cannot fork run ${job_run_id}${fork.from === undefined ? "" : ` from "${fork.from}"`}: ${planned}`,
      };
    }
    const { job_name, priority, args_json } = run as ForkedFrom;
    const args = fork.args ?? args_json;
    const new_run = { job_name, args, priority, rerun_of: job_run_id, ...await givenOwn(tx, job_run_id) };
    const [created] = await createRuns(tx, [new_run]);
    const id = created?.job_run_id as number;
    await copyRows(tx, job_run_id, { id, ...planned });
    await tx`
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      values (${by.actor}, 'run.fork', 'run', ${job_run_id}::text,
              ${json(tx, { fork: id, from: fork.from, set: planned.set.map(({ key }) => key) })}, ${
      by.reason ?? null
    })`;
    return { id, steps: planned.keys.length };
  });
}

interface PlannedFork {
  /** Of the rows that are copied. */
  keys: string[];
  set: { key: string; result: unknown }[];
}

/** What is to be copied; or what is wrong, in words that follow "Cannot fork run 812: ". */
function planFork(fork: Fork, run: ForkedFrom | undefined, rows: ForkedRow[]): PlannedFork | string {
  if (!run) return "there is no such run";
  if (!run.ended) return `it is ${run.state}; cancel it first, or wait for its end`;
  if (run.job_removed) return `its job ${run.job_name} takes no runs any more`;
  const unfit = fork.args === undefined ? undefined : unfitIn(run.args_schema, fork.args);
  if (unfit) {
    return `the args do not fit: ${
      unfit.map(({ path = [], message }) => [path.map(String).join("."), message].join(": ")).join("; ")
    }`;
  }
  const from = fork.from === undefined ? undefined : stepOf(rows, fork.from);
  if (typeof from === "string") return from;
  const copied = rows.filter(({ kind, seq }) => kind !== "undo" && seq !== null && seq < (from?.seq ?? Infinity));
  const undone = copied.find((row) => row.has_undo && rows.some(({ key }) => key === undoKey(row.key)));
  if (undone) return `${undone.key} before that has been undone; fork from "${undone.key}"`;
  const set: PlannedFork["set"] = [];
  for (const [name, result] of Object.entries(fork.set ?? {})) {
    const row = stepOf(rows, name);
    if (typeof row === "string") return row;
    if (!copied.includes(row)) return `${row.key} is not before that, so it is done anew and its result cannot be set`;
    set.push({ key: row.key, result });
  }
  return { keys: copied.map(({ key }) => key), set };
}

/** "[42]undo:reserve" of "[42]step:reserve". */
function undoKey(key: string): string {
  return key.replace(/(^|\])step:/, "$1undo:");
}

const MOST_NAMED = 20;

/** By its key, or by what follows the kind in that, if only one has it; else what is wrong. */
function stepOf(all: ForkedRow[], asked: string): ForkedRow | string {
  const rows = all.filter(({ kind }) => kind !== "undo");
  const found = stepsNamed(rows, asked);
  if (found.length === 1) return found[0] as ForkedRow;
  if (found.length > 1) {
    return `"${asked}" is the name of ${
      found.map(({ key }) => key).slice(0, MOST_NAMED).join(", ")
    }; give one of these`;
  }
  if (rows.length === 0) return "it has no steps; run it again as a whole";
  const more = rows.length > MOST_NAMED ? ` and ${rows.length - MOST_NAMED} more` : "";
  return `it has no step "${asked}"; its steps are ${
    rows.slice(0, MOST_NAMED).map(({ key }) => key).join(", ")
  }${more}`;
}

/** With the results of calls and bulks: the runs that these called may be deleted before the fork has ended. */
async function copyRows(tx: Db, job_run_id: number, { id, keys, set }: PlannedFork & { id: number }): Promise<void> {
  await tx`
    insert into run_step (job_run_id, key, kind, state, seq, attempt, code_digest, tries, result, error_name, error_summary,
                          began_at, ended_at, until, child_run_id, child_bulk_id, waits_for, event_where, prompt, has_undo)
    select ${id}, s.key, s.kind, case when n.key is null then s.state else 'DONE' end, s.seq, 1, s.code_digest, s.tries,
           case when n.key is null then coalesce(s.result, c.result, b.result) else n.result end,
           case when n.key is null then s.error_name end, case when n.key is null then s.error_summary end,
           s.began_at, s.ended_at, s.until, s.child_run_id, s.child_bulk_id, s.waits_for, s.event_where, s.prompt, s.has_undo
      from run_step s
      left join lateral (
        select o.result from job_run o where o.id = s.child_run_id and s.kind = 'call' and s.state = 'DONE' offset 0) c on true
      left join lateral (
        select jsonb_build_object('succeeded', o.succeeded, 'failed', o.failed) as result
          from bulk o where o.id = s.child_bulk_id and s.kind = 'bulk' and s.state = 'DONE' offset 0) b on true
      left join jsonb_to_recordset(${json(tx, set)}) as n(key text, result jsonb) on n.key = s.key
     where s.job_run_id = ${job_run_id} and s.key = any(${keys}::text[])`;
}
