/** Events and runs that wait for them: each wait gets the first since its run was created, whichever was committed first. */
import assert from "node:assert/strict";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { aTerm } from "../../support/factories.ts";
import { anOwnedRun, aWrite, type Owned, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

function emit(sql: Sql, payload: unknown, event_type = "paid"): Promise<number> {
  return emitEvent(sql, { event_type, payload });
}

async function look(sql: Sql, { job_run_id }: Owned): Promise<unknown[]> {
  const [found] = await findArrivals(sql, [job_run_id]);
  return found!.arrivals.toSorted((a, b) => a.key < b.key ? -1 : 1).map((
    { key, outcome, result },
  ) => [key, outcome, result]);
}

Deno.test("a wait finds the first event since its run was created that it wants, whether the leader has taken it or not", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await emit(sql, { order: 7, was: "before the run" });
    const run = await anOwnedRun(sql);
    await emit(sql, { order: 8 });
    await emit(sql, { order: 7, n: 1 });
    await emit(sql, { order: 7, n: 2 });
    await takeEvents(sql, term);
    await emit(sql, { order: 7, n: 3 });
    await write(sql, aWrite(run, "event:paid", { waits_for: "paid", where: { order: 7 } }));
    await write(sql, aWrite(run, "event:paid#2", { waits_for: "paid", where: { order: [1, 8] } }));
    await write(sql, aWrite(run, "event:sent", { waits_for: "sent" }));
    const expected = [["event:paid", "DONE", { order: 7, n: 1 }], ["event:paid#2", "DONE", { order: 8 }]];
    assert.deepEqual(await look(sql, run), expected);
    await takeEvents(sql, term);
    assert.deepEqual(await look(sql, run), expected, "a message of a later one changes nothing");
    assert.equal((await sql`select from run_message where for_key = 'event:sent'`).length, 0);
  });
});

Deno.test("one event wakes all runs that wait for it, each wait once, and nothing is left when a wait is over", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const runs = await Promise.all([anOwnedRun(sql), anOwnedRun(sql), anOwnedRun(sql)]);
    const [first, second, other] = runs as [Owned, Owned, Owned];
    for (const run of runs) {
      const where = { order: run === other ? 9 : 7 };
      await write(sql, aWrite(run, "event:paid", { waits_for: "paid", where }));
    }
    const suspended = await suspendRuns(
      sql,
      "w-of-nobody",
      runs.map((run) => ({ ...run, wakes: 0, wakes_in_ms: null })),
    );
    assert.equal(suspended.length, 3);
    for (const n of [1, 2]) await emit(sql, { order: 7, n });
    assert.equal((await takeEvents(sql, term)).events, 2);
    const { woken } = await applyWakeChecks(sql, term);
    assert.deepEqual(woken.map(({ job_run_id }) => job_run_id), [first.job_run_id, second.job_run_id]);
    assert.deepEqual(await look(sql, first), [["event:paid", "DONE", { order: 7, n: 1 }]]);
    await emit(sql, { order: 7, n: 3 });
    await takeEvents(sql, term);
    assert.equal((await sql`select from run_message where job_run_id = ${first.job_run_id}`).length, 1);
    await sql`update job_run set state = 'RUNNING', held = false, wakes_at = null where id = ${first.job_run_id}`;
    await write(sql, aWrite(first, "event:paid", { seq: 1, result: { order: 7, n: 1 } }));
    assert.deepEqual([...await sql`select taken_by from run_message where job_run_id = ${first.job_run_id}`], [{
      taken_by: "event:paid",
    }]);
  });
});

Deno.test("a suspended run is answered by messages alone, and an event counts by when it was emitted", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const run = await anOwnedRun(sql);
    await write(sql, aWrite(run, "event:paid", { waits_for: "paid", until_in_ms: 60_000 }));
    await suspendRuns(sql, "w-of-nobody", [{ ...run, wakes: 0, wakes_in_ms: 60_000 }]);
    await emit(sql, { n: 1 });
    assert.deepEqual(await look(sql, run), [], "the leader has not taken it yet");
    await sql`update event set created_at = clock_timestamp() - interval '1 min'`;
    await sql`update job_run set created_at = clock_timestamp() - interval '1 h'`;
    await sql`update run_step set until = clock_timestamp() - interval '1 s'`;
    assert.deepEqual(await look(sql, run), [["event:paid", "TIMED_OUT", undefined]]);
    await emit(sql, { n: "too late" });
    await takeEvents(sql, term);
    assert.deepEqual(await look(sql, run), [["event:paid", "DONE", { n: 1 }]]);
    assert.equal((await sql`select from run_message`).length, 1);
  });
});

Deno.test("no event is lost when it, the leader and the wait come at once", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    for (let round = 0; round < 200; round++) {
      const run = await anOwnedRun(sql);
      const delay = async (statements: number) => {
        for (let wait = statements; wait > 0; wait--) await sql`select 1`;
      };
      const worker = async () => {
        await delay(round % 3);
        await write(sql, aWrite(run, "event:paid", { waits_for: "paid" }));
        for (;;) {
          const [found] = await findArrivals(sql, [run.id]);
          if (found!.arrivals.length > 0) return;
          if (
            (await suspendRuns(sql, "w-of-nobody", [{ ...run, wakes: found!.wakes, wakes_in_ms: null }])).length > 0
          ) return;
        }
      };
      const emitter = async () => {
        await delay(round % 5);
        await emit(sql, { round });
      };
      const leader = async () => {
        for (let tick = 0; tick < 4; tick++) {
          await takeEvents(sql, term);
          await applyWakeChecks(sql, term);
        }
      };
      await Promise.all([worker(), emitter(), leader()]);
      await takeEvents(sql, term);
      await applyWakeChecks(sql, term);
      const [row] = await sql`select state, held from job_run where id = ${run.id}`;
      assert.equal(row?.held, false, `round ${round}: ${row?.state}, and nobody will wake it`);
      assert.deepEqual(await look(sql, run), [["event:paid", "DONE", { round }]]);
      await sql`delete from job_run where id = ${run.id}`;
    }
  });
});
