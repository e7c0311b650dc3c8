/** The list of workers that live. */
import assert from "node:assert/strict";
import type { RedisConnection } from "../../../src/redis/connection.ts";
import {
  beat,
  clearDetach,
  type Heartbeat,
  list,
  nextWorkerId,
  remove,
  setDetach,
} from "../../../src/redis/heartbeats.ts";
import { testOnBoth } from "../../support/cluster_redis.ts";

function aHeartbeat(worker_id: string, about: Partial<Heartbeat> = {}): Heartbeat {
  return {
    worker_id,
    node_id: "node-1",
    pid: 42,
    grpc_host: "127.0.0.1",
    grpc_port: 5001,
    role: "worker",
    slots: 4,
    draining: false,
    running: [],
    ...about,
  };
}

testOnBoth("worker ids rise, also where Redis or Postgres forgets those that were given", async (redis) => {
  assert.match(await nextWorkerId(redis, 0), /^w1-[0-9a-f]{8}$/);
  assert.match(await nextWorkerId(redis, 1), /^w2-[0-9a-f]{8}$/);
  assert.match(await nextWorkerId(redis, 0), /^w3-/, "Postgres was restored");
  await redis.ask("forget the counter", (client) => client.del("worker:id_seq"));
  assert.match(await nextWorkerId(redis, 3), /^w4-/, "Redis was flushed");
  const first = await nextWorkerId(redis, 0);
  await redis.ask("forget the counter", (client) => client.del("worker:id_seq"));
  assert.notEqual(await nextWorkerId(redis, 4), first, "both forgot");
  await redis.close();
  assert.match(await nextWorkerId(redis, 9), /^w10-[0-9a-f]{8}$/, "without Redis");
});

testOnBoth("a heartbeat is read back as it was said, stamped by Redis' clock", async (redis) => {
  const said = aHeartbeat("w7-0a0a0a0a", { role: "leader" });
  await beat(redis, said, { ttl_ms: 5_000 });
  const [entry] = await list(redis);
  const { heartbeat_age_ms, ...rest } = entry!;
  assert.deepEqual(rest, { worker_id: said.worker_id, node_id: "node-1", role: "leader" });
  assert.ok(heartbeat_age_ms < 2_000);
});

testOnBoth("the hash has the fields of the design and lives as long as it was told to", async (redis) => {
  const read = () => redis.ask("read a hash", (client) => client.hgetall("worker:w1-aaaaaaaa"));
  const running = [{ job_run_id: 812, attempt: 2 }, { job_run_id: 9_000_000_001, attempt: 1 }];
  await beat(redis, aHeartbeat("w1-aaaaaaaa", { role: "leader", draining: true, running }), { ttl_ms: 5_000 });
  const { last_heartbeat_ts, ...hash } = await read();
  assert.deepEqual(hash, {
    node_id: "node-1",
    pid: "42",
    grpc_host: "127.0.0.1",
    grpc_port: "5001",
    role: "leader",
    slots: "4",
    draining: "1",
    running: "812/2 9000000001/1",
    load: "2",
    current_job_run_id: "812",
    detached: "0",
  });
  assert.ok(Math.abs(Number(last_heartbeat_ts) - Date.now()) < 60_000);
  await beat(redis, aHeartbeat("w1-aaaaaaaa"), { ttl_ms: 5_000 });
  const { load, current_job_run_id } = await read();
  assert.deepEqual({ load, current_job_run_id }, { load: "0", current_job_run_id: "" });
  const ttl = await redis.ask("read a ttl", (client) => client.pttl("worker:w1-aaaaaaaa"));
  assert.ok(ttl > 3_000 && ttl <= 5_000);
});

testOnBoth("a worker whose heartbeats stop leaves the list, and the list is cleaned", async (redis) => {
  await beat(redis, aHeartbeat("w1-aaaaaaaa"), { ttl_ms: 5_000 });
  await beat(redis, aHeartbeat("w2-bbbbbbbb"), { ttl_ms: 80 });
  const known = () => redis.ask("read the list", (client) => client.zrange("workers", 0, "-1"));
  assert.equal((await known()).length, 2);
  for (;;) {
    const ids = (await list(redis)).map((entry) => entry.worker_id);
    if (ids.length === 1) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(await known(), ["w1-aaaaaaaa"]);
  await beat(redis, aHeartbeat("w2-bbbbbbbb"), { ttl_ms: 5_000 });
  assert.equal((await list(redis)).length, 2, "a heartbeat brings it back");
  await remove(redis, "w1-aaaaaaaa");
  assert.deepEqual((await list(redis)).map((entry) => entry.worker_id), ["w2-bbbbbbbb"]);
});

async function isDetached(redis: RedisConnection, worker_id: string): Promise<boolean> {
  return await redis.ask("ask for a detach", (client) => client.exists(`detach:${worker_id}`)) === 1;
}

testOnBoth("a detached worker hears of it with its heartbeat, until that is ended or forgotten", async (redis) => {
  const me = aHeartbeat("w1-aaaaaaaa");
  await setDetach(redis, me.worker_id, { ttl_ms: 60_000 });
  assert.equal(await isDetached(redis, me.worker_id), true);
  assert.equal((await beat(redis, me, { ttl_ms: 5_000 })).detached, true);
  const detached = await redis.ask("read a hash", (client) => client.hget(`worker:${me.worker_id}`, "detached"));
  assert.equal(detached, "1");
  await clearDetach(redis, me.worker_id);
  assert.equal((await beat(redis, me, { ttl_ms: 5_000 })).detached, false);
  await setDetach(redis, me.worker_id, { ttl_ms: 50 });
  while (await isDetached(redis, me.worker_id)) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal((await beat(redis, me, { ttl_ms: 5_000 })).detached, false);
});
