/** Jobs that harm whoever runs them: they end, and the workers stay in service. */
import assert from "node:assert/strict";
import { within } from "../../src/platform/timers.ts";
import { readAttempts } from "../../src/runs/run_view.ts";
import { type Cluster, withProcesses } from "../support/cluster.ts";
import { STEADY } from "../support/doomed.ts";
import { judge, ledgerJob } from "../support/ledger.ts";
import { PATIENCE_MS } from "../support/waiting.ts";

const MAX_INTERRUPTIONS = 1;

/** Its process is the worker's own child, so the worker is its parent. */
const KILLS_ITS_WORKER = `
  import { defineJob } from "dandori";
  export default defineJob({
    permissions: { unsafe: { run: true } },
    run() { Deno.kill(Deno.ppid, "SIGKILL"); },
  });`;

Deno.test("a run that kills its worker is given up after a few, and other runs go on meanwhile", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    await cluster.sql`update job_definition set max_interruptions = ${MAX_INTERRUPTIONS} where name = 'poison'`;
    const poison = await cluster.enqueue("poison");
    const others: number[] = [];
    for (let deaths = 0; deaths <= MAX_INTERRUPTIONS; deaths++) {
      others.push(await cluster.enqueue("ledger"));
      const victim = await cluster.startWorker();
      const { signal } = await within(PATIENCE_MS, "the death of a worker", victim.ended);
      assert.equal(signal, "SIGKILL");
    }
    const survivor = await cluster.startWorker();
    const run = await cluster.ends(poison);
    assert.deepEqual([run.state, run.error_name, run.attempt], ["FAILED", "Quarantined", MAX_INTERRUPTIONS + 1]);
    const attempts = await readAttempts(cluster.sql, poison);
    assert.deepEqual(attempts.map(({ outcome }) => outcome), attempts.map(() => "LOST"));
    others.push(await cluster.enqueue("ledger"));
    for (const id of others) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    await judge(cluster, { new_runs: others.length + 1, apart: [poison] });
    assert.equal(await stateOf(cluster, survivor.worker_id), "ACTIVE");
  }, {
    jobs: (dir) => ({ "ledger.ts": ledgerJob(dir), "poison.ts": KILLS_ITS_WORKER }),
    settings: { ...STEADY, leader_runs_jobs: "never", reassign_after_seconds: 30 }, // or a start that takes long counts as an attempt
  });
});

async function stateOf(cluster: Cluster, worker_id: string): Promise<string | undefined> {
  const [row] = await cluster.sql<{ state: string }[]>`select state from worker where worker_id = ${worker_id}`;
  return row?.state;
}
