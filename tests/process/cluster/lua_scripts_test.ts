/** Each Lua script: how many keys and arguments it takes, and every code it returns. */
import assert from "node:assert/strict";
import { beat, setDetach } from "../../../src/redis/heartbeats.ts";
import { SCRIPTS } from "../../../src/redis/connection.ts";
import {
  askToDegrade,
  claimSubleaderLock,
  leaderSeenAgo,
  leaseRuns,
  mirrorEpoch,
  readLeaderLock,
  releaseLeaderLock,
  releaseSubleaderLock,
  renewLeaderLock,
  takeLeaderLock,
} from "../../../src/redis/leader_lock.ts";
import { readEpoch, testOnBoth } from "../../support/cluster_redis.ts";

const me = { worker_id: "w1-aaaaaaaa", ttl_ms: 5_000 };
const other = { worker_id: "w2-bbbbbbbb", ttl_ms: 5_000 };

Deno.test("every script says its keys, arguments and returns on top, and uses no key that it was not given", () => {
  for (const [name, { lua, numberOfKeys }] of Object.entries(SCRIPTS)) {
    assert.match(lua, /^-- .+\n-- KEYS .+ARGV .+\n-- Returns /, name);
    const documented = /^-- KEYS (.+?)ARGV/m.exec(lua)![1]!.match(/\b[0-9]\b/g)?.length;
    assert.equal(documented, numberOfKeys, `${name} documents its keys`);
    const used = new Set(lua.match(/KEYS\[[0-9]\]/g));
    if (numberOfKeys !== undefined) assert.equal(used.size, numberOfKeys, `${name} uses its keys`);
    assert.ok(!/redis\.call\("[A-Z]+", (?!KEYS|key\b)[^)]/.test(lua), `${name} names a key itself`);
  }
});

testOnBoth("a time that seconds do not give as a whole number of milliseconds is one all the same", async (redis) => {
  const ttl_ms = 2.01 * 1000;
  assert.notEqual(ttl_ms, 2010);
  const mine = { worker_id: me.worker_id, ttl_ms };
  assert.deepEqual(await takeLeaderLock(redis, mine), { epoch_hint: 0 });
  assert.equal(await claimSubleaderLock(redis, { ...mine, epoch: 1, highest_epoch: 9 }), true);
  assert.equal(await renewLeaderLock(redis, { ...mine, epoch: 1 }), "renewed");
  assert.deepEqual(await leaseRuns(redis, { job_run_ids: [7], epoch: 1, ttl_ms }), [7]);
  await askToDegrade(redis, { epoch: 1, ttl_ms });
  assert.equal(await renewLeaderLock(redis, { ...mine, epoch: 1 }), "degraded");
  const heartbeat = { node_id: "north", pid: 42, grpc_host: "::1", grpc_port: 5001, role: "worker", slots: 4 } as const;
  await setDetach(redis, me.worker_id, { ttl_ms });
  const said = await beat(redis, { ...heartbeat, worker_id: me.worker_id, draining: false, running: [] }, {
    ttl_ms,
    stands_by: true,
  });
  assert.deepEqual([said.detached, said.seated], [true, true]);
});

testOnBoth(
  "take_leader_lock gives the epoch hint, and while somebody else sits there when the seat may be free",
  async (redis) => {
    assert.deepEqual(await takeLeaderLock(redis, me), { epoch_hint: 0 });
    const { free_in_ms = 0 } = await takeLeaderLock(redis, other);
    assert.ok(free_in_ms > 0 && free_in_ms <= me.ttl_ms, `${free_in_ms} ms`);
    await mirrorEpoch(redis, 41);
    assert.deepEqual(await takeLeaderLock(redis, me), { epoch_hint: 41 }, "asking again is not refused");
    assert.equal(await readLeaderLock(redis), me.worker_id);
    assert.ok((await leaderSeenAgo(redis))! < 60_000);
  },
);

testOnBoth("take_leader_lock leaves a seat that expires", async (redis) => {
  await takeLeaderLock(redis, { ...me, ttl_ms: 60 });
  while ((await takeLeaderLock(redis, other)).free_in_ms !== undefined) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.equal(await readLeaderLock(redis), other.worker_id);
});

