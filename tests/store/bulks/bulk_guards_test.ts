/** What a statement about bulks finds when it comes later than its decision: each guard by itself, without the look before it. */
import assert from "node:assert/strict";
import { lookAfterBulks } from "../../../src/leader/bulks.ts";
import { feed, finish, letGo } from "../../../src/bulks/bulk_dispatch.ts";
import { aDefinition } from "../../support/factories.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";

Deno.test("a bulk does not end while a run of it has not, in whatever state that is, and ends once", () =>
  withBulks(async (scene) => {
    const { sql, term } = scene;
    const { id } = await scene.client.bulk("each", numbered(1));
    await scene.round();
    for (const state of ["PENDING", "ASSIGNED", "RUNNING", "RETRYING", "ORPHANED"]) {
      await sql`update job_run set state = ${state} where bulk_id = ${id}`;
      assert.equal(await finish(sql, term, id), undefined, state);
    }
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where bulk_id = ${id}`;
    assert.equal((await finish(sql, term, id))?.state, "FINISHED");
    const [first] = await sql`select finished_at from bulk where id = ${id}`;
    assert.equal(await finish(sql, term, id), undefined);
    assert.deepEqual(await sql`select finished_at from bulk where id = ${id}`.then(([row]) => row), first);
  }));

Deno.test("a bulk that is paused after a look is not fed by what that look decided", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(4), { parallel: 2 });
    await scene.client.changeBulk(id, { state: "PAUSED" });
    const helping = { bulk_id: id, next_seq: 1, items: 2 };
    assert.deepEqual([...await feed(scene.sql, scene.term, [helping])], []);
    await scene.client.changeBulk(id, { state: "RUNNING" });
    assert.deepEqual([...await feed(scene.sql, scene.term, [helping])], [{ bulk_id: id, runs: 2 }]);
  }));

Deno.test("no more is let go than the limit leaves room for, and nothing that is behind its serial key", () =>
  withBulks(async (scene) => {
    const { sql, term } = scene;
    const { id } = await scene.client.bulk("each", numbered(6), { parallel: 1 });
    await scene.round();
    await sql`update bulk set parallel = 6 where id = ${id}`;
    await lookAfterBulks(scene.me);
    await sql`update job_run set held = true where state = 'PENDING'`;
    await sql`update bulk set parallel = 3 where id = ${id}`;
    await sql`update job_run set serial_key = 'k'`;
    assert.equal((await letGo(sql, term, id)).runs, 0);
    await sql`update job_run set serial_key = null`;
    assert.equal((await letGo(sql, term, id)).runs, 2);
  }));

Deno.test("a run that ran out of time has failed: it counts for maxFailures, and calls for the job of onFailure", () =>
  withBulks(async (scene) => {
    const { sql } = scene;
    await aDefinition(sql, { name: "some" });
    const { id } = await scene.client.bulk("each", numbered(4), { parallel: 2, maxFailures: 1 });
    const other = await scene.client.bulk("each", numbered(1), { onFailure: "some" });
    await scene.round();
    await scene.end(id, 2, "TIMED_OUT");
    await scene.end(other.id, 1, "TIMED_OUT");
    await scene.round();
    assert.equal((await scene.bulk(id)).state, "PAUSED");
    assert.equal((await sql`select from job_run where idempotency_key = ${`bulk:${other.id}:failure`}`).length, 1);
  }));

Deno.test("a throttle that is set anew begins anew, and a canceled bulk asks also what runs already", () =>
  withBulks(async (scene) => {
    const { sql, client } = scene;
    const { id } = await client.bulk("each", numbered(2), { parallel: 2, throttleAbove: 0.2 });
    await scene.round();
    await sql`update bulk set throttled = 1 where id = ${id}`;
    await client.changeBulk(id, { throttleAbove: 0.9 });
    assert.equal((await scene.bulk(id)).throttled, null);
    assert.equal((await scene.running(id)).length, 2);
    await client.changeBulk(id, { state: "CANCELED" });
    await lookAfterBulks(scene.me);
    assert.equal((await sql`select from job_run where cancel_requested_at is not null`).length, 2);
  }));
