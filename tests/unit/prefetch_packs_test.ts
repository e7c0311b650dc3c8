/** Quick runs go to few workers in packs: who is given them, when they wait, and how a worker tells that its runs are quick. */
import assert from "node:assert/strict";
import { Wakeup } from "../../src/platform/timers.ts";
import type { Peers, WatchListener } from "../../src/rpc/peers.ts";
import { type HandlerParts, workerHandlers } from "../../src/worker/handlers.ts";
import { WorkerMonitor } from "../../src/leader/worker_monitor.ts";
import type { CapacitySnapshot } from "../../src/leader/placement.ts";
import { PACK, Packing } from "../../src/leader/prefetch.ts";
import { LocalWorkerState } from "../../src/worker/worker_state.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";
import type { Candidate } from "../../src/dispatch/dispatch_queues.ts";
import { capacity, chosen, node, queue, run, worker } from "../support/hall_scene.ts";

/** Of so many runs that each of them is given. */
function shares(waiting: Candidate[], place: CapacitySnapshot): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [, worker_id] of chosen(waiting, place) as [number, string][]) {
    found[worker_id] = (found[worker_id] ?? 0) + 1;
  }
  return found;
}
const many = (runs: number, more: Partial<Candidate> = {}) =>
  Array.from({ length: runs }, (_, id) => run(id + 1, more));
const quick = (left: number, wait = false) => ({
  bodyMs: (digest: string) => digest === "d" ? 1 : Infinity,
  packs: { left, wait },
});

Deno.test("quick runs go to few workers in packs, others to whoever is least loaded", () => {
  const half = PACK / 2;
  const slots = 2 * PACK;
  const monitor = { a: { slots: 1 }, b: { load: half + 10, slots }, c: { load: half - 10, slots }, e: {} };
  assert.deepEqual(shares(many(PACK + 50), capacity(monitor, quick(3 * PACK))), { a: PACK, b: 50 });
  assert.deepEqual(shares(many(3 * PACK), capacity(monitor, quick(3 * PACK))), {
    a: PACK,
    b: 2 * PACK - half - 10,
    c: half + 10,
  });
  monitor.b.load = PACK + 1;
  assert.deepEqual(
    shares(many(PACK + 50), capacity(monitor, quick(3 * PACK))),
    { a: PACK, c: 50 },
    "b has more than half of one",
  );
  assert.deepEqual(shares(many(3 * PACK), capacity(monitor, quick(PACK + 20))).a, PACK);
  assert.deepEqual(shares(many(3, { digest: "slow" }), capacity(monitor, quick(3 * PACK))), { a: 1, e: 2 });
});

Deno.test("behind the slots wait as many runs as end soon, by what each takes; one that takes long leaves the place to others", () => {
  const monitor = { a: { load: 2 }, b: { load: 2 } };
  const bodyMs = (digest: string) => ({ d: 4, slow: 250 })[digest] ?? Infinity;
  const placed = (waiting: Candidate[], line: Record<string, number>) => {
    const place = capacity(monitor, { bodyMs, prefetch: () => 50, lineLeft: ({ worker_id }) => line[worker_id] ?? 0 });
    const lanes = ["d", "slow", "new"].map((digest, at) => queue({ digest, job_definition_id: at + 1 }));
    return chosen(waiting, place, lanes);
  };
  const slow = { digest: "slow", job_definition_id: 2 };
  const unknown = { digest: "new", job_definition_id: 3 };
  assert.equal(placed(many(200), { a: 8_000, b: 8_000 }).length, 100, "by their pace");
  assert.equal(placed(many(200), { a: 50, b: 30 }).length, 19);
  assert.deepEqual(placed(many(9, unknown), { a: 1_600, b: 900 }), [[1, "a"], [2, "b"], [3, "a"]]);
  assert.deepEqual(placed(many(9, unknown), { a: 700, b: 0 }), []);
  const mixed = [run(1, unknown), run(2, slow), run(3, slow), run(4), run(5, unknown), run(6)];
  assert.deepEqual(placed(mixed, { a: 310, b: 250 }), [[2, "a"], [4, "b"], [6, "a"]]);
});

Deno.test("when as many quick runs as soon end are in hand, the next wait only where that is soon", () => {
  const monitor = { a: {}, b: {} };
  assert.deepEqual(shares(many(10), capacity(monitor, quick(0, true))), {});
  assert.deepEqual(shares(many(10), capacity(monitor, quick(0))), { a: 2, b: 2 });
});

Deno.test("so many quick runs are in hand as soon end, and whoever is idle is woken when none of them does for a second", () => {
  const packing = new Packing();
  const packs = (ends_per_ms: number, in_hand: number, now_ms: number) =>
    packing.packs({ ends_per_ms, in_hand }, now_ms);
  assert.deepEqual(packs(0, 0, 0), { left: 5 * PACK, wait: true });
  assert.deepEqual(packs(0, 5 * PACK, 50), { left: 0, wait: true }, "none has had time to end");
  assert.deepEqual(packs(0, 5 * PACK, 900), { left: 0, wait: true });
  assert.deepEqual(packs(0, 5 * PACK, 1_050), { left: 0, wait: false });
  assert.deepEqual(packs(4, 1_000, 1_100), { left: 200, wait: true });
  assert.deepEqual(packs(4.0051, 1_000, 1_120), { left: 201, wait: true }, "whole runs");
  assert.deepEqual(packs(4, 1_180, 1_150), { left: 0, wait: true }, "an order of twenty is not worth it");
});

