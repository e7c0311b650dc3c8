/**
 * What ended, counted as it ends, so that a plot over a week reads a few hundred rows however many runs there are.
 *
 *   job_run (ended_xid) --rollUp, by the leader--> run_stat: by minute, ten minutes, hour, and in all; by job, and all jobs
 *
 * Each run is counted exactly once. The statement that ends it stamps the id of its transaction and does nothing else for
 * this. `run_stat_mark` holds a snapshot of Postgres, `counted`: whatever that sees has been counted. A count takes the runs
 * that its own snapshot sees and `counted` did not, and replaces `counted` by it, in one statement. So a transaction that
 * commits late, by an hour or with an older time in its rows, is in neither snapshot until it is seen, and in the next one
 * then; and no clock takes part. A large share is counted in parts: `cut` keeps the snapshot that it ends with.
 * A leader that dies has written both or neither; a statement that comes late finds another `version`, or the fence.
 *
 * Which minute a run belongs to is said by its finished_at, so a late one is added to a minute that is over.
 */
import type { Db } from "../postgres/connection.ts";
import { fenceBeside, type Term } from "../nodes/leadership.ts";
import { firstStart } from "../runs/run_view.ts";

/** Upper bounds of the histograms' buckets in seconds; one more bucket holds what is above. */
export const BOUNDS = [
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
  300,
  900,
  3600,
  14_400,
  86_400,
] as const;

const BUCKETS = BOUNDS.length + 1;
const COUNTS = ["succeeded", "failed", "timed_out", "canceled", "skipped", "quarantined"] as const;

/**
 * Counts up to `most` runs that have ended. `more`: there may be others. Undefined: somebody else counted meanwhile, or the
 * term is over.
 *
 * What `taken` looks for has one lower bound, the words of the index ("is not null": the planner does not see that from a
 * comparison of rows, and reads the whole table) and a small limit. Of two bounds the index scan may begin at the lower.
 * What of it the share must not count is left out afterwards; the next share, which begins where this one's snapshot did not
 * see, finds it.
 */
export async function rollUp(
  sql: Db,
  term: Term,
  most = 2_000,
): Promise<{ counted: number; more: boolean } | undefined> {
  const [seen] = await sql<{ version: number }[]>`select version from run_stat_mark where id = 1`;
  const limit = sql.unsafe(String(most));
  const [row] = await sql<{ counted: number; more: boolean }[]>`
    with ${fenceBeside(sql, term)},
    mark as materialized (
      select m.*, coalesce(m.cut, pg_current_snapshot()) as upto,
             greatest(m.cursor_xid, pg_snapshot_xmax(m.counted)) as from_xid,
             case when m.cursor_xid >= pg_snapshot_xmax(m.counted) then m.cursor_id else 0 end as from_id
        from run_stat_mark m, fence
       where m.id = 1 and m.version = ${seen?.version ?? -1}
         and pg_snapshot_xmax(m.counted) <= pg_snapshot_xmax(pg_current_snapshot()) for update of m),
    taken as materialized (
      select r.* from mark m cross join lateral (
        (select e.* from pg_snapshot_xip(m.counted) as late(xid) cross join lateral (
           select ${ended(sql)} where r.ended_xid = late.xid and (r.ended_xid, r.id) > (m.cursor_xid, m.cursor_id)
            order by r.ended_xid, r.id limit ${limit}) e order by e.ended_xid, e.id limit ${limit})
        union all
        (select ${ended(sql)} where r.ended_xid is not null and (r.ended_xid, r.id) > (m.from_xid, m.from_id)
          order by r.ended_xid, r.id limit ${limit})) r
       order by r.ended_xid, r.id limit ${limit}),
    batch as (
      select t.* from taken t, mark m where pg_visible_in_snapshot(t.ended_xid, m.upto) and t.finished_at >= m.since),
    ${counts(sql)},
    written as (${addUp(sql)})
    update run_stat_mark m
       set version = m.version + 1, counted_at = clock_timestamp(),
           counted = case when b.n < ${most} then mark.upto else m.counted end,
           cut = case when b.n < ${most} then null else mark.upto end,
           cursor_xid = case when b.n < ${most} then '0'::xid8 else b.xid end,
           cursor_id = case when b.n < ${most} then 0 else b.id end
      from mark, (select count(*)::int as n, (array_agg(ended_xid order by ended_xid desc, id desc))[1] as xid,
                         (array_agg(id order by ended_xid desc, id desc))[1] as id from taken) b
     where m.id = mark.id
    returning (select count(*)::int from batch) as counted, b.n = ${most} or mark.cut is not null as more`;
  return row;
}

