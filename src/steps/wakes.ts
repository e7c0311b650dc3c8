/**
 * Wakes runs for which something has come: the leader's work on `wake_check`. Triggers write a check in the transaction that brings a
 * message, or ends a child or a bulk; also when a run ends that has children.
 *
 *   SUSPENDED   is no longer held and may start; `wakes` is raised
 *   another     `wakes` is raised, so a suspension that has not seen this is refused; the worker of a RUNNING one is notified (a trigger)
 *   ended       the cancel of the children that it awaited is requested, and their own ends go on with theirs, level by level
 *
 * A check is deleted by the statement that acts on it, and by no other: a leader that dies leaves the rest to the next one.
 */
import type { Db } from "../postgres/connection.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { fence, type Term } from "../nodes/leadership.ts";

export interface WokenRuns {
  woken: { job_run_id: number; state: string }[];
  /** Of how many children and bulks the cancel was requested. */
  canceling: number;
  /** There are checks left that can be acted on at once. */
  more: boolean;
}

/** Runs of one statement, and children. */
const RUNS_AT_ONCE = 1_000;
/** As many are looked at, so that a run with many, whose row somebody keeps, does not keep others from being woken. */
const CHECKS_OF_RUN = 4;

/** `skip_locked`: checks of runs whose rows somebody keeps wait until these are free. */
export async function applyWakeChecks(
  sql: Db,
  term: Term,
  { most = RUNS_AT_ONCE, skip_locked = false } = {},
): Promise<WokenRuns> {
  const free = sql`
    select id from job_run where exists (select from fence) and id = any(array(select id from run where not ended)) ${
    skip_locked ? skipLocked(sql) : sql``
  }`;
  const [row] = await sql<WokenRuns[]>`
    with ${fence(sql, term)},
    few as materialized (select id, job_run_id from wake_check order by id limit ${most * CHECKS_OF_RUN}),
    seen as materialized (select job_run_id from few group by 1 order by min(id) limit ${most}),
    run as materialized (
      select id, finished_at is not null as ended, has_children, state from job_run where id = any(array(select job_run_id from seen))),
    woken as (
      update job_run r
         set wakes = r.wakes + 1, version = r.version + (r.state = 'SUSPENDED')::int, held = r.held and r.state <> 'SUSPENDED',
             wakes_at = case when r.state <> 'SUSPENDED' then r.wakes_at end,
             woken_at = case when r.state = 'SUSPENDED' and r.held and r.wakes_at is not null then clock_timestamp() else r.woken_at end
        from fence where r.id = any(array(${free})) and r.finished_at is null
      returning r.id, r.state),
    ${cancelingChildren(sql, most)},
    acted as (
      select s.job_run_id from seen s left join run on run.id = s.job_run_id left join woken on woken.id = s.job_run_id
       where woken.id is not null or run.id is null
          or (run.ended and not (run.has_children and (select count(*) from child) > ${most})
              and run.id not in (select parent_run_id from left_alone))),
    gone as (
      delete from wake_check c using fence
       where c.id = any(array(select f.id from few f join acted a on a.job_run_id = f.job_run_id)) returning 1)
    select coalesce((select jsonb_agg(jsonb_build_object('job_run_id', id, 'state', state) order by id) from woken), '[]') as woken,
           ((select count(*) from asked) + (select count(*) from stopped))::int as canceling,
           (select count(*) from gone) > 0
             and ((select count(*) from few) = ${most * CHECKS_OF_RUN} or (select count(*) from seen) = ${most}
                  or (select count(*) from child) > ${most}) as more
      from fence`;
  return row ?? { woken: [], canceling: 0, more: false };
}

/**
 * Of runs that have ended, what they awaited and what goes on. Rows that somebody keeps are left for the next time, with the check: to wait for them
 * with others in hand, which are not in the order of their ids, could be a deadlock.
 */
function cancelingChildren(sql: Db, most: number) {
  const why = sql`'run ' || p.id || ', which called it, has ended ' || p.state`;
  return sql`
    child as materialized (
      select c.id, c.parent_run_id from run p join job_run c on c.parent_run_id = p.id
       where p.ended and p.has_children and c.parent_key is not null and c.finished_at is null and c.cancel_requested_at is null
       limit ${most + 1}),
    bulk_of as materialized (
      select b.id, b.parent_run_id from run p join bulk b on b.parent_run_id = p.id
       where p.ended and p.has_children and b.parent_key is not null and b.finished_at is null and b.state <> 'CANCELED'),
    asked as (
      update job_run c set cancel_requested_at = clock_timestamp(), cancel_requested_by = 'system', cancel_reason = ${why}, version = c.version + 1
        from fence, run p
       where c.id = any(array(select id from job_run where exists (select from fence) and id = any(array(select id from child limit ${most})) ${
    skipLocked(sql)
  }))
         and p.id = c.parent_run_id and c.finished_at is null and c.cancel_requested_at is null
      returning c.id),
    stopped as (
      update bulk b set state = 'CANCELED', changed_by = 'system', reason = ${why}
        from fence, run p
       where b.id = any(array(select id from bulk where exists (select from fence) and id = any(array(select id from bulk_of)) ${
    skipLocked(sql)
  }))
         and p.id = b.parent_run_id and b.finished_at is null and b.state <> 'CANCELED'
      returning b.id),
    left_alone as (
      select parent_run_id from child where id not in (select id from asked)
      union select parent_run_id from bulk_of where id not in (select id from stopped))`;
}
