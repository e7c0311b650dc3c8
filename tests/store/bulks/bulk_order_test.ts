/** What one person asks for happens in that order, also where a part of it is a bulk: runs and bulks of one serial key. */
import assert from "node:assert/strict";
import { freeKey, stopKey } from "../../../src/dispatch/pauses.ts";
import { aDefinition } from "../../support/factories.ts";
import { type BulkScene, numbered, withBulks } from "../../support/bulk_scene.ts";
import { waitLine } from "../../../src/locale/wait_text.ts";
import { ENGLISH } from "../../../src/locale/english.ts";
import type { Waits } from "../../../src/runs/wait_reason.ts";

const KEY = "admin:7";

/** A run of the key; `state` of it, and its end. */
async function aRunOfKey(scene: BulkScene, more: { priority?: number; runAt?: Date } = {}) {
  const { id } = await scene.client.enqueue("each", {}, { serialKey: KEY, ...more });
  const row = async () => {
    const [row] = await scene.sql<{ state: string; why: Waits | null }[]>`
      select state, wait_reason(r) as why from job_run r where id = ${id}`;
    assert(row);
    return { ...row, why: row.why && waitLine(ENGLISH, row.why) };
  };
  return {
    id,
    why: async () => (await row()).why,
    state: async () => (await row()).state,
    end: async () => {
      await scene
        .sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${id} and state = 'RUNNING'`;
    },
  };
}

const aBulk = async (scene: BulkScene, items = 4) =>
  (await scene.client.bulk("each", numbered(items), { parallel: 2, serialKey: KEY })).id;

Deno.test("a run that is asked for after a bulk of its serial key waits until all of the bulk has ended, however urgent", () =>
  withBulks(async (scene) => {
    const bulk = await aBulk(scene);
    const before_it_began = await aRunOfKey(scene);
    await scene.round();
    const urgent = await aRunOfKey(scene, { priority: 1 });
    const { id: other } = await scene.client.enqueue("each", {}, { serialKey: "admin:8" });
    for (const left of [4, 2]) {
      await scene.round();
      assert.equal((await scene.running(bulk)).length, 2, `${left} are left, two at once`);
      assert.deepEqual([await before_it_began.state(), await urgent.state()], ["PENDING", "PENDING"]);
      await scene.end(bulk, 2);
    }
    const [row] = await scene.sql`select state from job_run where id = ${other}`;
    assert.equal(row?.state, "RUNNING", "another key is another line");
    const behind = `behind bulk ${bulk} of serial key "${KEY}"`;
    assert.deepEqual([await before_it_began.why(), await urgent.why()], [behind, behind]);
    await scene.round();
    assert.deepEqual([await before_it_began.state(), await urgent.state()], ["PENDING", "RUNNING"], "then by priority");
    await urgent.end();
    await scene.round();
    assert.equal(await before_it_began.state(), "RUNNING");
    assert.equal(
      (await scene.sql`select from key_recheck`).length + (await scene.sql`select from bulk_recheck`).length,
      0,
    );
  }));

Deno.test("a bulk waits for the runs of its serial key that were asked for before it, not for those that come later or are not due", () =>
  withBulks(async (scene) => {
    const first = await aRunOfKey(scene);
    const calm = await aRunOfKey(scene, { priority: 300 });
    await aRunOfKey(scene, { runAt: new Date(Date.now() + 3_600_000) });
    await scene.round();
    const bulk = await aBulk(scene);
    const urgent = await aRunOfKey(scene, { priority: 1 });
    for (const [run, next] of [[first, calm], [calm, undefined]] as const) {
      await scene.round();
      assert.equal(await run.state(), "RUNNING");
      assert.deepEqual(await scene.runs(bulk, ["PENDING", "RUNNING"]), []);
      assert.equal((await scene.bulk(bulk)).wait_reason, `behind run ${run.id} of serial key "${KEY}"`);
      if (next) assert.equal(await next.why(), `behind run ${run.id} of serial key "${KEY}"`);
      assert.equal(await urgent.why(), next ? `behind run ${run.id} of serial key "${KEY}"` : await urgent.why());
      await run.end();
    }
    await scene.round();
    assert.equal((await scene.running(bulk)).length, 2);
    assert.equal(await urgent.state(), "PENDING", "it was asked for after the bulk");
  }));

Deno.test("a bulk whose items have its own serial key goes on, one by one; what waits behind it does not stop them", () =>
  withBulks(async (scene) => {
    await scene.sql`update job_definition set serial_key = ${KEY}`;
    const bulk = await aBulk(scene, 3);
    const urgent = await aRunOfKey(scene, { priority: 1 });
    for (let item = 0; item < 3; item++) {
      await scene.round();
      assert.equal((await scene.running(bulk)).length, 1);
      assert.equal(await urgent.state(), "PENDING");
      await scene.end(bulk, 1);
    }
    await scene.round();
    assert.deepEqual([(await scene.bulk(bulk)).state, await urgent.state()], ["FINISHED", "RUNNING"]);
  }));

Deno.test("a bulk of a serial key that is stopped does not begin, and says so; one that has begun goes on", () =>
  withBulks(async (scene) => {
    const begun = await aBulk(scene);
    await scene.round();
    const by = { actor: "me", reason: "audit" };
    await stopKey(scene.sql, KEY, by);
    await scene.end(begun, 2);
    await scene.round();
    await scene.end(begun, 2);
    const next = await aBulk(scene);
    await scene.round();
    assert.deepEqual([(await scene.bulk(begun)).state, await scene.runs(next, ["PENDING", "RUNNING"])], [
      "FINISHED",
      [],
    ]);
    assert.match((await scene.bulk(next)).wait_reason ?? "", /serial key "admin:7" is paused by me: audit; let it go/);
    await freeKey(scene.sql, KEY, by);
    await scene.round();
    await scene.round();
    assert.equal((await scene.running(next)).length, 2);
  }));

Deno.test("a bulk that is canceled before it began lets those behind it go; so does one that gets another key by hand", () =>
  withBulks(async (scene) => {
    const first = await aBulk(scene);
    const second = await aBulk(scene);
    const run = await aRunOfKey(scene);
    await scene.sql`update bulk set serial_key = 'another' where id = ${first}`;
    await scene.client.changeBulk(second, { state: "CANCELED", reason: "a mistake" });
    await scene.round();
    assert.deepEqual([await run.state(), (await scene.running(first)).length], ["RUNNING", 2]);
  }));

Deno.test("the run at a bulk's end stands in its line as well, behind what was asked for before that end", () =>
  withBulks(async (scene) => {
    await aDefinition(scene.sql, { name: "report", serial_key: KEY });
    const bulk = (await scene.client.bulk("each", numbered(1), { serialKey: KEY, onFinish: "report" })).id;
    await scene.round();
    const next = await aBulk(scene, 1);
    await scene.end(bulk, 1);
    await scene.round();
    const report = async () =>
      (await scene.sql`select state from job_run where idempotency_key = ${`bulk:${bulk}:finish`}`)[0]?.state;
    assert.deepEqual([await report(), (await scene.running(next)).length], ["PENDING", 1]);
    await scene.end(next, 1);
    await scene.round();
    assert.equal(await report(), "RUNNING");
  }));
