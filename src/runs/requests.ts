/**
 * What people, and newer runs, ask of a run. A request is written into the row and moves no state: the leader cancels
 * what has no body, and the worker that owns a body kills it first and writes CANCELED after (states.ts).
 */
import type { Actor } from "../access/audit.ts";
import type { Db } from "../postgres/connection.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { matches, type RunFilter } from "./run_filter.ts";
import { inStates, MAY_START, NOT_ENDED, type RunState } from "./run_states.ts";
import type { AttemptRef } from "./states.ts";
import { storedMessage } from "../postgres/stored_message.ts";

/** A request in the row, with its audit; the state moves later, by the leader or by the worker that kills the body. */
export async function requestCancel(
  sql: Db,
  job_run_id: number,
  by: Actor,
): Promise<{ state: RunState; requested: boolean } | undefined> {
  const [row] = await sql<{ state: RunState; requested: boolean }[]>`
    with asked as (
      update job_run set cancel_requested_at = clock_timestamp(), cancel_requested_by = ${by.actor}, cancel_reason = ${by.reason},
             version = version + 1
       where id = ${job_run_id} and cancel_requested_at is null
         and ${inStates(sql, NOT_ENDED)}
      returning id, state),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'run.cancel', 'run', id::text, jsonb_build_object('state', state), ${by.reason} from asked),
    rung as (select pg_notify('scheduler', 'cancel') from asked)
    select r.state, exists (select from asked) as requested from job_run r left join rung on true where r.id = ${job_run_id}`;
  return row;
}

export interface ManyActs {
  actor: string;
  reason: string;
  /** At most so many in one statement: ask again until nothing comes back. */
  most: number;
}

/** The same for all that a filter means and that have not ended; gives their ids. */
export async function requestCancelWhere(sql: Db, filter: RunFilter, by: ManyActs): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with chosen as (
      select r.id, r.state from job_run r join job_definition d on d.id = r.job_definition_id
       where r.cancel_requested_at is null and ${inStates(sql, NOT_ENDED, sql`r.state`)}
         and ${matches(sql, filter)} order by r.id limit ${by.most} for update of r),
    asked as (
      update job_run r set cancel_requested_at = clock_timestamp(), cancel_requested_by = ${by.actor}, cancel_reason = ${by.reason},
             version = version + 1
        from chosen where r.id = chosen.id returning r.id, chosen.state),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'run.cancel', 'run', id::text, jsonb_build_object('state', state), ${by.reason} from asked),
    rung as (select pg_notify('scheduler', 'cancel') from asked limit 1)
    select asked.id from asked left join rung on true`;
  return rows.map((row) => row.id);
}

/** Another priority for waiting runs: they are chosen, and let go within their serial keys, in the new order at once. */
export async function reprioritizeWhere(
  sql: Db,
  filter: RunFilter,
  by: ManyActs & { priority: number },
): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with chosen as (
      select r.id, r.priority from job_run r join job_definition d on d.id = r.job_definition_id
       where r.priority <> ${by.priority} and ${inStates(sql, MAY_START, sql`r.state`)}
         and ${matches(sql, filter)} order by r.id limit ${by.most} for update of r),
    moved as (
      update job_run r set priority = ${by.priority}, version = version + 1 from chosen where r.id = chosen.id
      returning r.id, chosen.priority),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${by.actor}, 'run.reprioritize', 'run', id::text, jsonb_build_object('priority', priority),
             jsonb_build_object('priority', ${by.priority}::int), ${by.reason} from moved),
    rung as (select pg_notify('scheduler', 'priority') from moved limit 1)
    select moved.id from moved left join rung on true`;
  return rows.map((row) => row.id);
}

/**
 * Runs that wait with the priority that their definition had follow it to the one that it has, and those that go on, since they may be tried
 * again (one that is just ending needs none); those that were given another, and those of bulks, stay. One definition at a time, a part of its runs at a time. True: there are more. A run may have been
 * made with the old one by a transaction that is still open, or its row be kept by one: what was under way at the first look is waited for, and
 * then the move is made again.
 */
