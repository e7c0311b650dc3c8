/** Runs as people and programs read them. Nothing here changes a row. */
import { type Db, type Fragment, json } from "../postgres/connection.ts";
import type { Ending } from "./finished_runs.ts";
import type { RunFilter } from "./run_filter.ts";
import { type Effort, searchRuns } from "./run_search.ts";
import { newestOf } from "./run_scans.ts";
import { inStates, MAY_START, type RunState } from "./run_states.ts";
import type { AttemptRef } from "./states.ts";
import type { Waits } from "./wait_reason.ts";
import { ENGLISH } from "../locale/english.ts";
import { waitLine } from "../locale/wait_text.ts";

/** One run; what `runs show --json`, `run --wait --json` and the page give. */
export interface RunView {
  id: number;
  job_name: string;
  state: RunState;
  source: string;
  /** As the body counts them: a suspension does not end one. */
  attempt: number;
  /** How often it was given to a worker, also after suspensions. */
  execution: number;
  failures: number;
  interruptions: number;
  priority: number;
  args: unknown;
  result: unknown;
  exit_code: number | null;
  error_name: string | null;
  error_summary: string | null;
  progress: number | null;
  progress_message: string | null;
  scheduled_for: Date;
  due_at: Date;
  created_at: Date;
  assigned_at: Date | null;
  started_at: Date | null;
  finished_at: Date | null;
  assigned_worker_id: string | null;
  /** That worker's node; null also once the node was removed. */
  ran_on: string | null;
  leader_epoch: number | null;
  fence: number | null;
  serial_key: string | null;
  node: string | null;
  idempotency_key: string | null;
  event_id: number | null;
  bulk_id: number | null;
  rerun_of: number | null;
  cancel_requested_at: Date | null;
  cancel_requested_by: string | null;
  cancel_reason: string | null;
  /** Why it has not started, in one sentence; null once it has. */
  wait_reason: string | null;
  /** The same for programs: a code, and what it is about. */
  waits: Waits | null;
  /** CONFIRMING: its worker asks whether it may go on, and it is not given away until the deadline. */
  continuation_state: "NONE" | "CONFIRMING";
  continuation_check_deadline_at: Date | null;
  log_ref: string | null;
}

export interface AttemptView {
  attempt: number;
  execution: number;
  worker_id: string | null;
  started_at: Date | null;
  ended_at: Date;
  outcome: string;
  exit_code: number | null;
  error_name: string | null;
  error_summary: string | null;
}

export async function readRun(sql: Db, job_run_id: number): Promise<RunView | undefined> {
  const [run] = await viewsOf(sql, sql`where r.id = ${job_run_id}`);
  return run;
}

/** The attempts that ended without deciding the run, oldest first. */
export async function readAttempts(sql: Db, job_run_id: number): Promise<AttemptView[]> {
  return await sql<AttemptView[]>`
    select (attempt - count(*) filter (where outcome = 'SUSPENDED')
             over (order by attempt rows between unbounded preceding and 1 preceding))::int as attempt, attempt as execution, worker_id, started_at, ended_at, outcome, exit_code, error_name, error_summary
      from job_run_attempt where job_run_id = ${job_run_id} order by execution`;
}

