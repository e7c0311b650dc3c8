/**
 * schema.sql over what is there: nothing, itself, an older one with rows, or a database in use. And what it refuses of plain SQL, since
 * one row that no statement can read would stop a step of the leader for all.
 */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { lookAfterBulks } from "../../../src/leader/bulks.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { explanation } from "../../../src/ops/explain.ts";
import { connectDb, type Sql, type TransactionSql } from "../../../src/postgres/connection.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { STATES } from "../../../src/runs/states.ts";
import { applySchema, lackOfSchema, SchemaInUse } from "../../../src/postgres/schema.ts";
import { pauseJob, pauseSchedules } from "../../../src/dispatch/pauses.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const schema = Deno.readTextFileSync(`${PROJECT_DIR}/schema.sql`);
/** As they were on these days, without their comments; the first is the oldest that can be upgraded. */
const OLD = `${PROJECT_DIR}/tests/support/old_schemas`;
const OLDEST = "2026-11-20.sql";

/** All that was made, but for the order of columns. */
async function catalog(sql: Sql): Promise<string[]> {
  const rows = await sql<{ what: string }[]>`
    select concat_ws(' ', 'column', c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                     a.attgenerated, pg_get_expr(d.adbin, d.adrelid), a.attcollation::regcollation) as what
      from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    union all select concat_ws(' ', 'relation', relname, relkind, reloptions) from pg_class where relnamespace = 'public'::regnamespace
    union all select indexdef from pg_indexes where schemaname = 'public'
    union all select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
      from pg_constraint where connamespace = 'public'::regnamespace
    union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
    union all select pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace order by 1`;
  return rows.map(({ what }) => what);
}

/** Every row of every table, by its columns. */
async function contents(sql: Sql): Promise<Map<string, Record<string, unknown>[]>> {
  const tables = await sql<{ name: string }[]>`
    select tablename::text as name from pg_tables where schemaname = 'public' order by 1`;
  const found = new Map<string, Record<string, unknown>[]>();
  for (const { name } of tables) {
    const rows = await sql<{ row: Record<string, unknown> }[]>`select to_jsonb(t) as row from ${sql(name)} t`;
    found.set(name, rows.map(({ row }) => row));
  }
  return found;
}

/** Rows of all kinds, by columns that there always were. */
async function fill(sql: Sql): Promise<void> {
  const { worker_id } = await aWorker(sql);
  const { id } = await aDefinition(sql, { name: "kept", event_types: ["happened"], args_schema: { type: "object" } });
  for (const [place, state] of STATES.entries()) {
    const taken = state === "ASSIGNED" || state === "RUNNING" ? { assigned_worker_id: worker_id } : {};
    const { id: run } = await aRun(sql, {
      ...{ job_definition_id: id, state, idempotency_key: `key ${place}`, serial_key: `line ${place}`, ...taken },
    });
    await sql`insert into job_run_log (job_run_id, attempt, level, message) values (${run}, 1, 'info', 'a line')`;
    await sql`insert into job_run_attempt (job_run_id, attempt, outcome) values (${run}, 1, 'FAILED')`;
  }
  await sql`
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
    values (${id}, 'nightly', 'daily_at', '02:30')`;
  await sql`insert into event (event_type, payload_json, dedupe_key) values ('happened', '{"a": 1}', 'once')`;
  await sql`insert into bulk (job_definition_id, state, finished_at) values (${id}, 'RUNNING', null), (${id}, 'FINISHED', now())`;
  await sql`insert into resource values ('license', 3)`;
  await sql`insert into scheduler_settings (name, value) values ('leader_tick_seconds', '2')`;
  await sql`insert into admin_action_log (actor, action, target_type, target_id) values ('a', 'b', 'c', 'd')`;
}

Deno.test("applying schema.sql again, also over rows, changes nothing", async () => {
  await withStores(async ({ sql }) => {
    await fill(sql);
    const [before, rows] = [await catalog(sql), await contents(sql)];
    await applySchema(sql, schema);
    await Promise.all([applySchema(sql, schema), applySchema(sql, schema)]);
    assert.deepEqual(await catalog(sql), before);
    assert.deepEqual(await contents(sql), rows);
  });
});

