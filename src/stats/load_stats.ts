/**
 * What waits and what nodes do, looked at by the leader several times a minute: pages and scrapers read what it saw. Counting
 * what waits reads all of it, so it is done once for all who ask, and less often when it takes long.
 */
import { type Db, json } from "../postgres/connection.ts";
import { PRIORITIES, type PriorityName } from "../job.ts";
import { fenceBeside, type Term } from "../nodes/leadership.ts";
import { RANGES, type StatsRange } from "./run_stats.ts";
import { inStates, MAY_START } from "../runs/run_states.ts";

const NAMED = Object.entries(PRIORITIES) as [PriorityName, number][];

/**
 * Looks, and adds it to the minute of now. What it saw last stays readable as `now`. The look is a statement of its own: the fence is a lock
 * for which the next renewal waits, and with a million waiting counting them takes most of a second.
 */
export async function sampleLoad(sql: Db, term: Term): Promise<void> {
  const [seen] = await sql<{ seen: unknown }[]>`${lookAtLoad(sql)}`;
  await sql`
    with ${fenceBeside(sql, term)}
    insert into load_stat as s (kind, at, subject, sampled_at, used_now, used_sum, used_max, capacity_now, capacity_sum, oldest_seconds)
    select kind, date_bin('1 minute', at, 'epoch'), subject, at, used, used, used, capacity, capacity, oldest
      from fence, jsonb_to_recordset(${json(sql, seen?.seen)})
        as seen(at timestamptz, kind text, subject text, used float8, capacity float8, oldest float8)
    on conflict (kind, at, subject) do update set
      sampled_at = excluded.sampled_at, samples = s.samples + 1, used_now = excluded.used_now,
      used_sum = s.used_sum + excluded.used_now, used_max = greatest(s.used_max, excluded.used_now),
      capacity_now = excluded.capacity_now, capacity_sum = s.capacity_sum + excluded.capacity_now,
      oldest_seconds = excluded.oldest_seconds`;
}

function lookAtLoad(sql: Db) {
  const named = sql.unsafe(`'{${NAMED.map(([, number]) => number).join(",")}}'::int[]`);
  return sql`
    with clock as materialized (select clock_timestamp() as now),
    waiting as materialized (
      select priority, sum(n) as n, min(oldest) as oldest from (
        select priority, count(*) as n, min(greatest(due_at, woken_at)) as oldest from job_run, clock
         where ${inStates(sql, MAY_START)} and not held and due_at <= clock.now group by priority
        union all
        select priority, count(*), min(greatest(due_at, woken_at)) from job_run, clock
         where held and wakes_at is null and due_at <= clock.now group by priority) w group by priority),
    queue as (
      select near.priority::text as subject, coalesce(sum(w.n), 0)::float8 as used, 0::float8 as capacity,
             coalesce(max(extract(epoch from clock.now - w.oldest)), 0)::float8 as oldest
        from clock, unnest(${named}) as near(priority) left join waiting w
          on near.priority = (select p from unnest(${named}) as p order by abs(p - w.priority), p limit 1)
       group by near.priority),
    nodes as (
      select w.node_id as subject, coalesce(sum(l.load), 0)::float8 as used,
             least(sum(w.slots), min(n.max_concurrent))::float8 as capacity, 0::float8 as oldest
        from clock, worker w join node n using (node_id)
        left join (select assigned_worker_id, count(*) as load from job_run where state in ('ASSIGNED', 'RUNNING')
                    group by assigned_worker_id) l on l.assigned_worker_id = w.worker_id
       where w.state <> 'DEAD' and w.lease_until > clock.now group by w.node_id)
    select jsonb_agg(seen) as seen
      from (select clock.now as at, load.* from clock, (select 'queue' as kind, * from queue union all select 'node', * from nodes) load) seen`;
}

/** Deletes what is older than it is kept, some of it. True: there is more. */
export async function trimLoadStats(sql: Db, term: Term, days: number, most = 5_000): Promise<boolean> {
  const rows = await sql`
    with ${fenceBeside(sql, term)},
    old as (select ctid from load_stat where kind in ('queue', 'node') and at < now() - ${days} * interval '1 day' limit ${most})
    delete from load_stat s using fence where s.ctid = any(array(select ctid from old)) returning 1`;
  return rows.length === most;
}

