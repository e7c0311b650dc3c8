/**
 * The past of schedules: what was missed, what came too late, what is filled in afterwards, and schedules that people stop.
 * The leader's own statements on real stores; no bodies run.
 */
import assert from "node:assert/strict";
import { createBackfill, type PastSlot, readSlots } from "../../../src/bulks/backfill.ts";
import { createRuns, createSlotRuns, rerunWhere } from "../../../src/runs/create_runs.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { dueSchedules } from "../../../src/definitions/due_schedules.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { feed } from "../../../src/bulks/bulk_dispatch.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { requestReplaced, skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { skipLate } from "../../../src/runs/states.ts";
import { readSchedules } from "../../../src/schedules/schedule_view.ts";
import { pauseSchedules } from "../../../src/dispatch/pauses.ts";
import { aDefinition, aWorker, type DefinitionRow } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { stored } from "../../../src/locale/message.ts";

const DAY = [3, 4, 5, 6].map((hour) => `2026-05-05T0${hour}:00:00Z`);
const WHO = { actor: "test", reason: "to see" };
const WISH = { name: "backfill", skipped: false, parallel: 2, priority: 360, ...WHO };

interface Scene {
  sql: Sql;
  term: Term;
  job: DefinitionRow;
  schedule_id: number;
  slots: PastSlot[];
}

async function withSchedule(test: (scene: Scene) => Promise<void>, columns: Record<string, unknown> = {}) {
  await withStores(async ({ sql }) => {
    const job = await aDefinition(sql, { type: "time", default_args_json: { of: "job", kept: 1 }, ...columns });
    const [row] = await sql<{ id: number }[]>`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, args_json, last_slot, next_slot)
      values (${job.id}, 'hourly', 'cron', '0 * * * *', '{"of": "schedule"}', '2026-05-05 02:30Z', '2026-05-05 03:00Z') returning id`;
    const schedule_id = row?.id as number;
    const { worker_id } = await aWorker(sql);
    const term = await acquire(sql, { worker_id, lease_ms: 60_000, epoch_hint: 0 }) as Term;
    const slots = DAY.map((slot) => ({ job_schedule_id: schedule_id, slot }));
    await test({ sql, term, job, schedule_id, slots });
  });
}

/** As the leader plans them. */
async function plan({ sql, term, schedule_id }: Scene, slots: string[], starts?: string[]): Promise<number[]> {
  const [row] = await sql<{ next_slot: Date }[]>`select next_slot from job_schedule where id = ${schedule_id}`;
  const next_slot_was = (row as { next_slot: Date }).next_slot.toISOString();
  const plans = [{
    job_schedule_id: schedule_id,
    next_slot_was,
    slots,
    starts,
    last_slot: slots[0] as string,
    next_slot: null,
  }];
  return (await createSlotRuns(sql, term, plans)).map(({ id }) => id);
}

Deno.test("what one statement bears is due at one instant: it goes by id, in whatever order a plan has its rows", () =>
  withSchedule(async ({ sql, term, job, slots }) => {
    const instants = async () => (await sql`select from job_run group by due_at`).length;
    await createBackfill(sql, { ...WISH, job_name: job.name, slots });
    assert.equal(await instants(), 1, "a backfill");
    await createRuns(sql, slots.map(() => ({ job_name: job.name, args: {} })));
    assert.equal(await instants(), 2, "enqueued together");
    await sql`update job_definition set event_types = '{happened}'`;
    for (const _ of slots) await emitEvent(sql, { event_type: "happened", payload: {} });
    await takeEvents(sql, term);
    assert.equal(await instants(), 3, "events that are taken together");
    const [bulk] = await sql<{ id: number }[]>`insert into bulk (job_definition_id) values (${job.id}) returning id`;
    const bulk_id = bulk?.id as number;
    await sql`insert into bulk_item (bulk_id, seq) select ${bulk_id}, generate_series(1, 4)`;
    await feed(sql, term, [{ bulk_id, next_seq: 1, items: 4 }]);
    assert.equal(await instants(), 4, "items that are fed together");
  }));

function idsOf(runs: { job_run_id: number }[]): number[] {
  return Array.from(runs, (run) => run.job_run_id);
}

async function keysOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ idempotency_key: string }[]>`select idempotency_key from job_run order by scheduled_for, id`;
  return rows.map((row) => row.idempotency_key);
}

