/**
 * schema.sql over a database that is in use.
 *
 * Most of its statements lock their table against everybody, also where there is nothing to change. Locked one by one, the first
 * would be kept, the leader's among them, while a later one waits for an application's transaction; and that may need one
 * that is taken already: one of both fails of a deadlock, and it was seen to be the application's. So all are taken before
 * anything else, and given back when they are not to be had at once.
 */
import { createHash } from "node:crypto";
import { monotonicMs, rest } from "../platform/timers.ts";
import { type Db, isLockTimeout, type Sql } from "./connection.ts";
import { longestLockHolder } from "./row_locks.ts";

/**
 * Longer than Postgres lets a vacuum go on that is waited for, and shorter than it takes to call an application's transaction a deadlock
 * that began to wait after us: `deadlock_timeout` (1 s), and twice that.
 */
const LOCK_MS = 1_500;
/** For those who waited behind us. */
const PAUSE_MS = 1_000;
const PATIENCE_MS = 60_000;

/** Somebody's transaction keeps a table; nothing was changed. */
export class SchemaInUse extends Error {
  override name = "SchemaInUse";
}

/** As one transaction; two processes that do it at once take turns. @throws SchemaInUse */
export async function applySchema(sql: Sql, text: string, patience_ms = PATIENCE_MS): Promise<void> {
  const tables = [...text.matchAll(/^create table if not exists (\w+)/gm)].map(([, name]) => name as string);
  const until_ms = monotonicMs() + patience_ms;
  while (!await tryToApply(sql, { tables, text })) {
    if (monotonicMs() > until_ms) throw new SchemaInUse(`Cannot apply the schema: ${await whoKeeps(sql, tables)}`);
    await rest(PAUSE_MS);
  }
}

/** False: a table was not to be had. */
async function tryToApply(sql: Sql, { tables, text }: { tables: string[]; text: string }): Promise<boolean> {
  let locked = false;
  try {
    await sql.begin(async (tx) => {
      await tx`set local lock_timeout = 0`;
      await tx`select pg_advisory_xact_lock(hashtext('dandori schema'))`;
      await tx.unsafe(`set local lock_timeout = ${LOCK_MS}`);
      const there = await tx<{ name: string }[]>`
        select name from unnest(${tables}::text[]) with ordinality as t(name, place)
         where to_regclass(format('%I.%I', current_schema(), name)) is not null order by place`;
      if (there[0]?.name !== tables[0]) await refusePlace(tx, there);
      else await tx`lock table ${tx(there.map(({ name }) => name))} in access exclusive mode`;
      locked = true;
      await tx.unsafe(text);
      await tx.unsafe(`comment on table leader_term is '${wordOf(text)}'`);
    });
    return true;
  } catch (error) {
    if (locked || !isLockTimeout(error)) throw error;
    return false;
  }
}

/** Before anything is made: what bodies say may hold any character, and a table of another's would be taken for ours. */
async function refusePlace(sql: Db, there: { name: string }[]): Promise<void> {
  const [row] = await sql<{ encoding: string; database: string }[]>`
    select current_setting('server_encoding') as encoding, current_database() as database`;
  const what = `Cannot apply the schema to database "${row?.database}"`;
  if (there[0]) {
    throw new Error(
      `${what}: table "${there[0].name}" is there already, and somebody else's; give Dandori a schema of its own: ` +
        "create schema dandori; alter role NAME set search_path = dandori",
    );
  }
  if (row?.encoding === "UTF8") return;
  throw new Error(
    `${what}: its encoding is ${row?.encoding}, which lacks most characters; give it one that is made so: ` +
      "create database dandori encoding 'UTF8' template template0",
  );
}

async function whoKeeps(sql: Sql, tables: string[]): Promise<string> {
  const keeper = await longestLockHolder(sql, tables);
  if (!keeper) return "its tables were in use; try again";
  const { table, pid, who, seconds, query } = keeper;
  return `table ${table} is kept by "${who}" (pid ${pid}), in a transaction for ${seconds} s, last: ${query}; ` +
    `let it end, or end it: select pg_terminate_backend(${pid})`;
}

/** Whether this text of schema.sql was the last to be applied; what was leaves its digest with a table, and a dump keeps that. */
export async function isSchemaOf(sql: Db, text: string): Promise<boolean> {
  const [row] = await sql<
    { word: string | null }[]
  >`select obj_description('leader_term'::regclass, 'pg_class') as word`;
  return row?.word === wordOf(text);
}

function wordOf(schema: string): string {
  return `schema.sql ${createHash("sha256").update(schema).digest("hex").slice(0, 16)}`;
}

/** What `text` makes that is not there, by name, in its order: of a database whose schema is older. Not whether each is as it says. */
async function missingFrom(sql: Db, text: string): Promise<string[]> {
  const made = [...text.matchAll(MAKES)].map(([, relation, table, column, routine]) => ({
    ...{ relation, table, column, routine, name: relation ?? (table ? `${table}.${column}` : `${routine}()`) },
  }));
  const of = (what: "relation" | "table" | "column" | "routine") => made.map((one) => one[what] ?? null);
  const rows = await sql<{ name: string }[]>`
    select m.name
      from unnest(${made.map(({ name }) => name)}::text[], ${of("relation")}::text[], ${of("table")}::text[], ${
    of("column")
  }::text[], ${of("routine")}::text[]) with ordinality as m(name, relation, tab, col, routine, place)
     where not coalesce(
       to_regclass(m.relation) is not null
         or exists (select from pg_attribute a where a.attrelid = to_regclass(m.tab) and a.attname = m.col and not a.attisdropped)
         or exists (select from pg_proc p where p.proname = m.routine and pg_function_is_visible(p.oid)), false)
     order by m.place`;
  return rows.map(({ name }) => name);
}

const MAKES =
  /^(?:create (?:table|sequence|index|unique index) if not exists (\w+)|alter table (\w+) add column if not exists (\w+)|create or replace function (\w+)\()/gm;

/** Undefined: nothing is missing. */
export async function lackOfSchema(sql: Db, text: string): Promise<string | undefined> {
  const missing = await missingFrom(sql, text);
  if (missing.length === 0) return undefined;
  const [shown, more] = [missing.slice(0, MOST_SHOWN).join(", "), missing.length - MOST_SHOWN];
  return `the database has the schema of an older version, without ${shown}${more > 0 ? ` and ${more} more` : ""}`;
}

const MOST_SHOWN = 3;