testOnBoth(
  "renew_leader_lock is 1 for the holder, 0 for everybody else, -1 for the epoch that was degraded",
  async (redis) => {
    assert.equal(await renewLeaderLock(redis, { ...me, epoch: 7 }), "lost", "nobody sits there");
    await takeLeaderLock(redis, me);
    assert.equal(await renewLeaderLock(redis, { ...me, epoch: 7 }), "renewed");
    assert.equal(await renewLeaderLock(redis, { ...other, epoch: 8 }), "lost");
    await askToDegrade(redis, { epoch: 6, ttl_ms: 5_000 });
    assert.equal(await renewLeaderLock(redis, { ...me, epoch: 7 }), "renewed", "an older epoch was meant");
    await askToDegrade(redis, { epoch: 7, ttl_ms: 5_000 });
    assert.equal(await renewLeaderLock(redis, { ...me, epoch: 7 }), "degraded");
  },
);

testOnBoth("renew_leader_lock prolongs the seat only for its holder", async (redis) => {
  await takeLeaderLock(redis, { ...me, ttl_ms: 1_000 });
  await renewLeaderLock(redis, { ...other, ttl_ms: 90_000, epoch: 6 });
  const ttl = () => redis.ask("read a ttl", (client) => client.pttl("leader:lock"));
  assert.ok(await ttl() <= 1_000);
  await renewLeaderLock(redis, { ...me, ttl_ms: 90_000, epoch: 7 });
  assert.ok(await ttl() > 80_000);
  assert.equal(
    await readEpoch(redis),
    7,
    "and lets Redis know its epoch, which nobody may have told since it was elected",
  );
  await mirrorEpoch(redis, 9);
  await renewLeaderLock(redis, { ...me, epoch: 7 });
  assert.equal(await readEpoch(redis), 9);
});

testOnBoth("release_lock is 1 for the holder and 0 for everybody else", async (redis) => {
  await takeLeaderLock(redis, me);
  assert.equal(await releaseLeaderLock(redis, other.worker_id), false);
  assert.equal(await readLeaderLock(redis), me.worker_id);
  assert.equal(await releaseLeaderLock(redis, me.worker_id), true);
  assert.equal(await releaseLeaderLock(redis, me.worker_id), false);
  assert.deepEqual(await takeLeaderLock(redis, other), { epoch_hint: 0 });
});

testOnBoth("mirror_epoch only goes up, and returns what Redis has afterwards", async (redis) => {
  assert.equal(await readEpoch(redis), 0);
  assert.equal(await mirrorEpoch(redis, 5), 5);
  assert.equal(await mirrorEpoch(redis, 3), 5);
  assert.equal(await mirrorEpoch(redis, 2 ** 52 - 1), 2 ** 52 - 1);
  assert.equal(await readEpoch(redis), 2 ** 52 - 1);
});

testOnBoth(
  "claim_subleader sits down for the newest epoch, and is not kept away by one that cannot be true",
  async (redis) => {
    const claim = (who: typeof me, epoch: number) =>
      claimSubleaderLock(redis, { ...who, epoch, highest_epoch: epoch + 1_000 });
    assert.equal(await claim(me, 7), true);
    assert.equal(await readEpoch(redis), 7);
    assert.equal(await claim(other, 6), false, "an older word");
    assert.deepEqual([await readLeaderLock(redis), await readEpoch(redis)], [me.worker_id, 7]);
    await mirrorEpoch(redis, 2 ** 52);
    assert.equal(await claim(other, 8), true);
    assert.deepEqual([await readLeaderLock(redis), await readEpoch(redis)], [other.worker_id, 8]);
  },
);

testOnBoth("next_worker_number goes up from what Redis and Postgres know", async (redis) => {
  const number = (highest: number) => redis.script("next_worker_number", ["worker:id_seq"], [highest]);
  assert.deepEqual([await number(0), await number(0), await number(40), await number(3)], [1, 2, 41, 42]);
  for (const nonsense of ["9".repeat(18), "many"]) {
    await redis.ask("spoil the counter", (client) => client.set("worker:id_seq", nonsense));
    assert.deepEqual([await number(50), await number(0)], [51, 52], nonsense);
  }
});

