/**
 * Log lines of runs that ended long ago, on their way out of Postgres (leader/retention/log_retention.ts).
 *
 *   job_run_log --read--> an object of the archive --moveLines--> job_run.log_ref
 *
 * The walk goes along the index of lines by run, from run to run: it costs what there is to move, and not what there are runs. Ids of runs are in
 * the order of their creation, so those that may be old come first; what is passed over are old runs that ended lately.
 *
 * `moveLines` is one guarded statement. A run is moved only when exactly the lines that were read are there between the first and the last of
 * them, and its log_ref is what it was then; those lines, by their ids, are deleted and no others. So of two that move the same lines one does,
 * and a line that comes late, of a body that nobody knew to be alive, stays and is moved by the next round.
 */
import { type Db, json } from "../../postgres/connection.ts";
import { fenceBeside, type Term } from "../../nodes/leadership.ts";

export interface OldRun {
  job_run_id: number;
  log_ref: string | null;
  /** Of its lines; counted no further than `MOST_LINES` and one. */
  lines: number;
}

/** Lines that are read at once, and that one part of an object holds. One statement deletes no more: an election may wait for it. */
export const MOST_LINES = 2_000;

export interface OldRuns {
  runs: OldRun[];
  /** The walk goes on after this run; null: it is over. */
  looked_to: number | null;
  /** The database's day, "2026-11-22". */
  day: string;
}

/** Runs with lines that ended more than `days` ago, among the next `look` that have lines. */
export async function findOldLogs(
  sql: Db,
  { after, days, look = 500 }: { after: number; days: number; look?: number },
): Promise<OldRuns> {
  const rows = await sql<
    { job_run_id: number; log_ref: string | null; old: boolean; young: boolean; lines: number; day: string }[]
  >`
    with recursive cut as materialized (select clock_timestamp() - ${days}::float8 * interval '1 day' as at),
    walk(id, place) as (
      (select l.job_run_id, 1 from job_run_log l where l.job_run_id > ${after} order by l.job_run_id, l.id limit 1)
      union all
      select n.id, w.place + 1 from walk w cross join lateral (
        select l.job_run_id as id from job_run_log l where l.job_run_id > w.id order by l.job_run_id, l.id limit 1) n
       where w.place < ${look}::int),
    seen as (
      select w.id as job_run_id, r.log_ref, coalesce(r.finished_at < cut.at, false) as old, r.created_at >= cut.at as young
        from cut, walk w cross join lateral (select * from job_run r where r.id = w.id offset 0) r)
    select s.*, to_char(clock_timestamp(), 'YYYY-MM-DD') as day, case when s.old then (
             select count(*) from (select 1 from job_run_log l
               where l.job_run_id between s.job_run_id and s.job_run_id limit ${
    MOST_LINES + 1
  }::int) l) else 0 end::int as lines
      from seen s`;
  const last = rows.at(-1);
  const over = rows.length < look || rows.every(({ young }) => young); // some may be young by a clock that was wrong
  return {
    runs: rows.filter(({ old }) => old).map(({ job_run_id, log_ref, lines }) => ({ job_run_id, log_ref, lines })),
    looked_to: over || !last ? null : last.job_run_id,
    day: last?.day ?? "",
  };
}

export interface OldLine {
  id: number;
  job_run_id: number;
  /** The whole line as JSON: what `archive/members.ts` reads again. */
  text: string;
}

/** Lines of these runs, each run's in their order, at most `MOST_LINES` of one that follow `after` (0: from the first). */
export async function readOldLines(sql: Db, from: { job_run_ids: number[]; after?: number }): Promise<OldLine[]> {
  return await sql<OldLine[]>`
    select l.* from unnest(${from.job_run_ids}::bigint[]) as u(job_run_id) cross join lateral (
      select l.id, l.job_run_id, json_build_object('id', l.id, 'job_run_id', l.job_run_id, 'attempt', l.attempt, 'at', l.at,
               'level', l.level, 'message', l.message, 'fields', l.fields)::text as text
        from job_run_log l
       where (l.job_run_id, l.id) > (u.job_run_id, ${from.after ?? 0}::bigint) and l.job_run_id <= u.job_run_id
       order by l.job_run_id, l.id limit ${MOST_LINES}::int) l`;
}

/** Lines of one run that are elsewhere now, or are to be gone. */
export interface MovedLines {
  job_run_id: number;
  /** As it was when the lines were read. */
  was: string | null;
  log_ref: string;
  first_id: number;
  last_id: number;
  lines: number;
}

/** Of each run once: says where these lines are and deletes them. What is not as it was when they were read stays. Of how many. */
export async function moveLines(sql: Db, term: Term, moved: MovedLines[]): Promise<{ runs: number; lines: number }> {
  const [row] = await sql<{ runs: number; lines: number }[]>`
    with ${fenceBeside(sql, term)},
    given as materialized (
      select x.* from fence, jsonb_to_recordset(${json(sql, moved)})
        as x(job_run_id bigint, was text, log_ref text, first_id bigint, last_id bigint, lines int)),
    there as materialized (
      select g.*, l.ids from given g cross join lateral (
        select array_agg(l.id) as ids from job_run_log l
         where (l.job_run_id, l.id) >= (g.job_run_id, g.first_id) and (l.job_run_id, l.id) <= (g.job_run_id, g.last_id)) l
       where cardinality(l.ids) = g.lines),
    marked as (
      update job_run r set log_ref = (select t.log_ref from there t where t.job_run_id = r.id)
       where r.id = any(array(select job_run_id from there)) and r.finished_at is not null
         and r.log_ref is not distinct from (select t.was from there t where t.job_run_id = r.id)
      returning r.id),
    gone as (
      delete from job_run_log l
       where l.id = any(array(select unnest(t.ids) from marked m join there t on t.job_run_id = m.id)) returning 1)
    select (select count(*) from marked)::int as runs, (select count(*) from gone)::int as lines`;
  return row ?? { runs: 0, lines: 0 };
}

/** Where the lines of a run are that are not in Postgres; null: nowhere else, or there is no such run. */
export async function readLogRef(sql: Db, job_run_id: number): Promise<string | null> {
  const [row] = await sql<{ log_ref: string | null }[]>`select log_ref from job_run where id = ${job_run_id}`;
  return row?.log_ref ?? null;
}

/** How many runs have lines that are older than they should be, among the first that have lines; for people. */
export async function countOverdueLogs(sql: Db, days: number): Promise<{ runs: number; more: boolean }> {
  const { runs, looked_to } = await findOldLogs(sql, { after: 0, days, look: 1_000 });
  return { runs: runs.length, more: looked_to !== null && runs.length > 0 };
}
