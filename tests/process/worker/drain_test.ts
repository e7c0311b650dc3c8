/** A drained worker finishes what it has and gets nothing new, until it is undrained. */
import assert from "node:assert/strict";
import { listWorkers, requestDrain } from "../../../src/nodes/workers.ts";
import { Peers } from "../../../src/rpc/peers.ts";
import { Tls } from "../../../src/rpc/tls.ts";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { patiently } from "../../support/cluster_peers.ts";
import { waitFor } from "../../support/waiting.ts";

const by = { actor: "test", reason: "maintenance" };

Deno.test("a drained worker finishes what it has and gets nothing new, until it is undrained", async () => {
  await withProcesses(2, async (cluster) => {
    const { sql } = cluster;
    const leader = await cluster.hears("leader.elected");
    const worker = cluster.workers.find((one) => one.worker_id !== leader.worker_id);
    assert(worker);
    const running = await cluster.enqueue("append_one_row", { hold_ms: 1_500 });
    await cluster.hears("run.started", { job_run_id: running, worker_id: worker.worker_id });
    const drained = await requestDrain(sql, worker.node_id, { ...by, draining: true });
    assert.deepEqual([...drained], [{ worker_id: worker.worker_id, node_id: worker.node_id }]);
    assert.deepEqual(
      [...await requestDrain(sql, worker.worker_id, { ...by, draining: true })],
      [],
      "it drains already",
    );

    const other = await cluster.enqueue("append_one_row");
    await cluster.ends(other);
    await cluster.hears("run.started", { job_run_id: other, worker_id: leader.worker_id }); // alone now, the leader works
    const kept = await cluster.ends(running);
    assert.deepEqual([kept.state, kept.attempt], ["SUCCEEDED", 1]);

    await requestDrain(sql, worker.worker_id, { ...by, draining: false });
    await waitFor("the worker to take runs again", async () => {
      const id = await cluster.enqueue("append_one_row");
      await cluster.ends(id);
      const started = await cluster.hears("run.started", { job_run_id: id });
      return started.worker_id === worker.worker_id || undefined;
    });
    assert.equal((await listWorkers(sql)).every((one) => one.state === "ACTIVE"), true);
    const acts =
      await sql`select action, actor, target_id, reason from admin_action_log where target_type = 'worker' order by id`;
    assert.deepEqual(acts.map((act) => act.action), ["worker.drain", "worker.undrain"]);
  }, { settings: CALM });
});

/** A worker as the leader's node calls it. */
async function withPeer(
  cluster: Cluster,
  [node_id, worker_id]: [string, string],
  ask: (peer: ReturnType<Peers["to"]>) => Promise<void>,
): Promise<void> {
  const [row] = await cluster.sql<Parameters<Peers["to"]>[0][]>`select * from worker where worker_id = ${worker_id}`;
  assert(row);
  const tls = new Tls(await cluster.tlsOf(node_id));
  const peers = new Peers(tls);
  try {
    await ask(peers.to(row));
  } finally {
    peers.close();
    await tls.close();
  }
}

Deno.test("the leader tells a worker at once that it drains, and that it does no more", async () => {
  await withProcesses(2, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const worker = cluster.workers.find((one) => one.worker_id !== leader.worker_id);
    assert(worker);
    await withPeer(cluster, [leader.worker.node_id, worker.worker_id], async (peer) => {
      const asked = { caller_role: "leader" as const, leader_epoch: leader.epoch };
      for (const draining of [true, false]) {
        await requestDrain(cluster.sql, worker.worker_id, { ...by, draining });
        await waitFor(`its status to say draining: ${draining}`, async () => {
          const status = await peer.getStatus(asked, patiently);
          return (status.ok && status.value.draining === draining) || undefined;
        });
      }
    });
  }, { settings: { ...CALM, worker_lease_seconds: 600, worker_renew_seconds: 120 } }); // no renewal tells it in time
});

Deno.test("who is told to cancel a run that has ended says so, whoever ran it", async () => {
  await withProcesses(2, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const job_run_id = await cluster.enqueue("append_one_row");
    await cluster.ends(job_run_id);
    const cancel = { leader_epoch: leader.epoch, reason: "enough" };
    for (const { worker_id } of cluster.workers) {
      await withPeer(cluster, [leader.worker.node_id, worker_id], async (peer) => {
        const results = await Promise.all([
          peer.cancelJob({ ...cancel, job_run_id, attempt: 1 }, patiently),
          peer.cancelJob({ ...cancel, job_run_id, attempt: 0 }, patiently),
          peer.cancelJob({ ...cancel, job_run_id: job_run_id + 1_000, attempt: 1 }, patiently),
        ]);
        const said = results.map((answer) => answer.ok && answer.value.result);
        assert.deepEqual(said, ["ALREADY_FINISHED", "ALREADY_FINISHED", "NOT_FOUND"]);
      });
    }
  }, { settings: CALM });
});
