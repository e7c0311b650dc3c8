/** What is done on the page, and real workers that follow it without a restart. */
import assert from "node:assert/strict";
import { adminOn } from "../../support/admin.ts";
import { withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("workers follow a setting, a test, a drain and the degradation of their leader from the page", async () => {
  await withProcesses(2, async (cluster) => {
    const { sql } = cluster;
    const first = await cluster.hears("leader.elected");
    await adminOn(cluster.stores, async ({ login }) => {
      const browser = await login("admin");
      const applied = await browser.act("/settings", { max_jobs_per_worker: "3", "was.max_jobs_per_worker": "10" });
      assert.equal(applied.text, "Changed: max_jobs_per_worker");
      await waitFor("both to have three slots", async () => {
        const slots = (await sql`select slots from worker where state <> 'DEAD'`).map((row) => row.slots);
        return slots.join() === "3,3" || undefined;
      });

      await browser.act("/nodes/node-1/test", { reason: "after the move" });
      await waitFor("what the leader found", async () => {
        const text = await browser.text("/nodes/node-1");
        return /connection/.test(text) && !/checking/.test(text) || undefined;
      });

      const other = cluster.workers.find(({ worker_id }) => worker_id !== first.worker_id);
      assert(other);
      await browser.act(`/workers/${other.worker_id}/drain`);
      assert.match(await browser.text(`/workers/${other.worker_id}`), /DRAINING/);
      await browser.act(`/workers/${other.worker_id}/undrain`);

      const [term] = await sql`select epoch from leader_term`;
      const asked = await browser.act("/leader/degrade", { epoch: String(term?.epoch), reason: "it is slow" });
      assert.equal(asked.tone, "good");
      assert.equal((await cluster.hears("leader.ended", { epoch: term?.epoch })).reason, "it was asked to step down");
      const next = await cluster.hears("leader.elected", { worker_id: other.worker_id });
      assert(next.epoch > term?.epoch);
      assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
    });
  }, { settings: { leader_lease_seconds: 2, leader_stale_seconds: 2 } });
});
