/**
 * The two ways to the schema: schema.sql into an empty database, and migrations/ one after the other into one that has rows and is in use.
 * They end at the same catalog.
 */
import assert from "node:assert/strict";
import { emitEvent } from "../../../src/events/events.ts";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { applySchema, checkSchema, SchemaInUse } from "../../../src/postgres/schema.ts";
import { type Migration, readSchema, type SchemaFiles } from "../../../src/postgres/schema_files.ts";
import { aRun } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const files = readSchema();

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
    union all select concat_ws(' ', pg_get_triggerdef(oid), tgenabled) from pg_trigger where not tgisinternal
    union all select concat_ws(' ', pg_get_functiondef(oid), proacl) from pg_proc where pronamespace = 'public'::regnamespace order by 1`;
  return rows.map(({ what }) => what);
}

async function emptyAgain(sql: Sql): Promise<void> {
  await sql.unsafe("drop schema public cascade; create schema public");
}

/** The checkout's schema with one more migration, which makes the same as `text` in schema.sql. */
function withNext(text: string, kind: Migration["kind"] = "expand"): SchemaFiles {
  const next: Migration = { version: files.migrations.length + 1, name: "next", kind, text, digest: "of the test" };
  return { text: `${files.text}\n${text}`, migrations: [...files.migrations, next] };
}

const EXPAND =
  "alter table resource add column owner text not null default 'nobody'; create index resource_owner on resource (owner);";

Deno.test("schema.sql makes the same as all migrations, one after the other", async () => {
  await withStores(async ({ sql }) => {
    const whole = await catalog(sql);
    const [{ applied_by, ...versions } = { applied_by: "" }] = await sql`
      select min(applied_by) as applied_by, array_agg(version order by version) as all from schema_migration`;
    assert.deepEqual([applied_by, versions.all], ["system", files.migrations.map((one) => one.version)]);
    await emptyAgain(sql);
    for (const { text } of files.migrations) await sql.begin((tx) => tx.unsafe(text));
    const advice = "schema.sql and migrations/ differ; migrations/README.md says how a change is made";
    assert.deepEqual(await catalog(sql), whole, advice);
  });
});

Deno.test("a database with rows gets what it lacks once, says who applied it, and again changes nothing", async () => {
  await withStores(async ({ sql }) => {
    await sql`insert into resource (name, capacity) values ('license', 3)`;
    const next = withNext(EXPAND);
    assert.deepEqual(await checkSchema(sql, next), {
      ...{ fits: false, fix: "apply what is missing: deno task schema" },
      what: `the database has schema version ${files.migrations.length} (${
        files.migrations.at(-1)?.name
      }), this checkout has ${next.migrations.length}`,
    });
    const both = await Promise.all([1, 2].map(() => applySchema(sql, next, { by: "ann" })));
    assert.deepEqual(both.flatMap(({ migrated }) => migrated.map(({ name }) => name)), ["next"]);
    assert.deepEqual(await applySchema(sql, next), { created: false, migrated: [], version: next.migrations.length });
    assert.deepEqual([...await sql`select * from resource`], [{ name: "license", capacity: 3, owner: "nobody" }]);
    const [row] = await sql`select name, kind, applied_by from schema_migration order by version desc limit 1`;
    assert.deepEqual(row, { name: "next", kind: "expand", applied_by: "ann" });
    assert.equal((await checkSchema(sql, next)).fits, true);
    const migrated = await catalog(sql);
    await emptyAgain(sql);
    assert.equal((await applySchema(sql, next)).created, true);
    assert.deepEqual(await catalog(sql), migrated);
  });
});

Deno.test("a migration that fails leaves nothing, and those before it stay", async () => {
  await withStores(async ({ sql }) => {
    const next = withNext(EXPAND);
    const broken = { version: next.migrations.length + 1, name: "broken", kind: "expand" as const, digest: "b" };
    const text = "create table half (id int); select 1 / 0;";
    await assert.rejects(
      applySchema(sql, { ...next, migrations: [...next.migrations, { ...broken, text }] }),
      /division by zero/,
    );
    assert.equal((await checkSchema(sql, next)).fits, true);
    assert.equal((await sql`select to_regclass('half') as half`)[0]?.half, null);
  });
});

Deno.test("a newer database takes no schema of an older checkout; its programs go on unless a migration contracted", async () => {
  await withStores(async ({ sql }) => {
    await applySchema(sql, withNext(EXPAND));
    assert.equal((await checkSchema(sql)).fits, true);
    await assert.rejects(
      applySchema(sql),
      /Cannot apply the schema: the database has schema version \d+ \(next\), this checkout has \d+; bring/,
    );
    await sql`update schema_migration set kind = 'contract' where name = 'next'`;
    const { fits, fix } = await checkSchema(sql);
    assert.deepEqual([fits, fix], [false, "bring this checkout up to date"]);
  });
});

Deno.test("a migration that is another than the one that was applied is refused, unless only its comments are", async () => {
  await withStores(async ({ sql }) => {
    const dir = Deno.makeTempDirSync();
    try {
      Deno.copyFileSync(`${PROJECT_DIR}/schema.sql`, `${dir}/schema.sql`);
      Deno.mkdirSync(`${dir}/migrations`);
      const write = (name: string, text: string) => Deno.writeTextFileSync(`${dir}/migrations/${name}`, text);
      const { text } = files.migrations[0] as Migration;
      write("0001_expand_baseline.sql", `-- Put better.\n${text}`);
      assert.equal((await checkSchema(sql, { ...files, migrations: readSchema(dir).migrations })).fits, true);
      write("0001_expand_baseline.sql", `${text}create table more (id int);`);
      await assert.rejects(
        applySchema(sql, readSchema(dir)),
        /the database has another version 1 \(baseline\) than this checkout/,
      );
      write("0003_expand_later.sql", "");
      assert.throws(
        () => readSchema(dir),
        /Cannot read migrations\/0003_expand_later.sql: .*call it 0002_expand_NAME.sql/,
      );
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
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
    const next = withNext(EXPAND);
    await assert.rejects(applySchema(sql, next, { patience_ms: 0 }), (error: Error) => {
      assert(error instanceof SchemaInUse);
      assert.match(
        error.message,
        /^Cannot apply the schema: table \w+ is kept by "dandori shop" \(pid \d+\), in a transaction for \d+ s/,
      );
      return true;
    });
    assert.equal((await sql`update leader_term set tick = tick + 1 returning 1`).length, 1);
    const applied = applySchema(sql, next);
    refused.resolve();
    await Promise.all([transaction, applied]);
    assert.equal((await sql`select from event`).length, 1);
    assert.equal((await applied).migrated.length, 1);
    await app.end();
  });
});
