/** Detaching a worker, and the yes that lets its bodies go on, as Postgres sees them. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { beginConfirming, confirm, detachSilent, requestDetach } from "../../../src/dispatch/detach.ts";
import { buryWorkers, listWorkers, renewWorker, retireWorker, setDraining } from "../../../src/nodes/workers.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { orphanAssigned, orphanLost } from "../../../src/runs/lost_runs.ts";
import { assignRuns, startRuns } from "../../../src/runs/states.ts";
import { aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const BY = { actor: "cli:somebody", reason: "its disk is full" };
const MY = {
  lease_ms: 60_000,
  slots: 10,
  tls_fingerprint: "mine",
  tls_former_fingerprint: null,
  tls_trust_digest: "",
  subleader: false,
};

/** Milliseconds that are left of a worker's lease, by the database's clock. */
async function leaseLeft(sql: Sql, worker_id: string): Promise<number> {
  const [row] = await sql<{ left: number }[]>`
    select extract(epoch from lease_until - clock_timestamp())::float8 * 1000 as left from worker where worker_id = ${worker_id}`;
  return row?.left ?? NaN;
}

/** A detached worker whose lease ends soon, with a run of it. */
async function aDetached(sql: Sql, lease_ms = 5_000) {
  const { worker_id } = await aWorker(sql, { lease_ms, state: "DETACHED", tls_fingerprint: "mine" });
  const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
  const question = { worker_id, job_run_id: run.id, attempt: 1, tls_fingerprint: "mine", lease_ms: 60_000 };
  return { worker_id, run, question };
}

async function continuation(sql: Sql, id: number): Promise<string> {
  const [row] = await sql`select continuation_state from job_run where id = ${id}`;
  return row?.continuation_state;
}

Deno.test("an operator detaches a worker by its id or its node's, once, and the audit has it", async () => {
  await withStores(async ({ sql }) => {
    const one = await aWorker(sql, { node_id: "n1" });
    const draining = await aWorker(sql, { node_id: "n1", state: "DRAINING" });
    const dead = await aWorker(sql, { node_id: "n1", state: "DEAD" });
    const other = await aWorker(sql, { node_id: "n2" });
    const detached = await requestDetach(sql, "n1", BY);
    assert.deepEqual(detached.map((worker) => worker.worker_id).sort(), [one.worker_id, draining.worker_id].sort());
    assert.deepEqual([...await requestDetach(sql, one.worker_id, BY)], [], "it is detached already");
    assert.deepEqual([...await requestDetach(sql, dead.worker_id, BY)], []);
    assert.deepEqual((await requestDetach(sql, other.worker_id, BY)).length, 1);
    const acts = await sql`select actor, action, target_id, before_json, reason from admin_action_log order by id`;
    assert.equal(acts.length, 3);
    assert.deepEqual(acts.find((act) => act.target_id === draining.worker_id), {
      actor: BY.actor,
      action: "worker.detach",
      target_id: draining.worker_id,
      before_json: { state: "DRAINING" },
      reason: BY.reason,
    });
    const listed = (await listWorkers(sql)).find((worker) => worker.worker_id === one.worker_id);
    assert.deepEqual([listed?.state, listed?.detached_by, listed?.detach_reason], ["DETACHED", BY.actor, BY.reason]);
    assert.equal(await setDraining(sql, one.worker_id, false), false, "a drain does not undo it");
  });
});

Deno.test("a leader detaches only under its own term", async () => {
  await withStores(async ({ sql }) => {
    const first = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    await sql`update leader_term set lease_until = '-infinity'`;
    const second = await aTerm(sql);
    const which = { worker_ids: [worker_id], actor: "leader:leader", reason: "silent" };
    assert.deepEqual([...await detachSilent(sql, first, which)], []);
    assert.deepEqual((await detachSilent(sql, second, which)).map((one) => one.worker_id), [worker_id]);
    assert.deepEqual([...await detachSilent(sql, second, which)], []);
    assert.equal((await sql`select from admin_action_log where action = 'worker.detach'`).length, 1);
  });
});

Deno.test("a detached worker starts nothing and gets nothing; what it had not started goes back at once, uncharged", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    const kept = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    const run = await aRun(sql, { state: "ASSIGNED", assigned_worker_id: worker_id, leader_epoch: term.epoch });
    const elsewhere = await aRun(sql, {
      state: "ASSIGNED",
      assigned_worker_id: (await aWorker(sql)).worker_id,
      leader_epoch: term.epoch,
    });
    await requestDetach(sql, worker_id, BY);
    const order = { job_run_id: run.id, attempt: 1, token: "t", digest: "digest" };
    assert.deepEqual([...await startRuns(sql, { worker_id, epoch: term.epoch }, [order])], []);
    const back = await orphanAssigned(sql, term, "to_detached");
    assert.deepEqual([...back], [{ job_run_id: run.id, attempt: 1, worker_id }]);
    const after = await readRun(sql, run.id);
    assert.deepEqual([after?.state, after?.interruptions, after?.failures], ["ORPHANED", 0, 0]);
    assert.equal((await readAttempts(sql, run.id))[0]?.outcome, "GIVEN_BACK");
    assert.equal((await readRun(sql, kept.id))?.state, "RUNNING");
    assert.equal((await readRun(sql, elsewhere.id))?.state, "ASSIGNED");
    const { version } = await aRun(sql);
    const assignment = { job_run_id: run.id, version: version + 1, worker_id };
    assert.deepEqual([...await assignRuns(sql, term, [assignment])], []);
  });
});