Deno.test("a backfill makes the runs that are missing, with the leader's own keys, once, and is audited", async () => {
  await withSchedule(async (scene) => {
    const { sql, job, schedule_id, slots } = scene;
    await plan(scene, [DAY[1] as string]);
    assert.deepEqual(await readSlots(sql, slots), ["free", "taken", "free", "free"]);
    const made = await createBackfill(sql, { ...WISH, job_name: job.name, slots });
    assert.equal(made?.runs, 3);
    assert.deepEqual(await keysOf(sql), DAY.map((slot) => `time:${schedule_id}:${slot}`));
    const runs = await sql`
      select source, args_json, priority, job_schedule_id, scheduled_for, due_at > scheduled_for as due_now
        from job_run where bulk_id = ${made?.bulk_id as number} order by id`;
    for (const [place, run] of runs.entries()) {
      assert.deepEqual([run.source, run.priority, run.job_schedule_id, run.due_now], ["bulk", 360, schedule_id, true]);
      assert.deepEqual(run.args_json, { of: "schedule", kept: 1 });
      assert.equal(run.scheduled_for.toISOString(), new Date([DAY[0], DAY[2], DAY[3]][place] as string).toISOString());
    }
    const [bulk] = await sql`
      select b.parallel, b.next_seq, count(i.job_run_id)::int as items from bulk b join bulk_item i on i.bulk_id = b.id group by b.id`;
    assert.deepEqual(bulk, { parallel: 2, next_seq: 4, items: 3 });
    assert.equal(await createBackfill(sql, { ...WISH, job_name: job.name, slots }), undefined);
    assert.equal((await sql`select from bulk`).length, 1, "nothing is left of a backfill that had nothing to do");
    const acts = await sql`select action, after_json from admin_action_log order by id`;
    assert.deepEqual(acts.map(({ action }) => action), ["bulk.start", "schedule.backfill"]);
    assert.equal(acts[1]?.after_json.runs, 3);
  });
});

Deno.test("two backfills at once, and the leader beside them: each slot has one run", async () => {
  await withSchedule(async (scene) => {
    const { sql, job, slots } = scene;
    const both = [1, 2].map(() => createBackfill(sql, { ...WISH, job_name: job.name, slots }));
    const [planned, ...made] = await Promise.all([plan(scene, DAY), ...both]);
    const all = planned.length + made.reduce((sum, one) => sum + (one?.runs ?? 0), 0);
    assert.deepEqual([all, (await keysOf(sql)).length], [4, 4]);
    const [items] = await sql`select count(*)::int as n, count(job_run_id)::int as linked from bulk_item`;
    assert.deepEqual(items, { n: 4 - planned.length, linked: 4 - planned.length });
  });
});

Deno.test("more slots than fit one statement are numbered through", async () => {
  await withSchedule(async ({ sql, job, schedule_id }) => {
    const from = Temporal.Instant.from("2026-01-01T00:00:00Z");
    const slots = Array.from(
      { length: 2_345 },
      (_, n) => ({ job_schedule_id: schedule_id, slot: String(from.add({ hours: n })) }),
    );
    const made = await createBackfill(sql, { ...WISH, job_name: job.name, slots });
    const [items] = await sql`select min(seq), max(seq), count(distinct seq)::int as n from bulk_item`;
    assert.deepEqual([made?.runs, items], [2_345, { min: 1, max: 2_345, n: 2_345 }]);
    assert(new Set(await readSlots(sql, slots)).has("taken"));
  });
});

Deno.test("late slots are SKIPPED with the reason, and repeated: by hand, by filter, or by a backfill that says so, once", async () => {
  await withSchedule(async (scene) => {
    const { sql, term, job, schedule_id, slots } = scene;
    const ids = await plan(scene, DAY);
    assert.equal((await skipLate(sql, term, 3600)).length, 4);
    const skipped = await sql`select state, error_name, error_summary from job_run where id = any(${ids})`;
    for (const run of skipped) {
      assert.deepEqual([run.state, run.error_name, run.error_summary], [
        "SKIPPED",
        "Late",
        stored("runs.end.late", { seconds: 3600 }),
      ]);
    }
    assert.deepEqual(await readSlots(sql, slots), ["skipped", "skipped", "skipped", "skipped"]);
    assert.equal(await createBackfill(sql, { ...WISH, job_name: job.name, slots }), undefined);
    const made = await createBackfill(sql, { ...WISH, job_name: job.name, slots: slots.slice(0, 2), skipped: true });
    assert.equal(made?.runs, 2);
    assert.equal(
      await createBackfill(sql, { ...WISH, job_name: job.name, slots: slots.slice(0, 2), skipped: true }),
      undefined,
    );
    assert.deepEqual(await readSlots(sql, slots), ["taken", "taken", "skipped", "skipped"]);
    const again = await rerunWhere(sql, { job_name: job.name, states: ["SKIPPED"] }, { ...WHO, most: 10, wish: "w" });
    assert.equal(again.length, 4);
    // Both kinds say which slot they are for, and neither is late again.
    const repeats = await sql`
      select r.idempotency_key, r.scheduled_for = o.scheduled_for as same_slot, r.source from job_run r
        join job_run o on o.id = r.rerun_of order by r.id`;
    assert.deepEqual([repeats.length, repeats.every((run) => run.same_slot)], [6, true]);
    assert.equal(repeats[0]?.idempotency_key, `time:${schedule_id}:${DAY[0]}:again`);
    assert.deepEqual(idsOf(await skipLate(sql, term, 3600)), []);
  });
});

