/** Redis as it stands in production: below Sentinels, and as a Cluster. All real servers, on ports of their own. */
import { freePort } from "../../src/ops/free_port.ts";
import { askRedis, type OwnRedis, type RedisServerOptions, startRedis } from "./cluster_redis.ts";
import { waitFor } from "./waiting.ts";

const DOWN_AFTER_MS = 1_000;

export interface Sentinels {
  /** As REDIS_URL takes it. */
  url: string;
  servers: OwnRedis[];
  /** The server that the Sentinels name now. */
  master(): Promise<OwnRedis>;
  /** Those that follow it now, as they say themselves. */
  replicas(): Promise<OwnRedis[]>;
  /** Resolves when another server than this is named, and takes writes. */
  replaced(master: OwnRedis): Promise<OwnRedis>;
}

/** A master, two replicas and three Sentinels that agree on it. */
export async function withSentinels(test: (sentinels: Sentinels) => Promise<void>): Promise<void> {
  await withServers(async (start) => {
    const master = await start({ config: SYNCS_AT_ONCE });
    const replicas = await Promise.all([1, 2].map(() => start({ config: replicaOf(master) })));
    const servers = [master, ...replicas];
    await waitFor("replicas", async () => {
      const info = await askRedis(master.port, "info", "replication") as string;
      return info.match(/state=online/g)?.length === 2 || undefined;
    });
    const guards = await Promise.all([1, 2, 3].map(() => start({ config: watching(master), args: ["--sentinel"] })));
    const [guard] = guards as [OwnRedis];
    await Promise.all(guards.map(({ port }) => waitFor("Sentinels that know each other", () => knows(port))));
    const named = async () => {
      const [, port] = await askRedis(guard.port, "sentinel", "get-master-addr-by-name", "main") as [string, string];
      return servers.find((server) => server.port === Number(port)) as OwnRedis;
    };
    await test({
      url: `redis+sentinel://${guards.map(({ port }) => `127.0.0.1:${port}`).join(",")}/main`,
      servers,
      master: named,
      async replicas() {
        const roles = await Promise.all(servers.map(({ port }) => roleOf(port)));
        return servers.filter((_, place) => roles[place] === "slave");
      },
      replaced: (old) =>
        waitFor("a fail-over", async () => {
          const now = await named();
          return now !== old && await roleOf(now.port) === "master" ? now : undefined;
        }),
    });
  });
}

/** By default a server waits 5 s for more replicas before it gives one its data. */
const SYNCS_AT_ONCE = ["repl-diskless-sync-delay 0"];

function replicaOf(master: OwnRedis): string[] {
  return [`replicaof 127.0.0.1 ${master.port}`, ...SYNCS_AT_ONCE];
}

function watching(master: OwnRedis): string[] {
  return [
    `sentinel monitor main 127.0.0.1 ${master.port} 2`,
    `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
    "sentinel failover-timeout main 1000",
    "sentinel parallel-syncs main 2",
  ];
}

async function knows(port: number): Promise<true | undefined> {
  const [others, replicas] = await Promise.all(
    ["sentinels", "replicas"].map((what) => askRedis(port, "sentinel", what, "main") as Promise<unknown[]>),
  );
  return others?.length === 2 && replicas?.length === 2 || undefined;
}

async function roleOf(port: number): Promise<string> {
  try {
    return (await askRedis(port, "role") as [string])[0];
  } catch {
    return "gone";
  }
}

export interface RedisCluster {
  /** As REDIS_URL takes it. */
  url: string;
  /** The master that holds the key now. */
  owner(): Promise<OwnRedis>;
  /** Resolves when another server than this holds the key. */
  replaced(owner: OwnRedis): Promise<OwnRedis>;
  /** A master that never holds it. */
  stranger: OwnRedis;
}

const SLOTS = [[0, 5460], [5461, 10922], [10923, 16383]] as const;

/** Three masters that share the slots, and a replica of the one that holds `key`. */
export async function withRedisCluster(key: string, test: (cluster: RedisCluster) => Promise<void>): Promise<void> {
  await withServers(async (start) => {
    const buses = [1, 2, 3, 4].map(() => freePort());
    const servers = await Promise.all(buses.map((bus) => start({ config: member(bus) })));
    const [first, , , replica] = servers as [OwnRedis, OwnRedis, OwnRedis, OwnRedis];
    for (const [place, { port }] of servers.entries()) {
      const slots = SLOTS[place];
      if (slots) await askRedis(port, "cluster", "addslotsrange", ...slots);
      if (place > 0) await askRedis(first.port, "cluster", "meet", "127.0.0.1", port, buses[place] as number);
    }
    await Promise.all(servers.map(({ port }) => waitFor("a whole cluster", () => isWhole(port, servers.length))));
    const slot = await askRedis(first.port, "cluster", "keyslot", key) as number;
    const held = SLOTS.findIndex(([from, to]) => from <= slot && slot <= to);
    const holder = servers[held] as OwnRedis;
    await askRedis(replica.port, "cluster", "replicate", await askRedis(holder.port, "cluster", "myid") as string);
    await waitFor("a replica", async () => {
      const info = await askRedis(holder.port, "info", "replication") as string;
      return info.includes("state=online") || undefined;
    });
    const owner = async () => {
      const ranges = await askRedis(replica.port, "cluster", "slots") as [number, number, [string, number]][];
      const [, , [, port]] = ranges.find(([from, to]) => from <= slot && slot <= to) as typeof ranges[number];
      return servers.find((server) => server.port === port) as OwnRedis;
    };
    await test({
      url: `redis+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
      owner,
      replaced: (old) =>
        waitFor("a fail-over", async () => {
          const now = await owner();
          return now === old ? undefined : now;
        }),
      stranger: servers[(held + 1) % 3] as OwnRedis,
    });
  });
}

function member(bus: number): string[] {
  return [
    "cluster-enabled yes",
    `cluster-port ${bus}`,
    "cluster-announce-ip 127.0.0.1",
    "cluster-node-timeout 1000",
    "cluster-replica-validity-factor 0",
    ...SYNCS_AT_ONCE,
  ];
}

async function isWhole(port: number, nodes: number): Promise<true | undefined> {
  const info = await askRedis(port, "cluster", "info") as string;
  return info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${nodes}`) || undefined;
}

/** Gives a way to start servers, and ends all of them. */
async function withServers(
  use: (start: (options?: RedisServerOptions) => Promise<OwnRedis>) => Promise<void>,
): Promise<void> {
  const started: Promise<OwnRedis>[] = [];
  try {
    await use((options) => {
      const server = startRedis(options);
      started.push(server);
      return server;
    });
  } finally {
    for (const end of await Promise.allSettled(started)) {
      if (end.status === "fulfilled") await end.value.stop();
    }
  }
}
