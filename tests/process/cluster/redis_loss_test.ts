/**
 * Redis forgets everything, is restarted empty, freezes, vanishes, refuses to write or hangs, while three workers work:
 * nothing is started by hand, no run is lost or done twice, and epochs and worker ids only rise.
 */
import assert from "node:assert/strict";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "../../support/cluster.ts";
import { askRedis, type OwnRedis, startRedis } from "../../support/cluster_redis.ts";
import { keepEpochs, noEpochFell, onlyOnce, onRedis } from "../../support/epochs.ts";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { underLoad } from "../../support/steady_load.ts";
import { waitFor } from "../../support/waiting.ts";

const LOCK = "scheduler:leader:lock";

interface Scene {
  cluster: Cluster;
  redis: OwnRedis;
  /** Every worker's way to Redis. */
  link: FaultyLink;
}

/** Workers under load on a Redis of their own; at the end the account is made. */
async function withLoad(workers: number, act: (scene: Scene) => Promise<void>): Promise<void> {
  const redis = await startRedis();
  const link = await FaultyLink.to(redis.port);
  const scene = { redis, link };
  const env = { REDIS_URL: `redis://127.0.0.1:${link.port}`, SCHEDULER_REDIS_PREFIX: "" };
  try {
    await withProcesses(workers, async (cluster) => {
      await keepEpochs(cluster);
      const account = await underLoad(cluster, async () => {
        await onRedis(cluster, redis);
        await act({ cluster, ...scene });
      }, { every_ms: 200 });
      await onlyOnce(cluster, account.runs);
      await noEpochFell(cluster);
    }, { env, settings: { leader_runs_jobs: "never" } }); // so no body dies with a leader that is killed
  } finally {
    await link.close();
    await redis.stop();
  }
}

/** Resolves when three more runs have ended since this was asked. */
async function goesOn(cluster: Cluster): Promise<void> {
  let after = cluster.hearing.last;
  for (let n = 0; n < 3; n++) after = await cluster.hears("run.finished", { state: "SUCCEEDED" }, { after });
}

async function leaderProcess(cluster: Cluster): Promise<{ worker: WorkerProcess; epoch: number }> {
  const [term] = await cluster.sql`select worker_id, epoch from leader_term where worker_id is not null`;
  const worker = cluster.workers.find(({ worker_id }) => worker_id === term?.worker_id);
  assert(worker, "nobody leads");
  return { worker, epoch: term?.epoch };
}

testWithRedisServer("Redis that was flushed, or restarted empty, has everything again, and work goes on", async () => {
  await withLoad(2, async ({ cluster, redis }) => {
    const before = await leaderProcess(cluster);
    await askRedis(redis.port, "flushall");
    await onRedis(cluster, redis);
    assert((await leaderProcess(cluster)).epoch > before.epoch, "a leader whose lock is gone leads no longer");
    await goesOn(cluster);

    const old = (await leaderProcess(cluster)).epoch;
    redis.process.kill("SIGKILL");
    const again = await startRedis({ port: redis.port });
    try {
      await onRedis(cluster, again);
      assert((await leaderProcess(cluster)).epoch > old);
      await cluster.startWorker();
      await goesOn(cluster);
    } finally {
      await again.stop();
    }
  });
});

testWithRedisServer(
  "without Redis work goes on, workers start, and a leader that fell silent is replaced",
  async () => {
    await withLoad(2, async ({ cluster, redis, link }) => {
      await link.refuse();
      await cluster.hears("redis.away");
      await goesOn(cluster);
      await cluster.startWorker();
      await goesOn(cluster);
      const silent = await leaderProcess(cluster);
      const before = cluster.hearing.last;
      silent.worker.kill("SIGSTOP");
      const elected = await cluster.hears("leader.elected", {}, { after: before });
      assert(elected.epoch > silent.epoch);
      await goesOn(cluster);
      silent.worker.kill("SIGCONT");
      await cluster.hears("leader.ended", { epoch: silent.epoch }, { after: before });
      await link.heal();
      await onRedis(cluster, redis);
    });
  },
);

testWithRedisServer(
  "a Redis that froze, hangs or takes no writes is gone without, and used again by itself",
  async () => {
    await withLoad(2, async ({ cluster, redis, link }) => {
      redis.process.kill("SIGSTOP");
      await cluster.hears("redis.away");
      await goesOn(cluster);
      const frozen_with = await leaderProcess(cluster);
      frozen_with.worker.kill("SIGKILL");
      await cluster.startWorker();
      await goesOn(cluster);
      redis.process.kill("SIGCONT");
      await onRedis(cluster, redis);

      link.strand();
      await goesOn(cluster);
      await onRedis(cluster, redis);

      await askRedis(redis.port, "config", "set", "min-replicas-to-write", 1); // NOREPLICAS
      await staysLed({ cluster, redis, link });
      await cluster.startWorker();
      await askRedis(redis.port, "config", "set", "min-replicas-to-write", 0);
      await onRedis(cluster, redis);

      await askRedis(redis.port, "config", "set", "maxmemory", 1); // OOM
      await askRedis(redis.port, "del", LOCK); // or its leader goes on prolonging it, which needs no memory
      await staysLed({ cluster, redis, link });
      await askRedis(redis.port, "config", "set", "maxmemory", 0);
      await onRedis(cluster, redis);

      await askRedis(redis.port, "replicaof", "127.0.0.1", freePort()); // READONLY
      await staysLed({ cluster, redis, link });
      await askRedis(redis.port, "replicaof", "no", "one");
      await onRedis(cluster, redis);
      assert(await waitFor("no stale heartbeats", async () => await gone(redis, frozen_with.worker) || undefined));
    });
  },
);

/** A server that takes no writes lets the lock run out: that it is gone says nothing of who leads. */
async function staysLed({ cluster, redis }: Scene): Promise<void> {
  await waitFor("the lock to run out", async () => await askRedis(redis.port, "exists", LOCK) === 0 || undefined);
  const after = cluster.hearing.last;
  await goesOn(cluster);
  await goesOn(cluster);
  const since = cluster.hearing.lines.slice(after.place + 1);
  assert.deepEqual(since.filter(({ text }) => text.includes("the lock is not ours")), []);
}

async function gone({ port }: OwnRedis, { worker_id }: WorkerProcess): Promise<boolean> {
  return await askRedis(port, "exists", `scheduler:worker:${worker_id}`) === 0;
}