for (const concurrency_policy of ["forbid", "replace", "queue_one"]) {
  Deno.test(`a backfill of a "${concurrency_policy}" job waits in line, and keeps no slot of today from running`, async () => {
    await withSchedule(async (scene) => {
      const { sql, term, job, slots } = scene;
      await createBackfill(sql, { ...WISH, job_name: job.name, slots: slots.slice(0, 3) });
      await sql`update job_run set due_at = scheduled_for, created_at = scheduled_for`; // all were there before today's slot
      const [today] = await plan(scene, [DAY[3] as string]);
      assert.deepEqual([idsOf((await skipForbidden(sql, term)).runs), idsOf((await requestReplaced(sql, term)).runs)], [
        [],
        [],
      ]);
      const [first] = await sql`select id from job_run where state = 'PENDING' order by priority, due_at, id limit 1`;
      assert.equal(first?.id, today);
      // One of it that runs is a run like any other.
      const [running] = await sql`
        update job_run set state = 'RUNNING', held = false, assigned_worker_id = 'w', leader_epoch = 1, fence = 1, start_token = 't',
               started_at = clock_timestamp() where id = (select min(id) from job_run) returning id`;
      const [skipped, replaced] = [await skipForbidden(sql, term), await requestReplaced(sql, term)];
      assert.deepEqual(idsOf(skipped.runs), concurrency_policy === "forbid" ? [today] : []);
      assert.deepEqual(idsOf(replaced.runs), concurrency_policy === "replace" ? [running?.id] : []);
    }, { concurrency_policy });
  });
}

Deno.test("with jitter a run starts after its slot, keeps its name, and is judged when it may start", async () => {
  await withSchedule(async (scene) => {
    const { sql, term } = scene;
    const soon = Temporal.Instant.from("2099-01-01T00:00:00Z");
    const [id] = await plan(scene, [DAY[0] as string], [String(soon)]);
    const [run] =
      await sql`select idempotency_key, scheduled_for, due_at, held, wakes_at from job_run where id = ${id as number}`;
    assert.match(run?.idempotency_key, /^time:\d+:2026-05-05T03:00:00Z$/);
    assert.equal(run?.scheduled_for.toISOString(), "2026-05-05T03:00:00.000Z");
    assert.deepEqual([run?.due_at.getTime(), run?.wakes_at.getTime(), run?.held], [
      soon.epochMilliseconds,
      soon.epochMilliseconds,
      true,
    ]);
    await sql`update job_schedule set next_slot = '2026-05-05 04:00Z'`;
    const [next] = await plan(scene, [DAY[1] as string], [String(soon)]);
    assert.deepEqual([idsOf(await skipLate(sql, term, 60)), idsOf((await skipForbidden(sql, term)).runs)], [[], []]);
    await sql`update job_run set due_at = clock_timestamp() where id = ${next as number}`;
    assert.deepEqual(
      idsOf((await skipForbidden(sql, term)).runs),
      [],
      "the one before starts later, so it is not there yet",
    );
    await sql`update job_run set due_at = clock_timestamp() - interval '1 s' where id = ${id as number}`;
    assert.deepEqual(idsOf((await skipForbidden(sql, term)).runs), [next]);
  }, { concurrency_policy: "forbid" });
});

Deno.test("a paused schedule has no slots, is shown with who paused it, and goes on from where it was", async () => {
  await withSchedule(async (scene) => {
    const { sql, job } = scene;
    const which = { job_name: job.name, schedule_id: "hourly" };
    assert.equal((await dueSchedules(sql, 10)).schedules.length, 1);
    assert.deepEqual([...await pauseSchedules(sql, which, { ...WHO, paused: true })], [{
      schedule_id: "hourly",
      changed: true,
    }]);
    assert.deepEqual([...await pauseSchedules(sql, which, { ...WHO, paused: true })], [{
      schedule_id: "hourly",
      changed: false,
    }]);
    assert.deepEqual((await dueSchedules(sql, 10)).schedules, []);
    assert.deepEqual(
      await plan(scene, [DAY[0] as string]),
      [],
      "one that was read before the pause is not planned either",
    );
    const [shown] = (await readSchedules(sql)).schedules;
    assert.deepEqual([shown?.paused_by, shown?.job_paused, shown?.last_run], ["test", false, null]);
    await pauseSchedules(sql, { job_name: job.name }, { ...WHO, paused: false });
    const [due] = (await dueSchedules(sql, 10)).schedules;
    assert.equal(String(due?.last_slot), "2026-05-05T02:30:00Z");
    const [id] = await plan(scene, [DAY[0] as string]);
    assert.equal((await readSchedules(sql, { job_name: job.name })).schedules[0]?.last_run?.id, id);
    assert.deepEqual([...await pauseSchedules(sql, { job_name: "nobody" }, { ...WHO, paused: true })], []);
    const acts = await sql`select action, target_id from admin_action_log order by id`;
    const target_id = `${job.name}/hourly`;
    assert.deepEqual([...acts], [{ action: "schedule.pause", target_id }, { action: "schedule.resume", target_id }]);
  });
});