for (const { name } of [...Deno.readDirSync(OLD)].sort((a, b) => a.name < b.name ? -1 : 1)) {
  Deno.test(`the schema of ${name.slice(0, -4)} becomes that of now, with its rows, and work goes on`, async () => {
    await withStores(async ({ sql }) => {
      const wanted = await catalog(sql);
      await sql.unsafe("drop schema public cascade; create schema public");
      await sql.unsafe(Deno.readTextFileSync(`${OLD}/${name}`));
      await fill(sql);
      const before = await contents(sql);
      const lack = await lackOfSchema(sql, schema);
      if (name === OLDEST) {
        assert.match(
          lack ?? "",
          /schema of an older version, without leader_term_epoch, leader_term\.tick, leader_term\.degrade_epoch and \d+ more$/,
        );
      }
      await applySchema(sql, schema);
      await applySchema(sql, schema);
      assert.equal(await lackOfSchema(sql, schema), undefined);
      assert.deepEqual(await catalog(sql), wanted);
      const after = await contents(sql);
      for (const [table, rows] of before) {
        const known = Object.keys(rows[0] ?? {});
        const still = after.get(table)?.map((row) => Object.fromEntries(known.map((column) => [column, row[column]])));
        assert.deepEqual(still, rows, table);
      }
      const term = await acquire(sql, { worker_id: "w", lease_ms: 60_000, epoch_hint: 0 }) as Term;
      const looked = await renewAndReadWork(sql, term, {
        ...{ lease_ms: 60_000, reassign_after_ms: 1_000, late_seconds: 0, ahead_seconds: 1 },
      });
      assert.deepEqual([looked?.pending.ready, looked?.pending.events], [true, true]);
      assert.deepEqual(await takeEvents(sql, looked?.term as Term), { events: 1, runs: 1, absorbed: 0, more: false });
    });
  });
}

Deno.test("the index of all keys becomes one by bytes of those that there are, and the runs stay", async () => {
  await withStores(async ({ sql }) => {
    await aRun(sql, { idempotency_key: "enqueue:1:of before" });
    const [before, rows] = [await catalog(sql), await contents(sql)];
    await sql`drop index job_run_idempotency`;
    await sql`alter table job_run alter column idempotency_key type text collate "default", add unique (idempotency_key)`;
    assert.notDeepEqual(await catalog(sql), before);
    await applySchema(sql, schema);
    assert.deepEqual(await catalog(sql), before);
    assert.deepEqual(await contents(sql), rows);
  });
});

Deno.test("why something was paused before that was kept is taken from the audit", async () => {
  await withStores(async ({ sql }) => {
    for (const name of ["a", "b"]) {
      const { id } = await aDefinition(sql, { name });
      await sql`
        insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value) values (${id}, 'nightly', 'daily_at', '02:30')`;
      await pauseJob(sql, name, { actor: "ann", reason: `${name} burns`, paused: true });
      await pauseSchedules(sql, { job_name: name }, { actor: "ann", reason: `${name} rests`, paused: true });
    }
    const reasons = () =>
      sql`select d.paused_reason as job, s.paused_reason as schedule from job_definition d join job_schedule s on s.job_definition_id = d.id order by d.name`;
    const [before] = await reasons();
    assert.deepEqual({ ...before }, { job: "a burns", schedule: "a rests" });
    const of_another_pause = sql`paused_at + (name = 'b')::int * interval '1 minute'`;
    await sql`update job_definition set paused_reason = null, paused_at = ${of_another_pause}`;
    await sql`
      update job_schedule s set paused_reason = null, paused_at = d.paused_at from job_definition d where d.id = s.job_definition_id`;
    await applySchema(sql, schema);
    assert.deepEqual((await reasons()).map((row) => ({ ...row })), [before, { job: null, schedule: null }]);
  });
});

Deno.test("an application's transaction is waited for without the tables of others being kept, and named when it does not end", async () => {
  await withStores(async ({ sql, database_url }) => {
    const app = connectDb(database_url, { name: "shop", max: 1, statement_timeout_ms: 0 });
    const begun = Promise.withResolvers<void>();
    const refused = Promise.withResolvers<void>();
    const transaction = app.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await aRun(tx as unknown as Sql, { idempotency_key: "of the shop" });
      begun.resolve();
      await refused.promise;
      await emitEvent(tx, { event_type: "sold", payload: {} }); // of another table: it would wait for the schema, and that for it
    });
    await begun.promise;
    await assert.rejects(applySchema(sql, schema, 0), (error: Error) => {
      assert(error instanceof SchemaInUse);
      assert.match(
        error.message,
        /^Cannot apply the schema: table \w+ is kept by "dandori shop" \(pid \d+\), in a transaction for \d+ s/,
      );
      return true;
    });
    assert.equal((await sql`update leader_term set tick = tick + 1 returning 1`).length, 1);
    const applied = applySchema(sql, schema);
    refused.resolve();
    await Promise.all([transaction, applied]);
    assert.equal((await sql`select from event`).length, 1);
    await app.end();
  });
});

Deno.test("a table of somebody else's is not taken for ours; in a schema of its own Dandori stands beside it", async () => {
  await withStores(async ({ sql, database_url }) => {
    await sql.unsafe("drop schema public cascade; create schema public; create table resource (id int)");
    await assert.rejects(
      applySchema(sql, schema),
      /table "resource" is there already, and somebody else's; give Dandori a schema of its own/,
    );
    assert.equal((await sql`select from pg_tables where schemaname = 'public'`).length, 1);
    await sql`create schema dandori`;
    await sql.unsafe(`alter database ${new URL(database_url).pathname.slice(1)} set search_path = dandori`);
    const own = connectDb(database_url, { name: "own", max: 1 });
    await applySchema(own, schema);
    await applySchema(own, schema);
    assert.equal(await lackOfSchema(own, schema), undefined);
    assert.equal(await emitEvent(own, { event_type: "t", payload: {} }), 1);
    await own.end();
    assert.equal((await sql`select from pg_tables where schemaname = 'public'`).length, 1);
  });
});