Deno.test("a detached worker cannot renew its own lease, and learns who detached it and whom to ask", async () => {
  await withStores(async ({ sql }) => {
    await aWorker(sql, { worker_id: "leader", node_id: "n2" });
    await aTerm(sql);
    const { worker_id } = await aWorker(sql, { node_id: "n1", lease_ms: 5_000 });
    await aWorker(sql, { worker_id: "near", node_id: "n1", subleader: true });
    await aWorker(sql, { worker_id: "far", node_id: "n3", subleader: true });
    await aWorker(sql, { worker_id: "plain", node_id: "n4" });
    await aWorker(sql, { worker_id: "gone", node_id: "n5", subleader: true, lease_ms: -1 });
    const before = await renewWorker(sql, worker_id, { ...MY, lease_ms: 6_000 });
    assert.equal(before?.state, "ACTIVE");
    assert.deepEqual(before.answerers.map((one) => one.worker_id), ["leader", "far", "near"]);
    await requestDetach(sql, worker_id, BY);
    const renewal = await renewWorker(sql, worker_id, MY);
    assert.deepEqual([renewal?.state, renewal?.lease_until_ms], ["DETACHED", undefined]);
    assert.deepEqual([renewal?.detached_by, renewal?.detach_reason], [BY.actor, BY.reason]);
    assert(await leaseLeft(sql, worker_id) < 6_001);
  });
});

Deno.test("a yes renews the lease of the worker, also of one that is not detached, and never shortens it", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id, run, question } = await aDetached(sql);
    await beginConfirming(sql, worker_id);
    assert.equal(await continuation(sql, run.id), "CONFIRMING");
    assert.equal((await confirm(sql, question)).allowed, true);
    assert.equal(await continuation(sql, run.id), "NONE");
    assert(await leaseLeft(sql, worker_id) > 30_000);
    assert.equal((await confirm(sql, { ...question, lease_ms: 1_000 })).allowed, true);
    assert(await leaseLeft(sql, worker_id) > 30_000);
    await sql`update worker set state = 'ACTIVE' where worker_id = ${worker_id}`;
    assert.equal((await confirm(sql, question)).allowed, true);
    assert.equal((await confirm(sql, { ...question, tls_fingerprint: "another's" })).allowed, false);
    await sql`update worker set tls_fingerprint = 'new', tls_former_fingerprint = ${question.tls_fingerprint}`;
    for (const tls_fingerprint of ["new", question.tls_fingerprint]) { // over a rotation
      const { allowed, known } = await confirm(sql, { ...question, tls_fingerprint });
      assert.deepEqual([allowed, known], [true, true]);
    }
    await sql`update worker set tls_fingerprint = ${question.tls_fingerprint}, tls_former_fingerprint = null`;
  });
});

Deno.test("no yes for a dead worker, another attempt, another's run, a canceled run or one that has ended", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id, run, question } = await aDetached(sql);
    const { allowed, attempt } = await confirm(sql, { ...question, attempt: 2 });
    assert.deepEqual([allowed, attempt], [false, 1]);
    const others = await aRun(sql, { state: "RUNNING", assigned_worker_id: (await aWorker(sql)).worker_id });
    assert.equal((await confirm(sql, { ...question, job_run_id: others.id })).allowed, false);
    const ended = await aRun(sql, { state: "SUCCEEDED", assigned_worker_id: worker_id });
    assert.equal((await confirm(sql, { ...question, job_run_id: ended.id })).allowed, false);
    assert.deepEqual((await confirm(sql, { ...question, job_run_id: 999 })).state, null);
    const canceled = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    await requestCancel(sql, canceled.id, BY);
    const no = await confirm(sql, { ...question, job_run_id: canceled.id });
    assert.deepEqual([no.allowed, no.canceled], [false, true]);
    assert(await leaseLeft(sql, worker_id) < 5_001, "none of these renewed anything");
    await sql`update worker set state = 'DEAD' where worker_id = ${worker_id}`;
    const dead = await confirm(sql, question);
    assert.deepEqual([dead.allowed, dead.worker_state], [false, "DEAD"]);
    assert.equal((await readRun(sql, run.id))?.state, "RUNNING");
  });
});

Deno.test("CONFIRMING delays orphaning until its deadline and no longer, and not at all once bodies are proven gone", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id, run } = await aDetached(sql, 700);
    await beginConfirming(sql, worker_id);
    await sql`update worker set state = 'DEAD' where worker_id = ${worker_id}`; // by whatever way
    assert.deepEqual([...await orphanLost(sql, term)], []);
    assert.equal((await readRun(sql, run.id))?.state, "RUNNING");
    await waitFor("the deadline", async () => (await orphanLost(sql, term))[0]);
    const [clock] = await sql`select continuation_check_deadline_at < clock_timestamp() as over from job_run`;
    assert.equal(clock?.over, true);
    const view = await readRun(sql, run.id);
    assert.deepEqual([view?.state, view?.interruptions], ["ORPHANED", 1]);

    const left = await aDetached(sql, 60_000);
    await beginConfirming(sql, left.worker_id);
    await retireWorker(sql, left.worker_id); // its lease is -infinity: nothing of it lives
    assert.deepEqual((await orphanLost(sql, term)).map((one) => one.job_run_id), [left.run.id]);
  });
});

Deno.test("a worker that dies while CONFIRMING is buried and its run goes on elsewhere", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id, run, question } = await aDetached(sql, -1);
    await beginConfirming(sql, worker_id);
    assert.deepEqual(await buryWorkers(sql, term), [worker_id]);
    assert.deepEqual((await orphanLost(sql, term)).map((one) => one.job_run_id), [run.id]);
    assert.equal((await confirm(sql, question)).allowed, false);
  });
});