export interface BacklogRow {
  /** The named one that is nearest to the runs' own. */
  priority: PriorityName;
  /** Due, and not started; also behind a serial key, a limit or a bulk. */
  waiting: number;
  /** How long ago the one that waits longest came due. */
  oldest_seconds: number;
  sampled_at: Date;
}

/** What waits, as the leader last saw it, the most urgent first. Empty: nobody has looked for two minutes. */
export async function readBacklog(sql: Db): Promise<BacklogRow[]> {
  const rows = await sql<(Omit<BacklogRow, "priority"> & { subject: string })[]>`
    select subject, used_now as waiting, oldest_seconds, sampled_at from (${
    newest(sql, "queue")
  }) s order by subject::int`;
  return rows.map(({ subject, ...row }) => ({ priority: nameOf(Number(subject)), ...row }));
}

export interface NodeUse {
  node_id: string;
  /** Bodies now, and how many there may be. */
  running: number;
  slots: number;
  sampled_at: Date;
}

/** What nodes do, as the leader last saw it. */
export async function readNodeUse(sql: Db): Promise<NodeUse[]> {
  return await sql<NodeUse[]>`
    select subject as node_id, used_now as running, capacity_now as slots, sampled_at from (${
    newest(sql, "node")
  }) s order by 1`;
}

/** The rows of the last look; it wrote all of them with one time. */
function newest(sql: Db, kind: "queue" | "node") {
  return sql`
    select * from load_stat l where l.kind = ${kind} and l.at > now() - interval '2 minutes'
       and l.sampled_at = (select max(sampled_at) from load_stat where kind = ${kind} and at > now() - interval '2 minutes')`;
}

/** How much waited in each step of a range, at most and on average; a step without a look is null. Of a week every fifth minute is looked at. */
export async function readBacklogSeries(
  sql: Db,
  range: StatsRange,
): Promise<{ at: Date; waiting: number | null; most: number | null }[]> {
  return await series(sql, "queue", range, (one) => ({ at: one.at, waiting: one.used, most: one.most }));
}

/** Which share of all slots was used in each step of a range, 0 to 1; null: there was no worker, or no look. */
export async function readUseSeries(sql: Db, range: StatsRange): Promise<{ at: Date; use: number | null }[]> {
  return await series(
    sql,
    "node",
    range,
    ({ at, used, capacity }) => ({ at, use: capacity ? (used ?? 0) / capacity : null }),
  );
}

/** So many minutes from one that is read to the next: of a week all of them would be 10,000 for each priority and node. Of the last step all are. */
const EACH_MINUTES: Record<StatsRange, number> = { "1h": 1, "24h": 1, "7d": 5 };

interface Step {
  at: Date;
  used: number | null;
  most: number | null;
  capacity: number | null;
}

async function series<T>(sql: Db, kind: "queue" | "node", range: StatsRange, shown: (step: Step) => T): Promise<T[]> {
  const { seconds, step_seconds } = RANGES[range];
  const rows = await sql<Step[]>`
    with minutes as (
      select at, sum(used_sum / samples) as used, sum(used_max) as most, sum(capacity_sum / samples) as capacity
        from load_stat where kind = ${kind} and at = any(array(
          select generate_series(date_bin(make_interval(mins => ${EACH_MINUTES[range]}),
                   now() - ${seconds + step_seconds} * interval '1 s', 'epoch'),
                 clock_timestamp(), make_interval(mins => ${EACH_MINUTES[range]}))
          union select generate_series(date_trunc('minute', now() - ${step_seconds} * interval '1 s'), clock_timestamp(), interval '1 min')))
       group by at),
    steps as (
      select date_bin(make_interval(secs => ${step_seconds}), at, 'epoch') as at, avg(used) as used, max(most) as most, avg(capacity) as capacity
        from minutes group by 1)
    select g.at, s.used, s.most, s.capacity
      from generate_series(date_bin(make_interval(secs => ${step_seconds}), now() - ${seconds} * interval '1 s', 'epoch'),
                           clock_timestamp(), make_interval(secs => ${step_seconds})) as g(at)
      left join steps s using (at) order by g.at`;
  return rows.map(shown);
}

function nameOf(priority: number): PriorityName {
  return NAMED.find(([, number]) => number === priority)?.[0] ?? "system.low";
}
