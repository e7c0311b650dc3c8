/**
 * schema.sql into a database that is empty, the missing files of migrations/ into one that has rows and is in use.
 *
 * A migration may lock several tables. Locked one by one, the first would be kept, the leader's among them, while a later one waits for
 * an application's transaction; and that may need one that is taken already: one of both fails of a deadlock, and it was seen to
 * be the application's. So all are taken before anything else, and given back when they are not to be had at once.
 */
import { monotonicMs, rest } from "../platform/timers.ts";
import { type Db, isLockTimeout, type Sql } from "./connection.ts";
import { longestLockHolder } from "./row_locks.ts";
import { type Migration, readSchema, type SchemaFiles, tablesOf, versionOf } from "./schema_files.ts";

/**
 * Longer than Postgres lets a vacuum go on that is waited for, and shorter than it takes to call an application's transaction a deadlock
 * that began to wait after us: `deadlock_timeout` (1 s), and twice that.
 */
const LOCK_MS = 1_500;
/** For those who waited behind us. */
const PAUSE_MS = 1_000;
const PATIENCE_MS = 60_000;

/** Somebody's transaction keeps a table; nothing of the migration was done. */
export class SchemaInUse extends Error {
  override name = "SchemaInUse";
}

export interface SchemaChange {
  /** From schema.sql: the database was empty. */
  created: boolean;
  /** One by one, in their order. */
  migrated: Migration[];
  version: number;
}

interface Applied {
  version: number;
  name: string;
  kind: Migration["kind"];
  digest: string;
}

/** Each migration in a transaction of its own; two processes that do it at once take turns. @throws SchemaInUse */
export async function applySchema(
  sql: Sql,
  files: SchemaFiles = readSchema(),
  { by = "system", patience_ms = PATIENCE_MS } = {},
): Promise<SchemaChange> {
  const change: SchemaChange = { created: false, migrated: [], version: versionOf(files) };
  let until_ms = monotonicMs() + patience_ms;
  while (true) {
    const step = await tryStep(sql, files, by);
    if (step === "done") return change;
    if (step === "created") return { ...change, created: true };
    if (step !== "in use") {
      change.migrated.push(step);
      until_ms = monotonicMs() + patience_ms;
    } else if (monotonicMs() > until_ms) {
      throw new SchemaInUse(`Cannot apply the schema: ${await describeHolder(sql, tablesOf(files))}`);
    } else await rest(PAUSE_MS);
  }
}

/** The next migration, if it was applied; "in use": a table was not to be had. */
async function tryStep(sql: Sql, files: SchemaFiles, by: string): Promise<Migration | "created" | "done" | "in use"> {
  let locked = false;
  try {
    return await sql.begin(async (tx) => {
      await tx`set local lock_timeout = 0`;
      await tx`select pg_advisory_xact_lock(hashtext('dandori schema'))`;
      await tx.unsafe(`set local lock_timeout = ${LOCK_MS}`);
      const tables = await existing(tx, tablesOf(files));
      const applied = await readApplied(tx);
      if (!applied) {
        await refusePlace(tx, tables);
        await tx.unsafe(files.text);
        await record(tx, files.migrations, by);
        return "created";
      }
      const { state, what, fix } = compare(applied, files);
      if (state === "changed" || state === "newer") throw new Error(`Cannot apply the schema: ${what}; ${fix}`);
      const next = files.migrations[applied.length];
      if (!next) return "done";
      await tx`lock table ${tx(tables)} in access exclusive mode`;
      locked = true;
      await tx.unsafe(next.text);
      await record(tx, [next], by);
      return next;
    });
  } catch (error) {
    if (locked || !isLockTimeout(error)) throw error;
    return "in use";
  }
}

