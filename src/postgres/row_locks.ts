/**
 * Rows that somebody's open transaction keeps, such as an application's or that of a person at psql. Whoever changes one waits until that
 * ends, or until `lock_timeout`, and with it all that the same statement would change. What is looked for again and again leaves
 * such rows for the next time; what names its runs asks which are kept only where a statement has waited so: in good times nobody pays for it.
 */
import type { Db, Fragment, Sql } from "./connection.ts";

/**
 * The end of a question for rows to change, `of` one table where it reads several: those that are kept do not come back. Whoever has a fence asks
 * `exists (select from fence)` first, or it would wait at the fence with rows in hand, for which another that has passed the fence may wait.
 */
export function skipLocked(sql: Db, of?: Fragment): Fragment {
  return of ? sql`for no key update of ${of} skip locked` : sql`for no key update skip locked`;
}

export async function lockedRows(sql: Db, table: "bulk" | "job_run", ids: number[]): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with free as materialized (
      select id from ${sql(table)} where id = any(${ids}::bigint[]) ${skipLocked(sql)})
    select id from ${sql(table)} where id = any(${ids}::bigint[]) and id not in (select id from free)`;
  return rows.map(({ id }) => id);
}

export interface LockHolder {
  table: string;
  pid: number;
  who: string;
  seconds: number;
  query: string;
}

/** The transaction that has gone on for the longest of those that have locked one of these tables, or, `to_write`, may keep rows of it. */
export async function longestLockHolder(
  sql: Sql,
  tables: string[],
  { to_write = false } = {},
): Promise<LockHolder | undefined> {
  const [row] = await sql<LockHolder[]>`
    select l.relation::regclass::text as table, a.pid, coalesce(nullif(a.application_name, ''), a.backend_type) as who,
           extract(epoch from clock_timestamp() - a.xact_start)::int as seconds, left(a.query, 100) as query
      from pg_locks l join pg_stat_activity a using (pid)
     where l.granted and l.database = (select oid from pg_database where datname = current_database())
       and l.relation = any(array(select to_regclass(format('%I.%I', current_schema(), name))::oid from unnest(${tables}::text[]) t(name)))
       and (not ${to_write} or (l.mode not in ('AccessShareLock', 'ShareUpdateExclusiveLock') and a.backend_type = 'client backend'))
     order by a.xact_start limit 1`;
  return row;
}
