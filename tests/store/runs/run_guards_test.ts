/** What keeps a statement from moving a run whose state alone would let it: a request to cancel, a pause, a time that has not come. */
import assert from "node:assert/strict";
import { type Db, json, type Sql } from "../../../src/postgres/connection.ts";
import { beginConfirming, confirm } from "../../../src/dispatch/detach.ts";
import { skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { reprioritizeWhere, requestCancel } from "../../../src/runs/requests.ts";
import { orphanAssigned } from "../../../src/runs/lost_runs.ts";
import { STATES } from "../../../src/runs/run_states.ts";
import { assignRuns, skipLate, startRuns } from "../../../src/runs/states.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const BY = { actor: "test", reason: "test" };
const LONG_AGO = new Date("2020-01-01T00:00:00Z");
const LATER = new Date("2020-01-01T01:00:00Z");
const in_an_hour = () => new Date(Date.now() + 3_600_000);

const dispatch = (sql: Sql, value: "paused" | "running") =>
  sql`insert into scheduler_settings (name, value) values ('dispatch', ${json(sql, value)})
      on conflict (name) do update set value = excluded.value`;

/** A job, a worker, and what tries to start a run of the one on the other. */
async function startScene(sql: Sql) {
  const { epoch } = await aTerm(sql);
  const { worker_id, node_id } = await aWorker(sql);
  const { id: job_definition_id } = await aDefinition(sql);
  const given = (due_at: Date, assigned_at: Date) =>
    aRun(sql, {
      job_definition_id,
      state: "ASSIGNED",
      assigned_worker_id: worker_id,
      leader_epoch: epoch,
      due_at,
      assigned_at,
    });
  const starts = async ({ id }: { id: number }, as = worker_id) => {
    const order = { job_run_id: id, attempt: 1, token: crypto.randomUUID(), digest: "digest" };
    return (await startRuns(sql, { worker_id: as, epoch }, [order])).length > 0;
  };
  return { worker_id, node_id, job_definition_id, given, starts };
}

Deno.test("what was given ahead of its time starts only if its job, its node and all dispatch go on; what was given then starts", async () => {
  await withStores(async ({ sql }) => {
    const { node_id, job_definition_id, given, starts } = await startScene(sql);
    const job = (paused: boolean) =>
      sql`update job_definition set paused_at = case when ${paused} then clock_timestamp() end, paused_by = case when ${paused} then 'eve' end
           where id = ${job_definition_id}`;
    const stops: Record<string, [() => Promise<unknown>, () => Promise<unknown>]> = {
      "a job that is paused": [() => job(true), () => job(false)],
      "a node in maintenance": [
        () => sql`update node set is_active = false where node_id = ${node_id}`,
        () => sql`update node set is_active = true where node_id = ${node_id}`,
      ],
      "all dispatch paused": [() => dispatch(sql, "paused"), () => dispatch(sql, "running")],
    };
    for (const [what, [stop, goOn]] of Object.entries(stops)) {
      const ahead = await given(LATER, LONG_AGO);
      const when_due = await given(LONG_AGO, LATER);
      await stop();
      assert.equal(await starts(ahead), false, what);
      assert.equal(await starts(when_due), true, `${what}: it was let through before`);
      await goOn();
      assert.equal(await starts(ahead), true, `${what} no more`);
    }
  });
});

Deno.test("no run starts before it is due, once it is to be canceled, nor on a worker that is not its own", async () => {
  await withStores(async ({ sql }) => {
    const { given, starts } = await startScene(sql);
    assert.equal(await starts(await given(in_an_hour(), LONG_AGO)), false);
    const canceled = await given(LONG_AGO, LATER);
    await requestCancel(sql, canceled.id, BY);
    assert.equal(await starts(canceled), false);
    const other = await aWorker(sql);
    assert.equal(await starts(await given(LONG_AGO, LATER), other.worker_id), false);
  });
});

/** What `act` finds when it comes while `before` is not yet committed: it must wait for that. */
async function behind<T>(sql: Sql, before: (tx: Db) => Promise<unknown>, act: () => Promise<T>): Promise<T> {
  let acting: Promise<T> | undefined;
  await sql.begin(async (tx) => {
    await before(tx);
    acting = act();
    const waits = waitFor("a lock", async () => {
      const [row] = await sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return row && "waits";
    });
    assert.equal(await Promise.race([waits, acting]), "waits");
  });
  return await (acting as unknown as Promise<T>);
}

Deno.test("a start waits for whoever is taking its worker out of the work, and finds that done", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id, given, starts } = await startScene(sql);
    const run = await given(LONG_AGO, LATER);
    const detach = (tx: Db) => tx`update worker set state = 'DETACHED' where worker_id = ${worker_id}`;
    assert.equal(await behind(sql, detach, () => starts(run)), false);
  });
});

