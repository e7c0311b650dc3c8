/** Rows that somebody's open transaction keeps: the leader waits for them once, and then goes on with the others. */
import assert from "node:assert/strict";
import { Bell } from "../src/base/loop.ts";
import { lookAfterBulks } from "../src/roles/leader/bulks.ts";
import { writeAssignments } from "../src/roles/leader/assign.ts";
import type { Leading } from "../src/roles/leader/leading.ts";
import { connectDb, type TransactionSql } from "../src/store/db.ts";
import { acquire, type Term } from "../src/store/leadership.ts";
import { numbered, withBulks } from "./support/bulk_scene.ts";
import { aDefinition, aRun, aWorker } from "./support/factories.ts";
import { withStores } from "./support/stores.ts";

/** Inside a transaction that is open for as long as `act` takes, and then is taken back. */
async function keeping(database_url: string, act: (tx: TransactionSql) => Promise<void>): Promise<void> {
  const app = connectDb(database_url, { name: "shop", max: 1, statement_timeout_ms: 0 });
  const over = new Error("taken back");
  try {
    await app.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await act(tx);
      throw over;
    });
  } catch (error) {
    if (error !== over) throw error;
  } finally {
    await app.end();
  }
}

Deno.test("a bulk whose row is kept holds up no other, and is looked at when that has ended", () =>
  withBulks(async (scene) => {
    const { id: kept } = await scene.client.bulk("each", numbered(4), { parallel: 2 });
    await scene.round();
    await keeping(scene.database_url, async (tx) => {
      await scene.client.within(tx).changeBulk(kept, { parallel: 4 });
      await scene.end(kept, 2);
      const { id: other } = await scene.client.bulk("each", numbered(2), { parallel: 2 });
      await assert.rejects(lookAfterBulks(scene.me), /lock timeout/);
      for (let look = 0; look < 2; look++) await lookAfterBulks(scene.me);
      assert.equal((await scene.runs(other, ["PENDING"])).length, 2);
      const checks = await scene.sql`select bulk_id from bulk_check`;
      assert.deepEqual(checks.map(({ bulk_id }) => bulk_id), [kept], "one is left, however many ends there are");
    });
    await scene.round();
    assert.equal((await scene.running(kept)).length, 2);
    assert(!scene.me.bulks_kept);
  }));

Deno.test("a run whose row is kept is left out of what is assigned, and assigned when that has ended", () =>
  withStores(async ({ sql, database_url }) => {
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 60_000, epoch_hint: 0 }) as Term;
    const me = { sql, term, bell: new Bell() } as unknown as Leading;
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    const runs = [await aRun(sql, { job_definition_id }), await aRun(sql, { job_definition_id })];
    const [kept, other] = runs.map(({ id, version }) => ({ job_run_id: id, version, worker_id }));
    assert(kept && other);
    await keeping(database_url, async (tx) => {
      await tx`update job_run set priority = 100 where id = ${kept.job_run_id}`;
      await assert.rejects(writeAssignments(me, [kept, other]), /lock timeout/);
      const assigned = await writeAssignments(me, [kept, other]);
      assert.deepEqual(assigned.map(({ job_run_id }) => job_run_id), [other.job_run_id]);
      assert.deepEqual(await writeAssignments(me, [kept]), []);
    });
    assert.equal((await writeAssignments(me, [kept])).length, 1);
  }));
