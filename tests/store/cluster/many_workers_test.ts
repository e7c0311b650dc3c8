/** Many workers that start at once, and a leader that answers slowly: nobody makes it worse by asking all the time. */
import assert from "node:assert/strict";
import { Wakeup } from "../../../src/platform/timers.ts";
import type { Failure, Peers, WatchListener } from "../../../src/rpc/peers.ts";
import { connectRedis } from "../../../src/redis/connection.ts";
import { askToDegrade, claimSubleaderLock, renewLeaderLock } from "../../../src/redis/leader_lock.ts";
import { WorkerMonitor } from "../../../src/leader/worker_monitor.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { Subleader } from "../../../src/cluster/subleader.ts";
import { acquire } from "../../../src/nodes/leadership.ts";
import type { WorkerRow } from "../../../src/nodes/workers.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const SILENCE: Failure = { ok: false, code: "DEADLINE_EXCEEDED", message: "no status came within 2000 ms" };

Deno.test("a subleader that cannot reach the leader asks again later, and unseats nobody", async () => {
  await withStores(async ({ sql, redis_url, prefix }) => {
    const redis = connectRedis(redis_url, { prefix });
    await redis.ready();
    const { worker_id } = await aWorker(sql, {});
    const lease_ms = 60_000;
    const term = await acquire(sql, { worker_id, lease_ms, epoch_hint: 0 });
    assert(term);
    await claimSubleaderLock(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch, highest_epoch: term.epoch });
    await renewLeaderLock(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch });
    let watches = 0;
    let pings = 0;
    const peers = {
      to: () => ({
        watch: (_: unknown, listener: WatchListener) => {
          watches++;
          queueMicrotask(() => listener.onEnd(SILENCE));
          return () => {};
        },
        ping: () => Promise.resolve((pings++, SILENCE)),
      }),
    } as unknown as Peers;
    const local = new LocalWorkerState({ worker_id: "me", node_id: "elsewhere", slots: 1, settings: DEFAULT_SETTINGS });
    local.holdsUntil(Infinity);
    local.seated = true;
    const subleader = new Subleader({ sql, redis, peers, local, wakeup: new Wakeup() });
    await subleader.attend();
    await waitFor("the ping", () => Promise.resolve(pings || undefined));
    await waitFor("the answer to it is heeded", async () => {
      await subleader.attend();
      return true;
    });
    for (let turn = 0; turn < 20; turn++) await subleader.attend();
    assert(watches <= 2, `${watches} watches in a row, of a leader that does not answer`);
    assert.equal(subleader.takeTerm(), undefined);
    const [row] = await sql<{ epoch: number; worker_id: string }[]>`select epoch, worker_id from leader_term`;
    assert.deepEqual({ ...row }, { epoch: term.epoch, worker_id });
    assert.equal(await renewLeaderLock(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch }), "renewed");
    await askToDegrade(redis, { epoch: term.epoch, ttl_ms: lease_ms });
    assert.equal(await renewLeaderLock(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch }), "degraded");
    redis.close();
  });
});

Deno.test("a new leader opens a few streams at a time, and all of them in the end", () => {
  const opening: WatchListener[] = [];
  const peers = {
    retain: () => {},
    to: () => ({
      watch: (_: unknown, listener: WatchListener) => {
        opening.push(listener);
        return () => {};
      },
    }),
  } as unknown as Peers;
  const monitor = new WorkerMonitor({ peers, wakeup: new Wakeup(), epoch: 1 });
  const workers = Array.from({ length: 60 }, (_, n) => ({ worker_id: `w-${n}`, state: "ACTIVE" }) as WorkerRow);
  let opened = 0;
  while (opened < workers.length) {
    monitor.follow(workers);
    monitor.follow(workers);
    assert(opening.length > 0 && opening.length <= 16, `${opening.length} at once`);
    opened += opening.length;
    for (const listener of opening.splice(0)) {
      listener.onStatus(
        { draining: false, detached: false, released: 0, code_times: [], observed_leader_epoch: 1 } as never,
      );
    }
  }
  monitor.follow(workers);
  assert.equal(opening.length, 0);
  assert(workers.every(({ worker_id }) => monitor.fit(worker_id)));
});

