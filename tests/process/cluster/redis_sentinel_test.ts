/** Redis below Sentinels: the master dies, and later another one is replaced by a copy that has missed the newest epochs. */
import assert from "node:assert/strict";
import { type Cluster, withProcesses } from "../../support/cluster.ts";
import { askRedis, type OwnRedis } from "../../support/cluster_redis.ts";
import { keepEpochs, noEpochFell, onlyOnce, onRedis, stepDown } from "../../support/epochs.ts";
import { withSentinels } from "../../support/redis_groups.ts";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { underLoad } from "../../support/steady_load.ts";
import { waitFor } from "../../support/waiting.ts";

testWithRedisServer(
  "work goes on through a fail-over, also to a copy without the newest epochs and the lock",
  async () => {
    await withSentinels(async (redis) => {
      await withProcesses(2, async (cluster) => {
        await keepEpochs(cluster);
        const account = await underLoad(cluster, async () => {
          await onRedis(cluster, await redis.master());
          const first = await redis.master();
          first.process.kill("SIGKILL");
          const second = await redis.replaced(first);
          await onRedis(cluster, second);

          const [behind] = await redis.replicas() as [OwnRedis];
          await cutOff(behind);
          for (let terms = 0; terms < 2; terms++) await stepDown(cluster, second);
          await onRedis(cluster, second);
          assert(await epochOn(behind) <= await epochOn(second) - 2);
          const before = cluster.hearing.last;
          second.process.kill("SIGKILL");
          assert.equal(await redis.replaced(second), behind);
          const elected = await cluster.hears("leader.elected", {}, { after: before });
          assert(elected.epoch > await newestBefore(cluster, before.place));
          await onRedis(cluster, behind);
        }, { every_ms: 200 });
        assert(account.runs > 10);
        await onlyOnce(cluster, account.runs);
        await noEpochFell(cluster);
      }, { env: { REDIS_URL: redis.url, SCHEDULER_REDIS_PREFIX: "" } });
    });
  },
);

/** Lets a replica follow no more: its master takes no such password, and it goes on as a copy that grows old. */
async function cutOff({ port }: OwnRedis): Promise<void> {
  await askRedis(port, "config", "set", "masterauth", "of-nobody");
  await askRedis(port, "client", "kill", "type", "master");
  await waitFor("a replica that is cut off", async () => {
    const info = await askRedis(port, "info", "replication") as string;
    return info.includes("master_link_status:down") || undefined;
  });
}

async function epochOn({ port }: OwnRedis): Promise<number> {
  return Number(await askRedis(port, "get", "scheduler:leader:epoch"));
}

function newestBefore(cluster: Cluster, place: number): number {
  const elected = cluster.hearing.lines.slice(0, place + 1).filter(({ text }) => text.includes('"leader.elected"'));
  return Math.max(...elected.map(({ text }) => JSON.parse(text).epoch));
}
