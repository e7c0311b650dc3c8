/**
 * Bulks as people and programs read them: how far, how fast, and when they will be done. Nothing here changes a row.
 * A forecast is a band: from what the last runs took, a quarter of them less and a quarter of them more.
 */
import type { Db } from "../postgres/connection.ts";
import type { Waits } from "../runs/wait_reason.ts";
import { HOLDS_KEY, inStates, NOT_ENDED } from "../runs/run_states.ts";
import { ENGLISH } from "../locale/english.ts";
import { waitLine } from "../locale/wait_text.ts";

/** One bulk; what `bulk show --json` and the client give. */
export interface BulkView {
  id: number;
  name: string;
  job_name: string;
  state: "RUNNING" | "PAUSED" | "CANCELED" | "FINISHED";
  /** Why nothing of it goes on, in one sentence; null while something does, or it has ended. */
  wait_reason: string | null;
  /** The same for programs: a code, and what it is about. */
  waits: Waits | null;
  parallel: number;
  /** As many at once as it may run now: 0 unless RUNNING, less than `parallel` while it is throttled. */
  running_limit: number;
  throttle_above: number | null;
  throttled: number | null;
  interval_seconds: number;
  priority: number;
  serial_key: string | null;
  max_failures: number | null;
  on_finish: string | null;
  on_failure: string | null;
  retry_of: number | null;
  items: number;
  /** Items that have a run; those of their runs that wait for a slot, are with a worker, wait for another try, or within their bodies. */
  fed: number;
  waiting: number;
  running: number;
  retrying: number;
  suspended: number;
  succeeded: number;
  failed: number;
  canceled: number;
  /** Share of the items whose runs have ended, 0 to 1. */
  progress: number;
  /** Ends per minute, over the last hundred. */
  per_minute: number | null;
  /** What bodies of the last hundred took, in seconds. */
  seconds_p25: number | null;
  seconds_p50: number | null;
  seconds_p75: number | null;
  /** When it will be done; null: unknown, since too little has ended or it does not go on. */
  done_from: Date | null;
  done_to: Date | null;
  created_by: string;
  changed_by: string | null;
  reason: string | null;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

type BulkRow = Omit<BulkView, "wait_reason" | "progress" | "done_from" | "done_to"> & {
  /** That its runs can have at once; 0: nobody knows. */
  slots: number;
  /** From one start to the next, by the rate of its job. */
  rate_each_seconds: number | null;
  now: Date;
};

/** How many ends the rate and the forecast look back. */
const LOOK_BACK = 100;
/** Fewer ends tell nothing. */
const LEAST_ENDS = 3;

export async function readBulk(sql: Db, bulk_id: number): Promise<BulkView | undefined> {
  const [row] = await bulkRows(sql, { id: bulk_id, most: 1 });
  return row && viewOf(row);
}

/** The newest first; `open`: only those that have not ended; made before or after the one of this id. */
export async function listBulks(sql: Db, filter: Omit<Which, "id">): Promise<BulkView[]> {
  return (await bulkRows(sql, filter)).map(viewOf);
}

export interface Forecast {
  parallel: number;
  /** Fewer than `parallel` where its runs can have fewer slots: by the workers alive on their nodes, the limit of its job, its resources. */
  at_once: number;
  done_from: Date | null;
  done_to: Date | null;
}

/** "At 20 instead of 8: 14:32": as it would be with another `parallel` from now on. Undefined: there is no such bulk. */
export async function forecastBulk(
  sql: Db,
  bulk_id: number,
  parallel: number,
): Promise<{ bulk: BulkView; at: Forecast } | undefined> {
  const [row] = await bulkRows(sql, { id: bulk_id, most: 1 });
  return row && { bulk: viewOf(row), at: forecast(row, parallel) };
}

function viewOf(row: BulkRow): BulkView {
  const { slots: _slots, rate_each_seconds: _rate, now: _now, ...bulk } = row;
  const ended = row.succeeded + row.failed + row.canceled;
  const { done_from, done_to } = row.running_limit > 0 ? forecast(row, row.running_limit) : NEVER;
  const wait_reason = row.waits && waitLine(ENGLISH, row.waits);
  return { ...bulk, wait_reason, progress: row.items === 0 ? 1 : Math.min(1, ended / row.items), done_from, done_to };
}

const NEVER = { done_from: null, done_to: null };

/**
 * Waves of as many runs as have slots, each as long as its slower half; but it is fed `parallel` of them an interval. Where it was
 * slower than that so far, as when slots are missing, the later end says so.
 */
export function forecast(
  row: Pick<BulkRow, Forecasting>,
  parallel: number,
): Forecast {
  const at_once = Math.max(1, Math.min(parallel, row.slots > 0 ? row.slots : parallel));
  const left = row.items - row.succeeded - row.failed - row.canceled;
  const { seconds_p25, seconds_p75, interval_seconds, now } = row;
  if (seconds_p25 === null || seconds_p75 === null || row.finished_at) return { parallel, at_once, ...NEVER };
  const waves = Math.ceil(left / at_once);
  const by_rate_s = left * (row.rate_each_seconds ?? 0);
  const by_feeds_s = Math.ceil(left / parallel) * interval_seconds;
  const from_s = Math.max(waves * seconds_p25, by_feeds_s, by_rate_s);
  const at_this_pace_s = row.per_minute === null || row.per_minute === 0
    ? 0
    : left / row.per_minute * 60 * Math.min(row.parallel, Math.max(row.slots, 1)) / at_once;
  const to_s = Math.max(waves * seconds_p75, at_this_pace_s, by_feeds_s, by_rate_s);
  const after = (seconds: number) => new Date(now.getTime() + Math.min(seconds, LONGEST_S) * 1000);
  return { parallel, at_once, done_from: after(from_s), done_to: after(to_s) };
}

type Forecasting =
  | "items"
  | "succeeded"
  | "failed"
  | "canceled"
  | "parallel"
  | "slots"
  | "per_minute"
  | "seconds_p25"
  | "seconds_p75"
  | "interval_seconds"
  | "rate_each_seconds"
  | "finished_at"
  | "now";

const LONGEST_S = 100 * 365 * 86_400;

interface Which {
  id?: number;
  open?: boolean;
  before_id?: number;
  after_id?: number;
  most: number;
}

/** Numbers are float8: what a bigint becomes is a matter of the connection, and an application may ask on its own. */
async function bulkRows(sql: Db, which: Which): Promise<BulkRow[]> {
  const { id, open, before_id, after_id, most } = which;
  return await sql<BulkRow[]>`
    with chosen as materialized (
      select b.* from bulk b
       where ${id === undefined ? sql`true` : sql`b.id = ${id}`} and ${open ? sql`b.finished_at is null` : sql`true`}
         and ${before_id === undefined ? sql`true` : sql`b.id < ${before_id}`}
         and ${after_id === undefined ? sql`true` : sql`b.id > ${after_id}`}
       order by b.id ${after_id === undefined ? sql`desc` : sql``} limit ${most})
    select b.id::float8, b.name, d.name as job_name, b.state, b.parallel, b.running_limit, b.throttle_above::float8, b.throttled,
           b.interval_seconds::float8, b.priority, b.serial_key, b.max_failures, f.name as on_finish, e.name as on_failure, b.retry_of::float8,
           i.items::float8, c.fed::float8, c.waiting::float8, c.running::float8, c.retrying::float8, c.suspended::float8,
           coalesce(b.succeeded, c.fed - c.others)::float8 as succeeded, coalesce(b.failed, c.failed)::float8 as failed,
           coalesce(c.fed - b.succeeded - b.failed, c.canceled)::float8 as canceled, t.per_minute, t.seconds_p25, t.seconds_p50, t.seconds_p75,
           b.created_by, b.changed_by, b.reason, b.created_at, b.started_at, b.finished_at, clock_timestamp() as now,
           coalesce(${slots(sql)}, 0)::int as slots, (d.rate_seconds / d.rate_count)::float8 as rate_each_seconds,
           ${whyWaiting(sql)} as waits
      from chosen b join job_definition d on d.id = b.job_definition_id
      left join job_definition f on f.id = b.on_finish left join job_definition e on e.id = b.on_failure
      cross join lateral (select coalesce(max(seq), 0) as items from bulk_item where bulk_id = b.id) i
      cross join lateral (
        select least(b.next_seq - 1, i.items) as fed, count(*) as others, count(*) filter (where state in ('PENDING', 'ORPHANED')) as waiting,
               count(*) filter (where state in ('ASSIGNED', 'RUNNING')) as running, count(*) filter (where state = 'RETRYING') as retrying, count(*) filter (where state = 'SUSPENDED') as suspended,
               count(*) filter (where state in ('FAILED', 'TIMED_OUT')) as failed, count(*) filter (where state in ('CANCELED', 'SKIPPED')) as canceled
          from job_run where bulk_id = b.id and b.finished_at is null
           and ${inStates(sql, [...NOT_ENDED, "FAILED", "TIMED_OUT", "CANCELED", "SKIPPED"])}) c
      cross join lateral (
        select case when count(*) >= ${LEAST_ENDS} and max(finished_at) > min(finished_at) then least(
                 count(*) * 60 / extract(epoch from max(finished_at) - case when count(*) < ${LOOK_BACK} then min(started_at) else min(finished_at) end),
                 b.parallel * 60 / nullif(greatest(avg(extract(epoch from finished_at - started_at)), b.interval_seconds), 0)) end::float8 as per_minute,
               case when count(*) >= ${LEAST_ENDS} then ${seconds(sql, 0.25)} end as seconds_p25,
               case when count(*) >= ${LEAST_ENDS} then ${seconds(sql, 0.5)} end as seconds_p50,
               case when count(*) >= ${LEAST_ENDS} then ${seconds(sql, 0.75)} end as seconds_p75
          from (select started_at, finished_at from job_run
                 where bulk_id = b.id and finished_at is not null order by finished_at desc limit ${LOOK_BACK}) l) t
     order by b.id desc`;
}

/** Of the runs of definition `d`; null: nobody knows. Where each item names its own node, those of all nodes. */
function slots(sql: Db) {
  return sql`least(
    case when d.concurrency_policy <> 'allow' then 1 when d.concurrency_key is null then d.concurrency_limit end,
    (select min(s.capacity / e.value::int) from jsonb_each_text(d.resources) e join resource s on s.name = e.key where e.value::int > 0),
    (with there as materialized (
       select w.node_id, w.slots, n.max_concurrent, w.worker_id = (select worker_id from leader_term) as leads
         from worker w join node n using (node_id)
        where w.state = 'ACTIVE' and w.lease_until > clock_timestamp() and n.is_active and (n.status <> 'unavailable' or n.checked_at is null)
          and case when d.node is null or d.node like '%{%' then true
                   when d.node not like '%=%' then n.node_id = d.node
                   else not exists (select from string_to_table(d.node, ',') pair
                                     where n.labels->>trim(split_part(pair, '=', 1)) is distinct from trim(split_part(pair, '=', 2))) end),
     works as (
       select node_id, least(sum(slots), min(max_concurrent)) as slots
         from there left join scheduler_settings rule on rule.name = 'leader_runs_jobs'
        where not leads or rule.value = '"always"'
           or (rule.value is distinct from '"never"' and not exists (select from there o where not o.leads)) group by node_id)
     select sum(slots) from works))`;
}

function seconds(sql: Db, share: number) {
  return sql`percentile_cont(${share}::float8) within group (order by extract(epoch from finished_at - started_at)::float8)`;
}

function whyWaiting(sql: Db) {
  return sql`case
    when b.finished_at is not null then null
    when b.state = 'PAUSED' then jsonb_build_object('code', 'bulk_paused', 'params',
      jsonb_build_object('bulk_id', b.id, 'by', b.changed_by, 'reason', b.reason))
    when b.state = 'CANCELED' then jsonb_build_object('code', 'bulk_ending', 'params', '{}'::jsonb)
    when b.started_at is null then coalesce(
      (select behind_bulk(o) from bulk o
        where o.serial_key = b.serial_key and o.finished_at is null and o.id <> b.id
          and (o.started_at is not null or (o.created_at, o.id) < (b.created_at, b.id))
        order by o.started_at, o.created_at, o.id limit 1),
      (select key_stopped(s) from serial_key_pause s where s.serial_key = b.serial_key),
      (select behind_run(o) from job_run o
        where o.serial_key = b.serial_key and (${inStates(sql, HOLDS_KEY, sql`o.state`)}
          or (o.state = 'PENDING' and o.bulk_id is null and o.created_at < b.created_at and o.due_at <= clock_timestamp()))
        order by o.state = 'PENDING', o.priority, o.due_at, o.id limit 1))
    when b.next_feed_at > clock_timestamp() and c.running + c.waiting + c.retrying < b.running_limit
      then jsonb_build_object('code', 'interval', 'params', jsonb_build_object('at', b.next_feed_at))
    when c.running = 0 and c.waiting > 0 then (
      select wait_reason(r) from job_run r
       where r.bulk_id = b.id and r.state in ('PENDING', 'ORPHANED') order by r.priority, r.due_at, r.id limit 1)
  end`;
}
