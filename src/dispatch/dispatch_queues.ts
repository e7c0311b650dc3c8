/**
 * What may start now. Runs wait in run queues, one for each definition and node (or none) that they name; within a run queue they
 * start by priority, due time, id, and so they do across run queues. Whatever closes a run queue (a limit, a pause, a full node)
 * closes it as one, so the cost of choosing grows with the run queues in which something waits and not with what waits there.
 */
import { type Db, type Fragment, json } from "../postgres/connection.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { behindKey, beyondLimit, ofLimit } from "../runs/key_queues.ts";
import { live, workersAlive } from "../runs/live_runs.ts";
import type { NodeRow, WorkerRow } from "../nodes/workers.ts";
import type { Wait } from "../runs/wait_reason.ts";
import { inStates, MAY_START, NOT_ENDED, WAITING } from "../runs/run_states.ts";
import { notCanceled } from "../runs/states.ts";

/** A run queue in which something may start, with all of its definition that can keep it from doing so. */
export interface RunQueue {
  job_definition_id: number;
  job_name: string;
  /** A node's name, labels ("gpu=a100"), or empty: any. */
  node: string;
  digest: string;
  removed: boolean;
  paused_by: string | null;
  paused_reason: string | null;
  concurrency_limit: number | null;
  concurrency_key: string | null;
  /** ASSIGNED and RUNNING runs of the definition, of all its run queues. */
  running: number;
  resources: Record<string, number>;
  rate_count: number | null;
  rate_seconds: number | null;
  /** Until its rate allows the next start; less than 0: since when it does. */
  rate_wait_ms: number;
}

export interface Candidate {
  job_run_id: number;
  job_definition_id: number;
  version: number;
  node: string;
  serial_key: string | null;
  limit_key: string | null;
  /** How many of its limit key may be started besides; null: any number. */
  limit_left: number | null;
  bulk_id: number | null;
  /** How many of its bulk may be started besides; null: it is of none. */
  bulk_left: number | null;
  digest: string;
  /** It lost its last attempt there and asked for another node. */
  avoid_node: string | null;
  /** Interrupted more often than its job allows: to be quarantined, not started. */
  worn_out: boolean;
  /** Its serial key or limit key is taken, or its bulk runs as many as it may: to be held. */
  behind: boolean;
}

/** All that a choice is made from, as one moment had it. */
export interface DispatchSnapshot {
  /** An operator stopped all dispatch. Read here, since a worker reads its settings only with its renewals. */
  paused: boolean;
  workers: (WorkerRow & { node: NodeRow })[];
  lanes: RunQueue[];
  /** All that may start now, in its order; undefined: more than is read without being asked for. */
  waiting: Candidate[] | undefined;
  /** Runs that are soon due and can be given to a worker before: those that wait for nothing but their time. */
  near: UpcomingRun[];
}

/** A run that is soon due. */
export type UpcomingRun = Pick<Candidate, "job_run_id" | "version" | "node" | "digest" | "avoid_node">;

/** So much of what waits is read along: enough for a system with little to do, and cheap for one that has much. */
const GLANCE_LANES = 4;
const GLANCE_RUNS = 16;
const NEAR_RUNS = 100;

/** Who is there and what waits. */
export async function readDispatchSnapshot(sql: Db, ahead_seconds = 0): Promise<DispatchSnapshot> {
  const [row] = await sql<DispatchSnapshotRow[]>`with recursive ${snapshotParts(sql, ahead_seconds)} select ${
    snapshot(sql)
  }`;
  return snapshotOf(row as DispatchSnapshotRow);
}

export interface DispatchSnapshotRow {
  paused: boolean;
  workers: DispatchSnapshot["workers"] | null;
  lanes: RunQueue[] | null;
  glance: Candidate[] | null;
  near: UpcomingRun[] | null;
}

/** The parts of a `with recursive` that a sight is taken from: `live`, `run queue`, and `soon`. */
export function snapshotParts(sql: Db, ahead_seconds: number) {
  return sql`${live(sql)}, ${lanes(sql)}, ${soon(sql, ahead_seconds)}`;
}

