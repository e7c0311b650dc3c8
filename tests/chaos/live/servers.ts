/**
 * The Postgres and the Redis of a chaos run, which crash, freeze and come back with what they had: nothing that Postgres
 * has acknowledged may be gone after a crash of its processes, so commits are waited for here, other than in the tests.
 */
import { Redis } from "ioredis";
import { rest } from "../../../src/platform/timers.ts";
import { startPostgres } from "../../../src/dev/postgres.ts";
import { startRedis } from "../../../src/dev/redis.ts";
import type { Service } from "../../../src/dev/service.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { signalProcess } from "../../../src/sandbox/process_table.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";

export class Servers {
  readonly #dir: string;
  #postgres: Service;
  #redis: Service;

  private constructor(dir: string, started: { postgres: Service; redis: Service }) {
    this.#dir = dir;
    this.#postgres = started.postgres;
    this.#redis = started.redis;
  }

  /** `dir` exists, and Postgres' user may enter it. */
  static async start(dir: string): Promise<Servers> {
    for (const name of ["postgres", "redis"]) chooseAddress(`${dir}/${name}`);
    const [postgres, redis] = await Promise.all([
      startPostgres({ state_dir: dir }),
      startRedis({ state_dir: dir, real_only: true }),
    ]);
    const servers = new Servers(dir, { postgres, redis });
    await servers.#hurry();
    return servers;
  }

  get database_url(): string {
    return this.#postgres.url;
  }

  get redis_url(): string {
    return this.#redis.url;
  }

  /** The machine itself does not crash here, so what the kernel has is safe. */
  async #hurry(): Promise<void> {
    const sql = connectDb(this.database_url, { name: "chaos setup", max: 1 });
    await sql`alter system set fsync = off`;
    await sql`alter system set full_page_writes = off`;
    await sql`select pg_reload_conf()`;
    await sql.end({ timeout: 2 });
  }

  /** As `pg_ctl restart -m immediate`: no session is ended in order, and it recovers from its log. */
  async crashPostgres(down_ms: number): Promise<void> {
    const note = Deno.readTextFileSync(`${this.#dir}/postgres/data/postmaster.pid`);
    signalProcess(Number.parseInt(note), "SIGQUIT");
    await this.#postgres.ended;
    await rest(down_ms);
    const { url } = this.#postgres;
    this.#postgres = await startPostgres({ state_dir: this.#dir });
    if (this.#postgres.url !== url) {
      throw new Error(`Cannot go on: Postgres came back elsewhere, ${this.#postgres.url}`);
    }
  }

  /** With what it had saved last, which may be long ago. */
  async crashRedis(down_ms: number): Promise<void> {
    signalProcess(this.#redis_pid, "SIGKILL");
    await this.#redis.ended;
    await rest(down_ms);
    const { url } = this.#redis;
    this.#redis = await startRedis({ state_dir: this.#dir, real_only: true });
    if (this.#redis.url !== url) throw new Error(`Cannot go on: Redis came back elsewhere, ${this.#redis.url}`);
  }

  freezeRedis(): void {
    signalProcess(this.#redis_pid, "SIGSTOP");
  }

  thawRedis(): void {
    signalProcess(this.#redis_pid, "SIGCONT");
  }

  async flushRedis(): Promise<void> {
    const redis = new Redis(this.redis_url, { maxRetriesPerRequest: 3 });
    redis.on("error", () => {}); // the command tells
    try {
      await redis.flushall();
    } finally {
      redis.disconnect();
    }
  }

  async stop(): Promise<void> {
    this.thawRedis();
    await Promise.all([this.#postgres.stop(), this.#redis.stop()]);
  }

  get #redis_pid(): number {
    return Number.parseInt(Deno.readTextFileSync(`${this.#dir}/redis/redis.pid`));
  }
}

/** Before its first start a server is told where to be (src/dev/service.ts keeps it there). */
function chooseAddress(home: string): void {
  Deno.mkdirSync(home, { mode: 0o700 });
  const address = { port: freePort(), password: crypto.randomUUID().replaceAll("-", "") };
  Deno.writeTextFileSync(`${home}/address.json`, JSON.stringify(address), { mode: 0o600 });
}

/** Asks until Postgres answers; it may be down, and that is what this is about. */
export async function insist<T>(sql: Sql, ask: (sql: Sql) => Promise<T>): Promise<T> {
  const late = AbortSignal.timeout(INSIST_MS);
  for (;;) {
    try {
      return await ask(sql);
    } catch (error) {
      if (late.aborted) throw error;
      await rest(200);
    }
  }
}

const INSIST_MS = 60_000;
