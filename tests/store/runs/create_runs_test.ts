/** How runs come to be: when they wake, whose line they stand in, and what has no run, since its job, its schedule or its end says so. */
import assert from "node:assert/strict";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { createRuns, createSlotRuns, rerunWhere } from "../../../src/runs/create_runs.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { cancelsToDeliver, requestCancelWhere } from "../../../src/runs/requests.ts";
import { STATES, TERMINAL } from "../../../src/runs/run_states.ts";
import { aDefinition, aRun, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const BY = { actor: "test", reason: "test", most: 100 };
const SLOT = "2026-01-01T02:30:00Z";

Deno.test("a run that is not due yet sleeps until it is, and is let go then", () =>
  withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "job" });
    const run_at = new Date(Date.UTC(2100, 0, 1));
    for (const serial_key of [undefined, "k"]) {
      const [created] = await createRuns(sql, [{ job_name: "job", args: {}, run_at, serial_key }]);
      const [run] = await sql`select held, due_at, wakes_at from job_run where id = ${created?.job_run_id ?? 0}`;
      assert.deepEqual(run, { held: true, due_at: run_at, wakes_at: run_at });
    }
  }));

Deno.test("a run of a job whose runs exclude each other stands in that job's line, whatever key it was given", () =>
  withStores(async ({ sql }) => {
    const keyOf = async (job: Record<string, unknown>, serial_key?: string) => {
      const { name } = await aDefinition(sql, job);
      const [created] = await createRuns(sql, [{ job_name: name, args: { t: 7 }, serial_key }]);
      const [run] = await sql`select serial_key from job_run where id = ${created?.job_run_id ?? 0}`;
      return String(run?.serial_key).replace(name, "NAME");
    };
    for (const concurrency_policy of ["forbid", "replace", "queue_one"]) {
      assert.equal(await keyOf({ concurrency_policy, serial_key: "t:{t}" }, "own"), "job:NAME", concurrency_policy);
    }
    assert.equal(await keyOf({ serial_key: "t:{t}" }), "t:7");
    assert.equal(await keyOf({ serial_key: "t:{t}" }, "own"), "own");
  }));

Deno.test("a job whose file is gone takes no runs", () =>
  withStores(async ({ sql }) => {
    const removed = { enabled: false, removed_at: new Date(0) };
    const { name } = await aDefinition(sql, removed);
    assert.deepEqual(await createRuns(sql, [{ job_name: name, args: {} }]), [{ job_run_id: undefined, is_new: false }]);
    assert.equal((await sql`select from job_run`).length, 0);
  }));

/** A schedule whose slot has come, of such a job. */
async function aSchedule(sql: Sql, schedule: Record<string, unknown>, job: Record<string, unknown>): Promise<number> {
  const row = {
    job_definition_id: (await aDefinition(sql, job)).id,
    schedule_id: "nightly",
    schedule_type: "daily_at",
    schedule_value: "02:30",
    next_slot: SLOT,
    ...schedule,
  };
  const [made] = await sql<{ id: number }[]>`insert into job_schedule ${sql(row)} returning id`;
  return made?.id ?? 0;
}

Deno.test("a slot whose schedule or job was turned off or paused meanwhile has no run, and the leader does not look for one", () =>
  withStores(async ({ sql }) => {
    let term = await aTerm(sql);
    const paused = { paused_at: new Date(0), paused_by: "ann" };
    const off: [schedule: Record<string, unknown>, job: Record<string, unknown>][] = [
      [{ enabled: false }, {}],
      [paused, {}],
      [{}, { enabled: false }],
      [{}, paused],
    ];
    const isLookedFor = async () => {
      const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
      const looked = await renewAndReadWork(sql, term, look);
      term = looked?.term ?? term;
      return looked?.pending.slots;
    };
    const plan = (job_schedule_id: number) =>
      createSlotRuns(sql, term, [
        { job_schedule_id, next_slot_was: SLOT, slots: [SLOT], last_slot: SLOT, next_slot: null },
      ]);
    for (const [schedule, job] of off) {
      const id = await aSchedule(sql, schedule, job);
      const shown = JSON.stringify([schedule, job]);
      if (job.enabled !== false) assert.equal(await isLookedFor(), false, shown); // a sync turns its schedules off with it
      if (job !== paused) assert.equal((await plan(id)).length, 0, shown); // the pause of a job keeps what was read before it
      await sql`delete from job_schedule`;
    }
    const on = await aSchedule(sql, {}, {});
    assert.equal(await isLookedFor(), true);
    assert.equal((await plan(on)).length, 1);
  }));

Deno.test("only what has ended is run again; only what has not ended is asked to end, and only a worker with a body is told", () =>
  withStores(async ({ sql }) => {
    const { id: job_definition_id, name } = await aDefinition(sql);
    const ids = new Map<string, number>();
    for (const state of STATES) ids.set(state, (await aRun(sql, { job_definition_id, state })).id);
    const of = (states: readonly string[]) => states.map((state) => ids.get(state));
    const again = await rerunWhere(sql, { job_name: name }, { ...BY, wish: "w" });
    assert.deepEqual(again.map((run) => run.rerun_of), of(TERMINAL));
    await sql`delete from job_run where rerun_of is not null`;
    const open = STATES.filter((state) => !TERMINAL.includes(state));
    assert.deepEqual(await requestCancelWhere(sql, { job_name: name }, BY), of(open));
    assert.deepEqual((await cancelsToDeliver(sql)).map((run) => run.job_run_id), of(["RUNNING"]));
    assert.deepEqual(await requestCancelWhere(sql, { job_name: name }, BY), []);
  }));
