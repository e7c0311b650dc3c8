/** Suspending and waking: no wake is lost, whoever comes first, and a check is gone only when it was acted on. */
import assert from "node:assert/strict";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { resign } from "../../../src/nodes/leadership.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { sendMessage } from "../../../src/steps/run_messages.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { aDefinition, aRun, aTerm, type RunRow } from "../../support/factories.ts";
import { withLeader } from "../../support/leader_scene.ts";
import { anOwnedRun, aWrite, type Owned, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

const WORKER = "w-of-nobody";

function suspend(
  sql: Sql,
  { job_run_id, attempt, start_token }: Owned,
  wakes: number,
  wakes_in_ms: number | null = null,
) {
  return suspendRuns(sql, WORKER, [{ job_run_id, attempt, start_token, wakes, wakes_in_ms }]);
}

async function send(sql: Sql, job_run_id: number): Promise<void> {
  assert("id" in await sendMessage(sql, { job_run_id, name: "go", payload: 1, sent_by: "alice" }));
}

/** Until something comes. */
async function aSuspendedRun(sql: Sql, columns: Record<string, unknown> = {}): Promise<RunRow> {
  const run = await aRun(sql, { state: "SUSPENDED", held: true, ...columns });
  await sql`update job_run set wakes_at = 'infinity' where id = ${run.id}`;
  return run;
}

async function stateOf(sql: Sql, { job_run_id }: Owned) {
  return (await sql`select state, held, wakes_at::text, wakes from job_run where id = ${job_run_id}`)[0];
}

Deno.test("a suspended run is held for ever or until its time, and its execution is kept and charged to nobody", async () => {
  await withStores(async ({ sql }) => {
    const ever = await anOwnedRun(sql, { limit_key: "k" }), timed = await anOwnedRun(sql);
    const ids = await suspendRuns(sql, WORKER, [
      { ...timed, wakes: 0, wakes_in_ms: 60_000 },
      { ...ever, wakes: 0, wakes_in_ms: null },
    ]);
    assert.deepEqual(ids.toSorted(), [ever.id, timed.id]);
    const rows = await sql`
      select state, held, suspensions, failures, interruptions, attempt, wakes_at = 'infinity' as endless,
             wakes_at between clock_timestamp() + interval '50 s' and clock_timestamp() + interval '60 s' as timed
        from job_run order by id`;
    const same = { state: "SUSPENDED", held: true, suspensions: 0, failures: 0, interruptions: 0, attempt: 1 };
    assert.deepEqual([...rows], [{ ...same, endless: true, timed: false }, { ...same, endless: false, timed: true }]);
    const kept =
      await sql`select job_run_id, attempt, worker_id, fence, outcome, error_name from job_run_attempt order by 1`;
    const execution = { attempt: 1, worker_id: WORKER, fence: 1, outcome: "SUSPENDED", error_name: null };
    assert.deepEqual([...kept], [{ job_run_id: ever.id, ...execution }, { job_run_id: timed.id, ...execution }]);
    assert.deepEqual(
      (await sql`select line from key_recheck`)[0],
      { line: "limit:k" },
      "its place in the limit is free",
    );
    assert.deepEqual(await write(sql, aWrite(ever, "step:late", { seq: 1 })), [], "and its body writes nothing more");
  });
});

Deno.test("only its worker suspends a run, and not one that is to be canceled", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql, { wakes: 2 });
    assert.deepEqual(await suspendRuns(sql, "w-other", [{ ...run, wakes: 2, wakes_in_ms: null }]), []);
    assert.deepEqual(await suspend(sql, { ...run, attempt: 2 }, 2), []);
    assert.deepEqual(await suspend(sql, { ...run, start_token: "of another" }, 2), []);
    assert.deepEqual(await suspend(sql, run, 1), [], "it has not seen what came");
    await sql`update job_run set cancel_requested_at = clock_timestamp()`;
    assert.deepEqual(await suspend(sql, run, 2), []);
    await sql`update job_run set ending = 'CANCELED'`;
    assert.deepEqual(await suspend(sql, run, 2), [run.id], "while it undoes what it did it may wait");
    assert.deepEqual(await suspend(sql, run, 2), []);
  });
});

