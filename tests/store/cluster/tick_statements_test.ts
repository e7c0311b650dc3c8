/** The schema and the stores' promises: new runs are exactly-once, terms are exclusive, settings are checked. */
import assert from "node:assert/strict";
import { createRuns, createSlotRuns } from "../../../src/runs/create_runs.ts";
import { connectDb } from "../../../src/postgres/connection.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { acquire, currentLeader, resign, type Term } from "../../../src/nodes/leadership.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import {
  changeSettings,
  DEFAULT_SETTINGS,
  NUMBER_SETTINGS,
  problemsAfter,
  problemsIn,
  readSettings,
} from "../../../src/settings/settings.ts";
import { aDefinition, aRun, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("the schema refuses what the rules forbid", async () => {
  await withStores(async ({ sql }) => {
    const { id } = await aDefinition(sql, { name: "ruled" });
    const refused = (row: Record<string, unknown>, constraint: string) =>
      assert.rejects(
        aRun(sql, { job_definition_id: id, ...row }),
        (error: { constraint_name?: string }) => error.constraint_name === constraint,
        constraint,
      );
    await refused({ state: "ASSIGNED", assigned_worker_id: null }, "owned_once_taken");
    await refused({ state: "RUNNING", assigned_worker_id: "w", fence: null }, "fenced_once_running");
    await refused({ state: "SUCCEEDED", finished_at: null }, "finished_iff_terminal");
    await refused({ state: "PENDING", finished_at: new Date() }, "finished_iff_terminal");
    await aRun(sql, { job_definition_id: id, state: "RETRYING", serial_key: "k" });
    await refused({ state: "ASSIGNED", assigned_worker_id: "w", serial_key: "k" }, "job_run_serial");
  });
});

Deno.test("a definition that has runs is kept; a schedule may go, and its runs stay as they are", async () => {
  await withStores(async ({ sql }) => {
    const { id } = await aDefinition(sql, { name: "kept" });
    const [schedule] = await sql`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, last_slot)
      values (${id}, 's', 'cron', '* * * * *', clock_timestamp()) returning id`;
    const run = { job_definition_id: id, job_schedule_id: schedule?.id, source: "schedule" };
    await aRun(sql, run);
    await assert.rejects(() => sql`delete from job_definition`, /job "kept" has runs, so its row is kept/);
    await sql`delete from job_schedule`;
    assert.deepEqual([...await sql`select job_definition_id, job_schedule_id, source from job_run`], [run]);
    await sql`delete from job_run`;
    assert.equal((await sql`delete from job_definition returning id`).length, 1);
  });
});

Deno.test("a birth with a key that was used gives the first run, also when many are born at once", async () => {
  await withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "born", serial_key: "tenant:{tenant}" });
    const new_run = { job_name: "born", args: { tenant: "acme" }, idempotency_key: "once" };
    const answers = await Promise.all(Array.from({ length: 20 }, () => createRuns(sql, [new_run])));
    const ids = new Set(answers.flat().map((created) => created.job_run_id));
    assert.equal(ids.size, 1);
    assert.equal(answers.flat().filter((created) => created.is_new).length, 1);
    const [run] = await sql`select serial_key, count(*) over ()::int as n from job_run`;
    assert.deepEqual(run, { serial_key: "tenant:acme", n: 1 });
    const unknown = await createRuns(sql, [{ ...new_run, job_name: "nobody" }, {
      ...new_run,
      idempotency_key: "other",
    }]);
    assert.equal(unknown[0]?.job_run_id, undefined);
    assert(unknown[1]?.is_new);
  });
});

Deno.test("an event becomes one run per job that waits for it, however often and by whomever it is emitted", async () => {
  await withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "one", event_types: ["placed"] });
    await aDefinition(sql, { name: "two", event_types: ["placed", "other"] });
    await aDefinition(sql, { name: "removed", event_types: ["placed"] });
    await sql`update job_definition set enabled = false, removed_at = clock_timestamp() where name = 'removed'`;
    const term = await aTerm(sql, "w");
    const ids = await Promise.all(
      Array.from(
        { length: 10 },
        () => emitEvent(sql, { event_type: "placed", payload: { order: 7 }, dedupe_key: "order-7" }),
      ),
    );
    assert.equal(new Set(ids).size, 1);
    const [by_sql] = await sql`select emit_event('nobody waits for this') as id`;
    const taken = await Promise.all([takeEvents(sql, term), takeEvents(sql, term), takeEvents(sql, term)]);
    assert.equal(taken.reduce((sum, one) => sum + one.events, 0), 2);
    const runs = await sql`select args_json, event_id from job_run order by id`;
    assert.deepEqual([...runs], Array(2).fill({ args_json: { order: 7 }, event_id: ids[0] }));
    const [left] = await sql`select count(*)::int as n, max(id) as newest from event where processed_at is not null`;
    assert.deepEqual(left, { n: 2, newest: by_sql?.id });
  });
});

