/**
 * The one door to Redis, which carries what lives for seconds: the leader lock, heartbeats, flags. Nothing here is
 * the truth; Redis may lose it all, and work goes on from Postgres.
 *
 * A command answers within a second or fails with `RedisAway`; none waits in a queue for better times, and none is sent
 * again by itself, since what its caller decided a second ago may be wrong now. A failed command may have been carried
 * out. The connection comes back by itself.
 *
 * Every key starts with the prefix, and scripts get all their keys in KEYS. So with a {hash tag} in the prefix all of
 * this lies in one slot and runs on Redis Cluster.
 *
 * `RedisAway` is also what a server answers that cannot serve just now: it loads, it became a replica, its replicas are
 * gone. Callers treat all of these the same way: they go on without Redis. Any other refusal is a mistake of ours or of
 * whoever set this up, and is an Error.
 */
import { Cluster, type ClusterOptions, Redis, type RedisOptions } from "ioredis";
import { observe } from "../platform/facts.ts";
import { DeadlineExceeded, monotonicMs, rest, within } from "../platform/timers.ts";
import beat from "./lua/heartbeat.lua" with { type: "text" };
import lease_runs from "./lua/lease_runs.lua" with { type: "text" };
import claim_subleader from "./lua/claim_subleader.lua" with { type: "text" };
import next_worker_number from "./lua/next_worker_number.lua" with { type: "text" };
import mirror_epoch from "./lua/mirror_epoch.lua" with { type: "text" };
import release_lock from "./lua/release_lock.lua" with { type: "text" };
import renew_leader_lock from "./lua/renew_leader_lock.lua" with { type: "text" };
import take_leader_lock from "./lua/take_leader_lock.lua" with { type: "text" };
import { parseRedisUrl, type RedisLocation } from "./redis_url.ts";

/** Longest wait for an answer, for a connection, and for a silent socket. */
const PATIENCE_MS = 1_000;
const LONGEST_PAUSE_MS = 500;

/** Our scripts, and how many keys each has; undefined: the call says. */
export const SCRIPTS = {
  take_leader_lock: { lua: take_leader_lock, numberOfKeys: 3 },
  renew_leader_lock: { lua: renew_leader_lock, numberOfKeys: 4 },
  release_lock: { lua: release_lock, numberOfKeys: 1 },
  claim_subleader: { lua: claim_subleader, numberOfKeys: 2 },
  mirror_epoch: { lua: mirror_epoch, numberOfKeys: 1 },
  lease_runs: { lua: lease_runs, numberOfKeys: undefined },
  beat: { lua: beat, numberOfKeys: 5 },
  next_worker_number: { lua: next_worker_number, numberOfKeys: 1 },
};
export type ScriptName = keyof typeof SCRIPTS;

/** Redis did not answer in time. Whether the command was carried out is not known. */
export class RedisAway extends Error {
  override name = "RedisAway";
}

export interface RedisSettings {
  /** Before every key; with a {hash tag} in it for Redis Cluster. */
  prefix: string;
  /** Shown in CLIENT LIST. */
  name?: string;
}

/** Starts to connect and returns at once; `ready` waits for the connection. Throws when the URL or prefix is wrong. */
export function connectRedis(url: string, settings: RedisSettings): RedisConnection {
  const place = parseRedisUrl(url);
  if (place.kind === "cluster" && !/^[^{]*\{[^}]+\}/.test(settings.prefix)) {
    throw new Error(
      `Cannot use Redis Cluster with prefix "${settings.prefix}": our scripts need their keys in one slot; ` +
        `set SCHEDULER_REDIS_PREFIX={scheduler}:`,
    );
  }
  return new RedisConnection(place, settings);
}

/** Redis counts in whole milliseconds, and refuses the 2009.9999999999998 that 2.01 seconds are. */
export function wholeMs(ms: number): number {
  return Math.round(ms);
}

export class RedisConnection {
  readonly prefix: string;
  /** Where it is, without passwords. */
  readonly server: string;
  readonly #kind: RedisLocation["kind"];
  readonly #client: Redis | Cluster;
  #away_since: number | undefined;
  #last_error = "no connection yet";
  #closed = false;

  constructor(place: RedisLocation, settings: RedisSettings) {
    this.prefix = settings.prefix;
    this.server = place.shown;
    this.#kind = place.kind;
    this.#client = open(place, settings);
    this.#client.on("error", (error: Error) => this.#noteAway(error.message || error.name));
    this.#client.on("close", () => this.#noteAway("the connection closed"));
    this.#client.on("ready", () => this.#noteBack());
  }