/**
 * After Postgres was restored from a dump into a cluster whose transactions are numbered lower, the mark would be ahead of
 * all that comes: begins anew from now, without what ended in the database before. True: it was so.
 */
export async function restartCounting(sql: Db, term: Term): Promise<boolean> {
  const rows = await sql`
    with ${fenceBeside(sql, term)}
    update run_stat_mark m set version = m.version + 1, counted = pg_current_snapshot(), cut = null, cursor_xid = '0', cursor_id = 0,
           since = clock_timestamp()
      from fence where m.id = 1 and pg_snapshot_xmax(m.counted) > pg_snapshot_xmax(pg_current_snapshot()) returning 1`;
  return rows.length > 0;
}

function ended(sql: Db) {
  return sql`r.id, r.ended_xid, r.job_definition_id, r.state, r.error_name, r.due_at, r.started_at, r.finished_at,
    ${firstStart(sql)} as first_started_at from job_run r`;
}

/**
 * The batch by minute and job, and from that by each grain, and for all jobs. Runs that count alike are first put together, since most
 * do: what each column and bucket counts is then asked of a few rows and not of each run.
 */
function counts(sql: Db) {
  const count = (which: string) => sql.unsafe(`coalesce(sum(n) filter (where ${which}), 0)`);
  const histogram = (bucket: string) =>
    sql.unsafe(`array[${each((place) => `coalesce(sum(n) filter (where ${bucket} = ${place}), 0)`)}]::bigint[]`);
  return sql`
    measured as materialized (
      select date_bin('1 minute', finished_at, 'epoch') as minute, job_definition_id, id, state, finished_at,
             error_name is not distinct from 'Quarantined' as quarantined,
             case when first_started_at is not null then greatest(0, date_part('epoch', first_started_at - due_at)) end as wait,
             case when started_at is not null then greatest(0, date_part('epoch', finished_at - started_at)) end as run
        from batch),
    alike as (
      select minute, job_definition_id, state, quarantined, width_bucket(wait, ${bounds(sql)}) + 1 as wait_bucket,
             width_bucket(run, ${bounds(sql)}) + 1 as run_bucket,
             count(*) as n, sum(wait) as wait, sum(run) as run, max(finished_at) as last_at
        from measured group by 1, 2, 3, 4, 5, 6),
    counted as (
      select minute, job_definition_id, ${count("state = 'SUCCEEDED'")} as succeeded, ${
    count("state = 'FAILED'")
  } as failed,
             ${count("state = 'TIMED_OUT'")} as timed_out, ${count("state = 'CANCELED'")} as canceled,
             ${count("state = 'SKIPPED'")} as skipped, ${count("quarantined")} as quarantined,
             coalesce(sum(wait), 0) as wait_seconds, coalesce(sum(run), 0) as run_seconds,
             ${histogram("wait_bucket")} as waits, ${histogram("run_bucket")} as runs,
             max(last_at) filter (where state = 'SUCCEEDED') as last_succeeded_at,
             max(last_at) filter (where state in ('FAILED', 'TIMED_OUT')) as last_failed_at,
             max(last_at) filter (where quarantined) as last_quarantined_at
        from alike group by minute, job_definition_id),
    failures as (
      select minute, job_definition_id,
             (array_agg(id order by finished_at desc) filter (where state in ('FAILED', 'TIMED_OUT')))[1] as last_failed_run,
             (array_agg(id order by finished_at desc) filter (where quarantined))[1] as last_quarantined_run
        from measured where state in ('FAILED', 'TIMED_OUT') or quarantined group by minute, job_definition_id),
    by_minute as materialized (select * from counted left join failures using (minute, job_definition_id)),
    totals as (
      select g.seconds as grain_seconds, case g.seconds when 0 then 'epoch' else date_bin(make_interval(secs => g.seconds), minute, 'epoch') end as at,
             j.id as job_definition_id, ${
    sql.unsafe(COUNTS.map((name) => `sum(${name})::bigint as ${name}`).join(", "))
  },
             sum(wait_seconds) as wait_seconds, sum(run_seconds) as run_seconds,
             ${sumOf(sql, "waits")} as waits, ${
    sumOf(sql, "runs")
  } as runs, max(last_succeeded_at) as last_succeeded_at,
             max(last_failed_at) as last_failed_at, (array_agg(last_failed_run order by last_failed_at desc nulls last))[1] as last_failed_run,
             max(last_quarantined_at) as last_quarantined_at,
             (array_agg(last_quarantined_run order by last_quarantined_at desc nulls last))[1] as last_quarantined_run
        from by_minute cross join (values (0), (60), (600), (3600)) as g(seconds)
        cross join lateral (values (job_definition_id), (0::bigint)) as j(id)
       group by 1, 2, 3)`;
}