Deno.test("a database that cannot hold every character is refused before anything is made", async () => {
  await withStores(async ({ sql, database_url }) => {
    const name = `${new URL(database_url).pathname.slice(1)}_latin`;
    await sql.unsafe(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
    const latin = connectDb(database_url.replace(/[^/]+$/, name), { name: "latin", max: 1 });
    try {
      await assert.rejects(
        applySchema(latin, schema),
        /its encoding is LATIN1, which lacks most characters; give it one that is made so/,
      );
      assert.equal((await latin`select from pg_tables where schemaname = 'public'`).length, 0);
    } finally {
      await latin.end();
      await sql.unsafe(`drop database ${name} with (force)`);
    }
  });
});

Deno.test("what Postgres refuses is said with what to do about it", async () => {
  await withStores(async ({ sql }) => {
    const explained = (act: (tx: TransactionSql) => Promise<unknown>) =>
      sql.begin(async (tx) => void await act(tx)).then(() => "", explanation);
    assert.match(
      await explained(async (tx) => {
        await tx`set transaction read only`;
        await tx`update leader_term set tick = 0`;
      }),
      /^Postgres takes no writes here \(cannot execute UPDATE in a read-only transaction\); name the primary in DATABASE_URL/,
    );
    await sql.begin(async (tx) => {
      await tx`select from leader_term for update`;
      const waiting = explained((other) => other`select from leader_term for update nowait`);
      assert.match(
        await waiting,
        /^Somebody's open transaction keeps what this would change .*; let it end, and try again$/,
      );
    });
    assert.match(
      await explained((tx) =>
        tx`select set_config('statement_timeout', '1', true), pg_sleep(0)`.then(() => tx`select pg_sleep(5)`)
      ),
      /^Postgres gave this up, since it took too long/,
    );
  });
});

Deno.test("a bulk that plain SQL sets beyond what a time or a number holds is refused, and stops no other", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(4), { parallel: 2, throttleAbove: 0.5 });
    await scene.round();
    for (
      const set of [
        "interval_seconds = 1e13",
        "interval_seconds = 'NaN'",
        "parallel = 2147483647",
        "max_failures = 2147483647",
      ]
    ) {
      await assert.rejects(scene.sql.unsafe(`update bulk set ${set} where id = ${id}`), /bulk_within_bounds/, set);
    }
    await scene.sql`alter table bulk drop constraint bulk_within_bounds`;
    await scene
      .sql`update bulk set interval_seconds = 'NaN', parallel = 2147483647, max_failures = 2147483647 where id = ${id}`;
    await assert.rejects(lookAfterBulks(scene.me), /out of range/);
    await applySchema(scene.sql, schema);
    const [bulk] = await scene.sql`select interval_seconds::int, parallel, max_failures from bulk where id = ${id}`;
    assert.deepEqual(bulk, { interval_seconds: 31_536_000, parallel: 1_000_000, max_failures: 1_000_000 });
    await lookAfterBulks(scene.me);
  }));

Deno.test("emit_event refuses what no job could take, in words, and finds its table whatever the caller's path", async () => {
  await withStores(async ({ sql }) => {
    const deep = (levels: number) => sql`(repeat('{"a":', ${levels}) || '1' || repeat('}', ${levels}))::jsonb`;
    const refused = (call: ReturnType<Sql>, why: RegExp) => assert.rejects(sql`select emit_event(${call})`, why);
    await refused(sql`null`, /without a type/);
    await refused(sql`repeat('t', 501)`, /at most 500 characters: current values have 501 and 0/);
    await refused(sql`'t', '{}', repeat('k', 501)`, /current values have 1 and 501/);
    await refused(
      sql`'t', to_jsonb(repeat('p', 1000000))`,
      /"t": its payload is 1000002 characters of JSON, at most 1000000/,
    );
    await refused(sql`'t', ${deep(101)}`, /"t": its payload is nested more than 100 levels deep/);
    await refused(sql`'t', (repeat('[', 101) || repeat(']', 101))::jsonb`, /more than 100 levels/);
    await sql`select emit_event('t', ${deep(100)}), emit_event('t', null), emit_event('t', '[1, "a"]')`;
    await sql.begin(async (tx) => {
      await tx.unsafe("create schema shop; create table shop.event (id int); create temp table event (id int)");
      await tx.unsafe("set local search_path = shop, public");
      await tx`select public.emit_event('t', '{}', 'from elsewhere')`;
    });
    assert.equal((await sql`select from public.event`).length, 4);
  });
});