  /**
   * Resolves when commands can be sent. Rejects with what to look at when that takes longer than `patience_ms`, and with
   * what to set when the URL is that of another kind of server.
   */
  async ready(patience_ms = 5_000): Promise<void> {
    const until = monotonicMs() + patience_ms;
    while (this.#client.status !== "ready") {
      if (this.#closed) throw new RedisAway(`Cannot reach Redis at ${this.server}: this side closed the connection`);
      if (monotonicMs() > until) {
        throw new RedisAway(
          `Cannot reach Redis at ${this.server} within ${patience_ms} ms: ${this.#last_error}; check REDIS_URL`,
        );
      }
      await rest(20);
    }
    if (this.#kind !== "single") return;
    const info = await this.ask("look for a cluster", (client) => client.info("cluster")).catch((error) => {
      if (error instanceof RedisAway) throw error;
      return ""; // this user may not ask
    });
    if (!/cluster_enabled:1/.test(info)) return;
    throw new Error(`Cannot use Redis at ${this.server} by the URL of a single server: ${CLUSTER_FIX}`);
  }

  /** Runs one of our scripts. Keys are given without the prefix. */
  script(name: ScriptName, keys: string[], args: (string | number)[]): Promise<unknown> {
    const count = SCRIPTS[name].numberOfKeys;
    if (count !== undefined && count !== keys.length) {
      throw new RangeError(`Cannot run script ${name}: it takes ${count} keys, not ${keys.length}`);
    }
    const commands = this.#client as unknown as Record<ScriptName, (...all: (string | number)[]) => Promise<unknown>>;
    const plain = args.map((arg) => typeof arg === "number" ? wholeMs(arg) : arg);
    const given = count === undefined ? [keys.length, ...keys, ...plain] : [...keys, ...plain];
    return this.ask(name, () => commands[name](...given));
  }

  /** Runs plain commands. `what` names them in the error. */
  async ask<T>(what: string, send: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    try {
      return await within(PATIENCE_MS, what, send(this.#client));
    } catch (error) {
      throw asRedisError(error as Error, what, this.server);
    }
  }

  /** Several commands in one round trip; the answers in their order. Rejects when one of them failed. */
  pipeline(what: string, commands: (string | number)[][]): Promise<unknown[]> {
    return this.ask(what, async (client) => {
      const replies = await client.pipeline(commands).exec() ?? [];
      return replies.map(([error, reply]) => {
        if (error) throw error;
        return reply;
      });
    });
  }

  /** Closes at once; what is under way fails. */
  close(): Promise<void> {
    this.#closed = true;
    this.#client.disconnect();
    return Promise.resolve();
  }

  #noteAway(reason: string): void {
    if (this.#closed) return;
    if (reason !== "the connection closed" || this.#away_since === undefined) this.#last_error = reason;
    if (this.#away_since !== undefined) return;
    this.#away_since = monotonicMs();
    observe("redis.away", { server: this.server, error: reason });
  }

  #noteBack(): void {
    if (this.#away_since === undefined) return;
    observe("redis.back", { server: this.server, away_ms: Math.round(monotonicMs() - this.#away_since) });
    this.#away_since = undefined;
  }
}

function open(place: RedisLocation, settings: RedisSettings): Redis | Cluster {
  const common = {
    scripts: SCRIPTS,
    enableOfflineQueue: false,
    // A connection that fell silent is only noticed with socketTimeout: commandTimeout alone never gave it up.
    connectTimeout: PATIENCE_MS,
    commandTimeout: PATIENCE_MS,
    socketTimeout: PATIENCE_MS,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    maxLoadingRetryTime: LONGEST_PAUSE_MS,
    protocol: 2,
    disableClientInfo: true,
    connectionName: settings.name,
    username: place.username,
    password: place.password,
    tls: place.tls ? {} : undefined,
  } satisfies RedisOptions;
  const pause = (tries: number) => Math.min(50 * 2 ** Math.min(tries, 10), LONGEST_PAUSE_MS);
  // After a fail-over the old master may live on as a replica: find the new one.
  const reconnectOnError = (error: Error) => error.message.startsWith("READONLY");
  if (place.kind === "cluster") {
    const options: ClusterOptions = {
      scripts: SCRIPTS,
      keyPrefix: settings.prefix,
      enableOfflineQueue: false,
      retryDelayOnFailover: 0, // these two would send a command again that failed a while ago
      retryDelayOnClusterDown: 0,
      clusterRetryStrategy: pause,
      slotsRefreshTimeout: PATIENCE_MS,
      redisOptions: common,
    };
    return new Cluster(place.servers, options);
  }
  const options = { ...common, keyPrefix: settings.prefix, retryStrategy: pause, reconnectOnError, db: place.db };
  if (place.kind === "single") return new Redis({ ...options, ...place.servers[0] });
  // Without ioredis' failoverDetector: an announcement that comes while it asks a Sentinel for the master ends the client
  // for good (half of the fail-overs here). A dead, frozen or demoted master is noticed all the same, and then it asks.
  return new Redis({
    ...options,
    sentinels: place.servers,
    name: place.master,
    sentinelPassword: place.sentinel_password,
    sentinelRetryStrategy: pause,
    sentinelCommandTimeout: PATIENCE_MS,
    enableTLSForSentinelMode: place.tls,
    sentinelTLS: place.tls ? {} : undefined,
  });
}

/** Replies of a server that cannot serve just now: it starts, was replaced, lost its replicas, or is full. */
const NOT_NOW =
  /^(LOADING|READONLY|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|NOREPLICAS|MISCONF|OOM|BUSY|NOQUORUM|UNBLOCKED)|max number of clients/;
/** Replies of a cluster to a client that takes it for a single server. */
const NO_CLUSTER_URL = /^(MOVED|ASK|CROSSSLOT) /;
const CLUSTER_FIX = "this is a Redis Cluster: set REDIS_URL=redis+cluster://host:port,... and " +
  "SCHEDULER_REDIS_PREFIX={scheduler}: (the braces keep all keys on one node)";

function asRedisError(error: Error, what: string, server: string): Error {
  if (error.name === "ReplyError" && !NOT_NOW.test(error.message)) {
    const fix = NO_CLUSTER_URL.test(error.message) ? `; ${CLUSTER_FIX}` : "";
    return new Error(`Cannot ${what} in Redis at ${server}: ${error.message}${fix}`, { cause: error });
  }
  const why = error instanceof DeadlineExceeded
    ? "no answer in time"
    : /isn't writeable/.test(error.message)
    ? "not connected"
    : error.message;
  return new RedisAway(`Cannot ${what} in Redis at ${server}: ${why}`, { cause: error });
}
