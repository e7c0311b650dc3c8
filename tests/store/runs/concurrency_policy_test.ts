/**
 * Runs of one job that may not go on beside each other: which of them keep a slot from running, and which it replaces. What was there when
 * a slot was to start is looked at in key_queues_test.ts.
 */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { requestReplaced, skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { aDefinition, aRun, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

type Policy = "forbid" | "replace" | "queue_one";

interface Scene {
  sql: Sql;
  /** A run of the job; the later it is made, the later it is due. */
  run(columns: Record<string, unknown>): Promise<number>;
  slot(columns?: Record<string, unknown>): Promise<number>;
  /** The slots that are skipped now. */
  skipped(): Promise<number[]>;
  /** The runs that are asked to end now. */
  replaced(): Promise<number[]>;
}

function withJob(concurrency_policy: Policy, test: (scene: Scene) => Promise<void>): Promise<void> {
  return withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id, name } = await aDefinition(sql, { concurrency_policy });
    let minute = 0;
    const run = async (columns: Record<string, unknown>) => {
      const made_at = new Date(Date.UTC(2026, 0, 1, 0, ++minute));
      const row = {
        job_definition_id: id,
        serial_key: `job:${name}`,
        created_at: made_at,
        due_at: made_at,
        ...columns,
      };
      return (await aRun(sql, row)).id;
    };
    await test({
      sql,
      run,
      slot: (columns) => run({ source: "schedule", ...columns }),
      skipped: async () => (await skipForbidden(sql, term)).runs.map((one) => one.job_run_id),
      replaced: async () => (await requestReplaced(sql, term)).runs.map((one) => one.job_run_id),
    });
  });
}

/** What a row needs once a worker has begun its run. */
const OWNED = {
  assigned_worker_id: "w",
  leader_epoch: 1,
  fence: 1,
  start_token: "t",
  started_at: new Date(Date.UTC(2026, 0, 1)),
};

/** What a run is then: with its worker, or between two tries. */
const BEGUN = [{ state: "RUNNING" }, { state: "RETRYING", attempt: 2, held: true }];

for (const begun of BEGUN) {
  Deno.test(`what waits in a bulk keeps no slot of a "forbid" job from running; a ${begun.state} run of it does`, () =>
    withJob("forbid", async ({ sql, run, slot, skipped, replaced }) => {
      const item = await run({ source: "bulk" });
      const forbidden = await slot();
      assert.deepEqual([await skipped(), await replaced()], [[], []]);
      await sql`update job_run set ${sql({ ...OWNED, ...begun })} where id = ${item}`;
      assert.deepEqual([await skipped(), await replaced()], [[forbidden], []]);
    }));

  Deno.test(`what waits in a bulk is not replaced by a slot; a ${begun.state} run of it is`, () =>
    withJob("replace", async ({ sql, run, slot, skipped, replaced }) => {
      const item = await run({ source: "bulk" });
      await slot();
      assert.deepEqual([await skipped(), await replaced()], [[], []]);
      await sql`update job_run set ${sql({ ...OWNED, ...begun })} where id = ${item}`;
      assert.deepEqual([await skipped(), await replaced()], [[], [item]]);
    }));
}

Deno.test('of a "queueOne" job a slot waits beside whatever was enqueued, and is skipped beside another slot', () =>
  withJob("queue_one", async ({ run, slot, skipped }) => {
    await run({ source: "schedule", state: "RUNNING" });
    for (const source of ["enqueue", "event", "bulk"]) await run({ source });
    await slot();
    assert.deepEqual(await skipped(), []);
    const second = await slot();
    assert.deepEqual(await skipped(), [second]);
  }));

Deno.test('of a "queueOne" job a slot waits for the run that goes on, also for one that is tried again', () =>
  withJob("queue_one", async ({ run, slot, skipped }) => {
    await run({ source: "schedule", state: "RETRYING", attempt: 2, held: true });
    await slot();
    assert.deepEqual(await skipped(), []);
  }));

Deno.test("a slot whose time has not come replaces nothing and is not skipped, until it has", async () => {
  const later = new Date(Date.UTC(2100, 0, 1));
  const ahead = { due_at: later, held: true, wakes_at: later };
  const comes = (sql: Sql) =>
    sql`
    update job_run set due_at = clock_timestamp(), held = false, wakes_at = null where source = 'schedule'`;
  await withJob("replace", async ({ sql, run, slot, replaced }) => {
    const goes_on = await run({ state: "RUNNING" });
    await slot(ahead);
    assert.deepEqual(await replaced(), []);
    await comes(sql);
    assert.deepEqual(await replaced(), [goes_on]);
  });
  await withJob("forbid", async ({ sql, run, slot, skipped }) => {
    await run({ state: "RUNNING" });
    const forbidden = await slot(ahead);
    assert.deepEqual(await skipped(), []);
    await comes(sql);
    assert.deepEqual(await skipped(), [forbidden]);
  });
});
