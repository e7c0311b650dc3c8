/** Redis servers for the tests of src/cluster: a real one, the in-process one of `dev`, and a cluster of one node. */
import { createServer } from "node:net";
import { createRedisMock } from "js-redis-server";
import { REDIS_SERVER, testWithRedisServer } from "./redis_server.ts";
import { connectRedis, type RedisDoor } from "../../src/cluster/redis.ts";

export interface OwnRedis {
  port: number;
  url: string;
  process: Deno.ChildProcess;
  stop(): Promise<void>;
}

/** Starts `redis-server` on a free port, or on the one given. */
export async function startRedis(options: { port?: number; args?: string[] } = {}): Promise<OwnRedis> {
  const port = options.port ?? await freePort();
  const dir = Deno.makeTempDirSync({ prefix: "dandori-redis-" });
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir, ...options.args ?? []];
  const process = new Deno.Command(REDIS_SERVER ?? "redis-server", {
    args,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const own = {
    port,
    url: `redis://127.0.0.1:${port}`,
    process,
    async stop() {
      process.kill("SIGKILL");
      await process.status;
      Deno.removeSync(dir, { recursive: true });
    },
  };
  await listening(port);
  return own;
}

async function listening(port: number): Promise<void> {
  for (;;) {
    try {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port });
      socket.close();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** A door to Redis for the length of `act`, ready, with a prefix of its own. */
export async function usingRedis(
  url: string,
  act: (redis: RedisDoor) => Promise<void>,
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

/** A test that holds on a real Redis and on the in-process one. */
export function testOnBoth(name: string, act: (redis: RedisDoor) => Promise<void>): void {
  testWithRedisServer(`${name} (redis-server)`, async () => {
    const own = await startRedis();
    try {
      await usingRedis(own.url, act);
    } finally {
      await own.stop();
    }
  });
  Deno.test(`${name} (js-redis-server)`, async () => {
    const server = await createRedisMock();
    try {
      await usingRedis(`redis://${server.host}:${server.port}`, act);
    } finally {
      await server.close();
    }
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
