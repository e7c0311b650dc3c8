/** A database and a Redis prefix of its own for each test, both real. */
import { Redis } from "ioredis";
import { connectDb, type Sql } from "../../src/postgres/connection.ts";
import { applySchema } from "../../src/postgres/schema.ts";
import { readSchema, type SchemaFiles } from "../../src/postgres/schema_files.ts";
import { startTestServices } from "./services.ts";

export interface Stores {
  sql: Sql;
  /** Leads to the test's own database, with schema.sql applied and no rows. */
  database_url: string;
  redis_url: string;
  /** Before every Redis key of the test. */
  prefix: string;
}

// Started while the file loads, so that no test is charged for it, nor for what stays open.
const services = await startTestServices();

/** Gives `test` fresh stores and drops them afterwards, also when it fails. */
export async function withStores<T>(test: (stores: Stores) => Promise<T>): Promise<T> {
  const name = `dandori_test_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
  const { redis_url } = services;
  const prefix = `${name}:`;
  return await withAdmin(async (admin) => {
    const template = await ensureTemplate(admin);
    await admin`create database ${admin(name)} template ${admin(template)} strategy file_copy`; // half the work of wal_log
    const database_url = urlOf(name);
    const sql = connectDb(database_url, { name: "test", max: 8 });
    try {
      return await test({ sql, database_url, redis_url, prefix });
    } finally {
      await sql.end({ timeout: 2 });
      await admin`drop database if exists ${admin(name)} with (force)`;
      await forgetKeys(redis_url, prefix);
    }
  });
}

/** While nobody is let into that database, as with a changed password; who is in by this name has been put out. */
export async function whileShut<T>(database_url: string, name: string, act: () => Promise<T>): Promise<T> {
  const database = new URL(database_url).pathname.slice(1);
  const allow = (allowed: boolean) =>
    withAdmin((admin) => admin.unsafe(`alter database ${database} allow_connections ${allowed}`));
  await allow(false);
  try {
    await withAdmin((admin) =>
      admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database} and application_name = ${`dandori ${name}`}`
    );
    return await act();
  } finally {
    await allow(true);
  }
}

function urlOf(database: string): string {
  const url = new URL(services.database_url);
  url.pathname = `/${database}`;
  return url.href;
}

async function withAdmin<T>(act: (admin: Sql) => Promise<T>): Promise<T> {
  const admin = connectDb(services.database_url, { name: "test admin", max: 1, statement_timeout_ms: 0 });
  try {
    return await act(admin);
  } finally {
    await admin.end({ timeout: 2 });
  }
}

let template: string | undefined;

/** The database that all others are copies of, one for each wording of the schema; whoever comes first makes it. */
async function ensureTemplate(admin: Sql): Promise<string> {
  if (template) return template;
  const schema = readSchema();
  const digest = new Uint8Array(
    await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(schema))),
  );
  const name = `dandori_template_${digest.toHex().slice(0, 16)}`;
  await admin`set lock_timeout = 0`;
  await admin`select pg_advisory_lock(hashtext('dandori test template'))`;
  const [found] = await admin`select 1 from pg_database where datname = ${name}`;
  if (!found) await makeTemplate(admin, { name, schema });
  await admin`select pg_advisory_unlock(hashtext('dandori test template'))`;
  template = name;
  return name;
}

/** Under a draft's name until it is whole. */
async function makeTemplate(admin: Sql, { name, schema }: { name: string; schema: SchemaFiles }): Promise<void> {
  const draft = `${name}_new`;
  await admin`drop database if exists ${admin(draft)} with (force)`;
  await admin`create database ${admin(draft)}`;
  const sql = connectDb(urlOf(draft), { name: "test template", max: 1 });
  await applySchema(sql, schema);
  await sql.end({ timeout: 2 });
  await admin`alter database ${admin(draft)} rename to ${admin(name)}`;
}

async function forgetKeys(redis_url: string, prefix: string): Promise<void> {
  const redis = new Redis(redis_url, { maxRetriesPerRequest: 1, retryStrategy: () => null });
  redis.on("error", () => {}); // a test may have ended it; then its keys are gone as well
  try {
    let cursor = "0";
    do {
      const [next, keys] = await redis.scan(cursor, "MATCH", `${prefix}*`, "COUNT", 1000);
      if (keys.length > 0) await redis.del(...keys);
      cursor = next;
    } while (cursor !== "0");
  } catch {
    // as above
  } finally {
    redis.disconnect();
  }
}
