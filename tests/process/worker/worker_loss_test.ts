/** Processes are killed and stopped while they work: nothing is lost, and no body is left behind. */
import assert from "node:assert/strict";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { processesWith } from "../../support/processes.ts";
import { waitFor } from "../../support/waiting.ts";

const HOLD = { hold_ms: 1_500 };

async function workerOf(cluster: Cluster, job_run_id: number) {
  const started = await cluster.hears("run.started", { job_run_id });
  const worker = cluster.workers.find((one) => one.worker_id === started.worker_id);
  assert(worker, `no process of ${started.worker_id}`);
  return { worker, started };
}

Deno.test("kill -9 of a worker: its body dies with it, and its run goes to another, uncharged", async () => {
  await withProcesses(3, async (cluster) => {
    const id = await cluster.enqueue("append_one_row", HOLD);
    const { worker } = await workerOf(cluster, id);
    await waitFor("the body's first effect", () => Promise.resolve(cluster.effects(id) === 1 || undefined));
    worker.kill("SIGKILL");
    await worker.ended;
    await waitFor(
      "the end of its body",
      () => Promise.resolve(processesWith(cluster.effects_dir).every(({ pid }) => pid === Deno.pid) || undefined),
    );
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt], ["SUCCEEDED", 2]);
    const view = await readRun(cluster.sql, id);
    assert.deepEqual([view?.failures, view?.interruptions], [0, 1]);
    const [lost] = await readAttempts(cluster.sql, id);
    assert.deepEqual([lost?.attempt, lost?.outcome, lost?.worker_id], [1, "LOST", worker.worker_id]);
    const [dead] = await cluster.sql`select state from worker where worker_id = ${worker.worker_id}`;
    assert.equal(dead?.state, "DEAD");
  });
});

Deno.test("kill -9 of the leader: another leads in a newer epoch, and nothing is lost or doubled", async () => {
  await withProcesses(3, async (cluster) => {
    const first = await cluster.hears("leader.elected");
    const running = await cluster.enqueue("append_one_row", HOLD);
    await cluster.hears("run.started", { job_run_id: running });
    first.worker.kill("SIGKILL");
    const waiting = await Promise.all(Array.from({ length: 5 }, () => cluster.enqueue("append_one_row")));
    const second = await cluster.hears("leader.elected", {}, { after: first });
    assert(second.epoch > first.epoch);
    for (const id of [running, ...waiting]) {
      assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
      assert.equal(cluster.effects(id), 1);
      const begun = (await readAttempts(cluster.sql, id)).filter((attempt) => attempt.started_at);
      assert.deepEqual(begun, [], "an order that came late may be given to another, but no body begins twice");
    }
  }, { settings: { ...CALM, leader_runs_jobs: "never" } }); // so that the one that dies leads, and runs no body
});

Deno.test("SIGTERM: a body that ends within the grace is recorded, the rest is given back uncharged", async () => {
  await withProcesses(3, async (cluster) => {
    const short = await cluster.enqueue("append_one_row", { hold_ms: 500 });
    const { worker } = await workerOf(cluster, short);
    worker.kill("SIGTERM");
    await cluster.hears("worker.stopped", { worker_id: worker.worker_id });
    assert.equal((await worker.ended).code, 0);
    const kept = await cluster.ends(short);
    assert.deepEqual([kept.state, kept.attempt], ["SUCCEEDED", 1]);

    const long = await cluster.enqueue("append_one_row", { hold_ms: 6_000 });
    const busy = await workerOf(cluster, long);
    busy.worker.kill("SIGTERM");
    await busy.worker.ended;
    await cluster.startWorker();
    const run = await cluster.ends(long);
    assert.deepEqual([run.state, run.attempt], ["SUCCEEDED", 2]);
    const view = await readRun(cluster.sql, long);
    assert.deepEqual([view?.failures, view?.interruptions], [0, 0]);
    const [given] = await readAttempts(cluster.sql, long);
    assert.equal(given?.outcome, "GIVEN_BACK");
  });
});

Deno.test("a worker whose parent is gone stops by itself", async () => {
  await withProcesses(1, async (cluster) => {
    const [worker] = cluster.workers;
    assert(worker);
    await worker.orphan();
    assert.equal((await worker.ended).code, 0);
  });
});

Deno.test("a worker that is declared dead before it hears that it is registered takes a new id", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    await cluster.sql.unsafe(`
      create function bury() returns trigger language plpgsql as $$ begin
        new.state := 'DEAD'; new.lease_until := '-infinity'; new.ended_at := clock_timestamp(); return new;
      end $$;
      create trigger bury before insert on worker for each row
        when (new.node_id = 'node-9') execute function bury()`);
    const coming = cluster.startWorker({ node_id: "node-9", env: { SCHEDULER_FAILPOINT: "after-register:1:error" } });
    const lost = await cluster.hears("worker.lost");
    assert.match(lost.reason, /used up before it heard/);
    await cluster.sql`drop trigger bury on worker`;
    assert.notEqual((await coming).worker_id, lost.worker_id);
  });
});
