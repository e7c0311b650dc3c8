/**
 * A run that has failed for good, was canceled or timed out undoes what its steps did before it ends:
 *
 *   RUNNING --its body is gone, and it has steps to undo--> SUSPENDED, `ending` set and free to start --its next execution undoes-->
 *   what `ending` says, with the error that led there; or FAILED UndoFailed
 *
 * Only the worker that has the run says so. `ending` stays: a run that is undoing can be interrupted, and undoes on.
 */
import { type Db, json } from "../postgres/connection.ts";
import type { Ending } from "../runs/finished_runs.ts";
import { type Ended, finishRuns, waitsClosed } from "../runs/states.ts";

type Moved = { job_run_id: number; state: "SUSPENDED" | "FAILED" | "CANCELED" | "TIMED_OUT" };

/** Those that have nothing to undo, or are tried again first, do not come back: they end as others do. */
async function beginUndo(sql: Db, worker_id: string, endings: Ending[]): Promise<Moved[]> {
  return await sql<Moved[]>`
    with x as (${saidOf(sql, endings)}),
    undoing as (
      update job_run r
         set state = 'SUSPENDED', held = false, wakes_at = null, woken_at = clock_timestamp(), ending = x.outcome, exit_code = x.exit_code,
             error_name = x.error_name, error_summary = x.error_summary, failures = r.failures + (x.outcome <> 'CANCELED')::int,
             continuation_state = 'NONE', version = r.version + 1
        from x
       where ${isOwn(sql, worker_id)} and r.ending is null
         and not (x.outcome <> 'CANCELED' and r.failures < x.retry_max and r.cancel_requested_at is null)
         and exists (select from run_step s where s.job_run_id = r.id and s.has_undo and s.state in ('DONE', 'BEGUN', 'TRYING'))
      returning r.id, r.attempt, r.leader_epoch, r.fence, r.started_at, r.state, r.exit_code, r.error_name, r.error_summary),
    kept as (
      insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, outcome, exit_code, error_name, error_summary)
      select id, attempt, ${worker_id}, leader_epoch, fence, started_at, 'SUSPENDED', exit_code, error_name, error_summary from undoing
      on conflict do nothing),
    rung as (select pg_notify('scheduler', 'job_run') from undoing limit 1)
    select id as job_run_id, state from undoing left join rung on true`;
}

/** The execution that undoes has ended. Whatever else became of it than that all is undone: it has failed to. */
async function finishUndone(sql: Db, worker_id: string, endings: Ending[]): Promise<Moved[]> {
  return await sql<Moved[]>`
    with x as (${saidOf(sql, endings)}),
    over as (
    update job_run r
       set state = case x.outcome when 'SUCCEEDED' then r.ending else 'FAILED' end, finished_at = clock_timestamp(),
           ended_xid = pg_current_xact_id(), held = false, wakes_at = null, continuation_state = 'NONE', version = r.version + 1,
           exit_code = case x.outcome when 'SUCCEEDED' then r.exit_code else x.exit_code end,
           error_name = case x.outcome when 'SUCCEEDED' then r.error_name else 'UndoFailed' end,
           error_summary = case x.outcome when 'SUCCEEDED' then r.error_summary
             else x.error_summary || E'\n' || 'It was to be undone since it ended ' || r.ending || coalesce(': ' || r.error_summary, '') end
      from x
     where ${isOwn(sql, worker_id)} and r.ending is not null
    returning r.id, r.state),
    ended as (select id from over),
    ${waitsClosed(sql)}
    select id as job_run_id, state from over`;
}

function saidOf(sql: Db, endings: Ending[]) {
  const said = endings.map(({ result: _, ...ending }) => ending);
  return sql`
    select * from jsonb_to_recordset(${
    json(sql, said)
  }) as x(job_run_id bigint, attempt int, start_token text, outcome text, exit_code int,
      retry_max int, error_name text, error_summary text)`;
}

function isOwn(sql: Db, worker_id: string) {
  return sql`r.id = x.job_run_id and r.attempt = x.attempt and r.start_token = x.start_token
    and ((r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}) or r.state is not distinct from 'ORPHANED')`;
}

/** As finishRuns, which ends all that have nothing to undo. */
export async function endRuns(sql: Db, worker_id: string, endings: Ending[]): Promise<(Moved | Ended)[]> {
  if (endings.every(({ undo }) => undo === undefined)) return await finishRuns(sql, worker_id, endings);
  const begins = endings.filter(({ undo }) => undo === "begins");
  const ends = endings.filter(({ undo }) => undo === "ends");
  const begun = begins.length > 0 ? await beginUndo(sql, worker_id, begins) : [];
  const undone = ends.length > 0 ? await finishUndone(sql, worker_id, ends) : [];
  const moved = new Set([...begun, ...ends].map(({ job_run_id }) => job_run_id));
  const others = endings.filter(({ job_run_id }) => !moved.has(job_run_id));
  return [...begun, ...undone, ...others.length > 0 ? await finishRuns(sql, worker_id, others) : []];
}