Deno.test("what the leader has acted on between the look and the suspension keeps the run awake", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { messages: { go: {} } });
    const run = await anOwnedRun(sql, { job_definition_id });
    await write(sql, aWrite(run, "message:go", { waits_for: "go" }));
    const [look] = await findArrivals(sql, [run.id]);
    assert.deepEqual(look?.arrivals, []);
    await send(sql, run.id);
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [{ job_run_id: run.id, state: "RUNNING" }]);
    assert.deepEqual(await suspend(sql, run, look!.wakes), []);
    const [again] = await findArrivals(sql, [run.id]);
    assert.deepEqual(again?.arrivals.map(({ key }) => key), ["message:go"]);
  });
});

Deno.test("a message in a transaction that is open keeps nobody waiting, and wakes the run when it is there", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { messages: { go: {} } });
    const run = await anOwnedRun(sql, { job_definition_id });
    await sql.begin(async (tx) => {
      await send(tx as unknown as Sql, run.id);
      await write(sql, aWrite(run, "message:go", { waits_for: "go" }));
      const [look] = await findArrivals(sql, [run.id]);
      assert.deepEqual(await suspend(sql, run, look!.wakes), [run.id]);
      assert.deepEqual((await applyWakeChecks(sql, term)).woken, []);
    });
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [{ job_run_id: run.id, state: "SUSPENDED" }]);
    assert.equal((await stateOf(sql, run))?.held, false);
  });
});

Deno.test("no wake is lost when a message, the leader and the suspension come at once", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { messages: { go: {} } });
    const ends = { found: 0, woken: 0 };
    for (let round = 0; round < 300; round++) {
      const run = await anOwnedRun(sql, { job_definition_id });
      await write(sql, aWrite(run, "message:go", { waits_for: "go" }));
      const worker = async () => {
        for (;;) {
          const [look] = await findArrivals(sql, [run.id]);
          if (look!.arrivals.length > 0) return ends.found++;
          if ((await suspend(sql, run, look!.wakes)).length > 0) return ends.woken++;
        }
      };
      const leader = async () => {
        for (let tick = 0; tick < 3; tick++) await applyWakeChecks(sql, term);
      };
      const sender = async () => {
        for (let wait = round % 4; wait > 0; wait--) await sql`select 1`;
        await send(sql, run.id);
      };
      await Promise.all([worker(), leader(), sender()]);
      await applyWakeChecks(sql, term);
      const { state, held } = (await stateOf(sql, run))!;
      assert.equal(held, false, `round ${round}: ${state}, and nobody will wake it`);
      assert.equal((await sql`select from wake_check`).length, 0);
      await sql`delete from job_run where id = ${run.id}`;
    }
    assert(ends.found > 0 && ends.woken > 0, `both ways were gone: ${JSON.stringify(ends)}`);
  });
});

Deno.test("checks wake suspended runs, raise the wakes of others, and are deleted by the leader alone when it has acted", async () => {
  await withStores(async ({ sql }) => {
    const old = await aTerm(sql, "a");
    await resign(sql, old);
    const term = await aTerm(sql, "b");
    const ever = await aSuspendedRun(sql);
    const limited = await aRun(sql, { state: "SUSPENDED", held: true });
    const retrying = await aRun(sql, { state: "RETRYING", held: true, wakes_at: new Date("2040-01-01") });
    const ended = await aRun(sql, { state: "FAILED" });
    const runs = [ever.id, limited.id, retrying.id, ended.id, 99, ever.id];
    for (const id of runs) await sql`insert into wake_check (job_run_id) values (${id})`;
    assert.deepEqual(await applyWakeChecks(sql, old), { woken: [], canceling: 0, more: false });
    assert.equal((await sql`select from wake_check`).length, runs.length);
    const { woken, more } = await applyWakeChecks(sql, term, { most: 2 });
    assert.deepEqual({ woken, more }, {
      woken: [{ job_run_id: ever.id, state: "SUSPENDED" }, { job_run_id: limited.id, state: "SUSPENDED" }],
      more: true,
    });
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [{ job_run_id: retrying.id, state: "RETRYING" }]);
    const rows =
      await sql`select held, wakes_at is null as free, wakes from job_run where finished_at is null order by id`;
    const awake = { held: false, free: true, wakes: 1 };
    assert.deepEqual([...rows], [awake, awake, { held: true, free: false, wakes: 1 }]);
    assert.equal((await sql`select from wake_check`).length, 0);
    assert.deepEqual(await applyWakeChecks(sql, term), { woken: [], canceling: 0, more: false });
  });
});

