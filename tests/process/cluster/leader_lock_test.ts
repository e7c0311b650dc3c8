/** The door to Redis: where it leads, how fast it fails, and that it opens again. */
import assert from "node:assert/strict";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { hear } from "../../../src/platform/facts.ts";
import { connectRedis, RedisAway, SCRIPTS } from "../../../src/redis/connection.ts";
import { ConfigError } from "../../../src/platform/config.ts";
import { parseRedisUrl } from "../../../src/redis/redis_url.ts";
import { beat, list, nextWorkerId, remove, setDetach } from "../../../src/redis/heartbeats.ts";
import {
  askToDegrade,
  claimSubleaderLock,
  leaseRuns,
  mirrorEpoch,
  readLeaderLock,
  releaseLeaderLock,
  renewLeaderLock,
  takeLeaderLock,
} from "../../../src/redis/leader_lock.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { readEpoch, startRedis, usingRedis } from "../../support/cluster_redis.ts";
import { withRedisCluster } from "../../support/redis_groups.ts";

Deno.test("a Redis URL names one server, a Sentinel's or a cluster's", () => {
  const server = (host: string, port: number) => ({ host, port });
  const cases: [string, Partial<ReturnType<typeof parseRedisUrl>>][] = [
    ["redis://h", { kind: "single", servers: [server("h", 6379)], tls: false }],
    ["rediss://h:7/3", { kind: "single", servers: [server("h", 7)], tls: true, db: 3 }],
    ["redis://:p%40ss@h", { password: "p@ss", username: undefined }],
    ["redis://me:p:q@h/", { username: "me", password: "p:q", db: undefined }],
    ["redis://[::1]:6380", { servers: [server("::1", 6380)] }],
    ["redis+sentinel://a,b:9/main/2", {
      kind: "sentinel",
      servers: [server("a", 26379), server("b", 9)],
      master: "main",
      db: 2,
    }],
    ["redis+sentinel://u:p@a/main?sentinel_password=s", { password: "p", sentinel_password: "s" }],
    ["rediss+cluster://a:1,b", { kind: "cluster", servers: [server("a", 1), server("b", 6379)], tls: true }],
  ];
  for (const [text, expected] of cases) {
    const place = parseRedisUrl(text);
    for (const [name, value] of Object.entries(expected)) {
      assert.deepEqual(place[name as keyof typeof place], value, `${name} of ${text}`);
    }
  }
});

Deno.test("a wrong Redis URL is refused with the accepted forms, and never with its password", () => {
  const wrong = [
    "",
    "localhost:6379",
    "http://:topsecret@h",
    "redis://",
    "redis:/:topsecret@h",
    "redis://:topsecret/and/more@h",
    "redis://:topsecret%@h",
    "redis://:topsecret@h:99999",
    "redis://:topsecret@h/zero",
    "redis://a,b",
    "redis+sentinel://:topsecret@h",
    "redis+cluster://h/1",
  ];
  for (const text of wrong) {
    assert.throws(() => parseRedisUrl(text), (error: Error) => {
      assert(error instanceof ConfigError && error.why === "no_address"); // as of a DATABASE_URL that is none
      assert.match(error.message, /^Cannot read REDIS_URL.* use redis:\/\/host:6379/, text);
      assert.ok(!error.message.includes("topsecret"), text);
      return true;
    });
  }
});

testWithRedisServer(
  "while Redis is away a command fails at once, and Redis is used again when it is back",
  async () => {
    const heard: string[] = [];
    const silence = hear((name) => void (name.startsWith("redis.") && heard.push(name)));
    const own = await startRedis();
    try {
      await usingRedis(own.url, async (redis) => {
        await takeLeaderLock(redis, { worker_id: "w1", ttl_ms: 5_000 });
        await own.stop();
        for (let count = 0; count < 3; count++) {
          const before = performance.now();
          await assert.rejects(readEpoch(redis), RedisAway);
          assert.ok(performance.now() - before < 10_000, "it was not waited for");
        }
        const again = await startRedis({ port: own.port });
        await redis.ready();
        assert.equal(await mirrorEpoch(redis, 9), 9);
        assert.deepEqual(heard, ["redis.away", "redis.back"]);
        await again.stop();
      });
    } finally {
      silence();
    }
  },
);

testWithRedisServer(
  "a Redis that accepts and says nothing is given up within about a second, also for what follows",
  async () => {
    const own = await startRedis();
    await usingRedis(own.url, async (redis) => {
      await mirrorEpoch(redis, 3);
      own.process.kill("SIGSTOP");
      const before = performance.now();
      await assert.rejects(readEpoch(redis), RedisAway);
      assert.ok(performance.now() - before < 10_000);
      await assert.rejects(readEpoch(redis), RedisAway);
      own.process.kill("SIGCONT");
      await redis.ready();
      assert.equal(await readEpoch(redis), 3);
    });
    await own.stop();
  },
);

