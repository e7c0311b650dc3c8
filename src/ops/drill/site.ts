/**
 * The `dev` that a drill breaks: its stores, and which processes are its own.
 *
 * A drill kills and freezes by pid, so it runs only where every living worker is a child of that dev. A worker whose
 * process is gone but whose lease still lasts is left to be found dead; one that renews its lease from elsewhere is
 * somebody else's, and then nothing is touched.
 */
import { type DevNote, readDevNote } from "../../platform/config.ts";
import { monotonicMs } from "../../platform/timers.ts";
import { connectRedis, type RedisConnection } from "../../redis/connection.ts";
import { list } from "../../redis/heartbeats.ts";
import { childrenOf, commandLine } from "../../sandbox/process_table.ts";
import { connectDb, type Sql } from "../../postgres/connection.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { listWorkers, type WorkerListing } from "../../nodes/workers.ts";
import { readSettings, type Settings } from "../../settings/settings.ts";

/** The node of the worker that a drill starts itself. */
export const DRILL_NODE = "drill";

export class DrillError extends Error {
  override name = "DrillError";
  /** Nothing was broken yet: it cannot be done here. */
  constructor(message: string, readonly why: "no dev" | "not here" | "interrupted" = "not here") {
    super(message);
  }
}

export type ServerName = "postgres" | "redis";

const SERVERS: Record<ServerName, RegExp> = {
  postgres: /^\S*\/postgres -D /,
  redis: /(redis|valkey)-server|js_redis\.ts/,
};

export class Site {
  readonly state_dir: string;
  readonly note: DevNote;
  readonly sql: Sql;
  readonly redis: RedisConnection;
  readonly settings: Settings;
  /** Workers that are no children of dev: how much of their lease was left when they were last seen, and since when they are known. */
  readonly #strangers = new Map<string, { lease_seconds_left: number; since_ms: number }>();
  #present = new Set<string>();

  private constructor(
    state_dir: string,
    note: DevNote,
    stores: { sql: Sql; redis: RedisConnection; settings: Settings },
  ) {
    this.state_dir = state_dir;
    this.note = note;
    this.sql = stores.sql;
    this.redis = stores.redis;
    this.settings = stores.settings;
  }

  /** @throws DrillError when no dev runs in this checkout. */
  static async open(state_dir: string): Promise<Site> {
    const note = readDevNote(state_dir);
    if (!note) {
      throw new DrillError(
        "Cannot drill: no `deno task dev` is running in this checkout, and a drill breaks nothing else; start it in another terminal",
        "no dev",
      );
    }
    const sql = connectDb(note.database_url, { name: "drill", max: 4 });
    const redis = connectRedis(note.redis_url, { prefix: note.redis_prefix, name: "drill" });
    try {
      await redis.ready();
      return new Site(state_dir, note, { sql, redis, settings: await readSettings(sql) });
    } catch (error) {
      await Promise.allSettled([redis.close(), sql.end({ timeout: 1 })]);
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.redis.close(), this.sql.end({ timeout: 1 })]);
  }

  get devLives(): boolean {
    return commandLine(this.note.pid) !== undefined;
  }

  /** The workers of dev whose processes live. @throws DrillError when somebody else's worker is there as well. */
  async workers(): Promise<WorkerListing[]> {
    const [listed, children] = [await listWorkers(this.sql), new Set(childrenOf(this.note.pid))];
    const strangers = listed.filter((one) => !children.has(one.pid) && one.node_id !== DRILL_NODE);
    this.#present = new Set(strangers.map((one) => one.worker_id));
    for (const one of strangers) {
      const before = this.#strangers.get(one.worker_id) ?? { lease_seconds_left: Infinity, since_ms: monotonicMs() };
      if (one.lease_seconds_left > before.lease_seconds_left) {
        throw new DrillError(
          `Cannot drill: worker "${one.worker_id}" on node "${one.node_id}" is none of the dev of this checkout (process ` +
            `${this.note.pid}), and a drill breaks only what is its own; stop that worker, or give dev a database of its own`,
        );
      }
      this.#strangers.set(one.worker_id, { ...before, lease_seconds_left: one.lease_seconds_left });
    }
    return listed.filter((one) => children.has(one.pid));
  }

  /** Whether whoever else is there has not renewed its lease for so long that it is dead and not yet found so. */
  get isAlone(): boolean {
    const known_ms = monotonicMs() - 2_000 * this.settings.worker_renew_seconds;
    return [...this.#present].every((id) => (this.#strangers.get(id)?.since_ms ?? Infinity) < known_ms);
  }

  /** The worker of a node that was started last: dev's, or the one of the drill. */
  async find(node_id: string): Promise<WorkerListing | undefined> {
    return (await listWorkers(this.sql)).filter((one) => one.node_id === node_id).at(-1);
  }

  /** The worker that leads, once all of dev's workers are there, work, and one of the others watches it; else undefined. */
  async steady(): Promise<WorkerListing | undefined> {
    const [workers, { worker_id }] = [await this.workers(), await currentLeader(this.sql)];
    const active = new Set(workers.filter((one) => one.state === "ACTIVE").map((one) => one.node_id));
    const leader = workers.find((one) => one.worker_id === worker_id);
    if (!leader || this.note.node_ids.some((node_id) => !active.has(node_id))) return undefined;
    const watched = (await list(this.redis)).some((one) =>
      one.role === "subleader" && active.has(one.node_id) && one.worker_id !== worker_id
    );
    return watched ? leader : undefined;
  }

  /** The process of a server that dev started. @throws DrillError when dev was given one, and nothing would start it again. */
  server(name: ServerName): number {
    const pid = this.ownServer(name);
    if (pid !== undefined) return pid;
    const variable = name === "redis" ? "REDIS_URL" : "DATABASE_URL";
    throw new DrillError(
      `Cannot restart ${name}: dev did not start it but was given ${variable}, and nothing would start it again; ` +
        `start dev without ${variable}`,
    );
  }

  /** Below dev is a guard, and below that the server. */
  ownServer(name: ServerName): number | undefined {
    return childrenOf(this.note.pid).flatMap(childrenOf).find((pid) => SERVERS[name].test(commandLine(pid) ?? ""));
  }
}