export async function followPriority(sql: Db, term: Term, most = 2000): Promise<boolean> {
  const [row] = await sql<{ more: boolean }[]>`
    with ${fence(sql, term)},
    move as materialized (
      select m.id, m.job_definition_id, m.was, d.priority from priority_change m join job_definition d on d.id = m.job_definition_id
       where ${canMove(sql)} order by m.id limit 1),
    waiting as materialized (
      select w.id from move m cross join lateral (
        select id from (select r.id from job_run r where r.job_definition_id = m.job_definition_id and r.held and r.state <> 'SUSPENDED'
            and r.priority = m.was and r.bulk_id is null limit ${most} ${skipLocked(sql)}) held
        union all
        select id from (select r.id from job_run r where r.job_definition_id = m.job_definition_id and r.state = 'SUSPENDED' and r.held
            and r.priority = m.was and r.bulk_id is null limit ${most} ${skipLocked(sql)}) suspended
        union all
        select id from (select r.id from job_run r where r.job_definition_id = m.job_definition_id
            and ${inStates(sql, MAY_START, sql`r.state`)} and not r.held and r.priority = m.was and r.bulk_id is null
          limit ${most} ${skipLocked(sql)}) ready
        union all
        select id from (select r.id from job_run r where r.job_definition_id + 0 = m.job_definition_id
            and r.state in ('ASSIGNED', 'RUNNING') and r.priority = m.was and r.bulk_id is null limit ${most} ${
    skipLocked(sql)
  }) active) w
       where m.was <> m.priority and exists (select from fence) limit ${most}),
    moved as (
      update job_run r set priority = m.priority, version = r.version + 1
        from move m, fence
       where r.id = any(array(select id from waiting)) and r.priority = m.was and r.finished_at is null),
    looked as (
      update priority_change m set until_xid = pg_current_xact_id() from fence
       where m.id = (select id from move) and (select count(*) from waiting) < ${most} and ${
    untilXid(sql)
  } is null returning m.id),
    done as (
      delete from priority_change m using fence
       where m.id = (select id from move) and (select count(*) from waiting) < ${most} and ${
    untilXid(sql)
  } is not null returning m.id)
    select exists (select from priority_change m where ${canMove(sql)}
                    and m.id not in (select id from done union all select id from looked)) as more from fence`;
  return row?.more ?? false;
}

/** Whether a move `m` has something to do: it was not looked at, or all that was under way then has ended. */
export function canMove(sql: Db) {
  return sql`(${untilXid(sql)} is null or m.until_xid <= pg_snapshot_xmin(pg_current_snapshot()))`;
}

/** Of a move `m`; null if it was not looked at, or in another cluster, from which it was restored: that one is further than this. */
function untilXid(sql: Db) {
  return sql`case when m.until_xid <= pg_snapshot_xmax(pg_current_snapshot()) then m.until_xid end`;
}

/** RUNNING runs that somebody wants canceled: their workers must be told. */
export async function cancelsToDeliver(sql: Db): Promise<(AttemptRef & { worker_id: string; reason: string })[]> {
  return await sql<(AttemptRef & { worker_id: string; reason: string })[]>`
    select id as job_run_id, attempt, assigned_worker_id as worker_id, cancel_reason as reason from job_run
     where cancel_requested_at is not null and ending is null
       and ${inStates(sql, NOT_ENDED)} and state = 'RUNNING'`;
}

/** Whether an attempt is over for good; attempt 0: the run. One that is ORPHANED is not: its former worker may yet record its end. */
export async function hasEnded(sql: Db, { job_run_id, attempt }: AttemptRef): Promise<boolean> {
  const rows = await sql`
    select from job_run where id = ${job_run_id} and (finished_at is not null
       or (${attempt} > 0 and (attempt > ${attempt} or (attempt = ${attempt} and state in ('SUSPENDED', 'RETRYING')))))`;
  return rows.length > 0;
}

/** Runs of a bulk that was canceled: asked to end, those that run as well, at most so many. Again each time it is asked, for what is left. */
export async function requestBulkCancel(sql: Db, term: Term, bulk_id: number, most = 5_000): Promise<AttemptRef[]> {
  return await sql<AttemptRef[]>`
    with ${fence(sql, term)}
    update job_run r set cancel_requested_at = clock_timestamp(), cancel_requested_by = coalesce(b.changed_by, 'system'),
           cancel_reason = ${
    storedMessage(sql, "reason.bulk_canceled", sql`jsonb_build_object('bulk_id', b.id, 'reason', b.reason)`)
  }, version = r.version + 1
      from fence, bulk b
     where b.id = ${bulk_id} and b.state = 'CANCELED' and num_nulls(r.cancel_requested_at, r.finished_at) = 2
       and r.id = any(array(
         select id from job_run where exists (select from fence) and bulk_id = ${bulk_id} and cancel_requested_at is null
            and ${inStates(sql, NOT_ENDED)} limit ${most} ${skipLocked(sql)}))
    returning r.id as job_run_id, r.attempt`;
}
