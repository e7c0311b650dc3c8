/** The bulk of a `callMany`: made whole and once, below its parent, which is woken once at its end. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { type ChildBulkWish, createChildBulk, readBulkResults } from "../../../src/steps/child_bulks.ts";
import { readJournals } from "../../../src/steps/run_steps.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { aDefinition } from "../../support/factories.ts";
import { anOwnedRun, aWrite, type Owned, write } from "../../support/step_rows.ts";

const WORKER = "w-of-nobody";

function aWish(parent: Owned, items: unknown[], more: Partial<ChildBulkWish> = {}): ChildBulkWish {
  const { job_run_id, attempt, start_token } = parent;
  return { job_run_id, attempt, start_token, key: "bulk:each", job_name: "each", items: items as never, ...more };
}

async function aParent(sql: Sql, columns: Record<string, unknown> = {}) {
  const { id } = await aDefinition(sql, { permissions: { call: ["each"] } });
  return await anOwnedRun(sql, { job_definition_id: id, ...columns });
}

async function make(sql: Sql, wish: ChildBulkWish): Promise<number> {
  const made = await createChildBulk(sql, WORKER, wish);
  return made && "child_bulk_id" in made ? made.child_bulk_id : assert.fail(JSON.stringify(made));
}

async function refusalOf(sql: Sql, wish: ChildBulkWish): Promise<string> {
  const made = await createChildBulk(sql, WORKER, wish);
  return made && "refused" in made ? made.refused : assert.fail(JSON.stringify(made));
}

Deno.test("a bulk is made once and whole, its runs are below the parent, and its end wakes it with the counts", async () => {
  await withBulks(async (scene) => {
    const { sql, term } = scene;
    const parent = await aParent(sql, { depth: 2 });
    const wish = aWish(parent, [...numbered(5)], { options: { parallel: 3, maxFailures: 1 } });
    const ids = await Promise.all(Array.from({ length: 4 }, () => make(sql, wish)));
    assert.equal(new Set(ids).size, 1);
    const [child_bulk_id] = ids as [number];
    const [bulk] = await sql`select parallel, max_failures, parent_run_id, parent_key, created_by from bulk`;
    assert.deepEqual(bulk, {
      ...{ parallel: 3, max_failures: 1, parent_run_id: parent.id, parent_key: "bulk:each" },
      created_by: `run ${parent.id}`,
    });
    assert.equal((await sql`select from bulk_item`).length, 5);
    await write(sql, aWrite(parent, "bulk:each", { child_bulk_id }));
    assert.equal((await suspendRuns(sql, WORKER, [{ ...parent, wakes: 0, wakes_in_ms: null }])).length, 1);
    await scene.round();
    const runs =
      await sql`select parent_run_id, parent_key, depth, source from job_run where bulk_id = ${child_bulk_id}`;
    assert.deepEqual(
      [...runs],
      Array(3).fill({ parent_run_id: parent.id, parent_key: null, depth: 3, source: "bulk" }),
    );
    assert.equal(
      (await readBulkResults(sql, { job_run_id: parent.id, bulk_id: child_bulk_id, after: 0 }))?.results.length,
      0,
    );
    await scene.end(child_bulk_id, 3);
    await scene.round();
    await scene.end(child_bulk_id, 1, "FAILED");
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [], "an end of a run of it is nothing to wake for");
    await scene.end(child_bulk_id, 1);
    await scene.round();
    assert.deepEqual((await applyWakeChecks(sql, term)).woken, [{ job_run_id: parent.id, state: "SUSPENDED" }]);
    const [look] = await findArrivals(sql, [parent.id]);
    const arrival = { key: "bulk:each", outcome: "DONE", result: { succeeded: 4, failed: 1 }, child_bulk_id };
    assert.deepEqual(look?.arrivals, [arrival]);
    assert.equal(await make(sql, wish).catch(() => 0), child_bulk_id, "one that was made is found by its key");
    await sql`update job_run set state = 'RUNNING', held = false where id = ${parent.id}`;
    await write(sql, aWrite(parent, "bulk:each", { seq: 1 }));
    const journal = (await readJournals(sql, [parent.id])).get(parent.id);
    assert.deepEqual(
      journal?.rows.map(({ result }) => result),
      [{ succeeded: 4, failed: 1 }],
      "each time that it is replayed",
    );
  });
});

Deno.test("results of a bulk are read piece by piece, by the run that called it and its forks", async () => {
  await withBulks(async (scene) => {
    const { sql } = scene;
    const parent = await aParent(sql), fork = await aParent(sql), other = await aParent(sql);
    const bulk_id = await make(sql, aWish(parent, [...numbered(5)]));
    await write(sql, aWrite(fork, "bulk:each", { seq: 1, child_bulk_id: bulk_id }));
    await scene.round();
    await scene.end(bulk_id, 5);
    await sql`update job_run set result = jsonb_build_object('square', (args_json ->> 'n')::int ^ 2) where bulk_id = ${bulk_id}`;
    await sql`update job_run set state = 'FAILED' where bulk_id = ${bulk_id} and args_json ->> 'n' = '2'`;
    const read = (run: Owned, after: number) =>
      readBulkResults(sql, { job_run_id: run.job_run_id, bulk_id, after, most: 3 });
    const first = { results: [{ at: 1, result: { square: 1 } }, { at: 3, result: { square: 9 } }], next: 3 };
    assert.deepEqual(await read(parent, 0), first);
    assert.deepEqual(await read(fork, 0), first);
    assert.deepEqual(await read(parent, 3), {
      results: [{ at: 4, result: { square: 16 } }, { at: 5, result: { square: 25 } }],
      next: null,
    });
    assert.deepEqual(await read(parent, 5), { results: [], next: null });
    assert.equal(await read(other, 0), undefined);
    await sql`update job_run set result = to_jsonb(repeat('x', 3000000)) where bulk_id = ${bulk_id}`;
    const large = await readBulkResults(sql, { job_run_id: parent.id, bulk_id, after: 0 });
    assert.deepEqual([large?.results.map(({ at }) => at), large?.next], [[1], 1], "no piece is larger than it need be");
  });
});

Deno.test("what cannot be a bulk is refused, and nothing of it is left; nor of one whose parent is another's", async () => {
  await withBulks(async ({ sql }) => {
    const parent = await aParent(sql, { serial_key: "tenant:b" });
    const said = async (more: Partial<ChildBulkWish>, items: unknown[] = [{ tenant: "a" }, { tenant: "b" }]) =>
      (await refusalOf(sql, aWish(parent, items, more))).replace(/^Cannot call "\w+" for \d+ items: /, "");
    assert.match(await said({ job_name: "other" }), /^permissions\.call of job_\w+ does not name it/);
    assert.match(await said({ options: { parallel: 0 } }), /^parallel must be a whole number from 1 to 1000000$/);
    assert.match(await said({ options: { maxFailures: 1.5 } }), /^maxFailures must be a whole number from 0/);
    assert.match(await said({}, Array(100_001).fill({})), /^at most 100000; make several calls of it$/);
    assert.match(await said({}, [{ text: "\u0000" }]), /unsupported Unicode/);
    const args_schema = { type: "object", properties: { tenant: { type: "string" } }, required: ["tenant"] };
    await sql`update job_definition set serial_key = 'tenant:{tenant}', args_schema = ${
      sql.json(args_schema)
    } where name = 'each'`;
    assert.match(await said({}, [{ tenant: "a" }, {}]), /^the args of item 2 do not fit: tenant: /);
    assert.match(await said({}), /^it would wait for run \d+, which has its serial key "tenant:b"/);
    const others = await aParent(sql);
    const wish = aWish(others, [{ tenant: "a" }]);
    assert.equal(await createChildBulk(sql, "w-other", wish), undefined);
    assert.equal(await createChildBulk(sql, WORKER, { ...wish, start_token: "of another" }), undefined);
    assert.equal((await sql`select from bulk union all select from bulk_item`).length, 0);
    assert.equal((await sql`select from job_run where has_children`).length, 0);
    await make(sql, wish);
    assert.equal((await sql`select from job_run where has_children`).length, 1);
  });
});