Deno.test("an event inside a transaction that rolls back never was", async () => {
  await withStores(async ({ sql }) => {
    await assert.rejects(sql.begin(async (tx) => {
      await emitEvent(tx, { event_type: "placed", payload: {} });
      throw new Error("rolled back");
    }));
    const [row] = await sql`select count(*)::int as n from event`;
    assert.equal(row?.n, 0);
  });
});

Deno.test("a slot is planned once, by whichever leader comes first, and not under a term that is over", async () => {
  await withStores(async ({ sql }) => {
    const { id } = await aDefinition(sql, { name: "nightly", default_args_json: { a: 1, b: 1 } });
    const slot = "2026-01-01T02:30:00Z", next = "2026-01-02T02:30:00Z";
    const [schedule] = await sql<{ id: number }[]>`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, args_json, next_slot)
      values (${id}, 'nightly', 'daily_at', '02:30', ${sql.json({ b: 2 })}, ${slot}) returning id`;
    const plan = {
      job_schedule_id: schedule?.id ?? 0,
      next_slot_was: slot,
      slots: [slot],
      last_slot: slot,
      next_slot: next,
    };
    const old = await aTerm(sql, "a");
    assert(await resign(sql, old));
    const term = await aTerm(sql, "b");
    assert.deepEqual([...await createSlotRuns(sql, old, [plan])], []);
    const created = await Promise.all([createSlotRuns(sql, term, [plan]), createSlotRuns(sql, term, [plan])]);
    assert.equal(created.flat().length, 1);
    const [run] = await sql`select args_json, idempotency_key from job_run`;
    assert.deepEqual(run, { args_json: { a: 1, b: 2 }, idempotency_key: `time:${schedule?.id}:${slot}` });
    // What was planned from the slot before must not take the schedule back to it, nor make runs beside the ones there are.
    const stale = { ...plan, slots: ["2026-01-01T12:00:00Z"], last_slot: "2026-01-01T12:00:00Z", next_slot: slot };
    assert.deepEqual([...await createSlotRuns(sql, term, [stale])], []);
    const [after] = await sql`select last_slot, next_slot from job_schedule`;
    assert.deepEqual(after, { last_slot: new Date(slot), next_slot: new Date(next) });
  });
});

Deno.test("one candidate wins, a resignation opens the seat at once, and epochs only rise", async () => {
  await withStores(async ({ sql }) => {
    const ask = (worker_id: string, epoch_hint = 0) => acquire(sql, { worker_id, lease_ms: 60_000, epoch_hint });
    const terms = (await Promise.all(["a", "b", "c", "d"].map((one) => ask(one)))).filter((term) => term !== undefined);
    assert.equal(terms.length, 1);
    const first = terms[0]!;
    assert.equal((await currentLeader(sql)).worker_id, first.worker_id);
    assert(await resign(sql, first));
    assert.equal((await currentLeader(sql)).worker_id, undefined);
    assert.equal(
      await renewAndReadWork(sql, first, { lease_ms: 1, reassign_after_ms: 1, late_seconds: 0, ahead_seconds: 0 }),
      undefined,
      "a resigned term renews nothing",
    );
    const second = await ask("e", 40);
    assert.equal(second?.epoch, 41, "above what Redis or workers have seen");
    assert(second && await resign(sql, second));
    const unmoved = (await ask("f", 5_000_000))?.epoch;
    assert.equal(unmoved, 42, "a hint a million ahead is an attack: it is not believed, and stops nobody");
  });
});

Deno.test("the next look is wanted when something comes due, and not at all where nothing does", async () => {
  await withStores(async ({ sql }) => {
    const term = await acquire(sql, { worker_id: "a", lease_ms: 60_000, epoch_hint: 0 });
    const about = { lease_ms: 60_000, reassign_after_ms: 1, late_seconds: 0, ahead_seconds: 4 };
    const next = async () => (await renewAndReadWork(sql, term as Term, about))?.pending.next_due_ms;
    assert.equal(await next(), undefined);
    const wakes_at = new Date(Date.now() + 3_600_000);
    await aRun(sql, { held: true, due_at: wakes_at, wakes_at });
    const in_an_hour = await next() as number;
    assert(in_an_hour > 3_000_000 && in_an_hour < 3_600_000, "as long before as runs are assigned ahead");
  });
});

