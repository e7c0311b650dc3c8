/**
 * Deletes what ended long ago (setting run_retention_days): runs with all that hangs on them, whole bulks, and events. Only the
 * leader does, in small statements (leader/retention/run_retention.ts).
 *
 * What must not break when a row is gone:
 *
 * - A slot is created once. Its key goes with its run, so how far slots of a schedule are forgotten is kept (`schedule_watermark`), in the same statement;
 *   a backfill makes none up to there. The leader itself never comes back to a slot: `last_slot` only grows.
 * - A bulk counts its runs while it goes on, and repeats those that failed: its runs stay as long as it does, and go with their items.
 * - What ended is counted once (run_stats.ts): a run that was not counted yet stays.
 * - A throttle looks back at the newest run of its key: one within the window stays. An event stays while a run of it does, so that a
 *   run that is put off finds the event that it takes the place of.
 * - A run reads the results of those that it has called, and of its bulks, whenever it is woken: these stay until it has ended.
 * - A key that is stopped names the run that failed: that one stays. So does the last run of each job and of each schedule, however old.
 *
 * Keys that callers chose (idempotency keys, dedupe keys) are known as long as their run, bulk or event: later they start something new.
 */
import type { Db } from "../../postgres/connection.ts";
import { fenceBeside, type Term } from "../../nodes/leadership.ts";

/** Of one statement: an election may wait for it. */
export const MOST_RUNS = 200;
export const MOST_LINES = 2_000;

export interface DoomedRun {
  job_run_id: number;
  /** Log lines that it has in Postgres; counted no further than `MOST_LINES` and one. */
  lines: number;
  /** The same of its steps, which go with its row. */
  steps: number;
}

/** A piece of a walk: what is found, and after which id it goes on; null: it is over. */
export interface RetentionPiece<Row> {
  rows: Row[];
  looked_to: number | null;
}

/** Runs that may go, among the next `look` from the oldest on. Ids are in the order of new runs: the walk ends where all are young. */
export async function findOldRuns(
  sql: Db,
  { after, days, look = 500 }: { after: number; days: number; look?: number },
): Promise<RetentionPiece<DoomedRun>> {
  const rows = await sql<(DoomedRun & { id: number; old: boolean; young: boolean })[]>`
    with cut as materialized (select ${before(sql, days)} as at),
    seen as materialized (
      select r.*, r.created_at >= cut.at as young from cut, (
        select * from job_run where id > ${after} order by id limit ${look}) r),
    old as (select r.id from seen r, cut where r.finished_at < cut.at and ${mayGo(sql)})
    select s.id, s.id as job_run_id, s.young, o.id is not null as old,
           case when o.id is not null then ${linesOf(sql, sql`s.id`)} else 0 end::int as lines,
           case when o.id is not null then ${stepsOf(sql, sql`s.id`)} else 0 end::int as steps
      from seen s left join old o on o.id = s.id order by s.id`;
  const over = rows.length < look || rows.every(({ young }) => young);
  return {
    rows: rows.filter(({ old }) => old).map(({ job_run_id, lines, steps }) => ({ job_run_id, lines, steps })),
    looked_to: over ? null : rows.at(-1)?.id ?? null,
  };
}

/** Deletes these runs with their attempts and lines, as far as they may go still. Their lines are few: `deleteLines` comes first. */
export async function deleteRuns(
  sql: Db,
  term: Term,
  { job_run_ids, days }: { job_run_ids: number[]; days: number },
): Promise<number> {
  const rows = await sql`
    with ${fenceBeside(sql, term)},
    doomed as materialized (
      select r.id, r.job_schedule_id, r.scheduled_for from job_run r, fence
       where r.id = any(${job_run_ids}::bigint[]) and r.finished_at < ${before(sql, days)} and ${mayGo(sql)}),
    forgotten as (${forget(sql)})
    delete from job_run where id = any(array(select id from doomed)) returning 1`;
  return rows.length;
}

/** The oldest lines of a run that may go, at most `MOST_LINES`: a run of very many is not deleted in one statement. */
export async function deleteLines(
  sql: Db,
  term: Term,
  { job_run_id, days }: { job_run_id: number; days: number },
): Promise<number> {
  const rows = await sql`
    with ${fenceBeside(sql, term)},
    doomed as materialized (
      select r.id from job_run r, fence where r.id = ${job_run_id} and r.finished_at < ${before(sql, days)})
    delete from job_run_log where id = any(array(
      select l.id from doomed d cross join lateral (
        select l.id from job_run_log l where l.job_run_id between d.id and d.id order by l.job_run_id, l.id limit ${MOST_LINES}) l))
    returning 1`;
  return rows.length;
}

export interface DoomedItem extends DoomedRun {
  seq: number;
}

/** A bulk that ended long ago, after bulk `after`, and the first of its items with their runs (0: none). None left: it may go itself. */
export async function findOldBulk(
  sql: Db,
  { after, days }: { after: number; days: number },
): Promise<{ bulk_id: number; items: DoomedItem[] } | undefined> {
  const [bulk] = await sql<{ id: number }[]>`
    select b.id from bulk b where b.id > ${after} and b.finished_at < ${before(sql, days)} and not ${
    goesOn(sql, sql`b.parent_run_id`)
  }
     order by b.id limit 1`;
  if (!bulk) return undefined;
  const items = await sql<DoomedItem[]>`
    select i.seq, coalesce(i.job_run_id, 0) as job_run_id, ${linesOf(sql, sql`i.job_run_id`)}::int as lines,
           ${stepsOf(sql, sql`i.job_run_id`)}::int as steps
      from (select * from bulk_item where bulk_id = ${bulk.id} order by bulk_id, seq limit ${MOST_RUNS}) i order by i.seq`;
  return { bulk_id: bulk.id, items };
}