testWithRedisServer(
  "a connection to Redis that fell silent is replaced, and what was lost on it is not sent again",
  async () => {
    const own = await startRedis();
    const link = await FaultyLink.to(own.port);
    await usingRedis(`redis://127.0.0.1:${link.port}`, async (redis) => {
      assert.equal(await mirrorEpoch(redis, 3), 3);
      link.strand();
      const before = performance.now();
      await assert.rejects(mirrorEpoch(redis, 77), RedisAway);
      for (;;) {
        const epoch = await readEpoch(redis).catch(() => undefined);
        if (epoch === 3) break;
        assert.equal(epoch, undefined);
        assert.ok(performance.now() - before < 20_000, "it is used again");
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    await link.close();
    await own.stop();
  },
);

testWithRedisServer("a command that failed while Redis was away is not sent later by itself", async () => {
  const own = await startRedis();
  await usingRedis(own.url, async (redis) => {
    await own.stop();
    await assert.rejects(mirrorEpoch(redis, 77), RedisAway);
    const again = await startRedis({ port: own.port });
    await redis.ready();
    assert.equal(await readEpoch(redis), 0);
    await again.stop();
  });
});

Deno.test("a Redis that was never there is named with the fix, without its password", async () => {
  const port = freePort();
  const redis = connectRedis(`redis://:topsecret@127.0.0.1:${port}`, { prefix: "x:" });
  await assert.rejects(redis.ready(200), (error: Error) => {
    assert.match(
      error.message,
      /Cannot reach Redis at redis:\/\/127\.0\.0\.1:\d+ within 200 ms: .*ECONNREFUSED.*REDIS_URL/,
    );
    assert.ok(!error.message.includes("topsecret"));
    return true;
  });
  await assert.rejects(readEpoch(redis), /not connected/);
  await redis.close();
});

testWithRedisServer("with a hash tag in the prefix every script and command runs on Redis Cluster", async () => {
  await withRedisCluster("{scheduler}:leader:lock", async ({ url, stranger }) => {
    const ran = new Set<string>();
    await usingRedis(url, async (redis) => {
      const run = redis.script.bind(redis);
      redis.script = (name, keys, args) => {
        ran.add(name);
        return run(name, keys, args);
      };
      const me = { worker_id: await nextWorkerId(redis, 0), ttl_ms: 5_000 };
      assert.deepEqual(await takeLeaderLock(redis, me), { epoch_hint: 0 });
      assert.equal(await claimSubleaderLock(redis, { ...me, epoch: 1, highest_epoch: 10 }), true);
      assert.equal(await renewLeaderLock(redis, { ...me, epoch: 1 }), "renewed");
      assert.equal(await mirrorEpoch(redis, 4), 4);
      await askToDegrade(redis, { epoch: 1, ttl_ms: 5_000 });
      assert.equal(await readLeaderLock(redis), me.worker_id);
      assert.deepEqual(await leaseRuns(redis, { job_run_ids: [1, 2, 3], epoch: 4, ttl_ms: 5_000 }), [1, 2, 3]);
      assert.equal(await releaseLeaderLock(redis, me.worker_id), true);
      const about = { node_id: "n", pid: 1, grpc_host: "h", grpc_port: 1, role: "worker" as const, slots: 1 };
      await setDetach(redis, me.worker_id, { ttl_ms: 5_000 });
      const beaten = await beat(redis, { ...me, ...about, draining: false, running: [] }, {
        ttl_ms: 5_000,
        stands_by: true,
      });
      assert.deepEqual(beaten, { detached: true, seated: true, lock_free_in_ms: 0 });
      assert.equal((await list(redis)).length, 1);
      await remove(redis, me.worker_id);
      assert.equal((await list(redis)).length, 0);
    }, "{scheduler}:");
    assert.deepEqual([...ran].sort(), Object.keys(SCRIPTS).sort(), "each script was tried");
    const single = usingRedis(stranger.url, () => Promise.resolve(), "{scheduler}:");
    await assert.rejects(single, /this is a Redis Cluster: set REDIS_URL=redis\+cluster:.*SCHEDULER_REDIS_PREFIX=\{/);
  });
  for (const prefix of ["scheduler:", "{}:", "{}{a}:", "}a{:"]) {
    assert.throws(() => connectRedis("redis+cluster://h", { prefix }), /SCHEDULER_REDIS_PREFIX=\{scheduler\}/, prefix);
  }
});
