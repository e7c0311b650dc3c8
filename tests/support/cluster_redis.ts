/** Redis servers for tests: real ones, which end with the test however it ends, and the in-process one of `dev`. */
import { Redis } from "ioredis";
import { createRedisMock } from "js-redis-server";
import { REDIS_SERVER, testWithRedisServer } from "./redis_server.ts";
import { waitFor } from "./waiting.ts";
import { connectRedis, type RedisConnection } from "../../src/redis/connection.ts";
import { freePort } from "../../src/ops/free_port.ts";

export interface OwnRedis {
  port: number;
  url: string;
  /** The server itself. */
  process: { pid: number; kill(signal: Deno.Signal): void };
  /** Kills it, whatever state it is in. */
  stop(): Promise<void>;
}

export interface RedisServerOptions {
  /** Default: a free one. */
  port?: number;
  args?: string[];
  /** Lines of a configuration file, which Sentinel demands. */
  config?: string[];
}

/**
 * Holds the other end of a pipe from the test: when the test lets go of it, or dies in whatever way, the server is killed
 * and its folder removed.
 */
const GUARD = `
dir=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- >"$dir/log" 2>&1 &
echo $!
exec >/dev/null
read -r _ <&3
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
rm -rf "$dir"`;

/** Starts `redis-server` and waits until it listens. */
export async function startRedis(options: RedisServerOptions = {}): Promise<OwnRedis> {
  const port = options.port ?? freePort();
  const dir = Deno.makeTempDirSync({ prefix: "dandori-redis-" });
  const file = `${dir}/redis.conf`;
  Deno.writeTextFileSync(file, [`port ${port}`, "bind 127.0.0.1", `dir ${dir}`, ...options.config ?? []].join("\n"));
  const guard = new Deno.Command("/bin/sh", {
    args: ["-c", GUARD, "redis-guard", dir, REDIS_SERVER ?? "redis-server", file, ...options.args ?? ["--save", ""]],
    detached: true, // a Ctrl-C of the terminal reaches only the test
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const pid = Number(await new Response(guard.stdout).text());
  await listening(port, `${dir}/log`);
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    process: { pid, kill: (signal) => Deno.kill(pid, signal) },
    async stop() {
      await guard.stdin.close().catch(() => {}); // stopped before
      await guard.status;
    },
  };
}

async function listening(port: number, log_file: string): Promise<void> {
  await waitFor(`redis-server on port ${port}; see ${log_file}`, async () => {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    } catch {
      return undefined;
    }
  });
}

/** Asks a server in its own words. */
export async function askRedis(port: number, ...words: (string | number)[]): Promise<unknown> {
  const [command, ...args] = words.map(String) as [string, ...string[]];
  const client = new Redis({ port, retryStrategy: () => null, maxRetriesPerRequest: 0, commandTimeout: 2_000 });
  client.on("error", () => {}); // it rejects the command as well
  try {
    return await client.call(command, ...args);
  } finally {
    client.disconnect();
  }
}

/** A door to Redis for the length of `act`, ready, with a prefix of its own. */
export async function usingRedis(
  url: string,
  act: (redis: RedisConnection) => Promise<void>,
  prefix = `test-${crypto.randomUUID().slice(0, 8)}:`,
): Promise<void> {
  const redis = connectRedis(url, { prefix });
  try {
    await redis.ready();
    await act(redis);
  } finally {
    await redis.close();
  }
}

/** The highest epoch that Redis knows, 0 when none. */
export async function readEpoch(redis: RedisConnection): Promise<number> {
  return Number(await redis.ask("read the epoch", (client) => client.get("leader:epoch")) ?? 0);
}

/** With its first script, in this very process: on a busy machine that takes longer than a door waits for an answer. */
async function makeLuaMachine(port: number): Promise<void> {
  const client = new Redis({ port });
  await client.eval("return 1", 0);
  client.disconnect();
}

/** A test that holds on a real Redis and on the one in JavaScript, whose scripts are slow. */
export function testOnBoth(
  name: string,
  act: (redis: RedisConnection, on: { in_javascript: boolean }) => Promise<void>,
): void {
  testWithRedisServer(`${name} (redis-server)`, async () => {
    const own = await startRedis();
    try {
      await usingRedis(own.url, (redis) => act(redis, { in_javascript: false }));
    } finally {
      await own.stop();
    }
  });
  Deno.test(`${name} (js-redis-server)`, async () => {
    const server = await createRedisMock();
    try {
      await makeLuaMachine(server.port);
      await usingRedis(`redis://${server.host}:${server.port}`, (redis) => act(redis, { in_javascript: true }));
    } finally {
      await server.close();
    }
  });
}