Deno.test("a slot whose cancel is asked for meanwhile is not SKIPPED, before that is committed and after", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id, name } = await aDefinition(sql, { concurrency_policy: "forbid" });
    const of_job = { job_definition_id: id, serial_key: `job:${name}`, source: "schedule" };
    await aRun(sql, { ...of_job, state: "RUNNING", due_at: LONG_AGO });
    const slot = await aRun(sql, { ...of_job, due_at: LATER });
    await sql.begin(async (tx) => {
      await requestCancel(tx, slot.id, BY);
      assert.deepEqual(await skipForbidden(sql, term), { runs: [], more: false, left: true });
    });
    assert.deepEqual(await skipForbidden(sql, term), { runs: [], more: false, left: false });
  });
});

Deno.test("nothing is assigned that is to be canceled, whose job is paused, or that is due in more than a minute", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    const assigned = async (columns: Record<string, unknown>, cancel = false) => {
      const { id } = await aRun(sql, columns);
      if (cancel) await requestCancel(sql, id, BY);
      const [{ version } = { version: 0 }] = await sql<
        { version: number }[]
      >`select version from job_run where id = ${id}`;
      return (await assignRuns(sql, term, [{ job_run_id: id, version, worker_id }])).length;
    };
    const { id: paused } = await aDefinition(sql, { paused_at: LONG_AGO, paused_by: "eve" });
    assert.equal(await assigned({}), 1);
    assert.equal(await assigned({}, true), 0, "canceled");
    assert.equal(await assigned({ job_definition_id: paused }), 0, "paused");
    const due_at = in_an_hour();
    assert.equal(await assigned({ due_at, held: true, wakes_at: due_at }), 0, "due in an hour");
    const soon = new Date(Date.now() + 30_000);
    assert.equal(await assigned({ due_at: soon, held: true, wakes_at: soon }), 1, "given ahead");
  });
});

Deno.test("a run that was refused since it is to be canceled is left to the cancel", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    const of_worker = { state: "ASSIGNED", assigned_worker_id: worker_id };
    const [canceled, refused] = [await aRun(sql, of_worker), await aRun(sql, of_worker)];
    await requestCancel(sql, canceled.id, BY);
    const both = [canceled, refused].map(({ id }) => ({ job_run_id: id, attempt: 1 }));
    const back = await orphanAssigned(sql, term, { refused: both });
    assert.deepEqual(back.map((run) => run.job_run_id), [refused.id]);
  });
});

Deno.test("a slot that is to be canceled is not SKIPPED and takes no place among those that are; one that is not due is no overlap", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id, name } = await aDefinition(sql, { concurrency_policy: "forbid" });
    const of_job = { job_definition_id: id, serial_key: `job:${name}`, source: "schedule" };
    await aRun(sql, { ...of_job, state: "RUNNING", due_at: LONG_AGO });
    const canceled = await aRun(sql, { ...of_job, due_at: LATER });
    await requestCancel(sql, canceled.id, BY);
    const slot = await aRun(sql, { ...of_job, due_at: new Date("2020-01-01T02:00:00Z"), created_at: LONG_AGO });
    await aRun(sql, { ...of_job, due_at: in_an_hour() });
    const ids = (rows: { job_run_id: number }[]) => rows.map((run) => run.job_run_id);
    assert.deepEqual(ids((await skipForbidden(sql, term, 1)).runs), [slot.id]);
    assert.deepEqual(ids((await skipForbidden(sql, term)).runs), []);
    const late = await aRun(sql, { source: "schedule", due_at: LATER });
    assert.deepEqual(ids(await skipLate(sql, term, 60, 1)), [late.id]);
    assert.deepEqual(ids(await skipLate(sql, term, 60)), []);
  });
});

