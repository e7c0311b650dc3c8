/** Workers freeze or die while they come, renew, drain and go, and while they read a new certificate. */
import assert from "node:assert/strict";
import { readAttempts } from "../../src/runs/run_view.ts";
import { withProcesses, type WorkerProcess } from "../support/cluster.ts";
import { caughtWith, reaches, startDoomed, STEADY } from "../support/doomed.ts";
import { judge, ledgerJob } from "../support/ledger.ts";
import { waitFor } from "../support/waiting.ts";

const jobs = (effects_dir: string) => ({ "ledger.ts": ledgerJob(effects_dir) });

Deno.test("a worker that dies or freezes in the middle of leaving loses nothing, and gives nothing back twice", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const dooms = ["during-drain:1:kill", "during-drain:1:stop", "before-give-back:1:kill"] as const;
    const [dies, freezes, gives] = await Promise.all(dooms.map((doom) => startDoomed(cluster, doom))) as [
      WorkerProcess,
      WorkerProcess,
      WorkerProcess,
    ];
    const workers = [dies, freezes, gives];
    const runs = await Promise.all(workers.map(() => cluster.enqueue("ledger", { hold_ms: [60_000, 100] })));
    for (const id of runs) await cluster.hears("run.started", { job_run_id: id });
    for (const worker of workers) worker.kill("SIGTERM");
    assert.equal((await dies.ended).signal, "SIGKILL");
    await reaches(cluster, freezes, "during-drain");
    assert.equal((await gives.ended).signal, "SIGKILL");
    for (const id of runs) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    freezes.kill("SIGCONT");
    assert.equal((await freezes.ended).code, 0);
    const outcomes = await Promise.all(workers.map(async (worker) => {
      const { id, attempt } = await caughtWith(cluster, worker);
      return (await readAttempts(cluster.sql, id)).find((kept) => kept.attempt === attempt)?.outcome;
    }));
    assert.deepEqual(outcomes, ["LOST", "LOST", "LOST"]);
    await judge(cluster, { new_runs: runs.length });
  }, { jobs, settings: STEADY });
});

Deno.test("a worker that freezes when it has just come, renewed or ended its bodies is another when it wakes", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const inflight = await startDoomed(cluster, "after-bodies-gone-before-retire:1:stop");
    inflight.kill("SIGTERM");
    await reaches(cluster, inflight, "after-bodies-gone-before-retire");
    const renewing = await startDoomed(cluster, "after-worker-renew:6:stop");
    const id = await cluster.enqueue("ledger", { hold_ms: [60_000, 100] });
    await reaches(cluster, renewing, "after-worker-renew");
    const coming = cluster.startWorker({ env: { SCHEDULER_FAILPOINT: "after-register:1:stop" } });
    await cluster.hears("failpoint.hit", { failpoint: "after-register" });

    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    await waitFor("the death of all three", async () => {
      const [row] = await cluster.sql<{ dead: number }[]>`
        select count(*)::int as dead from worker where state = 'DEAD'`;
      return row?.dead === 3 || undefined;
    });
    for (const worker of cluster.workers) worker.kill("SIGCONT");
    assert.equal((await inflight.ended).code, 0);
    await cluster.hears("worker.lost", {}, { by: renewing });
    const late = await coming;
    await cluster.hears("worker.lost", {}, { by: late });
    await judge(cluster, { new_runs: 1 });
  }, { jobs, settings: STEADY });
});

Deno.test("a certificate and a key that are swapped while they are read are taken together, or not at all", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const certs = `${cluster.effects_dir}/../certs`;
    const mine = `${cluster.effects_dir}/../mine`;
    Deno.mkdirSync(mine);
    const take = (node_id: string) => {
      for (const file of ["tls.crt", "tls.key"]) Deno.copyFileSync(`${certs}/${node_id}/${file}`, `${mine}/${file}`);
    };
    take("node-3");
    const worker = await cluster.startWorker({
      env: {
        SCHEDULER_FAILPOINT: "between-cert-read-and-key-read:2:stop",
        SCHEDULER_TLS_CERT_FILE: `${mine}/tls.crt`,
        SCHEDULER_TLS_KEY_FILE: `${mine}/tls.key`,
      },
    });
    Deno.utimeSync(`${mine}/tls.key`, new Date(0), new Date(0)); // changed, so it is read again
    await reaches(cluster, worker, "between-cert-read-and-key-read");
    take("node-4");
    worker.kill("SIGCONT");
    const { problem } = await cluster.hears("tls.kept", {}, { by: worker });
    assert.match(problem, /is not the key of/);
    const reloaded = await cluster.hears("tls.reloaded", {}, { by: worker });
    const id = await cluster.enqueue("ledger");
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    await waitFor("its new certificate in its row", async () => {
      const [row] = await cluster.sql`select tls_fingerprint from worker where worker_id = ${worker.worker_id}`;
      return row?.tls_fingerprint === reloaded.fingerprint || undefined;
    });
  }, { jobs, settings: STEADY });
});
