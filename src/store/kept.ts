/**
 * Rows that somebody's open transaction keeps, such as an application's or that of a person at psql. Whoever changes one waits until that
 * ends, or until `lock_timeout`, and with it all that the same statement would change. Asked only where a statement has waited so:
 * in good times nobody pays for it.
 */
import type { Db } from "./db.ts";

export async function keptRows(sql: Db, table: "bulk" | "job_run", ids: number[]): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with free as materialized (
      select id from ${sql(table)} where id = any(${ids}::bigint[]) for no key update skip locked)
    select id from ${sql(table)} where id = any(${ids}::bigint[]) and id not in (select id from free)`;
  return rows.map(({ id }) => id);
}
