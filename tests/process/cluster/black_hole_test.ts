/** A worker whose heart beats and whose gRPC port is dead gets no work, is not detached for that, and loses no run. */
import assert from "node:assert/strict";
import { listWorkers } from "../../../src/nodes/workers.ts";
import { readAttempts } from "../../../src/runs/run_view.ts";
import { cut, withWired } from "../../support/wired.ts";
import { waitFor } from "../../support/waiting.ts";

/** Who leads goes on leading, also on a machine that is busy. */
const STEADY = { leader_lease_seconds: 10, leader_stale_seconds: 10 };

Deno.test("a worker with a dead port and a live heartbeat gets nothing, and is not detached", async () => {
  await withWired(3, async (cluster, [leader, sound, hole]) => {
    assert(leader && sound && hole);
    await hole.grpc.refuse();
    await waitFor("the leader to see it", async () => {
      const id = await cluster.enqueue("append_one_row");
      const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
      return worker_id === sound.worker.worker_id || undefined;
    });
    const began = await cluster.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    for (;;) {
      const id = await cluster.enqueue("append_one_row");
      const run = await cluster.ends(id);
      assert.deepEqual([run.state, cluster.effects(id)], ["SUCCEEDED", 1]);
      const started = await cluster.hears("run.started", { job_run_id: id });
      assert.equal(started.worker_id, sound.worker.worker_id, "the dead port's load of 0 attracts nothing");
      const [row] = await cluster.sql`select clock_timestamp() > ${began[0]
        ?.now as Date}::timestamptz + interval '4 s' as over`;
      if (row?.over) break; // four times the grace after which a silent worker is detached
    }
    assert.deepEqual((await listWorkers(cluster.sql)).map((one) => one.state), ["ACTIVE", "ACTIVE", "ACTIVE"]);
    await hole.grpc.heal();
    await waitFor("work for it again", async () => {
      const id = await cluster.enqueue("append_one_row", { hold_ms: 100 });
      const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
      return worker_id === hole.worker.worker_id || undefined;
    });
  }, { settings: { ...STEADY, worker_detach_grace_seconds: 1 } });
});

/** Enqueues a run that only this node may take, in the moment in which its port dies. */
async function orderedIntoTheHole(
  ...[cluster, [, hole]]: Parameters<Parameters<typeof withWired>[1]>
): Promise<{ id: number; hole: NonNullable<typeof hole> }> {
  assert(hole);
  const warm = await cluster.client.enqueue("append_one_row", {}, { node: hole.worker.node_id });
  await cluster.ends(warm.id); // it is watched
  cut(hole.grpc);
  const { id } = await cluster.client.enqueue("append_one_row", {}, { node: hole.worker.node_id });
  await cluster.hears("run.assigned", { job_run_id: id, worker_id: hole.worker.worker_id });
  return { id, hole };
}

Deno.test("an order that did not arrive is taken back at once, and the run starts when the port is well", async () => {
  const settings = { ...STEADY, reassign_after_seconds: 600, worker_renew_seconds: 60, worker_lease_seconds: 240 };
  await withWired(2, async (cluster, wired) => {
    const { id, hole } = await orderedIntoTheHole(cluster, wired);
    await cluster.hears("run.orphaned", { job_run_id: id, attempt: 1, cause: "refused" });
    await hole.grpc.heal();
    const run = await cluster.ends(id);
    assert.equal(run.state, "SUCCEEDED");
    assert(run.attempt > 1);
    assert.equal(cluster.effects(id), 1);
    assert((await readAttempts(cluster.sql, id)).every(({ outcome }) => outcome === "GIVEN_BACK"));
  }, { settings });
});

Deno.test("a run that its worker found by itself, though its order did not arrive, has run once", async () => {
  await withWired(2, async (cluster, wired) => {
    const { id } = await orderedIntoTheHole(cluster, wired);
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, cluster.effects(id)], ["SUCCEEDED", 1, 1]);
  }, { settings: STEADY });
});