Deno.test("a run whose row somebody keeps is waited for, or left with its check while others are woken", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const kept = await aSuspendedRun(sql), free = await aSuspendedRun(sql);
    await sql`insert into wake_check (job_run_id) select id from job_run`;
    await sql.begin(async (tx) => {
      await tx`select from job_run where id = ${kept.id} for update`;
      const { woken, more } = await applyWakeChecks(sql, term, { skip_locked: true });
      assert.deepEqual(woken, [{ job_run_id: free.id, state: "SUSPENDED" }]);
      assert.equal(more, false, "it is not asked for again at once");
    });
    assert.deepEqual([...await sql`select job_run_id from wake_check`], [{ job_run_id: kept.id }]);
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [{ job_run_id: kept.id, state: "SUSPENDED" }]);
  });
});

Deno.test("the end of a run cancels the children that it awaited, level by level, and those alone", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    const run = (columns: Record<string, unknown>) => aRun(sql, { job_definition_id, ...columns });
    const parent = await run({ state: "FAILED", has_children: true });
    const of_parent = (columns: Record<string, unknown>) => run({ parent_run_id: parent.id, depth: 1, ...columns });
    const awaited = await of_parent({ parent_key: "call:a", state: "RUNNING", has_children: true });
    const started = await of_parent({});
    const done = await of_parent({ parent_key: "call:b", state: "SUCCEEDED" });
    const grandchild = await run({ parent_run_id: awaited.id, depth: 2, parent_key: "call:x" });
    const third = await of_parent({ parent_key: "call:c", state: "SUSPENDED", held: true });
    await sql`
      insert into bulk (job_definition_id, parent_run_id, parent_key) values (${job_definition_id}, ${parent.id}, 'bulk:d')`;
    await sql`insert into wake_check (job_run_id) values (${parent.id})`;
    const first = await applyWakeChecks(sql, term, { most: 1 });
    assert.deepEqual(first, { woken: [], canceling: 2, more: false }, "more children than one statement may take");
    assert.equal((await sql`select from wake_check`).length, 1);
    assert.equal((await applyWakeChecks(sql, term, { most: 1 })).canceling, 1);
    assert.equal((await sql`select from wake_check`).length, 0);
    const requests = () =>
      sql`select id, cancel_requested_by as by, cancel_reason as why from job_run where cancel_requested_at is not null order by id`;
    const why = (id: number, state: string) => ({
      by: "system",
      why: `run ${id}, which called it, has ended ${state}`,
    });
    const [a, b] = [{ id: awaited.id, ...why(parent.id, "FAILED") }, { id: third.id, ...why(parent.id, "FAILED") }];
    assert.deepEqual([...await requests()], [a, b]);
    assert.deepEqual([...await sql`select state, changed_by, reason from bulk`], [
      { state: "CANCELED", changed_by: "system", reason: why(parent.id, "FAILED").why },
    ]);
    await sql`update job_run set state = 'CANCELED', finished_at = clock_timestamp() where id = ${awaited.id}`;
    assert.equal((await applyWakeChecks(sql, term)).canceling, 1);
    assert.deepEqual((await requests()).map(({ id }) => id), [awaited.id, grandchild.id, third.id].toSorted());
    assert.equal(
      (await sql`select from job_run where id in (${started.id}, ${done.id}) and cancel_requested_at is null`).length,
      2,
    );
  });
});

Deno.test("a tick of the leader lets go what a message has come for, and looks for checks in the statement that it makes anyway", async () => {
  await withLeader(() => "ACCEPTED", async (scene) => {
    const { sql, me, facts } = scene;
    const { id: job_definition_id } = await aDefinition(sql, { messages: { go: {} } });
    const run = await aSuspendedRun(sql, { job_definition_id });
    const pending = async () => {
      const about = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
      const looked = await renewAndReadWork(sql, me.term, about);
      me.term = looked!.term;
      return looked!.pending;
    };
    assert.equal((await pending()).arrivals, false);
    await send(sql, run.id);
    const found = await pending();
    assert.equal(found.arrivals, true);
    await scene.round({ arrivals: found.arrivals });
    assert.equal((await sql`select held from job_run where id = ${run.id}`)[0]?.held, false);
    assert.deepEqual(facts.filter(({ name }) => name === "run.woken").map(({ fact }) => fact.job_run_id), [run.id]);
    assert.equal((await pending()).arrivals, false);
  });
});