async function existing(sql: Db, tables: string[]): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from unnest(${tables}::text[]) with ordinality as t(name, place)
     where to_regclass(format('%I.%I', current_schema(), name)) is not null order by place`;
  return rows.map(({ name }) => name);
}

/** In the order of their versions, or undefined: this is no database of ours. */
async function readApplied(sql: Db): Promise<Applied[] | undefined> {
  const [found] = await sql<{ there: boolean }[]>`
    select exists (select from pg_attribute where attname = 'digest'
       and attrelid = to_regclass(format('%I.schema_migration', current_schema()))) as there`;
  if (!found?.there) return undefined;
  return await sql<Applied[]>`select version, name, kind, digest from schema_migration order by version`;
}

async function record(sql: Db, migrations: Migration[], by: string): Promise<void> {
  for (const { version, name, kind, digest } of migrations) {
    await sql`insert into schema_migration (version, name, kind, digest, applied_by)
              values (${version}, ${name}, ${kind}, ${digest}, ${by})`;
  }
}

interface Comparison {
  state: "none" | "changed" | "older" | "same" | "newer";
  what: string;
  fix: string;
}

function compare(applied: Applied[] | undefined, files: SchemaFiles): Comparison {
  if (!applied) return { state: "none", what: "the database has no schema", fix: "apply the schema: deno task schema" };
  const wanted = versionOf(files);
  const changed = applied.find(({ version, digest }) =>
    version <= wanted && files.migrations[version - 1]?.digest !== digest
  );
  if (changed) {
    return {
      state: "changed",
      what: `the database has another version ${changed.version} (${changed.name}) than this checkout`,
      fix:
        "bring this checkout up to date; a database of a version that was never released is dropped and created anew",
    };
  }
  const what = `the database has schema version ${applied.length} (${
    applied.at(-1)?.name
  }), this checkout has ${wanted}`;
  if (applied.length < wanted) return { state: "older", what, fix: "apply what is missing: deno task schema" };
  if (applied.length > wanted) return { state: "newer", what, fix: "bring this checkout up to date" };
  return { state: "same", what: `schema version ${wanted}`, fix: "" };
}

/** Before anything is made: what bodies say may hold any character, and a table of another's would be taken for ours. */
async function refusePlace(sql: Db, tables: string[]): Promise<void> {
  const [row] = await sql<{ encoding: string; database: string }[]>`
    select current_setting('server_encoding') as encoding, current_database() as database`;
  const what = `Cannot apply the schema to database "${row?.database}"`;
  if (tables[0]) {
    throw new Error(
      `${what}: table "${tables[0]}" is there already, and somebody else's; give Dandori a schema of its own: ` +
        "create schema dandori; alter role NAME set search_path = dandori",
    );
  }
  if (row?.encoding === "UTF8") return;
  throw new Error(
    `${what}: its encoding is ${row?.encoding}, which lacks most characters; give it one that is made so: ` +
      "create database dandori encoding 'UTF8' template template0",
  );
}

async function describeHolder(sql: Sql, tables: string[]): Promise<string> {
  const keeper = await longestLockHolder(sql, tables);
  if (!keeper) return "its tables were in use; try again";
  const { table, pid, who, seconds, query } = keeper;
  return `table ${table} is kept by "${who}" (pid ${pid}), in a transaction for ${seconds} s, last: ${query}; ` +
    `let it end, or end it: select pg_terminate_backend(${pid})`;
}

export interface SchemaCheck {
  /** Whether this checkout's programs can work with the database. */
  fits: boolean;
  what: string;
  /** Empty: there is nothing to do. */
  fix: string;
}

/** A database that is newer fits as long as its newer migrations only expand. */
export async function checkSchema(sql: Db, files: SchemaFiles = readSchema()): Promise<SchemaCheck> {
  const applied = await readApplied(sql);
  const { state, what, fix } = compare(applied, files);
  const contracted = applied?.some(({ version, kind }) => version > versionOf(files) && kind === "contract");
  return { fits: state === "same" || (state === "newer" && !contracted), what, fix };
}
