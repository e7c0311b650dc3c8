/**
 * Bulks as the leader moves them: items become runs a few at a time, and the last run's end ends the bulk.
 *
 *   items --feed--> runs          while RUNNING: `running_limit` of them at most go on at a time, not counting those that
 *                                 wait for another try, and with those never more than twice as many
 *   RUNNING --pauseFailing--> PAUSED           more failures than max_failures since it was last resumed
 *   RUNNING, PAUSED --finish--> FINISHED       nothing is left to feed and no run has not ended
 *   CANCELED --finish--> CANCELED, finished_at no run has not ended
 *
 * Who changes a bulk (bulks.ts, or anybody's SQL) and each end of a run leave a `bulk_recheck`, in the same transaction. The
 * leader looks at those bulks, acts, and only then takes the checks away; so each act here may come twice and does its
 * work once: feeding is guarded by `next_seq`, an end by `finished_at`.
 *
 * How many run is counted from rows each time. Items are read by their number, so a bulk of a million costs what one of
 * ten does. `running_limit` also binds dispatch (dispatch_queues.ts): runs beyond it are held, and `letGo` frees them again.
 */
import { insertingRuns, now } from "../runs/create_runs.ts";
import { type Db, json } from "../postgres/connection.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { behindKey, beyondLimit, bulkBehindKey, goingOf } from "../runs/key_queues.ts";
import { inStates, MAY_START, NOT_ENDED } from "../runs/run_states.ts";
import { storedMessage } from "../postgres/stored_message.ts";

/** A bulk that may need something, and all that tells what. */
export interface BulkState {
  bulk_id: number;
  job_name: string;
  state: "RUNNING" | "PAUSED" | "CANCELED";
  parallel: number;
  running_limit: number;
  max_failures: number | null;
  throttle_above: number | null;
  throttled: number | null;
  next_seq: number;
  last_seq: number;
  /** Of its runs that have not ended: all, ASSIGNED or RUNNING, RETRYING; held ones; not yet asked to end. */
  live: number;
  running: number;
  retrying: number;
  /** They wait within their bodies, and make room: others of the bulk go on. */
  suspended: number;
  held: number;
  unasked: number;
  /** FAILED and TIMED_OUT since it was last resumed; not counted beyond max_failures + 1, and not at all without that. */
  failures: number;
  /** Until its interval allows it to feed again. */
  wait_ms: number;
  /** Until the feed that is planned, less than 0 when that is over; null: none is. */
  plan_ms: number | null;
  /** It has not begun, and somebody of its serial key goes before it, or that is stopped. */
  behind: boolean;
  /** While it may be throttled: how many of its last runs ended since it last was, `THROTTLE_WINDOW` at most, and how many of those failed. */
  recent: number;
  recent_failures: number;
}

/** Ends of runs that a decision to throttle looks at. */
export const THROTTLE_WINDOW = 20;

export interface ToSee {
  check_ids: number[];
  bulk_ids: number[];
  /** There may be others. */
  more: boolean;
}

/** What to look at: checks in the order in which they were written, and bulks whose interval is over. */
export async function bulksToSee(sql: Db, most = 1000): Promise<ToSee> {
  const rows = await sql<{ check_id: number | null; bulk_id: number }[]>`
    (select id as check_id, bulk_id from bulk_recheck order by id limit ${most})
    union all (select null, id from bulk where next_feed_at <= clock_timestamp() order by next_feed_at limit ${most})`;
  const checks = rows.flatMap(({ check_id, bulk_id }) => check_id === null ? [] : [{ check_id, bulk_id }]);
  return {
    check_ids: checks.map(({ check_id }) => check_id),
    bulk_ids: [...new Set(rows.map(({ bulk_id }) => bulk_id))],
    more: checks.length === most,
  };
}

/** What was looked at, but for one check of each that was `kept`. A check that was written meanwhile stays. */
export async function bulksSeen(sql: Db, term: Term, check_ids: number[], kept: number[] = []): Promise<void> {
  await sql`
    with ${fence(sql, term)}
    delete from bulk_recheck c using fence where c.id = any(array(${numbers(sql, check_ids)}))
       and (c.bulk_id <> all(array(${numbers(sql, kept)}))
            or exists (select from bulk_recheck o where o.bulk_id = c.bulk_id and o.id > c.id and o.id = any(array(${
    numbers(sql, check_ids)
  }))))`;
}

