/** A real Redis Cluster: our keys lie on one of its masters, and go on with its replica. */
import assert from "node:assert/strict";
import { withProcesses } from "../../support/cluster.ts";
import { keepEpochs, noEpochFell, onlyOnce, onRedis } from "../../support/epochs.ts";
import { withRedisCluster } from "../../support/redis_groups.ts";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { underLoad } from "../../support/steady_load.ts";

const KEYS = { prefix: "{scheduler}:" };

testWithRedisServer("work goes on while the master of our keys dies, and its replica takes them over", async () => {
  await withRedisCluster("{scheduler}:leader:lock", async (redis) => {
    await withProcesses(2, async (cluster) => {
      await keepEpochs(cluster);
      const account = await underLoad(cluster, async () => {
        const owner = await redis.owner();
        await onRedis(cluster, owner, KEYS);
        owner.process.kill("SIGKILL");
        const next = await redis.replaced(owner);
        await onRedis(cluster, next, KEYS);
        await cluster.startWorker();
        await onRedis(cluster, next, KEYS);
      }, { every_ms: 200 });
      await onlyOnce(cluster, account.runs);
      await noEpochFell(cluster);

      // What says what to set, at once, instead of failing later.
      const wrong = (env: Record<string, string>) => cluster.startWorker({ env });
      const single = `redis://127.0.0.1:${redis.stranger.port}`;
      await Promise.all([
        assert.rejects(
          wrong({ SCHEDULER_REDIS_PREFIX: "jobs:" }),
          /prefix "jobs:".*SCHEDULER_REDIS_PREFIX=\{scheduler\}:/,
        ),
        assert.rejects(
          wrong({ REDIS_URL: single, ...PLAIN }),
          /this is a Redis Cluster: set REDIS_URL=redis\+cluster:/,
        ),
      ]);
    }, { env: { REDIS_URL: redis.url, SCHEDULER_REDIS_PREFIX: "" } });
  });
});

const PLAIN = { SCHEDULER_REDIS_PREFIX: "scheduler:" };
