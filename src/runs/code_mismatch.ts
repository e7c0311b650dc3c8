/**
 * Workers whose job files are not what was synced.
 *
 *   a worker compares its files (worker/code_report.ts): reportCode --> one row for each job that differs, gone once it does not
 *   a worker is ordered to start other code than it has: refuseCode --> such a row, and the run is as it was before the assignment
 *
 * A row is about one digest: after the next sync it says nothing any more. The leader gives no run of that digest to that worker, and reads the rows
 * when it is woken or every few seconds (leader/assignment.ts). A refusal is no attempt: nothing was tried, so neither the attempt's number nor any
 * budget changes, and no attempt is kept.
 */
import { type Db, json } from "../postgres/connection.ts";
import type { FoundCode } from "../nodes/other_code.ts";
import { asleep } from "./lost_runs.ts";
import type { AttemptRef } from "./states.ts";

export interface Mismatch extends FoundCode {
  job_definition_id: number;
  /** What was synced. */
  digest: string;
}

export interface SyncedCode {
  id: number;
  command_name: string;
  digest: string;
}

/** The jobs that a worker compares its files with. */
export async function syncedJobs(sql: Db): Promise<SyncedCode[]> {
  return await sql<
    SyncedCode[]
  >`select id, command_name, digest from job_definition where removed_at is null order by id`;
}

/** All that differs at this worker now; what is not among it differs no more. Rings the leader when that is news. */
export async function reportCode(sql: Db, worker_id: string, mismatches: Mismatch[]): Promise<void> {
  await sql`
    with x as (select * from jsonb_to_recordset(${
    json(sql, mismatches)
  }) as x(job_definition_id bigint, digest text, found text, problem text)),
    me as (
      update worker set code_seen_at = coalesce(code_seen_at, clock_timestamp())
       where worker_id = ${worker_id} and state <> 'DEAD' returning worker_id),
    gone as (
      delete from code_mismatch m using me where m.worker_id = me.worker_id
         and not exists (select from x where x.job_definition_id = m.job_definition_id) returning 1),
    of_dead as (
      delete from code_mismatch m using worker w where w.worker_id = m.worker_id and w.state = 'DEAD'),
    said as (${
    upsert(
      sql,
      sql`select me.worker_id, d.id, x.digest, x.found, left(x.problem, 500)
               from me, x join job_definition d on d.id = x.job_definition_id`,
    )
  })
    select pg_notify('scheduler', 'code_mismatch') where exists (select from gone) or exists (select from said)`;
}

export interface Refusal extends AttemptRef, FoundCode {
  /** Of its start, should it be RUNNING by now. */
  token: string;
  digest: string;
}

/**
 * ASSIGNED to me, or RUNNING without a body -> what it was before it was assigned: PENDING, SUSPENDED, RETRYING or ORPHANED, with the attempt of then. Says in
 * the same statement what I have instead. Rings the leader.
 */
export async function refuseCode(sql: Db, worker_id: string, refusals: Refusal[]): Promise<AttemptRef[]> {
  return await sql<AttemptRef[]>`
    with x as (
      select * from jsonb_to_recordset(${
    json(sql, refusals)
  }) as x(job_run_id bigint, attempt int, token text, digest text, found text, problem text)),
    said as (${
    upsert(
      sql,
      sql`select distinct on (d.id) w.worker_id, d.id, x.digest, x.found, left(x.problem, 500)
               from x join job_run r on r.id = x.job_run_id join job_definition d on d.id = r.job_definition_id + 0 and d.digest = x.digest,
                    worker w where w.worker_id = ${worker_id} and w.state <> 'DEAD'`,
    )
  }),
    back as (
      update job_run r
         set state = case when r.attempt = 1 then 'PENDING' when a.outcome in ('FAILED', 'TIMED_OUT') then 'RETRYING'
                          when a.outcome = 'SUSPENDED' then 'SUSPENDED' else 'ORPHANED' end,
             attempt = greatest(1, r.attempt - 1), suspensions = r.suspensions - (a.outcome is not distinct from 'SUSPENDED')::int,
             assigned_worker_id = null, assigned_at = null, started_at = null, fence = null,
             start_token = null, continuation_state = 'NONE', version = r.version + 1, ${asleep(sql)}
        from x left join job_run_attempt a on a.job_run_id = x.job_run_id and a.attempt = x.attempt - 1
       where r.id = x.job_run_id and r.attempt = x.attempt and r.assigned_worker_id = ${worker_id}
         and (r.state is not distinct from 'ASSIGNED' or (r.state is not distinct from 'RUNNING' and r.start_token = x.token))
      returning r.id, r.attempt),
    rung as (
      select pg_notify('scheduler', 'code_mismatch') where exists (select from said) or exists (select from back))
    select back.id as job_run_id, back.attempt from back left join rung on true`;
}

/** `rows`: worker_id, job_definition_id, digest, found, problem. `since` stays while the digest does. */
function upsert(sql: Db, rows: ReturnType<Db>) {
  return sql`
    insert into code_mismatch as m (worker_id, job_definition_id, digest, found, problem) ${rows}
    on conflict (worker_id, job_definition_id) do update set digest = excluded.digest, found = excluded.found, problem = excluded.problem,
      since = case when m.digest = excluded.digest then m.since else clock_timestamp() end
      where (m.digest, m.found, m.problem) is distinct from (excluded.digest, excluded.found, excluded.problem)
    returning 1`;
}

/** For the leader: which living workers have other code than what is synced now. */
export async function readLacking(sql: Db): Promise<{ worker_id: string; digest: string; found: string | null }[]> {
  return await sql<{ worker_id: string; digest: string; found: string | null }[]>`
    select m.worker_id, m.digest, m.found from code_mismatch m
      join job_definition d on d.id = m.job_definition_id and d.digest = m.digest and d.removed_at is null
      join worker w on w.worker_id = m.worker_id and w.state <> 'DEAD'`;
}

/**
 * Jobs whose synced version none of the workers has that could run it: a query of (job_definition_id, digest, workers, since, others), `since`: the
 * last of them has not had it. `others`: [{"digest", "workers"}], what they have instead, null where they can read none. Workers that have not looked
 * yet do not count; nor does the leader's own where it may not run jobs.
 */
export function nobodyHas(sql: Db, { leader_runs }: { leader_runs: boolean }) {
  return sql`
    with able as materialized (
      select w.worker_id from worker w
       where w.state = 'ACTIVE' and w.lease_until > clock_timestamp() and w.code_seen_at is not null
         and (${leader_runs} or not exists (select from leader_term t where t.worker_id = w.worker_id and t.lease_until > clock_timestamp())))
    select job_definition_id, digest, sum(workers)::int as workers, max(since) as since,
           jsonb_agg(jsonb_build_object('digest', found, 'workers', workers) order by workers desc, found) as others
      from (select m.job_definition_id, m.digest, m.found, count(*)::int as workers, max(m.since) as since
              from code_mismatch m join able using (worker_id)
              join job_definition d on d.id = m.job_definition_id and d.digest = m.digest and d.removed_at is null and d.paused_at is null
             group by 1, 2, 3) f
     group by 1, 2 having sum(workers) = (select count(*) from able)`;
}