function addUp(sql: Db) {
  const added = (name: string) => `array[${each((place) => `s.${name}[${place}] + excluded.${name}[${place}]`)}]`;
  const last = (what: string) => `
    last_${what}_run = case when excluded.last_${what}_at >= coalesce(s.last_${what}_at, '-infinity')
                            then excluded.last_${what}_run else s.last_${what}_run end,
    last_${what}_at = greatest(s.last_${what}_at, excluded.last_${what}_at)`;
  const columns = ["wait_seconds", "run_seconds", ...COUNTS];
  return sql`
    insert into run_stat as s (grain_seconds, at, job_definition_id, ${
    sql.unsafe(COUNTS.join(", "))
  }, wait_seconds, run_seconds,
           waits, runs, last_succeeded_at, last_failed_at, last_failed_run, last_quarantined_at, last_quarantined_run)
    select * from totals
    on conflict (grain_seconds, at, job_definition_id) do update set ${
    sql.unsafe([
      ...columns.map((name) => `${name} = s.${name} + excluded.${name}`),
      `waits = ${added("waits")}, runs = ${added("runs")}`,
      "last_succeeded_at = greatest(s.last_succeeded_at, excluded.last_succeeded_at)",
      last("failed"),
      last("quarantined"),
    ].join(", "))
  }`;
}

function bounds(sql: Db) {
  return sql.unsafe(`'{${BOUNDS.join(",")}}'::float8[]`);
}

function sumOf(sql: Db, histogram: "waits" | "runs") {
  return sql.unsafe(`array[${each((place) => `sum(${histogram}[${place}])`)}]::bigint[]`);
}

function each(text: (place: number) => string): string {
  return Array.from({ length: BUCKETS }, (_, place) => text(place + 1)).join(", ");
}

/** Deletes what is older than it is kept, some of it. True: there is more. The sums of all time stay. */
export async function trimRunStats(
  sql: Db,
  term: Term,
  keep: { minute_days: number; hour_days: number },
  most = 5_000,
): Promise<boolean> {
  const rows = await sql`
    with ${fenceBeside(sql, term)},
    old as (
      (select ctid from run_stat where grain_seconds = 60 and at < now() - ${keep.minute_days} * interval '1 day' limit ${most})
      union all
      (select ctid from run_stat where grain_seconds = 600 and at < now() - ${keep.minute_days} * interval '1 day' limit ${most})
      union all
      (select ctid from run_stat where grain_seconds = 3600 and at < now() - ${keep.hour_days} * interval '1 day' limit ${most}))
    delete from run_stat s using fence where s.ctid = any(array(select ctid from old)) returning 1`;
  return rows.length >= most;
}

/** How far back, in steps of how long. */
export const RANGES = {
  "1h": { seconds: 3_600, step_seconds: 60 },
  "24h": { seconds: 86_400, step_seconds: 600 },
  "7d": { seconds: 604_800, step_seconds: 3_600 },
} as const;
export type StatsRange = keyof typeof RANGES;

/** Runs that ended, and how long those that had started waited (due to started) and ran (started to finished), in seconds. */
export interface EndedCounts {
  succeeded: number;
  failed: number;
  timed_out: number;
  canceled: number;
  skipped: number;
  /** Of the failed ones, those that were interrupted too often. */
  quarantined: number;
  /** FAILED and TIMED_OUT of all that ended so or SUCCEEDED, 0 to 1; null: there is none. */
  error_rate: number | null;
  wait_p50: number | null;
  wait_p95: number | null;
  run_p50: number | null;
  run_p95: number | null;
}

export interface Sums extends Pick<EndedCounts, typeof COUNTS[number]> {
  wait_seconds: number;
  run_seconds: number;
  /** How many in each bucket of BOUNDS, and above. */
  waits: number[];
  runs: number[];
}

/** What ended in each step of a range until now, of all jobs together: for plots. Steps in which nothing ended are there. */
export async function readSeries(sql: Db, range: StatsRange): Promise<({ at: Date } & EndedCounts)[]> {
  const { seconds, step_seconds } = RANGES[range];
  const rows = await sql<({ at: Date } & Partial<Sums>)[]>`
    select g.at, ${columns(sql)}
      from generate_series(date_bin(make_interval(secs => ${step_seconds}), now() - ${seconds} * interval '1 s', 'epoch'),
                           clock_timestamp(), make_interval(secs => ${step_seconds})) as g(at)
      left join run_stat s on s.grain_seconds = ${step_seconds} and s.at = g.at and s.job_definition_id = 0
       and s.at > now() - ${seconds + step_seconds} * interval '1 s'
     order by g.at`;
  return rows.map(({ at, ...sums }) => ({ at, ...endedOf(sums) }));
}

