/** Many workers that start at once, and a leader that answers slowly: nobody makes it worse by asking all the time. */
import assert from "node:assert/strict";
import { Bell } from "../../../src/platform/timers.ts";
import type { Failure, Peers, WatchListener } from "../../../src/rpc/peers.ts";
import { connectRedis } from "../../../src/redis/connection.ts";
import { askToDegrade, claimSeat, renewSeat } from "../../../src/redis/leader_lock.ts";
import { Crew } from "../../../src/leader/worker_monitor.ts";
import { Standing } from "../../../src/worker/worker_state.ts";
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
    await claimSeat(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch, highest_epoch: term.epoch });
    await renewSeat(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch });
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
    const standing = new Standing({ worker_id: "me", node_id: "elsewhere", slots: 1, settings: DEFAULT_SETTINGS });
    standing.holdsUntil(Infinity);
    standing.seated = true;
    const subleader = new Subleader({ sql, redis, peers, standing, bell: new Bell() });
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
    assert.equal(await renewSeat(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch }), "renewed");
    await askToDegrade(redis, { epoch: term.epoch, ttl_ms: lease_ms });
    assert.equal(await renewSeat(redis, { worker_id, ttl_ms: lease_ms, epoch: term.epoch }), "degraded");
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
  const crew = new Crew({ peers, bell: new Bell(), epoch: 1 });
  const workers = Array.from({ length: 60 }, (_, n) => ({ worker_id: `w-${n}`, state: "ACTIVE" }) as WorkerRow);
  let opened = 0;
  while (opened < workers.length) {
    crew.follow(workers);
    crew.follow(workers);
    assert(opening.length > 0 && opening.length <= 16, `${opening.length} at once`);
    opened += opening.length;
    for (const listener of opening.splice(0)) {
      listener.onStatus(
        { draining: false, detached: false, released: 0, code_times: [], observed_leader_epoch: 1 } as never,
      );
    }
  }
  crew.follow(workers);
  assert.equal(opening.length, 0);
  assert(workers.every(({ worker_id }) => crew.fit(worker_id)));
});

Deno.test("a worker that was sent too much is given no more than it has slots, however fast what it was given has left it", () => {
  const heard: WatchListener[] = [];
  const watch = (_: unknown, listener: WatchListener) => {
    heard.push(listener);
    return () => {};
  };
  const peers = { retain: () => {}, to: () => ({ watch }) } as unknown as Peers;
  const crew = new Crew({ peers, bell: new Bell(), epoch: 1 });
  const worker = { worker_id: "w-0", state: "ACTIVE", slots: 10 } as WorkerRow;
  const says = (late: boolean) =>
    heard[0]?.onStatus({ released: 0, code_times: [], observed_leader_epoch: 1, lack: "", late } as never);
  crew.follow([{ ...worker, load: 0 }]);
  says(false);
  for (let given = 0; given < 500; given++) crew.gave("w-0", "d");
  crew.follow([{ ...worker, load: 10 }]);
  assert(crew.prefetch(worker) > 100, "they have ended, or so it looks");
  says(true);
  assert.equal(crew.prefetch(worker), 0);
});

Deno.test("what a worker has in hand speaks for its slots, until it is known to be quick", () => {
  const heard: WatchListener[] = [];
  const peers = {
    retain: () => {},
    to: () => ({ watch: (_: unknown, listener: WatchListener) => void heard.push(listener) }),
  } as unknown as Peers;
  const crew = new Crew({ peers, bell: new Bell(), epoch: 1 });
  const worker = { worker_id: "w-0", state: "ACTIVE", slots: 10, load: 10 } as WorkerRow;
  crew.follow([worker]);
  assert(crew.lineLeft(worker) > 0);
  for (let given = 0; given < 10; given++) crew.gave("w-0", "d");
  assert.equal(crew.lineLeft(worker), 0, "all ten may take long");
  heard[0]?.onStatus(
    { released: 10, observed_leader_epoch: 1, lack: "", code_times: [{ digest: "d", body_us: 400 }] } as never,
  );
  assert(crew.lineLeft(worker) > 0);
});

Deno.test("a run that came and went between two statuses is no less heard of", async () => {
  const heard: WatchListener[] = [];
  const peers = { retain: () => {}, to: () => ({ watch: (_: unknown, one: WatchListener) => void heard.push(one) }) };
  const bell = new Bell();
  const crew = new Crew({ peers: peers as unknown as Peers, bell, epoch: 1 });
  crew.follow([{ worker_id: "w-0", state: "ACTIVE" } as WorkerRow]);
  const ringsAt = (released: number) => {
    heard[0]?.onStatus({ released, running: [], code_times: [], observed_leader_epoch: 1, lack: "" } as never);
    return bell.rest(1);
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
  const bell = new Bell();
  const crew = new Crew({ peers: { retain: () => {}, to: () => ({ watch }) } as unknown as Peers, bell, epoch: 1 });
  crew.follow([{ worker_id: "w-0", state: "ACTIVE" } as WorkerRow]);
  const says = (lack: string) =>
    heard[0]?.onStatus(
      { draining: false, detached: false, released: 0, code_times: [], observed_leader_epoch: 1, lack } as never,
    );
  says("");
  assert(crew.fit("w-0"));
  says("No space left on device");
  assert(!crew.fit("w-0"));
  await bell.rest(1); // what it has rung until now
  says("");
  assert(crew.fit("w-0"));
  await bell.rest(600_000); // what waited for it may start
});
