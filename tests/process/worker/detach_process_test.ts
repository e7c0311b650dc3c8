/** Workers are detached, by an operator and by the leader: their bodies go on where somebody says so, and they come back. */
import assert from "node:assert/strict";
import { readAttempts } from "../../../src/runs/run_view.ts";
import { requestDetach } from "../../../src/dispatch/detach.ts";
import { cliWith } from "../../support/cli.ts";
import { type Cluster, comesBack, withProcesses, type WorkerProcess } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

const BY = { actor: "test", reason: "its disk is full" };
/** Bodies may run 4 s without a renewal; the guard of bodies strikes within 3 s more. */
const LEASE = { worker_lease_seconds: 8, worker_renew_seconds: 0.5, worker_margin_seconds: 4 };
/** Who leads goes on leading, also on a machine that is busy. */
const STEADY = { leader_lease_seconds: 10, leader_stale_seconds: 10 };
const LONGER_THAN_THE_LEASE = { hold_ms: 10_000 };

async function idleWorker(cluster: Cluster): Promise<{ leader: WorkerProcess; worker: WorkerProcess }> {
  const { worker: leader } = await cluster.hears("leader.elected");
  const worker = cluster.workers.find((one) => one !== leader);
  assert(worker);
  return { leader, worker };
}

Deno.test("an operator detaches an idle worker, then the leader: each comes back under a new id, and work goes on", async () => {
  await withProcesses(2, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const { database_url, redis_url, prefix } = cluster.stores;
    const cli = cliWith({ DATABASE_URL: database_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix });
    const unknown = await cli("nodes", "detach", "nobody");
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /Cannot detach "nobody": no worker or node has that name; there are w.* on node-/);

    const old_id = worker.worker_id;
    const said = await cli("nodes", "detach", old_id, "--reason", "its disk is full");
    assert.equal(said.code, 0, said.err);
    assert.match(said.out, new RegExp(`^${old_id} on ${worker.node_id} is detached`));
    const heard = await cluster.hears("worker.detached", { worker_id: old_id });
    assert.match(`${heard.by} ${heard.reason}`, /^cli:.+ its disk is full$/);
    await comesBack(cluster, worker, old_id);
    const again = await cli("nodes", "detach", old_id);
    assert.match(again.err, new RegExp(`Cannot detach "${old_id}": ${old_id} is DEAD`));

    const led = leader.worker_id;
    const json = await cli("nodes", "detach", leader.node_id, "--json");
    assert.deepEqual(JSON.parse(json.out), [{ worker_id: led, node_id: leader.node_id }]);
    const ended = await cluster.hears("leader.ended", { worker_id: led });
    assert.match(ended.reason, /^detached by cli:/);
    await cluster.hears("leader.elected", {}, { after: ended });
    await comesBack(cluster, leader, led);
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  }, { settings: STEADY });
});

Deno.test("a detached worker's body goes on beyond the lease by the leader's word, once, and then the worker comes back", async () => {
  await withProcesses(2, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const old_id = worker.worker_id;
    const id = await cluster.enqueue("append_one_row", LONGER_THAN_THE_LEASE);
    await cluster.hears("run.started", { job_run_id: id, worker_id: old_id });
    await requestDetach(cluster.sql, old_id, BY); // without the flag: its own renewal tells it
    const detached = await cluster.hears("worker.detached", { worker_id: old_id, by: BY.actor });
    const allowed = { job_run_id: id, decision: "ALLOW_CONTINUE" };
    const yes = await cluster.hears("run.continuation", allowed, { after: detached });
    assert.deepEqual([yes.worker_id, yes.asked], [old_id, leader.worker_id]);
    await waitFor("the yes in the row, after the question", async () => {
      const [row] = await cluster.sql`
        select 1 from job_run where id = ${id} and continuation_state = 'NONE' and continuation_check_started_at is not null`;
      return row;
    });
    const other = await cluster.enqueue("append_one_row"); // not to the detached one: alone now, the leader works
    await cluster.hears("run.started", { job_run_id: other, worker_id: leader.worker_id });
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, cluster.effects(id)], ["SUCCEEDED", 1, 1]);
    await comesBack(cluster, worker, old_id);
    assert.equal((await readAttempts(cluster.sql, id)).length, 0);
  }, { settings: { ...LEASE, ...STEADY } });
});

Deno.test("the leader detaches a frozen worker; what that had not started starts elsewhere at once, and it comes back", async () => {
  const settings = { ...STEADY, worker_detach_grace_seconds: 1, worker_lease_seconds: 60, reassign_after_seconds: 600 };
  await withProcesses(3, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const old_id = worker.worker_id;
    worker.kill("SIGSTOP");
    const heard = await cluster.hears("worker.detached", { worker_id: old_id });
    assert.equal(heard.by, `leader:${leader.worker_id}`);
    const [assigned] = await cluster.sql`
      insert into job_run (job_definition_id, source, state, assigned_worker_id, assigned_at, leader_epoch)
      select id, 'enqueue', 'ASSIGNED', ${old_id}, clock_timestamp(), 1 from job_definition returning id`;
    const run = await cluster.ends(Number(assigned?.id));
    assert.deepEqual([run.state, run.attempt, cluster.effects(run.id)], ["SUCCEEDED", 2, 1]);
    const acts = await cluster.sql`select actor, action from admin_action_log where target_id = ${old_id}`;
    assert.deepEqual([...acts], [{ actor: heard.by, action: "worker.detach" }]);
    worker.kill("SIGCONT");
    await comesBack(cluster, worker, old_id);
  }, { settings });
});
