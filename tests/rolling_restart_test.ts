/** Workers are replaced one after the other while work flows, and drained by gRPC: nothing is lost, nothing is charged. */
import assert from "node:assert/strict";
import { Peers } from "../src/cluster/peers.ts";
import { Tls } from "../src/cluster/tls.ts";
import { type Cluster, withProcesses } from "./support/cluster.ts";
import { patiently } from "./support/cluster_peers.ts";
import { type Account, underLoad } from "./support/steady_load.ts";
import { waitFor } from "./support/waiting.ts";

/** So that a busy machine alone makes no worker or leader look dead. */
const CALM = { worker_lease_seconds: 30, leader_lease_seconds: 5, leader_stale_seconds: 5, heartbeat_ttl_seconds: 5 };

Deno.test("all workers are restarted under load: nothing is lost, nothing is charged, and what was cut short is said", async () => {
  await withProcesses(3, async (cluster) => {
    await cluster.hears("leader.elected");
    const long: number[] = [];
    const account = await underLoad(cluster, async () => {
      for (const node_id of ["node-1", "node-2", "node-3"]) {
        const [old] = cluster.workers.filter((one) => one.node_id === node_id);
        assert(old);
        // Longer than the grace: one that runs there is given back.
        for (let count = 0; count < 4; count++) long.push(await cluster.enqueue("append_one_row", { hold_ms: 5_000 }));
        await waitFor("a long run on every worker but the leader", () => Promise.resolve(startedAll(cluster, long)));
        old.kill("SIGTERM");
        const { code } = await old.ended;
        assert.equal(code, 0, cluster.printed(node_id));
        await cluster.startWorker({ node_id });
      }
    });
    for (const id of long) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    await nothingWasLostOrCharged(cluster, account, long.length);
    assert.ok(cluster.times("leader.elected") >= 2, "the leader was among them");
    assert.equal(cluster.times("leader.deposed") + cluster.times("worker.buried") + cluster.times("worker.lost"), 0);
  }, { settings: { ...CALM, drain_grace_seconds: 1 } });
});

Deno.test("a leader drains a worker by gRPC: it finishes what it has, and gets nothing new until it is undrained", async () => {
  await withProcesses(3, async (cluster) => {
    const { sql } = cluster;
    const leader = await cluster.hears("leader.elected");
    const [target, other] = cluster.workers.filter((one) => one.worker_id !== leader.worker_id);
    assert(target && other);
    const running = await cluster.enqueue("append_one_row", { hold_ms: 3_000 });
    const { worker_id } = await cluster.hears("run.started", { job_run_id: running });
    const [row] = await sql<Parameters<Peers["to"]>[0][]>`select * from worker where worker_id = ${worker_id}`;
    assert(row);
    const as = async (node_id: string, leader_epoch: number, enable: boolean) => {
      const tls = new Tls(await cluster.tlsFiles(node_id));
      const peers = new Peers(tls);
      const answer = await peers.to(row).drain({ leader_epoch, enable }, patiently);
      peers.close();
      await tls.close();
      return answer.ok ? answer.value.result : answer.code;
    };
    const { epoch, worker: { node_id } } = leader;
    const stranger = [target, other].find((one) => one.worker_id !== worker_id)!.node_id;
    assert.equal(await as(stranger, epoch, true), "PERMISSION_DENIED");
    assert.equal(await as(node_id, epoch - 1, true), "REJECTED_OLD_EPOCH");
    assert.equal(await as(node_id, epoch, true), "ACCEPTED");
    assert.equal(await as(node_id, epoch, true), "ACCEPTED", "the same twice is the same");
    assert.equal((await sql`select state from worker where worker_id = ${worker_id}`)[0]?.state, "DRAINING");
    for (let run = 0; run < 5; run++) {
      const id = await cluster.enqueue("append_one_row");
      await cluster.ends(id);
      assert.notEqual((await cluster.hears("run.started", { job_run_id: id })).worker_id, worker_id);
    }
    const kept = await cluster.ends(running);
    assert.deepEqual([kept.state, kept.attempt, cluster.effects(running)], ["SUCCEEDED", 1, 1]);
    assert.equal(await as(node_id, epoch, false), "ACCEPTED");
    await waitFor("the worker to take runs again", async () => {
      const id = await cluster.enqueue("append_one_row");
      await cluster.ends(id);
      return (await cluster.hears("run.started", { job_run_id: id })).worker_id === worker_id || undefined;
    });
  }, { settings: CALM });
});

/** True when all of them have started at least once. */
function startedAll(cluster: Cluster, ids: number[]): true | undefined {
  const started = cluster.hearing.lines.filter(({ text }) => text.startsWith('{"fact":"run.started"'))
    .map(({ text }) => (JSON.parse(text) as { job_run_id: number }).job_run_id);
  return ids.every((id) => started.includes(id)) || undefined;
}

async function nothingWasLostOrCharged(cluster: Cluster, account: Account, more: number): Promise<void> {
  const runs = await cluster.sql<
    { id: number; state: string; attempt: number; failures: number; cut: number; kinds: string[] }[]
  >`
    select r.id, r.state, r.attempt, r.failures,
           (select count(*)::int from job_run_attempt a where a.job_run_id = r.id and a.started_at is not null) as cut,
           (select coalesce(array_agg(distinct a.outcome), '{}') from job_run_attempt a where a.job_run_id = r.id) as kinds
      from job_run r order by r.id`;
  assert.equal(runs.length, account.runs + more);
  for (const run of runs) {
    const told = JSON.stringify(run);
    assert.deepEqual([run.state, run.failures], ["SUCCEEDED", 0], told);
    assert.ok(run.kinds.every((kind) => kind === "GIVEN_BACK"), told);
    assert.equal(cluster.effects(run.id), 1 + run.cut, `once, and once for each attempt that was given back: ${told}`);
  }
  const cut = runs.filter((run) => run.cut > 0).length;
  assert.ok(cut > 0, "bodies longer than the grace were cut short");
}
