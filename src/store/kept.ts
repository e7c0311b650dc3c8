/**
 * Rows that somebody's open transaction keeps, such as an application's or that of a person at psql. Whoever changes one waits until that
 * ends, or until `lock_timeout`, and with it all that the same statement would change. What is looked for again and again leaves
 * such rows for the next time; what names its runs asks which are kept only where a statement has waited so: in good times nobody pays for it.
 */
import type { Db, Fragment } from "./db.ts";

/**
 * The end of a question for rows to change, `of` one table where it reads several: those that are kept do not come back. Whoever has a fence asks
 * `exists (select from fence)` first, or it would wait at the fence with rows in hand, for which another that has passed the fence may wait.
 */
export function leavingKept(sql: Db, of?: Fragment): Fragment {
  return of ? sql`for no key update of ${of} skip locked` : sql`for no key update skip locked`;
}

export async function keptRows(sql: Db, table: "bulk" | "job_run", ids: number[]): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with free as materialized (
      select id from ${sql(table)} where id = any(${ids}::bigint[]) ${leavingKept(sql)})
    select id from ${sql(table)} where id = any(${ids}::bigint[]) and id not in (select id from free)`;
  return rows.map(({ id }) => id);
}
