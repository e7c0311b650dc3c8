/** Workers are replaced one after the other while work flows, and drained by gRPC: nothing is lost, nothing is charged. */
import assert from "node:assert/strict";
import { Peers } from "../../../src/rpc/peers.ts";
import { Tls } from "../../../src/rpc/tls.ts";
import { withProcesses } from "../../support/cluster.ts";
import { patiently } from "../../support/cluster_peers.ts";
import { nothingLostOrCharged, underLoad } from "../../support/steady_load.ts";
import { waitFor } from "../../support/waiting.ts";

/** So that a busy machine alone makes no worker or leader look dead. */
const CALM = { worker_lease_seconds: 30, leader_lease_seconds: 5, leader_stale_seconds: 5, heartbeat_ttl_seconds: 5 };

Deno.test("all workers are restarted under load: nothing is lost, nothing is charged, and what was cut short is said", async () => {
  await withProcesses(3, async (cluster) => {
    await cluster.hears("leader.elected");
    await cluster.sync({ "hold_on.ts": holdOn(cluster.effects_dir) });
    const held: number[] = [];
    const { runs } = await underLoad(cluster, async () => {
      for (const node_id of ["node-1", "node-2", "node-3"]) {
        const [old] = cluster.workers.filter((one) => one.node_id === node_id);
        assert(old);
        held.push(await cluster.enqueue("hold_on"), await cluster.enqueue("hold_on"));
        await waitFor(
          "the runs to hold on",
          () => Promise.resolve(held.every((id) => cluster.effects(id) > 0) || undefined),
        );
        old.kill("SIGTERM");
        const { code } = await old.ended;
        assert.equal(code, 0, cluster.printed(node_id));
        await cluster.startWorker({ node_id });
      }
      Deno.writeTextFileSync(`${cluster.effects_dir}/let_go`, "");
      for (const id of held) await cluster.ends(id);
    });
    const [count] = await cluster.sql`select count(*)::int as runs from job_run`;
    assert.equal(count?.runs, runs + held.length);
    assert.ok(await nothingLostOrCharged(cluster) > 0, "who held on longer than the grace was given back");
    assert.ok(cluster.times("leader.elected") >= 2, "the leader was among them");
    assert.equal(cluster.times("worker.buried") + cluster.times("worker.lost"), 0);
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
      const tls = new Tls(await cluster.tlsOf(node_id));
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
    // One at a time they go to whoever is first of the least loaded, so as many at once as make all of them carry one.
    await waitFor("the worker to take runs again", async () => {
      const ids = await Promise.all([1, 2, 3].map(() => cluster.enqueue("append_one_row", { hold_ms: 1_000 })));
      const started = await Promise.all(ids.map((job_run_id) => cluster.hears("run.started", { job_run_id })));
      return started.some((run) => run.worker_id === worker_id) || undefined;
    });
  }, { settings: CALM });
});

/** Does its work, and ends when it is let go. */
function holdOn(effects_dir: string): string {
  return `
    import { defineJob } from "dandori";
    const folder = ${JSON.stringify(effects_dir)};
    export default defineJob({
      permissions: { read: [folder], write: [folder] },
      async run({ attempt, jobRunId }) {
        await Deno.writeTextFile(folder + "/" + jobRunId, attempt + "\\n", { append: true });
        for (;;) {
          if (await Deno.stat(folder + "/let_go").catch(() => undefined)) return { attempt };
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      },
    });`;
}
