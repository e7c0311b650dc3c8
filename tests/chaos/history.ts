/**
 * Installs the history of runs, terms and workers that the checker judges (history.sql says what is kept). For chaos
 * tests alone; before the first run is created, since what was there before has no history.
 */
import type { Sql } from "../../src/postgres/connection.ts";
import history from "./history.sql" with { type: "text" };

export async function installHistory(sql: Sql): Promise<void> {
  await sql.unsafe(history);
}