Deno.test("packs keep to what was said of places: limits of nodes and jobs, resources, labels, other code, no slot", () => {
  const limited = { nodes: [node("n1", { max_concurrent: 3 })] };
  assert.deepEqual(shares(many(10), capacity({ a: {}, b: { node_id: "n2" } }, { ...limited, ...quick(300) })), {
    b: 10,
  });
  assert.deepEqual(shares(many(10), capacity({ a: {}, b: {} }, { ...limited, ...quick(300) })), { a: 2, b: 1 });
  assert.deepEqual(shares(many(10, { node: "n2" }), capacity({ a: {}, b: { node_id: "n2" } }, quick(300))), { b: 10 });
  assert.deepEqual(shares(many(10), capacity({ a: { load: 2 }, b: {} }, quick(300))), { b: 10 }, "a's slots are taken");
  assert.deepEqual(shares(many(10), capacity({ a: { load: 2 } }, quick(300))), {});
  const lacking = () => new Map([["a", "other"]]);
  assert.deepEqual(shares(many(10), capacity({ a: {}, b: {} }, { ...quick(300), lacking })), { b: 2 });
  const two = [queue({ concurrency_limit: 2 })];
  assert.deepEqual(chosen(many(10), capacity({ a: {}, b: {} }, quick(300)), two), [[1, "a"], [2, "a"]]);
  const resources = new Map([["r", { left: 3, capacity: 3 }]]);
  const gpu = [queue({ resources: { r: 1 } })];
  assert.equal(chosen(many(10), capacity({ a: {}, b: {} }, { ...quick(300), resources }), gpu).length, 3);
  assert.deepEqual(chosen([run(1, { avoid_node: "n1" })], capacity({ a: {}, b: { node_id: "n2" } }, quick(300))), [[
    1,
    "b",
  ]]);
});

Deno.test("a status in between is short: what runs is in one of each second, what runs take only of code that has run since", async () => {
  let times = [{ digest: "d", body_us: 300, runs: 3 }];
  const executor = { runs: [{ job_run_id: 7, attempt: 1 }], released: 0, codeTimes: () => times, codesKnown: 1 };
  const local = new LocalWorkerState({ worker_id: "w", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
  const handlers = workerHandlers({ executor, local, pending_starts: { late: false } } as unknown as HandlerParts);
  const stop = new AbortController();
  const statuses = handlers.watch({ caller_role: "leader", leader_epoch: 1 }, CALLER, stop.signal)
    [Symbol.asyncIterator]();
  const next = async () => {
    executor.released++;
    local.tell();
    const { value } = await statuses.next();
    assert.equal(value.released, executor.released);
    return [value.running.length, value.code_times];
  };
  const untilWhole = async () => {
    for (;;) {
      const [running, said] = await next();
      if (running === 1) return said;
      assert.deepEqual(said, []);
    }
  };
  assert.deepEqual(await next(), [1, [{ digest: "d", body_us: 300 }]]);
  assert.deepEqual(await next(), [0, []]);
  times = [{ digest: "d", body_us: 300, runs: 3 }, { digest: "e", body_us: 9_000, runs: 5 }];
  assert.deepEqual(await untilWhole(), [{ digest: "e", body_us: 9_000 }]);
  await untilWhole();
  times.push({ digest: "f", body_us: 5_000, runs: 3 });
  executor.codesKnown++;
  assert.deepEqual(await next(), [1, [{ digest: "f", body_us: 5_000 }]], "what is learned is told at once");
  times = [{ digest: "d", body_us: 310, runs: 4 }];
  assert.deepEqual(await untilWhole(), [{ digest: "d", body_us: 310 }]);
  times = Array.from({ length: 250 }, (_, n) => ({ digest: `e${n}`, body_us: 100, runs: 3 }));
  const first = await untilWhole();
  times = times.map((one, n) => ({ ...one, runs: n < 200 ? 4 : 3 })); // the first ones go on and on
  const second = await untilWhole();
  assert.deepEqual([first.length, second.length], [200, 200]);
  assert.equal(new Set([...first, ...second].map(({ digest }) => digest)).size, 250, "nobody is kept from being told");
  stop.abort();
  await statuses.return?.();
});
const CALLER = { fingerprint: "f", address: "127.0.0.1" };

Deno.test("code is quick when any worker said so within a while: one that is busy makes it slow for nobody else", () => {
  const heard: WatchListener[] = [];
  const peers = {
    retain: () => {},
    to: () => ({ watch: (_: unknown, listener: WatchListener) => void heard.push(listener) }),
  };
  const monitor = new WorkerMonitor({ peers: peers as unknown as Peers, wakeup: new Wakeup(), epoch: 1 });
  monitor.follow([worker("a"), worker("b")]);
  const [a, b] = heard as [WatchListener, WatchListener];
  const says = (one: WatchListener, body_us: number) =>
    one.onStatus({ released: 0, observed_leader_epoch: 1, lack: "", code_times: [{ digest: "d", body_us }] } as never);
  assert.equal(monitor.isQuick("d"), false, "nobody knows it");
  says(a, 50_000);
  assert.equal(monitor.isQuick("d"), false);
  says(b, 400);
  says(a, 50_000);
  assert.equal(monitor.isQuick("d"), true);
});
