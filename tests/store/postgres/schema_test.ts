/**
 * What schema.sql refuses: a place that is not ours, and rows that no statement could read, since one of them would stop a step of the leader for
 * all. And what Postgres refuses, said with what to do about it.
 */
import assert from "node:assert/strict";
import { lookAfterBulks } from "../../../src/leader/bulks.ts";
import { explanation } from "../../../src/ops/explain.ts";
import { connectDb, type Sql, type TransactionSql } from "../../../src/postgres/connection.ts";
import { emitEvent } from "../../../src/events/events.ts";
import { applySchema, checkSchema } from "../../../src/postgres/schema.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("a table of somebody else's is not taken for ours; in a schema of its own Dandori stands beside it", async () => {
  await withStores(async ({ sql, database_url }) => {
    await sql.unsafe("drop schema public cascade; create schema public; create table resource (id int)");
    await assert.rejects(
      applySchema(sql),
      /table "resource" is there already, and somebody else's; give Dandori a schema of its own/,
    );
    assert.equal((await sql`select from pg_tables where schemaname = 'public'`).length, 1);
    await sql`create schema dandori`;
    await sql.unsafe(`alter database ${new URL(database_url).pathname.slice(1)} set search_path = dandori`);
    const own = connectDb(database_url, { name: "own", max: 1 });
    await applySchema(own);
    await applySchema(own);
    assert.equal((await checkSchema(own)).fits, true);
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
        applySchema(latin),
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
