/**
 * Runs of one job that may not go on beside each other, by its `concurrency`: the newer slot is SKIPPED (`forbid`, `queueOne`), or the older run is
 * asked to end (`replace`). Looked at when slots are created and when they come due, until all is settled.
 */
import type { Db } from "../postgres/connection.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { type AttemptRef, over } from "./states.ts";
import { inStates, NOT_ENDED } from "./run_states.ts";
import { stored } from "../locale/message.ts";

/** What was done about runs that may not go on beside each other. */
interface Overlaps {
  runs: AttemptRef[];
  /** There may be more than were looked at. */
  more: boolean;
  /** Some were left, since somebody else was at them, or keeps their rows. */
  left: boolean;
}

/** Of each run that was found; null: it was left. */
type OverlapRow = AttemptRef | { job_run_id: null; attempt: null };

function overlapsOf(rows: OverlapRow[], most: number): Overlaps {
  const runs = rows.filter((row) => row.job_run_id !== null);
  return { runs, more: rows.length === most, left: runs.length < rows.length };
}

/**
 * Whether run `o` was there when slot `r` was to start: active and not made later than that, or waiting and due before it. An id
 * alone does not tell: a slot with jitter starts after runs that were made meanwhile, and a run may be due long after newer ones.
 */
function wasThere(sql: Db) {
  return sql`(case when o.state = 'PENDING' then (o.due_at, o.id) < (r.due_at, r.id) else o.id < r.id or o.created_at <= r.due_at end)`;
}

/**
 * PENDING -> SKIPPED for slots of `forbid` jobs of which another run was there and has not ended, of `queueOne` another slot that
 * waits, at most so many. What waits in a bulk, such as a backfill of last year, is no reason.
 */
export async function skipForbidden(sql: Db, term: Term, most = 5_000): Promise<Overlaps> {
  return overlapsOf(
    await sql<OverlapRow[]>`
    with ${fence(sql, term)},
    forbidden as materialized (
      select r.id from job_run r join job_definition d on d.id = r.job_definition_id + 0
       where r.state = 'PENDING' and r.source = 'schedule' and r.due_at <= clock_timestamp()
         and d.concurrency_policy in ('forbid', 'queue_one') and r.cancel_requested_at is null
         and exists (select from job_run o where o.serial_key = r.serial_key and o.id <> r.id
                      and ${inStates(sql, NOT_ENDED, sql`o.state`)}
                      and (o.state <> 'PENDING' or o.source <> 'bulk') and ${wasThere(sql)}
                      and (d.concurrency_policy = 'forbid' or (o.state = 'PENDING' and o.source = 'schedule')))
       order by r.due_at limit ${most}),
    moved as (
      update job_run r
         set state = 'SKIPPED', ${over(sql)}, leader_epoch = fence.epoch, version = r.version + 1,
             error_name = 'Forbidden', error_summary = case d.concurrency_policy
               when 'forbid' then ${stored("runs.end.forbidden")} else ${stored("runs.end.queued_before")} end
        from fence, job_definition d
       where r.id = any(array(select id from job_run where exists (select from fence) and id = any(array(select id from forbidden)) ${
      skipLocked(sql)
    }))
         and r.state is not distinct from 'PENDING' and r.cancel_requested_at is null and d.id = r.job_definition_id + 0
      returning r.id, r.attempt)
    select m.id as job_run_id, m.attempt from forbidden left join moved m using (id)`,
    most,
  );
}

/**
 * Active runs of `replace` jobs that a newer slot has come for: asked to end, so that the newer one can start. At most so many; of each line
 * the newest slot says it for all: asked of each run, which slot it is, would be looked for among all that waits.
 */
export async function requestReplaced(sql: Db, term: Term, most = 5_000): Promise<Overlaps> {
  return overlapsOf(
    await sql<OverlapRow[]>`
    with ${fence(sql, term)},
    newest as materialized (
      select r.serial_key, max(r.due_at) as due_at, max(r.id) as id, (array_agg(r.id order by r.due_at desc, r.id desc))[1] as last_id
        from job_run r join job_definition d on d.id = r.job_definition_id + 0 and d.concurrency_policy = 'replace'
       where r.state = 'PENDING' and r.source = 'schedule' and r.due_at <= clock_timestamp() group by 1),
    replaced as materialized (
      select o.id from newest n cross join lateral (
        select o.id from job_run o
         where o.serial_key = n.serial_key and ${inStates(sql, NOT_ENDED, sql`o.state`)}
           and o.cancel_requested_at is null and (o.state <> 'PENDING' or o.source <> 'bulk')
           and case when o.state = 'PENDING' then (o.due_at, o.id) < (n.due_at, n.last_id) else o.id < n.id or o.created_at <= n.due_at end
         order by o.priority, o.due_at, o.id limit ${most}) o limit ${most}),
    moved as (
      update job_run o set cancel_requested_at = clock_timestamp(), cancel_requested_by = 'system', version = o.version + 1,
             cancel_reason = ${stored("reason.replaced")}
        from fence
       where o.id = any(array(select id from job_run where exists (select from fence) and id = any(array(select id from replaced)) ${
      skipLocked(sql)
    }))
         and num_nulls(o.cancel_requested_at, o.finished_at) = 2
      returning o.id, o.attempt)
    select m.id as job_run_id, m.attempt from replaced left join moved m using (id)`,
    most,
  );
}