/** The columns of a sight, beside its parts; `glance`: with the first runs that wait. */
export function snapshot(sql: Db, glance = true) {
  const first = candidatesOf(
    sql,
    sql`(select job_definition_id, node, ${GLANCE_RUNS}::int as most, null::text as alone from lane limit ${GLANCE_LANES}) l`,
    GLANCE_LANES * GLANCE_RUNS,
  );
  return sql`
    exists (select from scheduler_settings where name = 'dispatch' and value = '"paused"') as paused,
    (select json_agg(w) from (${workersAlive(sql)}) w) as workers,
    (select json_agg(l) from (${lanesOf(sql)}) l) as lanes,
    ${glance ? sql`(select json_agg(c) from (${first}) c)` : sql`null::json`} as glance,
    (select json_agg(n) from (${nearOf(sql)}) n) as near`;
}

export function snapshotOf(
  { paused, workers, lanes, glance, near }: DispatchSnapshotRow,
  glanced = true,
): DispatchSnapshot {
  const read = Map.groupBy(glance ?? [], ({ job_definition_id, node }) => `${job_definition_id} ${node}`);
  const few = (lanes ?? []).length <= GLANCE_LANES && [...read.values()].every((runs) => runs.length < GLANCE_RUNS);
  const waiting = !lanes || (glanced && few) ? glance ?? [] : undefined;
  return { paused, workers: workers ?? [], lanes: lanes ?? [], waiting, near: near ?? [] };
}

/** Run queues in which something waits that is not held: each is found by one look into the index, however much waits in it. */
function lanes(sql: Db) {
  return sql`lane as (
      (select job_definition_id, coalesce(node, '') as node from job_run
        where ${inStates(sql, MAY_START)} and not held order by 1, 2 limit 1)
      union all
      select n.job_definition_id, n.node from lane l cross join lateral (
        select r.job_definition_id, coalesce(r.node, '') as node from job_run r
         where ${inStates(sql, MAY_START, sql`r.state`)} and not r.held
           and (r.job_definition_id, coalesce(r.node, '')) > (l.job_definition_id, l.node)
         order by 1, 2 limit 1) n)`;
}

function lanesOf(sql: Db) {
  return sql`
    select l.job_definition_id, l.node, d.name as job_name, d.digest, d.removed_at is not null as removed,
           d.paused_by, d.paused_reason, d.concurrency_limit, d.concurrency_key, coalesce(a.runs, 0) as running, d.resources,
           d.rate_count, d.rate_seconds::float8,
           greatest(-1e9, (extract(epoch from d.rate_next_at) - extract(epoch from clock_timestamp())) * 1000)::float8 as rate_wait_ms
      from lane l join job_definition d on d.id = l.job_definition_id left join live a on a.job_definition_id = l.job_definition_id`;
}

/** Runs that come due within so many seconds, as far as a look goes. */
function soon(sql: Db, ahead_seconds: number) {
  return sql`soon as materialized (
      select id, version, job_definition_id, state, node, avoid_node, wakes_at, priority, serial_key, limit_key, bulk_id, interruptions,
             cancel_requested_at, event_key
        from job_run
       where wakes_at > (select clock_timestamp()) and wakes_at <= (select clock_timestamp() + ${ahead_seconds}::float8 * interval '1 s')
       order by wakes_at limit ${10 * NEAR_RUNS})`;
}

/**
 * Those of `soon` of which nothing but the time says whether they may start: no limit, rate or resource of theirs may change until
 * then, and nobody has their serial key or waits for it. The time of a run that gathers events moves with each of them; a suspended one would begin
 * before its time.
 */
function nearOf(sql: Db) {
  return sql`
    select r.id as job_run_id, r.version, coalesce(r.node, '') as node, d.digest, r.avoid_node
      from soon r join job_definition d on d.id = r.job_definition_id
     where ${inStates(sql, WAITING, sql`r.state`)} and r.cancel_requested_at is null and r.event_key is null
       and (r.state <> 'ORPHANED' or r.interruptions <= d.max_interruptions)
       and r.limit_key is null and r.bulk_id is null and d.paused_at is null and d.removed_at is null
       and d.concurrency_limit is null and d.rate_count is null and d.resources = '{}'
       and (r.serial_key is null or not (
         exists (select from job_run o where o.serial_key = r.serial_key and o.id <> r.id
                  and ${inStates(sql, NOT_ENDED, sql`o.state`)})
         or exists (select from bulk b where b.serial_key = r.serial_key and b.finished_at is null)
         or exists (select from serial_key_pause s where s.serial_key = r.serial_key)))
     order by r.wakes_at, r.priority, r.id limit ${NEAR_RUNS}`;
}

