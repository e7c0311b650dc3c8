/**
 * The ways in which a leader loses its role, each with real processes; and what a restored database, an order of a former
 * leader and a senseless epoch do. Redis is the test's own.
 */
import assert from "node:assert/strict";
import { Peers } from "../../../src/rpc/peers.ts";
import { Tls } from "../../../src/rpc/tls.ts";
import { acquire, depose, resign } from "../../../src/nodes/leadership.ts";
import { requestDrain } from "../../../src/nodes/workers.ts";
import { type Cluster, type ClusterOptions, withProcesses } from "../../support/cluster.ts";
import { askRedis, type OwnRedis, startRedis } from "../../support/cluster_redis.ts";
import { onRedis } from "../../support/epochs.ts";
import { testWithRedisServer } from "../../support/redis_server.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const LOCK = "scheduler:leader:lock";

/** So long that a busy machine does not end a term before the test does. */
const STEADY = { leader_lease_seconds: 2, leader_stale_seconds: 2 };

async function withOwnRedis(
  workers: number,
  test: (cluster: Cluster, redis: OwnRedis) => Promise<void>,
  options: ClusterOptions = {},
): Promise<void> {
  const redis = await startRedis();
  const env = { REDIS_URL: redis.url, SCHEDULER_REDIS_PREFIX: "" };
  try {
    await withProcesses(workers, (cluster) => test(cluster, redis), { ...options, env });
  } finally {
    await redis.stop();
  }
}

/** How the term of this epoch ended, and the next one. */
async function succession(cluster: Cluster, epoch: number): Promise<{ reason: string; next: number }> {
  const ended = await cluster.hears("leader.ended", { epoch });
  const elected = await cluster.hears("leader.elected", {}, {
    after: await cluster.hears("leader.elected", { epoch }),
  });
  assert(elected.epoch > epoch);
  return { reason: ended.reason, next: elected.epoch };
}

testWithRedisServer(
  "a leader steps down when its lock is gone, is another's, or its very epoch is asked to",
  async () => {
    await withOwnRedis(3, async (cluster, { port }) => {
      const first = (await cluster.hears("leader.elected")).epoch;
      await askRedis(port, "del", LOCK);
      const second = await succession(cluster, first);
      assert.equal(second.reason, "Redis says that the lock is not ours");

      await askRedis(port, "set", LOCK, "w0-another"); // it never expires: Postgres says in time that nobody leads
      const third = await succession(cluster, second.next);
      assert.equal(third.reason, "Redis says that the lock is not ours");

      const epoch = third.next;
      for (const other of [epoch - 1, epoch + 1]) {
        await askRedis(port, "set", "scheduler:leader:degrade", other, "px", 60_000);
        await renewals(port, 3);
      }
      const [term] = await cluster.sql`select epoch from leader_term`;
      assert.equal(term?.epoch, epoch, "what is asked of another epoch is not obeyed");
      await askRedis(port, "set", "scheduler:leader:degrade", epoch, "px", 60_000);
      const fourth = await succession(cluster, epoch);
      assert.equal(fourth.reason, "it was asked to step down");
      assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
    }, { settings: STEADY });
  },
);

/** Resolves when the leader has renewed its lock so often. */
async function renewals(port: number, times: number): Promise<void> {
  for (let n = 0; n < times; n++) {
    const before = await askRedis(port, "get", "scheduler:leader:last_seen_ts");
    await waitFor("a renewal", async () => {
      return await askRedis(port, "get", "scheduler:leader:last_seen_ts") !== before || undefined;
    });
  }
}

testWithRedisServer("a worker refuses every order of an older epoch, and says which it has seen", async () => {
  await withOwnRedis(1, async (cluster) => {
    await cluster.hears("leader.elected");
    await cluster.sql`update leader_term set epoch = 40`;
    const { epoch, worker } = await cluster.hears("leader.elected", { epoch: 41 });
    const [row] = await cluster.sql<{ grpc_host: string; grpc_port: number }[]>`
      select grpc_host, grpc_port from worker where worker_id = ${worker.worker_id}`;
    assert(row);
    const tls = new Tls(await cluster.tlsOf("node-2"));
    const peers = new Peers(tls);
    try {
      const peer = peers.to({ worker_id: worker.worker_id, ...row });
      const run = {
        job_run_id: 1,
        attempt: 1,
        command_name: "append_one_row.ts",
        digest: "",
        due_unix_us: 0,
        priority: 240,
      };
      const old = { leader_epoch: 1 };
      const answers = await Promise.all([
        peer.startJob({ ...old, ...run }),
        peer.startJobs({ ...old, orders: [run, { ...run, job_run_id: 2 }] }),
        peer.cancelJob({ ...old, ...run, reason: "old" }),
        peer.drain({ ...old, enable: true }),
      ]);
      for (const answer of answers) {
        assert(answer.ok, JSON.stringify(answer));
        assert.equal(answer.value.observed_leader_epoch, epoch);
        const results = "results" in answer.value
          ? answer.value.results.map(({ result }) => result)
          : [answer.value.result];
        assert(results.every((result) => result === "REJECTED_OLD_EPOCH"), results.join());
      }
      const [state] = await cluster.sql`select state from worker where worker_id = ${worker.worker_id}`;
      assert.equal(state?.state, "ACTIVE", "it does not drain");
    } finally {
      peers.close();
      await tls.close();
    }
  });
});