testOnBoth("lease_runs takes what is free or of an older epoch, and leaves what a newer one has", async (redis) => {
  const ask = (epoch: number, ...job_run_ids: number[]) => leaseRuns(redis, { job_run_ids, epoch, ttl_ms: 5_000 });
  assert.deepEqual(await ask(4, 1, 2, 3), [1, 2, 3]);
  assert.deepEqual(await ask(4, 1), [1], "the same leader may assign a run again");
  assert.deepEqual(await ask(5, 2), [2], "an older epoch gives way");
  assert.deepEqual(await ask(4, 1, 2, 3, 9), [1, 3, 9], "a newer epoch does not");
  assert.deepEqual(await ask(4), []);
  const ttl = await redis.ask("read a ttl", (client) => client.pttl("jobrun:lease:9"));
  assert.ok(ttl > 0 && ttl <= 5_000);
});

testOnBoth("lease_runs takes a large batch in one call", async (redis, { in_javascript }) => {
  const length = in_javascript ? 100 : 500;
  const job_run_ids = Array.from({ length }, (_, place) => place + 1);
  assert.equal((await leaseRuns(redis, { job_run_ids, epoch: 1, ttl_ms: 5_000 })).length, length);
});

const heartbeat = {
  worker_id: me.worker_id,
  node_id: "n1",
  pid: 1,
  grpc_host: "127.0.0.1",
  grpc_port: 5,
  role: "worker" as const,
  slots: 2,
  draining: false,
  running: [],
};

testOnBoth(
  "beat says whether the worker was detached, and of the seats nothing to one that does not stand by",
  async (redis) => {
    const nothing = { seated: false, lock_free_in_ms: 0 };
    await takeLeaderLock(redis, other);
    assert.deepEqual(await beat(redis, heartbeat, { ttl_ms: 5_000 }), { detached: false, ...nothing });
    await setDetach(redis, me.worker_id, { ttl_ms: 5_000 });
    assert.deepEqual(await beat(redis, heartbeat, { ttl_ms: 5_000 }), { detached: true, ...nothing });
    const { seated } = await beat(redis, { ...heartbeat, worker_id: "w3-cccccccc" }, {
      ttl_ms: 5_000,
      stands_by: true,
    });
    assert.equal(seated, true, "so nobody had taken it");
  },
);

testOnBoth(
  "beat takes and keeps the subleader seat of the node, and tells when the leader's may be free",
  async (redis) => {
    const standBy = (who: string, node_id: string, ttl_ms = 60_000) =>
      beat(redis, { ...heartbeat, worker_id: who, node_id }, { ttl_ms, stands_by: true });
    const seated = async (who: string, node_id: string) => (await standBy(who, node_id)).seated;
    assert.deepEqual(await standBy("a", "n1"), { detached: false, seated: true, lock_free_in_ms: 0 });
    assert.deepEqual([await seated("b", "n1"), await seated("b", "n2"), await seated("a", "n1")], [false, true, true]);
    await releaseSubleaderLock(redis, { worker_id: "b", node_id: "n1" });
    assert.equal(await seated("b", "n1"), false, "only its holder releases it");
    await releaseSubleaderLock(redis, { worker_id: "a", node_id: "n1" });
    assert.equal(await seated("b", "n1"), true);
    await takeLeaderLock(redis, me);
    const { lock_free_in_ms } = await standBy("a", "n1");
    assert.ok(lock_free_in_ms > 0 && lock_free_in_ms <= me.ttl_ms, `${lock_free_in_ms} ms`);
    assert.equal((await standBy(me.worker_id, "n1")).lock_free_in_ms, 0, "its own");
    await standBy("a", "n3", 40);
    while (!await seated("b", "n3")) await new Promise((resolve) => setTimeout(resolve, 10)); // what nobody keeps is free
  },
);

testOnBoth("a script that is called with the wrong number of keys is refused before it is sent", async (redis) => {
  assert.throws(() => redis.script("take_leader_lock", ["a"], []), /it takes 3 keys, not 1/);
  await Promise.resolve();
});

testOnBoth("scripts go on after Redis forgot them", async (redis) => {
  await takeLeaderLock(redis, me);
  await redis.ask("forget the scripts", (client) => client.script("FLUSH"));
  assert.equal(await releaseLeaderLock(redis, me.worker_id), true);
});