/** The newest of the runs that repeat it. */
export async function readReruns(sql: Db, job_run_id: number, most: number): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select id from job_run where rerun_of is not null and rerun_of = ${job_run_id} order by id desc limit ${most}`;
  return rows.map(({ id }) => id);
}

export interface FoundRuns {
  /** The newest first, also after a run (`after_id`): then the newest of those that follow it. */
  runs: RunView[];
  /** Only runs from where it began to this one were looked at, and it may go on there; null: all. */
  looked_to: number | null;
}

/** As many as are found without a long search, whatever the filter. */
export async function findRuns(sql: Db, filter: RunFilter & Effort): Promise<FoundRuns> {
  const { ids, looked_to } = await searchRuns(sql, filter, filter);
  return { runs: await viewsOf(sql, sql`where r.id = any(${ids}::bigint[]) order by r.id desc`), looked_to };
}

/** The newest runs first, however long the search; after a run: those that follow it, the newest of them first as well. */
export async function listRuns(sql: Db, filter: RunFilter & { most: number }): Promise<RunView[]> {
  const upwards = filter.after_id !== undefined;
  const runs: RunView[] = [];
  for (let from = filter;;) {
    const found = await findRuns(sql, { ...from, most: filter.most - runs.length });
    if (upwards) runs.unshift(...found.runs);
    else runs.push(...found.runs);
    if (found.looked_to === null || runs.length >= filter.most) return runs;
    from = { ...from, [upwards ? "after_id" : "before_id"]: found.looked_to };
  }
}

/** The newest runs of one job that have come due, however many runs others have had since. */
export async function listRunsOf(sql: Db, job_definition_id: number, most: number): Promise<RunView[]> {
  return await viewsOf(
    sql,
    sql`where r.id = any(array(${newestOf(sql, sql`${job_definition_id}`, most)}
             union all select id from job_run where job_definition_id = ${job_definition_id} and state in ('ASSIGNED', 'RUNNING')
                          and scheduled_for <= clock_timestamp()))
     order by r.scheduled_for desc limit ${most}`,
  );
}

/** What workers carry now: ASSIGNED to them or RUNNING on them, in the order in which they came. */
export async function listCarried(sql: Db, worker_ids: string[], most: number): Promise<RunView[]> {
  return await viewsOf(
    sql,
    sql`where r.assigned_worker_id = any(${worker_ids}) and r.state in ('ASSIGNED', 'RUNNING')
     order by r.assigned_at, r.id limit ${most}`,
  );
}

/** The run's state and nothing else, for those who wait for its end. */
export async function readState(sql: Db, job_run_id: number): Promise<RunState | undefined> {
  const [row] = await sql<{ state: RunState }[]>`select state from job_run where id = ${job_run_id}`;
  return row?.state;
}

/** When run `r` first started: one that was suspended did so long before its row says. */
export function firstStart(sql: Db): Fragment {
  return sql`case when r.suspensions = 0 then r.started_at
    else (select min(a.started_at) from job_run_attempt a where a.job_run_id = r.id) end`;
}

/** Of runs `r`; `which`: from `where` on. The reason is asked for once a row, and its sentence taken from it. */
async function viewsOf(sql: Db, which: Fragment): Promise<RunView[]> {
  const rows = await sql<Omit<RunView, "wait_reason">[]>`
    select ${columns(sql)} from job_run r join job_definition d on d.id = r.job_definition_id ${which}`;
  return rows.map((row) => ({ ...row, wait_reason: row.waits && waitLine(ENGLISH, row.waits) }));
}

function columns(sql: Db) {
  return sql`r.id, d.name as job_name, r.state, r.source, r.attempt - r.suspensions as attempt, r.attempt as execution, r.failures, r.interruptions, r.priority, r.args_json as args, r.result,
    r.exit_code, r.error_name, r.error_summary, r.progress, r.progress_message, r.scheduled_for, r.due_at, r.created_at,
    r.assigned_at, r.started_at, r.finished_at, r.assigned_worker_id,
    (select w.node_id from worker w where w.worker_id = r.assigned_worker_id) as ran_on, r.leader_epoch, r.fence, r.serial_key, r.node, r.idempotency_key,
    r.event_id, r.bulk_id, r.rerun_of, r.cancel_requested_at, r.cancel_requested_by, r.cancel_reason, case when ${
    inStates(sql, MAY_START, sql`r.state`)
  } then wait_reason(r) end as waits,
    r.continuation_state, r.continuation_check_deadline_at, r.log_ref`;
}

/** Which of these ends are in the rows already: as the end of their run, or as an attempt after which it is tried again. */
export async function recordedBefore(sql: Db, endings: Ending[]): Promise<AttemptRef[]> {
  return await sql<AttemptRef[]>`
    select s.job_run_id, s.attempt
      from jsonb_to_recordset(${json(sql, endings.map(({ result: _, ...ending }) => ending))})
             as s(job_run_id bigint, attempt int, start_token text, outcome text)
     where exists (select from job_run r where r.id = s.job_run_id and r.attempt = s.attempt
                    and r.start_token = s.start_token and r.state in (s.outcome, 'RETRYING'))
        or exists (select from job_run_attempt a where a.job_run_id = s.job_run_id and a.attempt = s.attempt
                    and a.outcome in (s.outcome, 'SUSPENDED'))`;
}
