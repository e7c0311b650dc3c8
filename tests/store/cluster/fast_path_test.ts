/**
 * The short way of a run that is created while nothing else waits: what it is for, everything that keeps a run from it, and that an order
 * which comes before its assignment starts nothing by itself.
 */
import assert from "node:assert/strict";
import { createClient } from "../../../src/client.ts";
import { Wakeups } from "../../../src/leader/wakeups.ts";
import { createCheckedRuns, createRuns } from "../../../src/runs/create_runs.ts";
import { onWork, type Sql } from "../../../src/postgres/connection.ts";
import { readDemands } from "../../../src/definitions/definition_rows.ts";
import { type AnnouncedRun, announcedRun, nothingElseCounts } from "../../../src/runs/fast_path.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import { assignRuns } from "../../../src/runs/states.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const ENDED = { state: "SUCCEEDED" };

/** What speaks against the short way: changes to rows, and columns of the run, its job, the node and the worker. */
const AGAINST: Record<string, {
  run?: Record<string, unknown>;
  job?: Record<string, unknown>;
  worker?: Record<string, unknown>;
  more?(sql: Sql, on: { job_definition_id: number; worker_id: string }): Promise<unknown>;
}> = {
  "another run waits": { more: (sql) => aRun(sql) },
  "a serial key": { run: { serial_key: "k" } },
  "a limit key": { run: { limit_key: "k" } },
  "a node": { run: { node: "here" } },
  "held": { run: { held: true, wakes_at: new Date(0) } },
  "not due": { run: { due_at: new Date(Date.now() + 3_600_000) } },
  "it was lost before": { run: { state: "ORPHANED" } },
  "canceled": { run: { cancel_requested_at: new Date(0) } },
  "a limit": { job: { concurrency_limit: 5 } },
  "a rate": { job: { rate_count: 5, rate_seconds: 1 } },
  "a resource": { job: { resources: { gpu: 1 } } },
  "the job is paused": { job: { paused_at: new Date(0), paused_by: "ann" } },
  "the job is removed": { job: { removed_at: new Date(0), enabled: false } },
  "all is paused": {
    more: (sql) =>
      sql`insert into scheduler_settings (name, value) values ('dispatch', '"paused"')
      on conflict (name) do update set value = excluded.value`,
  },
  "no slot": {
    worker: { slots: 1 },
    more: (sql, on) => aRun(sql, { state: "RUNNING", assigned_worker_id: on.worker_id }),
  },
  "a worker that drains": { worker: { state: "DRAINING" } },
  "a worker whose lease is over": { worker: { lease_ms: -1_000 } },
  "a node in maintenance": { more: (sql) => sql`update node set is_active = false` },
  "a node that is away": { more: (sql) => sql`update node set status = 'unavailable'` },
  "a node with a limit": { more: (sql) => sql`update node set max_concurrent = 5` },
};

for (const [what, { run, job, worker, more }] of Object.entries({ nothing: {}, ...AGAINST } as typeof AGAINST)) {
  Deno.test(`a lone run is given away at once unless: ${what}`, async () => {
    await withStores(async ({ sql }) => {
      const term = await aTerm(sql);
      const { id: job_definition_id } = await aDefinition(sql, job);
      const { worker_id } = await aWorker(sql, worker);
      await aRun(sql, ENDED);
      const { id, version } = await aRun(sql, { job_definition_id, ...run });
      await more?.(sql, { job_definition_id, worker_id });
      const chosen = [{ job_run_id: id, version, worker_id }];
      const given = await assignRuns(sql, term, chosen, nothingElseCounts(sql, worker_id));
      assert.equal(given.length, what === "nothing" ? 1 : 0);
    });
  });
}

/** What wakes the leader while `act` is done. */
async function ringsOf(sql: Sql, act: () => Promise<unknown>): Promise<string[]> {
  const heard: string[] = [];
  const silence = await onWork(sql, (what) => heard.push(what));
  heard.length = 0;
  await act();
  await sql`select pg_notify('scheduler', 'the end')`;
  await waitFor("the last ring", () => Promise.resolve(heard.includes("the end") || undefined));
  await silence();
  return heard.slice(0, -1);
}

