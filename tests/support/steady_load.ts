/** A steady stream of runs while something is done to the cluster, and the account of what became of them. */
import assert from "node:assert/strict";
import { rest } from "../../src/platform/timers.ts";
import type { Cluster } from "./cluster.ts";

export interface Account {
  runs: number;
  /** By `state/attempt`. */
  ends: Record<string, number>;
}

/**
 * Enqueues `append_one_row` again and again until `act` is done, then waits for all ends. Every run must have SUCCEEDED.
 * `hold_ms` is given to every third. Each body is a process: faster than five in a second, two cores have nothing left for
 * what is tested.
 */
export async function underLoad(
  cluster: Cluster,
  act: () => Promise<void>,
  options: { every_ms?: number; hold_ms?: number } = {},
): Promise<Account> {
  const over = new AbortController();
  const ids: number[] = [];
  const load = (async () => {
    while (!over.signal.aborted) {
      const hold_ms = ids.length % 3 === 0 ? options.hold_ms ?? 300 : 0;
      ids.push(await cluster.enqueue("append_one_row", { hold_ms }));
      await rest(options.every_ms ?? 200, over.signal);
    }
  })();
  try {
    await act();
  } finally {
    over.abort();
    await load;
  }
  const account: Account = { runs: ids.length, ends: {} };
  for (const id of ids) {
    const run = await cluster.ends(id);
    assert.equal(run.state, "SUCCEEDED", `run ${id}: ${JSON.stringify(run)}`);
    const kind = `${run.state}/${run.attempt}`;
    account.ends[kind] = (account.ends[kind] ?? 0) + 1;
  }
  return account;
}

/**
 * Nothing was lost and nothing charged: every run SUCCEEDED, without a failure; its body did its work once, and once more
 * for each attempt that began and was given back. Gives how many runs were given back after they had begun. On a machine so busy that a
 * worker could not speak for three seconds, the guard ended its bodies: that is the machine's doing, and charged to nobody either.
 */
export async function nothingLostOrCharged(cluster: Cluster): Promise<number> {
  type Row = { id: number; state: string; failures: number; begun: number; kinds: string[]; struck: number };
  const struck = cluster.sql`(a.outcome = 'LOST' and a.error_summary like '%runs.end.guarded%')`;
  const runs = await cluster.sql<Row[]>`
    select r.id, r.state, r.failures,
           (select count(*)::int from job_run_attempt a where a.job_run_id = r.id and a.started_at is not null) as begun,
           (select coalesce(array_agg(distinct a.outcome || coalesce(': ' || a.error_summary, '')), '{}') from job_run_attempt a
             where a.job_run_id = r.id and a.started_at is not null and not ${struck}) as kinds,
           (select count(*)::int from job_run_attempt a where a.job_run_id = r.id and ${struck}) as struck
      from job_run r order by r.id`;
  for (const run of runs) {
    const told = JSON.stringify(run);
    assert.deepEqual([run.state, run.failures], ["SUCCEEDED", 0], told);
    assert.ok(run.kinds.every((kind) => kind.startsWith("GIVEN_BACK")), told);
    const missing = 1 + run.begun - cluster.effects(run.id);
    assert.ok(missing >= 0 && missing <= run.struck, told);
  }
  return runs.filter((run) => run.begun > 0).length;
}