Deno.test("a worker that was sent too much is given no more than it has slots, however fast what it was given has left it", () => {
  const heard: WatchListener[] = [];
  const watch = (_: unknown, listener: WatchListener) => {
    heard.push(listener);
    return () => {};
  };
  const peers = { retain: () => {}, to: () => ({ watch }) } as unknown as Peers;
  const monitor = new WorkerMonitor({ peers, wakeup: new Wakeup(), epoch: 1 });
  const worker = { worker_id: "w-0", state: "ACTIVE", slots: 10 } as WorkerRow;
  const says = (late: boolean) =>
    heard[0]?.onStatus({ released: 0, code_times: [], observed_leader_epoch: 1, lack: "", late } as never);
  monitor.follow([{ ...worker, load: 0 }]);
  says(false);
  for (let given = 0; given < 500; given++) monitor.gave("w-0", "d");
  monitor.follow([{ ...worker, load: 10 }]);
  assert(monitor.prefetch(worker) > 100, "they have ended, or so it looks");
  says(true);
  assert.equal(monitor.prefetch(worker), 0);
});

Deno.test("what a worker has in hand speaks for its slots, until it is known to be quick", () => {
  const heard: WatchListener[] = [];
  const peers = {
    retain: () => {},
    to: () => ({ watch: (_: unknown, listener: WatchListener) => void heard.push(listener) }),
  } as unknown as Peers;
  const monitor = new WorkerMonitor({ peers, wakeup: new Wakeup(), epoch: 1 });
  const worker = { worker_id: "w-0", state: "ACTIVE", slots: 10, load: 10 } as WorkerRow;
  monitor.follow([worker]);
  assert(monitor.lineLeft(worker) > 0);
  for (let given = 0; given < 10; given++) monitor.gave("w-0", "d");
  assert.equal(monitor.lineLeft(worker), 0, "all ten may take long");
  heard[0]?.onStatus(
    { released: 10, observed_leader_epoch: 1, lack: "", code_times: [{ digest: "d", body_us: 400 }] } as never,
  );
  assert(monitor.lineLeft(worker) > 0);
});

Deno.test("a run that came and went between two statuses is no less heard of", async () => {
  const heard: WatchListener[] = [];
  const peers = { retain: () => {}, to: () => ({ watch: (_: unknown, one: WatchListener) => void heard.push(one) }) };
  const wakeup = new Wakeup();
  const monitor = new WorkerMonitor({ peers: peers as unknown as Peers, wakeup, epoch: 1 });
  monitor.follow([{ worker_id: "w-0", state: "ACTIVE" } as WorkerRow]);
  const ringsAt = (released: number) => {
    heard[0]?.onStatus({ released, running: [], code_times: [], observed_leader_epoch: 1, lack: "" } as never);
    return wakeup.rest(1);
  };
  assert.equal(await ringsAt(0), 1, "here it is");
  assert.equal(await ringsAt(0), 0);
  assert.equal(await ringsAt(1), 1, "one that waited for it may start");
});

Deno.test("a worker whose machine lacks something is given nothing until it says that this is over", async () => {
  const heard: WatchListener[] = [];
  const watch = (_: unknown, listener: WatchListener) => {
    heard.push(listener);
    return () => {};
  };
  const wakeup = new Wakeup();
  const monitor = new WorkerMonitor({
    peers: { retain: () => {}, to: () => ({ watch }) } as unknown as Peers,
    wakeup,
    epoch: 1,
  });
  monitor.follow([{ worker_id: "w-0", state: "ACTIVE" } as WorkerRow]);
  const says = (lack: string) =>
    heard[0]?.onStatus(
      { draining: false, detached: false, released: 0, code_times: [], observed_leader_epoch: 1, lack } as never,
    );
  says("");
  assert(monitor.fit("w-0"));
  says("No space left on device");
  assert(!monitor.fit("w-0"));
  await wakeup.rest(1); // what it has rung until now
  says("");
  assert(monitor.fit("w-0"));
  await wakeup.rest(600_000); // what waited for it may start
});