Deno.test("a birth names its run when it is one, due, and free of keys and nodes", async () => {
  await withStores(async ({ sql }) => {
    const { name } = await aDefinition(sql, { digest: "abc" });
    const keyed = await aDefinition(sql, { serial_key: "{tenant}" });
    const new_run = (more = {}) => ({ job_name: name, args: {}, idempotency_key: crypto.randomUUID(), ...more });
    const named = async (new_runs: ReturnType<typeof new_run>[]) => {
      const rings = await ringsOf(sql, () => createRuns(sql, new_runs));
      assert(rings.includes("job_run"), "who knows no names must hear of it too");
      return rings.map(announcedRun).filter((created): created is AnnouncedRun => created !== undefined);
    };
    const [created] = await named([new_run()]);
    assert.deepEqual(created, { job_run_id: created?.job_run_id, command_name: `${name}.ts`, digest: "abc" });
    assert.equal((await readRun(sql, created?.job_run_id as number))?.state, "PENDING");
    assert.deepEqual(await named([new_run(), new_run()]), []);
    assert.deepEqual(await named([new_run({ run_at: new Date(Date.now() + 60_000) })]), []);
    assert.deepEqual(await named([new_run({ node: "here" })]), []);
    assert.deepEqual(await named([new_run({ job_name: keyed.name, args: { tenant: "t" } })]), []);
  });
});

Deno.test("a run is lone when nothing but its birth has rung; anybody may ring with anything", () => {
  const created = JSON.stringify({ job_run_id: 1, command_name: "a.ts", digest: "d" });
  const lone = (rings: number, ...heard: string[]) => {
    const calls = new Wakeups();
    for (const what of heard) calls.hear(what);
    const run = calls.takeSingle(rings)?.job_run_id;
    assert.equal(calls.takeSingle(rings), undefined, "it was kept");
    return run;
  };
  assert.equal(lone(2, created, "job_run"), 1);
  assert.equal(lone(1, created), 1);
  assert.equal(lone(3, created, "job_run"), undefined); // a worker rang as well
  assert.equal(lone(3, created, "job_run", "event"), undefined);
  assert.equal(lone(4, created, "job_run", created, "job_run"), undefined);
  assert.equal(lone(3, created, "job_run", "job_run"), undefined);
  assert.equal(lone(1, "job_run"), undefined);
  for (const noise of ["{", "{}", '{"job_run_id":"1"}', '{"job_run_id":1}', "{null", ""]) {
    assert.equal(announcedRun(noise), undefined, noise);
  }
});

Deno.test("who enqueues by name again is held against what the job asks now, not what it asked before", async () => {
  await withStores(async ({ sql, database_url }) => {
    const schema = (type: string) => ({ type: "object", properties: { n: { type } }, required: ["n"] });
    const { name } = await aDefinition(sql, { args_schema: schema("number") });
    const client = createClient({ databaseUrl: database_url });
    try {
      await client.enqueue(name, { n: 1 });
      await assert.rejects(() => client.enqueue(name, { n: "one" }), /its args/);
      await sql`update job_definition set args_schema = ${sql.json(schema("string"))} where name = ${name}`;
      await client.enqueue(name, { n: "one" }); // what is remembered would refuse it
      await sql`update job_definition set args_schema = ${sql.json(schema("number"))} where name = ${name}`;
      await assert.rejects(() => client.enqueue(name, { n: "one" }), /its args/); // and now take it
      await client.enqueue(name, { n: 2 });
      const demands = await readDemands(sql, name);
      assert(demands);
      const new_run = { job_name: name, args: { n: 3 }, idempotency_key: "3" };
      assert.equal((await createCheckedRuns(sql, [new_run], demands))?.length, 1);
      await sql`update job_definition set node = 'gpu-1' where name = ${name}`;
      assert.equal(await createCheckedRuns(sql, [{ ...new_run, idempotency_key: "4" }], demands), undefined);
      await sql`update job_definition set node = null, removed_at = now(), enabled = false where name = ${name}`;
      await assert.rejects(() => client.enqueue(name, { n: 5 }), /no such job/);
      const [row] = await sql<{ runs: number }[]>`select count(*)::int as runs from job_run`;
      assert.equal(row?.runs, 4);
    } finally {
      await client.close();
    }
  });
});