export async function readBulks(sql: Db, bulk_ids: number[]): Promise<BulkState[]> {
  return await sql<BulkState[]>`
    select b.id as bulk_id, d.name as job_name, b.state, b.parallel, b.running_limit, b.max_failures,
           b.throttle_above::float8, b.throttled, b.next_seq,
           coalesce((select max(seq) from bulk_item i where i.bulk_id = b.id), 0) as last_seq, l.*,
           (select count(*) from (select from job_run r
              where r.bulk_id = b.id and r.state in ('FAILED', 'TIMED_OUT') and r.finished_at > b.failures_from
              limit coalesce(b.max_failures + 1, 0)) f)::int as failures,
           greatest(0, coalesce(extract(epoch from b.fed_at + b.interval_seconds * interval '1 s' - clock_timestamp()) * 1000, 0))::float8 as wait_ms,
           (extract(epoch from b.next_feed_at - clock_timestamp()) * 1000)::float8 as plan_ms,
           ${bulkBehindKey(sql)} as behind,
           t.recent, t.recent_failures
      from bulk b join job_definition d on d.id = b.job_definition_id
      cross join lateral (
        select count(*)::int as live, count(*) filter (where r.state in ('ASSIGNED', 'RUNNING'))::int as running,
               count(*) filter (where r.state = 'RETRYING')::int as retrying,
               count(*) filter (where r.state = 'SUSPENDED' and r.wakes_at is not null)::int as suspended,
               count(*) filter (where r.held and r.wakes_at is null)::int as held,
               count(*) filter (where r.cancel_requested_at is null)::int as unasked
          from job_run r where r.bulk_id = b.id and ${inStates(sql, NOT_ENDED, sql`r.state`)}) l
      cross join lateral (
        select count(*)::int as recent, count(*) filter (where e.state in ('FAILED', 'TIMED_OUT'))::int as recent_failures
          from (select r.state from bulk_item i join job_run r on r.id = i.job_run_id
                 where b.throttle_above is not null and i.bulk_id = b.id and r.finished_at > b.throttled_at
                   and i.seq < b.next_seq and i.seq >= b.next_seq - 2 * b.parallel - ${THROTTLE_WINDOW}
                 order by r.finished_at desc limit ${THROTTLE_WINDOW}) e) t
     where b.id = any(array(${numbers(sql, bulk_ids)})) and b.finished_at is null
     order by b.id`;
}

/** A share of a bulk's items that is to become runs. */
export interface Helping {
  bulk_id: number;
  /** As it was read; another value means that they were fed already. */
  next_seq: number;
  items: number;
}

/**
 * Items -> runs. They take all the room there is, so no next feed is planned before something of the bulk changes. The items of each bulk are
 * asked for by themselves (`offset 0`): as a join, all items that there are were read for each bulk.
 */
export async function feed(sql: Db, term: Term, helpings: Helping[]): Promise<{ bulk_id: number; runs: number }[]> {
  return await sql<{ bulk_id: number; runs: number }[]>`
    with ${fence(sql, term)},
    fed as (
      update bulk b
         set next_seq = b.next_seq + h.items, started_at = coalesce(b.started_at, clock_timestamp()), fed_at = clock_timestamp(),
             next_feed_at = null
        from fence, jsonb_to_recordset(${json(sql, helpings)}) as h(bulk_id bigint, next_seq bigint, items int)
       where b.id = h.bulk_id and b.next_seq = h.next_seq and b.state = 'RUNNING' and not ${bulkBehindKey(sql)}
      returning b.id, b.job_definition_id, b.priority, h.next_seq as first_seq, h.items, fence.epoch, b.parent_run_id,
                coalesce((select p.depth + 1 from job_run p where p.id = b.parent_run_id), 0) as depth),
    ask as (
      select row_number() over (order by f.id, i.seq) as place, d.id as job_definition_id, 'bulk' as source,
             'bulk:' || f.id || ':' || i.seq as key, i.args_json as args, f.priority, ${now(sql)} as due_at,
             (select o.scheduled_for from job_run o where o.id = i.rerun_of) as slot,
             fill_template(d.node, i.args_json) as node, i.rerun_of, null as own_serial_key, null::bigint as job_schedule_id,
             null::bigint as event_id, f.id as bulk_id, f.epoch as leader_epoch, i.seq, f.parent_run_id, null as parent_key, f.depth
        from fed f join job_definition d on d.id = f.job_definition_id
        cross join lateral (
          select seq, args_json, rerun_of from bulk_item
           where bulk_id = f.id and seq >= f.first_seq and seq < f.first_seq + f.items offset 0) i),
    ${insertingRuns(sql, { children: true })},
    linked as (
      update bulk_item i set job_run_id = born.id from born join ask on ask.key = born.idempotency_key
       where i.bulk_id = ask.bulk_id and i.seq = ask.seq returning i.bulk_id)
    select bulk_id, count(*)::int as runs from linked group by bulk_id`;
}

/** When to look again, though nothing changes: the end of its interval; null: only at a change. */
export async function planFeed(sql: Db, term: Term, bulk_id: number, wait_ms: number | null): Promise<void> {
  await sql`
    with ${fence(sql, term)}
    update bulk set next_feed_at = clock_timestamp() + ${wait_ms}::float8 * interval '1 ms' from fence
     where id = ${bulk_id} and finished_at is null`;
}

/**
 * Lets go as many of its held runs as it may start now, at most so many: the ends of these will have it looked at again. Those behind a serial key or
 * limit key wait for their line. How many, and whether some of those are left, since their rows are kept.
 */