/** Items of a bulk that ended long ago, from the first up to item `seq`, with their runs. How many runs went. */
export async function deleteItems(
  sql: Db,
  term: Term,
  { bulk_id, seq, days }: { bulk_id: number; seq: number; days: number },
): Promise<number> {
  const [row] = await sql<{ runs: number }[]>`
    with ${fenceBeside(sql, term)},
    item as materialized (
      select i.seq, i.job_run_id from fence, bulk b join bulk_item i on i.bulk_id = b.id
       where b.id = ${bulk_id} and b.finished_at < ${before(sql, days)} and i.bulk_id = ${bulk_id} and i.seq <= ${seq}),
    doomed as materialized (
      select r.id, r.job_schedule_id, r.scheduled_for from job_run r
       where r.id = any(array(select job_run_id from item)) and r.finished_at is not null and not ${
    stopsKey(sql)
  } and not ${isLast(sql)}),
    forgotten as (${forget(sql)}),
    gone as (delete from job_run where id = any(array(select id from doomed)) returning 1),
    items as (
      delete from bulk_item i using item x where i.bulk_id = ${bulk_id} and i.seq = x.seq)
    select (select count(*) from gone)::int as runs`;
  return row?.runs ?? 0;
}

/** A bulk that ended long ago and has no items any more. */
export async function deleteBulk(
  sql: Db,
  term: Term,
  { bulk_id, days }: { bulk_id: number; days: number },
): Promise<boolean> {
  const rows = await sql`
    with ${fenceBeside(sql, term)}
    delete from bulk b using fence
     where b.id = ${bulk_id} and b.finished_at < ${before(sql, days)}
       and not exists (select from bulk_item i where i.bulk_id = b.id) returning 1`;
  return rows.length > 0;
}

/** Events that were dealt with long ago and have no run any more, among the next `look`. How many went. */
export async function deleteOldEvents(
  sql: Db,
  term: Term,
  { after, days, look = 500 }: { after: number; days: number; look?: number },
): Promise<{ events: number; looked_to: number | null }> {
  const [row] = await sql<{ events: number; seen: number; young: boolean; last: number | null }[]>`
    with ${fenceBeside(sql, term)},
    cut as materialized (select ${before(sql, days)} as at),
    seen as materialized (
      select e.id, e.created_at >= cut.at as young, e.processed_at < cut.at as old
        from cut, (select * from event where id > ${after} order by id limit ${look}) e),
    gone as (
      delete from event where id = any(array(
        select s.id from seen s, fence where s.old and not exists (select from job_run r where r.event_id = s.id))) returning 1)
    select (select count(*) from gone)::int as events, count(*)::int as seen, coalesce(bool_and(young), true) as young, max(id) as last
      from seen`;
  const over = !row || row.seen < look || row.young;
  return { events: row?.events ?? 0, looked_to: over ? null : row.last };
}

function before(sql: Db, days: number) {
  return sql`(clock_timestamp() - ${days}::float8 * interval '1 day')`;
}

/** Whether nothing needs run `r`, which ended long ago. */
function mayGo(sql: Db) {
  return sql`(
    not exists (select from bulk b where b.id = r.bulk_id and (b.finished_at is null or exists (select from bulk_item i where i.bulk_id = b.id)))
    and (r.ended_xid is null or exists (
      select from run_stat_mark m where m.id = 1 and (pg_visible_in_snapshot(r.ended_xid, m.counted) or r.finished_at < m.since)))
    and not ${stopsKey(sql)}
    and (r.event_key is null or not exists (
      select from job_definition d cross join jsonb_each(d.event_rules) rule
       where d.id = r.job_definition_id and r.created_at > clock_timestamp() - (rule.value ->> 'throttle_seconds')::float8 * interval '1 s'))
    and not ${goesOn(sql, sql`r.parent_run_id`)}
    and not ${isLast(sql)})`;
}

function goesOn(sql: Db, parent: ReturnType<typeof stopsKey>) {
  return sql`exists (select from job_run p where p.id = ${parent} and p.finished_at is null)`;
}

/** Whether run `r` is the last of its job or schedule: asked for as the pages ask. */
function isLast(sql: Db) {
  return sql`(
    r.id = (select o.id from job_run o where o.job_definition_id = r.job_definition_id and o.finished_at is not null
             order by o.scheduled_for desc limit 1)
    or (r.job_schedule_id is not null and r.id = (
      select o.id from job_run o where o.job_schedule_id = r.job_schedule_id order by o.scheduled_for desc limit 1)))`;
}

function stopsKey(sql: Db) {
  return sql`exists (select from serial_key_pause s where s.job_run_id = r.id)`;
}

function linesOf(sql: Db, id: ReturnType<typeof stopsKey>) {
  return sql`(select count(*) from (select from job_run_log l where l.job_run_id between ${id} and ${id} limit ${
    MOST_LINES + 1
  }) l)`;
}

function stepsOf(sql: Db, id: ReturnType<typeof stopsKey>) {
  return sql`(select count(*) from (select from run_step st where st.job_run_id between ${id} and ${id} limit ${
    MOST_LINES + 1
  }) c)`;
}

/** Of schedules that are there still. */
function forget(sql: Db) {
  return sql`
    insert into schedule_watermark (job_schedule_id, upto)
    select s.id, max(d.scheduled_for) from doomed d join job_schedule s on s.id = d.job_schedule_id group by s.id
    on conflict (job_schedule_id) do update set upto = greatest(schedule_watermark.upto, excluded.upto)`;
}