Deno.test("only RUNNING runs of a worker that is itself DETACHED become CONFIRMING", async () => {
  await withStores(async ({ sql }) => {
    const detached = await aWorker(sql, { state: "DETACHED" });
    const another = await aWorker(sql, { state: "DETACHED" });
    const active = await aWorker(sql);
    const of = (state: string, { worker_id }: { worker_id: string }) =>
      aRun(sql, { state, assigned_worker_id: worker_id });
    const mine = await of("RUNNING", detached);
    for (const state of ["ASSIGNED", "SUCCEEDED", "ORPHANED"]) await of(state, detached);
    await of("RUNNING", another);
    await of("RUNNING", active);
    for (const { worker_id } of [detached, active]) await beginConfirming(sql, worker_id);
    const confirming = await sql<{ id: number }[]>`select id from job_run where continuation_state = 'CONFIRMING'`;
    assert.deepEqual(confirming.map(({ id }) => id), [mine.id]);
  });
});

Deno.test("a yes is for the worker and the run that were asked about, and never for one that was proven gone", async () => {
  await withStores(async ({ sql }) => {
    const tls_fingerprint = "shared";
    const asking = await aWorker(sql, { state: "DETACHED", tls_fingerprint, lease_ms: 5_000 });
    const sibling = await aWorker(sql, { state: "DETACHED", tls_fingerprint, lease_ms: 5_000 });
    const runs = [];
    for (const { worker_id } of [asking, asking, sibling]) {
      runs.push(await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id }));
    }
    const asked = runs[0] as { id: number };
    for (const { worker_id } of [asking, sibling]) await beginConfirming(sql, worker_id);
    const question = {
      worker_id: asking.worker_id,
      job_run_id: asked.id,
      attempt: 1,
      tls_fingerprint,
      lease_ms: 60_000,
    };
    assert.equal((await confirm(sql, question)).allowed, true);
    const freed = await sql<{ id: number }[]>`select id from job_run where continuation_state = 'NONE'`;
    assert.deepEqual(freed.map(({ id }) => id), [asked.id]);
    const renewed = await sql<{ worker_id: string }[]>`
      select worker_id from worker where lease_until > clock_timestamp() + interval '30 s'`;
    assert.deepEqual(renewed.map(({ worker_id }) => worker_id), [asking.worker_id]);
    await sql`update worker set lease_until = '-infinity' where worker_id = ${asking.worker_id}`;
    assert.equal((await confirm(sql, question)).allowed, false);
  });
});

Deno.test("of runs that are assigned together each is charged to the rate of its job, and to no other", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    const rate_next_at = new Date("2100-01-01T00:00:00Z"); // ahead of now, so that it is counted from there
    const job = (columns: Record<string, unknown>) => aDefinition(sql, { ...columns, rate_next_at });
    const paced = await job({ rate_count: 10, rate_seconds: 60 });
    const other = await job({ rate_count: 1, rate_seconds: 3600 });
    const free = await job({});
    const chosen = [];
    for (const { id: job_definition_id } of [paced, paced, paced, free, free]) {
      const { id, version } = await aRun(sql, { job_definition_id });
      chosen.push({ job_run_id: id, version, worker_id });
    }
    assert.equal((await assignRuns(sql, term, chosen)).length, 5);
    const rows = await sql<{ rate_next_at: Date }[]>`
      select rate_next_at from job_definition where id in (${paced.id}, ${other.id}, ${free.id}) order by id`;
    const later = rows.map((row) => (row.rate_next_at.getTime() - rate_next_at.getTime()) / 1000);
    assert.deepEqual(later, [18, 0, 0], "three starts, one each six seconds");
  });
});

Deno.test("another priority is for runs that wait: what is with a worker or has ended keeps its own", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id, name } = await aDefinition(sql);
    for (const state of STATES) await aRun(sql, { job_definition_id, state });
    await reprioritizeWhere(sql, { job_name: name }, { ...BY, most: 100, priority: 7 });
    const moved = await sql<{ state: string }[]>`select state from job_run where priority = 7 order by id`;
    assert.deepEqual(moved.map(({ state }) => state), ["PENDING", "SUSPENDED", "RETRYING", "ORPHANED"]);
    assert.equal((await sql`select from admin_action_log where action = 'run.reprioritize'`).length, 4);
  });
});
