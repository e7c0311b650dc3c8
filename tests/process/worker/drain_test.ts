/** A drained worker finishes what it has and gets nothing new, until it is undrained. */
import assert from "node:assert/strict";
import { listWorkers, requestDrain } from "../../../src/nodes/workers.ts";
import { CALM, withProcesses } from "../../support/cluster.ts";
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