testWithRedisServer(
  "after a restore of Postgres epochs go on from what Redis knows, or else from what a worker knows",
  async () => {
    await withOwnRedis(1, async (cluster, redis) => {
      const [witness] = cluster.workers;
      assert(witness);
      await cluster.hears("leader.elected");
      await cluster.sql`update leader_term set epoch = 40`;
      await cluster.hears("leader.elected", { epoch: 41 });
      await onRedis(cluster, redis);

      const known = await restore(cluster, 5);
      const higher = await cluster.hears("leader.elected", {}, { after: known });
      assert(higher.epoch > known.epoch, "Redis knew");
      await onRedis(cluster, redis);

      // Nobody can tell a new worker but the one that drains, and so cannot lead itself.
      await requestDrain(cluster.sql, witness.worker_id, { draining: true, actor: "test", reason: "test" });
      await waitFor("a worker that drains", async () => {
        const key = `scheduler:worker:${witness.worker_id}`;
        return await askRedis(redis.port, "hget", key, "draining") === "1" || undefined;
      });
      const forgotten = await restore(cluster, 7);
      await cluster.hears("leader.ended", {}, { after: higher }); // its last word to Redis is the epoch
      await askRedis(redis.port, "flushall");
      await cluster.startWorker();
      assert((await cluster.hears("leader.elected", {}, { after: forgotten })).epoch < forgotten.epoch);
      const told = await cluster.hears("leader.ended", { reason: `a worker has seen epoch ${forgotten.epoch}` });
      assert((await cluster.hears("leader.elected", {}, { after: told })).epoch > forgotten.epoch);
      assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
    });
  },
);

/** As an older copy has it: nobody leads, in an epoch that is long over. Gives the epoch that is forgotten. */
async function restore({ sql, hearing }: Cluster, epoch: number): Promise<{ epoch: number; place: number }> {
  const { place } = hearing.last;
  const [row] = await sql<{ epoch: number }[]>`select epoch from leader_term`;
  await sql`update leader_term set epoch = ${epoch}, worker_id = null, lease_until = '-infinity'`;
  return { epoch: row?.epoch ?? 0, place };
}

testWithRedisServer("an epoch in Redis that cannot be true is told, and keeps nobody from leading", async () => {
  await withOwnRedis(0, async (cluster, redis) => {
    await askRedis(redis.port, "set", "scheduler:leader:epoch", String(2 ** 52));
    await cluster.startWorker();
    assert.equal((await cluster.hears("leader.elected")).epoch, 1);
    assert.equal((await cluster.hears("leader.hint_ignored")).hint, 2 ** 52);
    await onRedis(cluster, redis);
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  });
});

Deno.test("an election goes above what was seen elsewhere, up to a million ahead, whether the seat is free or taken", async () => {
  await withStores(async ({ sql }) => {
    const as = (worker_id: string, epoch_hint: number) => ({ worker_id, lease_ms: 60_000, epoch_hint });
    const first = await acquire(sql, as("a", 41));
    assert.equal(first?.epoch, 42);
    assert(first && await resign(sql, first));
    assert.equal((await acquire(sql, as("b", 3)))?.epoch, 43);
    assert.equal((await depose(sql, { ...as("c", 99), epoch: 43 }))?.epoch, 100);
    assert.equal((await depose(sql, { ...as("d", 1_000_100), epoch: 100 }))?.epoch, 1_000_101);
    assert.equal((await depose(sql, { ...as("e", 2_000_102), epoch: 1_000_101 }))?.epoch, 1_000_102, "too far ahead");
  });
});
