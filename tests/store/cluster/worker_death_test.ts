/**
 * When a worker is DEAD: not before its lease is over, not before the leader has itself been in contact with Postgres for a whole lease,
 * and then for good.
 */
import assert from "node:assert/strict";
import { Contact, recoverLost } from "../../../src/leader/recovery.ts";
import { confirm } from "../../../src/dispatch/detach.ts";
import { buryWorkers, registerWorker, renewWorker, requestDrain, setDraining } from "../../../src/nodes/workers.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import { aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withLeader } from "../../support/leader_scene.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const LEASE_MS = 30_000;

Deno.test("a worker is marked DEAD when its lease is over, and not a second sooner", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const over = await aWorker(sql, { node_id: "over", lease_ms: -1 });
    await sql`update node set next_check_at = 'infinity'`;
    assert.deepEqual(await buryWorkers(sql, term), [over.worker_id]);
    const [node] = await sql`select next_check_at <= clock_timestamp() as due from node where node_id = 'over'`;
    assert.equal(node?.due, true, "its node is looked at");
    await waitFor("a burial within a second of a lease", async () => {
      const { worker_id } = await aWorker(sql, { lease_ms: 1_000 });
      const buried = await buryWorkers(sql, term);
      const [row] = await sql`
        select state, lease_until > clock_timestamp() as holds from worker where worker_id = ${worker_id}`;
      if (!row?.holds) return false; // it took longer than that
      assert.deepEqual([row.state, buried.includes(worker_id)], ["ACTIVE", false]);
      return true;
    });
  });
});

/** A contact by a clock of its own, which `after` sets. */
function aContact() {
  let now_ms = 1_000_000;
  const contact = new Contact(() => now_ms);
  return {
    contact,
    /** So much later a statement succeeds; whether the contact is long enough now. */
    after(ms: number): boolean {
      now_ms += ms;
      contact.made(LEASE_MS);
      return contact.isLongerThan(LEASE_MS);
    },
  };
}

Deno.test("a leader has been in contact when statements have succeeded for longer than a whole lease of its own", () => {
  const { contact, after } = aContact();
  assert.equal(contact.isLongerThan(LEASE_MS), false, "one that takes over knows nothing of the time before");
  assert.deepEqual([after(10_000), after(10_000), after(10_000)], [false, false, false]);
  assert.equal(after(1), true);
  assert.equal(after(15_000), true, "half a lease between two is still one contact");
});

Deno.test("contact starts anew after a gap of more than half a lease, however long it was before", () => {
  const { after } = aContact();
  for (let n = 0; n < 10; n++) after(10_000);
  assert.equal(after(15_001), false);
  assert.deepEqual([after(15_000), after(15_000), after(1)], [false, false, true]);
});

Deno.test("a leader buries nobody, and takes no run, before its own contact is a lease long", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me }) => {
    const settings = { ...me.settings, worker_lease_seconds: LEASE_MS / 1000 };
    const silent = await aWorker(sql, { lease_ms: -1 });
    const { id } = await aRun(sql, { state: "RUNNING", assigned_worker_id: silent.worker_id });
    const both = async () => {
      const [worker] = await sql`select state from worker where worker_id = ${silent.worker_id}`;
      return [worker?.state, (await readRun(sql, id))?.state];
    };
    const { contact, after } = aContact();
    for (const ms of [0, 15_000, 15_000]) {
      after(ms);
      await recoverLost({ ...me, settings }, contact);
      assert.deepEqual(await both(), ["ACTIVE", "RUNNING"]);
    }
    after(1);
    await recoverLost({ ...me, settings }, contact);
    assert.deepEqual(await both(), ["DEAD", "ORPHANED"]);
  });
});

Deno.test("who is DEAD stays so: neither a renewal, nor a registration, nor a drain, nor a yes brings it back", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id, node_id } = await aWorker(sql, { lease_ms: -1, tls_fingerprint: "mine" });
    const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    assert.deepEqual(await buryWorkers(sql, term), [worker_id]);
    const row = async () => (await sql`select * from worker where worker_id = ${worker_id}`)[0];
    const dead = await row();
    const certificate = { tls_fingerprint: "mine", tls_former_fingerprint: null, tls_trust_digest: "" };
    const renewed = { lease_ms: LEASE_MS, slots: 1, subleader: false, ...certificate };
    assert.equal(await renewWorker(sql, worker_id, renewed), undefined);
    const process = { pid: 1, process_started: "0", host: "", version: "", slots: 1 };
    const address = { grpc_host: "127.0.0.1", grpc_port: 1, tls_fingerprint: "mine" };
    assert.equal(await registerWorker(sql, { worker_id, node_id, ...process, ...address }, LEASE_MS), undefined);
    assert.equal(await setDraining(sql, worker_id, false), false);
    for (const draining of [true, false]) {
      assert.deepEqual([...await requestDrain(sql, worker_id, { actor: "ann", reason: "test", draining })], []);
    }
    const question = { worker_id, job_run_id: run.id, attempt: 1, tls_fingerprint: "mine", lease_ms: LEASE_MS };
    assert.equal((await confirm(sql, question)).allowed, false);
    assert.deepEqual(await row(), dead);
  });
});