/** How much of each resource there is, and how much of it runs have taken, counted from their rows. */
export async function readResources(sql: Db): Promise<{ name: string; capacity: number; taken: number }[]> {
  return await sql<{ name: string; capacity: number; taken: number }[]>`
    select s.name, s.capacity, coalesce(sum(t.taken), 0)::int as taken
      from resource s left join (
        select e.key as name, e.value::int as taken from job_run r join job_definition d on d.id = r.job_definition_id,
               jsonb_each_text(d.resources) e where r.state in ('ASSIGNED', 'RUNNING')) t using (name)
     group by s.name, s.capacity`;
}

/** At most `most` runs of a run queue. */
export interface QueueShare {
  job_definition_id: number;
  node: string;
  most: number;
  /** The node that alone has room: runs that avoid it are left out, or enough of them would hide all that are behind them. */
  alone?: string | null;
}

/** The first runs of each run queue that are due, all in the order in which they start, and of all of them the first `most`. */
export async function candidates(sql: Db, shares: QueueShare[], most = MOST_CANDIDATES): Promise<Candidate[]> {
  const asked = sql`jsonb_to_recordset(${
    json(sql, shares)
  }) as l(job_definition_id bigint, node text, most int, alone text)`;
  return await sql<Candidate[]>`${candidatesOf(sql, asked, most)}`;
}

/** Twice what one tick gives away: of a thousand run queues, all that is read beyond that costs more than what is given. */
const MOST_CANDIDATES = 1_000;

/** `shares`: a table l(job_definition_id, node, most, alone). */
function candidatesOf(sql: Db, shares: Fragment, most: number) {
  return sql`
    with first as materialized (
      select r.*, l.node as lane
        from ${shares} cross join lateral (
          select id, job_definition_id, version, state, priority, due_at, created_at, serial_key, limit_key, avoid_node, bulk_id, interruptions
            from job_run r
           where r.job_definition_id = l.job_definition_id and coalesce(r.node, '') = l.node
             and ${inStates(sql, MAY_START, sql`r.state`)} and not r.held
             and r.due_at <= clock_timestamp() and ${notCanceled(sql)}
             and (l.alone is null or r.avoid_node is distinct from l.alone)
           order by r.priority, r.due_at, r.id limit l.most) r
       order by r.priority, r.due_at, r.id limit ${most}),
    bulks as materialized (
      select b.id, (b.running_limit - (
               select count(*) from job_run o where o.bulk_id = b.id and o.state in ('ASSIGNED', 'RUNNING')))::int as room
        from bulk b where b.id = any(array(select distinct bulk_id from first where bulk_id is not null)))
    select r.id as job_run_id, r.job_definition_id, r.version, r.lane as node, r.serial_key, r.limit_key, d.digest, r.avoid_node,
           r.bulk_id, b.room as bulk_left, r.state = 'ORPHANED' and r.interruptions > d.max_interruptions as worn_out,
           case when r.limit_key is not null then d.concurrency_limit - (${ofLimit(sql)}) end::int as limit_left,
           ${behindKey(sql)} or ${beyondLimit(sql)} or coalesce(b.room <= 0, false) as behind
      from first r join job_definition d on d.id = r.job_definition_id left join bulks b on b.id = r.bulk_id
     order by r.priority, r.due_at, r.id`;
}

/** Why nothing of these run queues starts; run queues that are not named are open. One statement for all that changed. */
export async function sayWhy(
  sql: Db,
  term: Term,
  waits: { job_definition_id: number; node: string; reason: Wait }[],
): Promise<void> {
  await sql`
    with ${fence(sql, term)},
    now as (select * from jsonb_to_recordset(${
    json(sql, waits)
  }) as w(job_definition_id bigint, node text, reason jsonb)),
    opened as (
      delete from queue_block_reason w using fence
       where not exists (select from now where now.job_definition_id = w.job_definition_id and now.node = w.node))
    insert into queue_block_reason as w (job_definition_id, node, reason) select job_definition_id, node, reason from now, fence
    on conflict (job_definition_id, node) do update set reason = excluded.reason, since = clock_timestamp()
      where w.reason is distinct from excluded.reason`;
}
