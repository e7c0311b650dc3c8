/**
 * The Postgres and the Redis that all workloads and all peers share: those of DATABASE_URL and REDIS_URL, else the
 * embedded Postgres as it comes (what is committed is synced to disk) and a redis-server of its own. Each workload gets an
 * empty database, and finds Redis empty when the server is ours.
 */
import { environment } from "../src/platform/config.ts";
import { startPostgres } from "../src/dev/postgres.ts";
import { startRedis } from "../src/dev/redis.ts";
import type { Service } from "../src/dev/service.ts";
import { connectDb, type Sql } from "../src/postgres/connection.ts";
import { Redis } from "ioredis";

/** Where every statement is counted, for `--statements` and for the statements of an idle system. */
const PRELOAD = "alter system set shared_preload_libraries = 'pg_stat_statements'";
const TRACK_LATER = "alter system set pg_stat_statements.track = 'none'";

export interface Statement {
  query: string;
  calls: number;
  total_ms: number;
  rows: number;
  /** Looked at, in memory or on disk. */
  pages: number;
  wal_bytes: number;
}

export class Servers {
  readonly redis_url: string;
  readonly detail: string;
  /** Of the servers' first processes, all others of theirs are below them. */
  readonly postgres_pid: number;
  readonly redis_pid: number;
  readonly #admin: Sql;
  readonly #admin_url: string;
  readonly #own: Service[];
  readonly #folder: string | undefined;
  #databases = 0;
  #in_use = 0;

  private constructor(
    parts: {
      admin: Sql;
      admin_url: string;
      redis_url: string;
      own: Service[];
      folder?: string;
      postgres_pid: number;
      redis_pid: number;
      detail: string;
    },
  ) {
    this.#admin = parts.admin;
    this.#admin_url = parts.admin_url;
    this.#own = parts.own;
    this.#folder = parts.folder;
    this.redis_url = parts.redis_url;
    this.postgres_pid = parts.postgres_pid;
    this.redis_pid = parts.redis_pid;
    this.detail = parts.detail;
  }

  static async start(): Promise<Servers> {
    const env = environment();
    const own: Service[] = [];
    let folder: string | undefined;
    if (!env.DATABASE_URL || !env.REDIS_URL) {
      folder = Deno.makeTempDirSync({ prefix: "dandori-bench-" });
      Deno.chmodSync(folder, 0o755); // root's Postgres runs as another user
    }
    const postgres = env.DATABASE_URL ? undefined : await startCounting(folder as string);
    if (postgres) own.push(postgres);
    const redis = env.REDIS_URL ? undefined : await startRedis({ state_dir: folder as string, throwaway: true });
    if (redis) own.push(redis);
    const admin_url = withDatabase(postgres?.url ?? env.DATABASE_URL as string, "postgres");
    const admin = connectDb(admin_url, { name: "bench", max: 1, statement_timeout_ms: 0 });
    const redis_url = redis?.url ?? env.REDIS_URL as string;
    return new Servers({
      admin,
      admin_url,
      redis_url,
      own,
      folder,
      postgres_pid: await postmasterOf(admin),
      redis_pid: await redisPid(redis_url),
      detail: `Postgres ${postgres?.detail ?? "of DATABASE_URL"}; Redis ${redis?.detail ?? "of REDIS_URL"}`,
    });
  }

  /** A new, empty database; gives its URL. Redis is emptied when it is ours and nobody else uses it. */
  async empty(): Promise<string> {
    const name = `dandori_bench_${Deno.pid}_${++this.#databases}`;
    await this.#admin`create database ${this.#admin(name)}`;
    if (this.#in_use++ === 0 && this.#own.some((service) => service.name === "redis")) await flush(this.redis_url);
    return withDatabase(this.#admin_url, name);
  }

  async drop(database_url: string): Promise<void> {
    const name = new URL(database_url).pathname.slice(1);
    await this.#admin`drop database if exists ${this.#admin(name)} with (force)`;
    this.#in_use--;
    await this.#admin`checkpoint`; // what one workload has left to write is not charged to the next
  }

  /** Counts statements from now on; false where the server cannot. */
  async countStatements(): Promise<boolean> {
    try {
      await this.#admin`create extension if not exists pg_stat_statements`;
      await this.#admin`select pg_stat_statements_reset()`;
      await this.#admin`alter system set pg_stat_statements.track = 'top'`;
      await this.#admin`select pg_reload_conf()`;
      return true;
    } catch {
      return false;
    }
  }

  /** What was counted in this database, and counting ends. */
  async statements(database_url: string): Promise<Statement[]> {
    const name = new URL(database_url).pathname.slice(1);
    const found = await this.#admin<Statement[]>`
      select query, calls::int, total_exec_time as total_ms, rows::int, (shared_blks_hit + shared_blks_read)::float8 as pages,
             wal_bytes::float8 from pg_stat_statements
       where dbid = (select oid from pg_database where datname = ${name}) order by total_exec_time desc`;
    await this.#admin.unsafe(TRACK_LATER);
    await this.#admin`select pg_reload_conf()`;
    return [...found];
  }

  async stop(): Promise<void> {
    await this.#admin.end({ timeout: 2 });
    await Promise.all(this.#own.map((service) => service.stop()));
    if (this.#folder) await removeAll(this.#folder);
  }
}

/** Starts it twice: the library that counts is loaded at a start only. */
async function startCounting(folder: string): Promise<Service> {
  const first = await startPostgres({ state_dir: folder });
  const sql = connectDb(first.url, { name: "bench", max: 1 });
  await sql.unsafe(PRELOAD);
  await sql.unsafe(TRACK_LATER);
  await sql.end({ timeout: 2 });
  await first.stop();
  return await startPostgres({ state_dir: folder });
}

/** Root's data are elsewhere, and a link leads there. */
async function removeAll(folder: string): Promise<void> {
  const data = `${folder}/postgres`;
  try {
    await Deno.remove(Deno.realPathSync(data), { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  await Deno.remove(folder, { recursive: true });
}

function withDatabase(database_url: string, name: string): string {
  const url = new URL(database_url);
  url.pathname = `/${name}`;
  return url.href;
}

/** The parent of a session's process. 0 where the server is on another machine. */
async function postmasterOf(admin: Sql): Promise<number> {
  const [row] = await admin<{ pid: number }[]>`select pg_backend_pid() as pid`;
  try {
    const stat = Deno.readTextFileSync(`/proc/${row?.pid}/stat`);
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return 0;
  }
}

async function redisPid(redis_url: string): Promise<number> {
  return await withRedis(redis_url, async (redis) => {
    return Number(/process_id:(\d+)/.exec(await redis.info("server"))?.[1] ?? 0);
  });
}

async function flush(redis_url: string): Promise<void> {
  await withRedis(redis_url, (redis) => redis.flushall());
}

async function withRedis<T>(redis_url: string, act: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(redis_url, { maxRetriesPerRequest: 1 });
  try {
    return await act(redis);
  } finally {
    redis.disconnect();
  }
}
