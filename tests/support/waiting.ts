/** Waits for a fact that only a question can tell. */
import { rest } from "../../src/platform/timers.ts";
import type { Db } from "../../src/postgres/connection.ts";

/** For whatever is sure to come. Long, since a machine may be many times slower than another: who fails by it has found something. */
export const PATIENCE_MS = 90_000;

/** Asks until the answer is there, which `false` is not; one generous limit, and what was waited for in the error. */
export async function waitFor<T>(
  what: string,
  ask: () => Promise<T | undefined | false>,
  within_ms = PATIENCE_MS,
): Promise<T> {
  const late = AbortSignal.timeout(within_ms);
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (late.aborted) throw new Error(`Waited ${within_ms} ms for ${what}, in vain`);
    await rest(50);
  }
}

/**
 * Until so many statements wait for a lock. Asked in the transaction that holds it: Postgres ends a session that idles in
 * a transaction while hashes are made on a busy machine.
 */
export async function untilLocked(tx: Db, statements: number): Promise<void> {
  await waitFor("statements that wait", async () => {
    await tx`select pg_stat_clear_snapshot()`;
    const rows = await tx`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return rows.length === statements || undefined;
  });
}