/** The same for a whole range, of each job in which something ended, most failures first. Of a day or a week: from a full hour on. */
export async function readJobTotals(
  sql: Db,
  range: StatsRange,
): Promise<({ job_definition_id: number; job_name: string } & EndedCounts)[]> {
  const seconds = RANGES[range].seconds;
  const grain_seconds = seconds > 3_600 ? 3_600 : 60;
  const rows = await sql<({ job_definition_id: number; job_name: string } & Sums)[]>`
    select d.id as job_definition_id, d.name as job_name, ${summed(sql)}
      from run_stat s join job_definition d on d.id = s.job_definition_id
     where s.grain_seconds = ${grain_seconds} and s.at > now() - ${seconds} * interval '1 s'
     group by d.id order by sum(s.failed + s.timed_out) desc, d.name`;
  return rows.map(({ job_definition_id, job_name, ...sums }) => ({ job_definition_id, job_name, ...endedOf(sums) }));
}

/** The same for a whole range and all jobs. */
export async function readTotal(sql: Db, range: StatsRange): Promise<EndedCounts> {
  const { seconds, step_seconds } = RANGES[range];
  const [row] = await sql<Sums[]>`
    select ${summed(sql)} from run_stat s
     where s.grain_seconds = ${step_seconds} and s.job_definition_id = 0 and s.at > now() - ${seconds} * interval '1 s'`;
  return endedOf(row ?? {});
}

/** `place`: among all jobs by age, from 0. It never changes, also when an older job ends its first run. */
export type AllTime = { job_name: string; place: number } & Sums;

/** All that was ever counted, the oldest job first. A job that has ended no run has zeros: what grows from none is not seen to grow. */
export async function readAllTime(sql: Db): Promise<AllTime[]> {
  const rows = await sql<({ job_name: string; place: number } & (Sums | Record<keyof Sums, null>))[]>`
    select d.name as job_name, d.place, ${columns(sql)}
      from (select id, name, removed_at, (row_number() over (order by id) - 1)::int as place from job_definition) d
      left join run_stat s on s.job_definition_id = d.id and s.grain_seconds = 0
     where s.job_definition_id is not null or d.removed_at is null order by d.id`;
  return rows.map((row) => row.succeeded === null ? { ...row, ...NOTHING_ENDED } : row);
}

const NOTHING_ENDED: Sums = {
  ...Object.fromEntries(COUNTS.map((name) => [name, 0])) as Pick<EndedCounts, typeof COUNTS[number]>,
  wait_seconds: 0,
  run_seconds: 0,
  waits: Array(BOUNDS.length + 1).fill(0),
  runs: Array(BOUNDS.length + 1).fill(0),
};

function columns(sql: Db) {
  return sql.unsafe([...COUNTS, "wait_seconds", "run_seconds", "waits", "runs"].map((name) => `s.${name}`).join(", "));
}

function summed(sql: Db) {
  const sums = COUNTS.map((name) => `coalesce(sum(s.${name}), 0)::bigint as ${name}`).join(", ");
  return sql`${
    sql.unsafe(sums)
  }, coalesce(sum(s.wait_seconds), 0) as wait_seconds, coalesce(sum(s.run_seconds), 0) as run_seconds,
    ${sumOf(sql, "waits")} as waits, ${sumOf(sql, "runs")} as runs`;
}

function endedOf(sums: Partial<Sums>): EndedCounts {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, sums[name] ?? 0])) as Pick<
    EndedCounts,
    typeof COUNTS[number]
  >;
  const bad = counts.failed + counts.timed_out;
  const judged = bad + counts.succeeded;
  return {
    ...counts,
    error_rate: judged === 0 ? null : bad / judged,
    wait_p50: quantile(sums.waits ?? [], 0.5),
    wait_p95: quantile(sums.waits ?? [], 0.95),
    run_p50: quantile(sums.runs ?? [], 0.5),
    run_p95: quantile(sums.runs ?? [], 0.95),
  };
}

/** By even spread within its bucket, as Prometheus does it; above the last bound that bound is all that is known. Null: nothing is counted. */
export function quantile(histogram: readonly (number | null)[], share: number): number | null {
  const total = histogram.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  if (total === 0) return null;
  let before = 0;
  for (const [place, count] of histogram.entries()) {
    const here = count ?? 0;
    if (here > 0 && before + here >= share * total) {
      const low = BOUNDS[place - 1] ?? 0;
      const high = BOUNDS[place] ?? low;
      return low + (high - low) * (share * total - before) / here;
    }
    before += here;
  }
  return BOUNDS[BOUNDS.length - 1] as number;
}
