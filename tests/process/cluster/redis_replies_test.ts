/** What a Redis server answers when it cannot serve just now counts as being away; and encrypted connections are checked. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { makeCertificate } from "../../../src/rpc/certificates.ts";
import { connectRedis, RedisAway } from "../../../src/redis/connection.ts";
import { nextWorkerId } from "../../../src/redis/heartbeats.ts";
import { mirrorEpoch } from "../../../src/redis/leader_lock.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { askRedis, type OwnRedis, readEpoch, startRedis, usingRedis } from "../../support/cluster_redis.ts";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { waitFor } from "../../support/waiting.ts";

interface State {
  reply: string;
  begin: (redis: OwnRedis) => Promise<unknown>;
  end: (redis: OwnRedis) => Promise<unknown>;
}

const set = (name: string, value: string | number) => ({ port }: OwnRedis) =>
  askRedis(port, "config", "set", name, value);

const STATES: State[] = [
  { reply: "NOREPLICAS", begin: set("min-replicas-to-write", 1), end: set("min-replicas-to-write", 0) },
  { reply: "OOM", begin: set("maxmemory", 1), end: set("maxmemory", 0) },
  {
    reply: "READONLY",
    begin: ({ port }) => askRedis(port, "replicaof", "127.0.0.1", freePort()),
    end: ({ port }) => askRedis(port, "replicaof", "no", "one"),
  },
  {
    reply: "MISCONF", // it cannot save, and takes no writes until it can
    async begin(redis) {
      const [, dir] = await askRedis(redis.port, "config", "get", "dir") as [string, string];
      Deno.removeSync(dir, { recursive: true });
      await set("save", "3600 1")(redis);
      await askRedis(redis.port, "bgsave");
      await waitFor("a save that fails", async () => {
        const info = await askRedis(redis.port, "info", "persistence") as string;
        return info.includes("rdb_last_bgsave_status:err") || undefined;
      });
    },
    end: set("save", ""),
  },
];

testWithRedisServer("a server that takes no writes just now is away, and used again when it does", async () => {
  const own = await startRedis();
  try {
    await usingRedis(own.url, async (redis) => {
      await mirrorEpoch(redis, 3);
      for (const { reply, begin, end } of STATES) {
        await begin(own);
        const refused = (error: Error) => error instanceof RedisAway && error.message.includes(reply);
        await assert.rejects(mirrorEpoch(redis, 4), refused, reply);
        await waitFor("the connection", async () => await readEpoch(redis).catch(() => undefined)); // READONLY makes a new one
        assert.match(await nextWorkerId(redis, 7), /^w8-/, `${reply}: a worker can start`);
        await end(own);
        await waitFor(`writes after ${reply}`, () => mirrorEpoch(redis, 3).catch(() => undefined));
      }
    });
  } finally {
    await own.stop();
  }
});

testWithRedisServer("a server that still loads its data is away, and used as soon as it has them", async () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-redis-data-" });
  const kept = ["--dir", dir, "--save", "3600 1"];
  const first = await startRedis({ args: kept });
  const pairs = Array.from({ length: 60 }, (_, place) => [`key-${place}`, "x".repeat(2_000)]).flat();
  await askRedis(first.port, "mset", "test:leader:epoch", 41, ...pairs);
  await askRedis(first.port, "save");
  await first.stop();
  const slowly = ["--key-load-delay", "30000", "--loading-process-events-interval-bytes", "1024"];
  const again = await startRedis({ port: first.port, args: [...kept, ...slowly] });
  const redis = connectRedis(again.url, { prefix: "test:" });
  try {
    await assert.rejects(redis.ready(300), RedisAway);
    await redis.ready();
    assert.equal(await readEpoch(redis), 41);
  } finally {
    await redis.close();
    await again.stop();
    Deno.removeSync(dir, { recursive: true });
  }
});

/** Connects as a worker does, and says how that went. */
const CONNECT = `
  import { connectRedis } from "./src/redis/connection.ts";
  const redis = connectRedis(Deno.args[0], { prefix: "x:" });
  console.log(await redis.ready(1_500).then(() => "connected", (error) => error.message));
  await redis.close();`;

async function connecting(url: string, env: Record<string, string> = {}): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--ext=ts", "-", url],
    cwd: PROJECT_DIR,
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(CONNECT));
  await writer.close();
  return new TextDecoder().decode((await child.output()).stdout).trim();
}

testWithRedisServer(
  "with rediss:// the server's certificate is checked, by the authorities that Deno is given",
  async () => {
    const dir = Deno.makeTempDirSync({ prefix: "dandori-redis-tls-" });
    const { certificate, private_key } = await makeCertificate("localhost", { days: 1, hosts: ["127.0.0.1"] });
    Deno.writeTextFileSync(`${dir}/tls.crt`, certificate);
    Deno.writeTextFileSync(`${dir}/tls.key`, private_key);
    const tls_port = freePort();
    const own = await startRedis({
      config: [
        `tls-port ${tls_port}`,
        `tls-cert-file ${dir}/tls.crt`,
        `tls-key-file ${dir}/tls.key`,
        "tls-auth-clients no",
      ],
    });
    try {
      const url = `rediss://localhost:${tls_port}`;
      const [stranger, known] = await Promise.all([connecting(url), connecting(url, { DENO_CERT: `${dir}/tls.crt` })]);
      assert.match(stranger, /Cannot reach Redis at rediss:.*(certificate|UnknownIssuer)/i);
      assert.equal(known, "connected");
    } finally {
      await own.stop();
      Deno.removeSync(dir, { recursive: true });
    }
  },
);
