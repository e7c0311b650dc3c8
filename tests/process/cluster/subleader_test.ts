/** The leader's death is proven and answered at once; its silence is not taken for death; its farewell hands over. */
import assert from "node:assert/strict";
import { ensureDevCerts } from "../../../src/rpc/certificates.ts";
import { claimSubleaderLock, readLeaderLock, takeLeaderLock } from "../../../src/redis/leader_lock.ts";
import { acquire, depose, resign } from "../../../src/nodes/leadership.ts";
import { withProcesses } from "../../support/cluster.ts";
import { testOnBoth } from "../../support/cluster_redis.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

// So long that nothing below can be the work of an expired lease.
const LONG_LEASE = { leader_lease_seconds: 40, leader_stale_seconds: 40 };

async function watchers(cluster: Parameters<Parameters<typeof withProcesses>[1]>[0], n: number): Promise<void> {
  await waitFor(`${n} subleaders`, () => {
    const seated = cluster.hearing.lines.filter(({ text }) => text.startsWith('{"fact":"subleader.seated"'));
    return Promise.resolve(seated.length >= n || undefined);
  });
}

Deno.test("kill -9 of the leader: a subleader deposes it without waiting for its lease", async () => {
  await withProcesses(3, async (cluster) => {
    const first = await cluster.hears("leader.elected");
    await watchers(cluster, 2);
    await cluster.ends(await cluster.enqueue("append_one_row"));
    first.worker.kill("SIGKILL");
    const deposed = await cluster.hears("leader.deposed", { epoch: first.epoch });
    const second = await cluster.hears("leader.elected", {}, { after: first });
    assert.deepEqual([deposed.worker_id, deposed.by, second.epoch], [
      first.worker_id,
      second.worker_id,
      first.epoch + 1,
    ]);
    const run = await cluster.ends(await cluster.enqueue("append_one_row"));
    assert.equal(run.state, "SUCCEEDED");
  }, { settings: LONG_LEASE });
});

Deno.test("SIGTERM of the leader: another leads at once, and nobody was deposed", async () => {
  await withProcesses(3, async (cluster) => {
    const first = await cluster.hears("leader.elected");
    await watchers(cluster, 2);
    first.worker.kill("SIGTERM");
    const second = await cluster.hears("leader.elected", {}, { after: first });
    assert(second.epoch > first.epoch);
    assert(!cluster.hearing.lines.some(({ text }) => text.includes("leader.deposed")));
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  }, { settings: LONG_LEASE });
});

Deno.test("a frozen leader is not deposed; its lease ends it, and awake again it writes nothing", async () => {
  await withProcesses(3, async (cluster) => {
    const first = await cluster.hears("leader.elected");
    await watchers(cluster, 2);
    first.worker.kill("SIGSTOP");
    const second = await cluster.hears("leader.elected", {}, { after: first });
    assert(second.epoch > first.epoch);
    assert(!cluster.hearing.lines.some(({ text }) => text.includes("leader.deposed")));
    first.worker.kill("SIGCONT");
    const ended = await cluster.hears("leader.ended", { epoch: first.epoch });
    assert.equal(ended.worker_id, first.worker_id);
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  });
});

Deno.test("a worker that nobody lets in does not unseat a leader that it alone cannot reach", async () => {
  await withProcesses(2, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const dir = Deno.makeTempDirSync({ prefix: "dandori-stranger-" });
    try {
      const { stranger } = await ensureDevCerts(dir, ["stranger"]);
      const { cert_file, key_file, pins_file } = stranger as NonNullable<typeof stranger>;
      const env = {
        SCHEDULER_TLS_CERT_FILE: cert_file,
        SCHEDULER_TLS_KEY_FILE: key_file,
        SCHEDULER_TLS_PINS_FILE: pins_file,
      };
      await cluster.startWorker({ node_id: "node-9", env });
      await cluster.hears("leader.silent", { epoch: leader.epoch });
      await cluster.hears("peer.refused");
      for (let run = 0; run < 3; run++) await cluster.ends(await cluster.enqueue("append_one_row", { hold_ms: 500 }));
      const elected = cluster.hearing.lines.filter(({ text }) => text.startsWith('{"fact":"leader.elected"'));
      assert.equal(elected.length, 1);
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  }, { settings: LONG_LEASE }); // a machine that is busy for a second must not unseat it either
});

Deno.test("only the epoch that was observed can be deposed, once, and not after it resigned", async () => {
  await withStores(async ({ sql }) => {
    const lease_ms = 60_000;
    const first = await acquire(sql, { worker_id: "a", lease_ms, epoch_hint: 0 });
    assert(first);
    const tries = await Promise.all(
      ["b", "c", "d"].map((worker_id) => depose(sql, { worker_id, lease_ms, epoch: first.epoch, epoch_hint: 0 })),
    );
    const [second, ...more] = tries.filter((term) => term !== undefined);
    assert(second && more.length === 0);
    assert.equal(second.epoch, first.epoch + 1);
    assert(await resign(sql, second));
    assert.equal(await depose(sql, { worker_id: "e", lease_ms, epoch: second.epoch, epoch_hint: 0 }), undefined);
  });
});

testOnBoth("in Redis the seat follows the epoch of Postgres", async (redis) => {
  const ttl_ms = 60_000; // nothing here is to end by time, however busy the machine is
  assert.deepEqual(await takeLeaderLock(redis, { worker_id: "dead", ttl_ms }), { epoch_hint: 0 });
  const claim = (worker_id: string, epoch: number) =>
    claimSubleaderLock(redis, { worker_id, ttl_ms, epoch, highest_epoch: epoch + 1000 });
  assert.equal(await claim("new", 7), true);
  assert.equal(await readLeaderLock(redis), "new");
  assert.equal(await claim("old", 6), false);
  assert.equal(await readLeaderLock(redis), "new");
});