export async function letGo(
  sql: Db,
  term: Term,
  bulk_id: number,
  most = 1_000,
): Promise<{ runs: number; left: boolean }> {
  const [row] = await sql<{ runs: number; left: boolean }[]>`
    with ${fence(sql, term)},
    next as materialized (
      select r.id from job_run r join bulk b on b.id = r.bulk_id join job_definition d on d.id = r.job_definition_id
       where b.id = ${bulk_id} and ${inStates(sql, MAY_START, sql`r.state`)} and r.held and r.wakes_at is null
         and not ${behindKey(sql)} and not ${beyondLimit(sql)}
       order by r.priority, r.due_at, r.id
       limit least(${most}, greatest(0, (select b.running_limit from bulk b where b.id = ${bulk_id}) - ${
    goingOf(sql, sql`${bulk_id}`)
  }))),
    free as (
      update job_run r set held = false from fence
       where r.id = any(array(select id from job_run where exists (select from fence) and id = any(array(select id from next)) ${
    skipLocked(sql)
  })) and r.held::int = 1
      returning 1)
    select (select count(*) from free)::int as runs, (select count(*) from free) < (select count(*) from next) as left from fence`;
  return row ?? { runs: 0, left: false };
}

/** RUNNING -> PAUSED, since too much of it failed. The reason is in the row and in the audit. */
export async function pauseFailing(sql: Db, term: Term, bulk_id: number): Promise<{ reason: string } | undefined> {
  const [row] = await sql<{ reason: string }[]>`
    with ${fence(sql, term)},
    paused as (
      update bulk set state = 'PAUSED', changed_by = 'system',
             reason = ${storedMessage(sql, "reason.too_many_failed", sql`jsonb_build_object('most', max_failures)`)}
        from fence where id = ${bulk_id} and state = 'RUNNING' and max_failures is not null
      returning id, reason)
    insert into admin_action_log (actor, action, target_type, target_id, reason)
    select 'system', 'bulk.pause', 'bulk', id::text, reason from paused returning reason`;
  return row;
}

/** `throttled`: how many run at once from now on; null: as many as `parallel` says. */
export async function throttle(sql: Db, term: Term, bulk_id: number, throttled: number | null): Promise<void> {
  await sql`
    with ${fence(sql, term)}
    update bulk set throttled = ${throttled}, throttled_at = clock_timestamp() from fence
     where id = ${bulk_id} and finished_at is null`;
}

export interface BulkEnd {
  state: "FINISHED" | "CANCELED";
  succeeded: number;
  failed: number;
  not_done: number;
}

/**
 * The end of a bulk, and with it the runs of on_finish and, where something failed, on_failure; and whoever is next in the line of its
 * serial key is looked at. Undefined: it has not ended yet, or has before.
 */
export async function finish(sql: Db, term: Term, bulk_id: number): Promise<BulkEnd | undefined> {
  const [row] = await sql<BulkEnd[]>`
    with ${fence(sql, term)},
    counted as materialized (
      select count(*) filter (where state = 'SUCCEEDED') as succeeded, count(*) filter (where state in ('FAILED', 'TIMED_OUT')) as failed
        from job_run where bulk_id = ${bulk_id}),
    ended as (
      update bulk b set state = case b.state when 'CANCELED' then 'CANCELED' else 'FINISHED' end, finished_at = clock_timestamp(),
             next_feed_at = null, succeeded = counted.succeeded, failed = counted.failed
        from fence, counted
       where b.id = ${bulk_id} and b.finished_at is null
         and (b.state = 'CANCELED' or not exists (select from bulk_item i where i.bulk_id = b.id and i.seq >= b.next_seq))
         and not exists (select from job_run r where r.bulk_id = b.id and ${inStates(sql, NOT_ENDED, sql`r.state`)})
      returning b.*, (select count(*) from bulk_item i where i.bulk_id = b.id) - b.succeeded - b.failed as not_done, fence.epoch),
    next as (
      insert into bulk_recheck (bulk_id)
      select o.id from ended e join bulk o on o.serial_key = e.serial_key and o.finished_at is null and o.id <> e.id),
    line as (insert into key_recheck (line) select 'serial:' || serial_key from ended where serial_key is not null),
    ask as (
      select row_number() over (order by c.what) as place, d.id as job_definition_id, 'bulk' as source,
             'bulk:' || e.id || ':' || c.what as key, d.default_args_json || jsonb_build_object('bulk_id', e.id, 'name', e.name, 'state', e.state,
               'succeeded', e.succeeded, 'failed', e.failed, 'not_done', e.not_done) as args,
             d.priority, clock_timestamp() as due_at, null::timestamptz as slot, fill_template(d.node, '{}') as node, null::bigint as rerun_of, null as own_serial_key,
             null::bigint as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id, e.epoch as leader_epoch
        from ended e
        cross join lateral (values ('finish', e.on_finish), ('failure', case when e.failed > 0 then e.on_failure end)) as c(what, job_definition_id)
        join job_definition d on d.id = c.job_definition_id),
    ${insertingRuns(sql)}
    select state, succeeded, failed, not_done from ended`;
  return row;
}

function numbers(sql: Db, ids: number[]) {
  return sql`select x::bigint from jsonb_array_elements_text(${json(sql, ids)}) as x`;
}
