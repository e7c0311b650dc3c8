/**
 * Runs that are taken from their worker, or given back by it, and what becomes of those that were interrupted too often. Beside states.ts the
 * only file that makes a run ORPHANED; the table of all states is there.
 */
import { type Db, json } from "../postgres/connection.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { type AttemptRef, notCanceled, over, waitsClosed } from "./states.ts";
import { stored } from "../locale/message.ts";
import { storedMessage } from "../postgres/stored_message.ts";

/**
 * ASSIGNED -> ORPHANED, since the worker refused, is silent, was detached, or its time is up. Uncharged: nothing was started. One that was refused
 * and is to be canceled is left to that: its start was refused for the request, whatever its worker is.
 */
export async function orphanAssigned(
  sql: Db,
  term: Term,
  which: { refused: AttemptRef[] } | { assigned_longer_than_ms: number } | "to_detached",
): Promise<(AttemptRef & { worker_id: string })[]> {
  const chosen = which === "to_detached"
    ? sql`exists (select from worker w where w.worker_id = r.assigned_worker_id and w.state = 'DETACHED')`
    : "refused" in which
    ? sql`(r.id, r.attempt) in (select job_run_id, attempt from jsonb_to_recordset(${json(sql, which.refused)})
             as x(job_run_id bigint, attempt int)) and ${notCanceled(sql)}`
    : sql`greatest(r.assigned_at, r.due_at) < clock_timestamp() - ${which.assigned_longer_than_ms} * interval '1 ms'`;
  return await sql<(AttemptRef & { worker_id: string })[]>`
    with ${fence(sql, term)},
    lost as (
      update job_run r set state = 'ORPHANED', leader_epoch = fence.epoch, version = r.version + 1, ${asleep(sql)}
        from fence
       where r.id = any(array(
               select r.id from job_run r where exists (select from fence) and r.state in ('ASSIGNED', 'RUNNING') and r.state = 'ASSIGNED' and ${chosen} ${
    skipLocked(sql)
  }))
         and r.state is not distinct from 'ASSIGNED'
      returning r.*),
    kept as (${keepAttempts(sql, "GIVEN_BACK", stored("runs.cause.not_started"))})
    select id as job_run_id, attempt, assigned_worker_id as worker_id from lost`;
}

/**
 * ASSIGNED and RUNNING runs of workers that are DEAD -> ORPHANED; what was running is charged as an interruption. While a
 * worker asks whether a body may go on (CONFIRMING) its run waits until the deadline of that, unless the bodies are proven
 * gone: a lease of -infinity says so.
 */
export async function orphanLost(sql: Db, term: Term): Promise<(AttemptRef & { worker_id: string })[]> {
  return await sql<(AttemptRef & { worker_id: string })[]>`
    with ${fence(sql, term)},
    lost as (
      update job_run r set state = 'ORPHANED', interruptions = r.interruptions + (r.state = 'RUNNING')::int, leader_epoch = fence.epoch,
             continuation_state = 'NONE', version = r.version + 1, ${asleep(sql)}
        from fence
       where r.id = any(array(
               select r.id from job_run r
                where exists (select from fence) and r.state in ('ASSIGNED', 'RUNNING')
                  and not exists (select from worker w where w.worker_id = r.assigned_worker_id and w.state <> 'DEAD')
                  and (r.continuation_state = 'NONE' or r.continuation_check_deadline_at < clock_timestamp()
                       or exists (select from worker w where w.worker_id = r.assigned_worker_id and w.lease_until = '-infinity'))
                ${skipLocked(sql)}))
         and (r.state is not distinct from 'ASSIGNED' or r.state is not distinct from 'RUNNING')
      returning r.*),
    kept as (${keepAttempts(sql, "LOST", stored("runs.cause.worker_dead"))})
    select id as job_run_id, attempt, assigned_worker_id as worker_id from lost`;
}

export interface GivenBack extends AttemptRef {
  /** As the worker knows it: a statement that comes late must not take a run from a body that has begun meanwhile. */
  from: "ASSIGNED" | "RUNNING";
  outcome: "GIVEN_BACK" | "LOST";
  cause: string;
}

/**
 * Mine -> ORPHANED: a drain gives back what it does not finish, uncharged; a body that got lost is charged. One alone waits for its row; of several
 * those whose rows are kept stay as they are, for the worker's next look at what is its own.
 */
export async function giveBack(sql: Db, worker_id: string, runs: GivenBack[]): Promise<AttemptRef[]> {
  const free = sql`r.id = any(array(
    select id from job_run where id = any(array(select job_run_id from x)) ${skipLocked(sql)}))`;
  return await sql<AttemptRef[]>`
    with x as (
      select * from jsonb_to_recordset(${
    json(sql, runs)
  }) as x(job_run_id bigint, attempt int, "from" text, outcome text, cause text)),
    lost as (
      update job_run r set state = 'ORPHANED', interruptions = r.interruptions + (x.outcome = 'LOST')::int,
             continuation_state = 'NONE', version = r.version + 1, ${asleep(sql)}
        from x
       where r.id = x.job_run_id and r.attempt = x.attempt and r.assigned_worker_id = ${worker_id}
         and r.state is not distinct from x."from" and x."from" in ('ASSIGNED', 'RUNNING') and ${
    runs.length > 1 ? free : sql`true`
  }
      returning r.*, x.outcome, x.cause),
    kept as (
      insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, outcome, error_name, error_summary)
      select id, attempt, assigned_worker_id, leader_epoch, fence, started_at, outcome, outcome, cause from lost
      on conflict do nothing),
    rung as (select pg_notify('scheduler', 'job_run') from lost limit 1)
    select lost.id as job_run_id, lost.attempt from lost left join rung on true`;
}

/** Whoever is taken from a worker before it was due sleeps again until then. */
export function asleep(sql: Db) {
  return sql`held = r.due_at > clock_timestamp(), wakes_at = case when r.due_at > clock_timestamp() then r.due_at end`;
}

function keepAttempts(sql: Db, outcome: string, cause: string) {
  return sql`
    insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, outcome, error_name, error_summary)
    select id, attempt, assigned_worker_id, leader_epoch, fence, started_at,
           ${outcome}, ${outcome}, ${cause}
      from lost on conflict do nothing`;
}

/** ORPHANED -> FAILED for runs that were interrupted more often than their job allows, at most so many: they may be what kills the workers. */
export async function quarantine(sql: Db, term: Term, most = 5_000): Promise<AttemptRef[]> {
  return await sql<AttemptRef[]>`
    with ${fence(sql, term)},
    ended as (
    update job_run r
       set state = 'FAILED', ${
    over(sql)
  }, leader_epoch = fence.epoch, version = r.version + 1, error_name = 'Quarantined',
           error_summary = ${
    storedMessage(
      sql,
      "runs.end.quarantined",
      sql`jsonb_build_object('interruptions', r.interruptions, 'most', d.max_interruptions)`,
    )
  }
      from fence, job_definition d
     where r.id = any(array(
             select r.id from job_run r join job_definition d on d.id = r.job_definition_id + 0
              where exists (select from fence) and r.state = 'ORPHANED' and r.interruptions > d.max_interruptions limit ${most} ${
    skipLocked(sql, sql`r`)
  }))
       and r.state is not distinct from 'ORPHANED' and d.id = r.job_definition_id + 0
    returning r.id, r.attempt),
    ${waitsClosed(sql)}
    select id as job_run_id, attempt from ended`;
}