Deno.test("a look in haste counts a tick and leaves lease and trust as they are, unless it is time to renew", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql, "a");
    const look = async (from: Term, lease_ms: number, hasty: boolean) => {
      const about = { lease_ms, reassign_after_ms: 1, late_seconds: 0, ahead_seconds: 0, hasty };
      return (await renewAndReadWork(sql, from, about))?.term as Term;
    };
    const lease = async () => (await sql`select lease_until::text as until from leader_term`)[0]?.until;
    const before = await lease();
    const counted = await look(term, 60_000, true);
    assert.equal(await lease(), before);
    assert.equal(counted.tick, term.tick + 1);
    assert.equal(counted.trusted_until_ms, term.trusted_until_ms);
    const renewed = await look(counted, 60_000, false);
    assert.notEqual(await lease(), before);
    assert.equal(renewed.tick, term.tick + 2);
    assert(renewed.trusted_until_ms > term.trusted_until_ms);
    const in_time = await look(renewed, 120_000, true);
    assert(in_time.trusted_until_ms > renewed.trusted_until_ms, "60 s are less than 0.6 of 120 s");
  });
});

Deno.test("settings are checked one by one and as they relate; a wrong row never reaches a loop", async () => {
  assert.deepEqual(problemsIn(DEFAULT_SETTINGS), []);
  const bad = { ...DEFAULT_SETTINGS, heartbeat_ttl_seconds: 1, worker_lease_seconds: 6, leader_tick_seconds: -1 };
  assert.equal(problemsIn(bad).length, 3);
  await withStores(async ({ sql }) => {
    await sql`delete from scheduler_settings`;
    await changeSettings(sql, { max_jobs_per_worker: 3 }, { actor: "me", reason: "less load" });
    assert.equal((await readSettings(sql)).max_jobs_per_worker, 3);
    await assert.rejects(
      changeSettings(sql, { max_jobs_per_worker: 0 }, { actor: "me" }),
      /max_jobs_per_worker must be a whole number from 1/,
    );
    for (const [name, { least, most }] of Object.entries(NUMBER_SETTINGS)) {
      if (name.endsWith("_seconds") || name === "log_retention_days_db") continue;
      const problems = await problemsAfter(sql, { [name]: Math.min(least + 0.5, most - 0.5) });
      assert.match(problems[0]?.text ?? "", new RegExp(`^${name} must be a whole number`));
    }
    await assert.rejects(changeSettings(sql, { nonsense: 1 } as never, { actor: "me" }), /nonsense is no setting/);
    const acts = await sql`select actor, action, target_id, after_json, reason from admin_action_log`;
    assert.deepEqual([...acts], [
      { actor: "me", action: "settings.change", target_id: "max_jobs_per_worker", after_json: 3, reason: "less load" },
    ]);
    await sql`update scheduler_settings set value = '"many"'`;
    assert.deepEqual(await readSettings(sql), DEFAULT_SETTINGS);
  });
});

Deno.test("what a database sets for its sessions changes neither how times are read nor what a guard sees", async () => {
  await withStores(async ({ sql, database_url }) => {
    const name = new URL(database_url).pathname.slice(1);
    const odd = {
      datestyle: "German",
      timezone: "Asia/Tokyo",
      intervalstyle: "sql_standard",
      extra_float_digits: "-5",
      default_transaction_isolation: "repeatable read",
    };
    for (const [setting, value] of Object.entries(odd)) {
      await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
    }
    const other = connectDb(database_url, { name: "test", max: 1 });
    try {
      const [row] = await other<{ at: Date; third: number; span: string; isolation: string }[]>`
        select '2026-11-22T01:02:03.004Z'::timestamptz as at, 1 / 3::float8 as third, (interval '1 day 2 hours')::text as span,
               current_setting('transaction_isolation') as isolation`;
      assert.deepEqual(row, {
        at: new Date("2026-11-22T01:02:03.004Z"),
        third: 1 / 3,
        span: "1 day 02:00:00",
        isolation: "read committed",
      });
    } finally {
      await other.end();
    }
  });
});

Deno.test("a bigint beyond 2^53 is an error, not a rounded id", async () => {
  await withStores(async ({ database_url }) => {
    const sql = connectDb(database_url, { name: "test", max: 1 });
    try {
      await assert.rejects(sql`select 9007199254740993::bigint`, /beyond 2\^53/);
      const [row] = await sql`select 42::bigint as n, array[1, 2]::bigint[] as many`;
      assert.deepEqual(row, { n: 42, many: [1, 2] });
    } finally {
      await sql.end();
    }
  });
});
