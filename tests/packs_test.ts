/** Quick runs go to few workers in packs: who is given them, when they wait, and how a worker tells that its runs are quick. */
import assert from "node:assert/strict";
import type { CodeTime } from "../src/cluster/protocol.ts";
import { type HandlerParts, workerHandlers } from "../src/roles/handlers.ts";
import type { Hall } from "../src/roles/leader/hall.ts";
import { PACK, packsFor } from "../src/roles/leader/pace.ts";
import { Standing } from "../src/roles/standing.ts";
import { DEFAULT_SETTINGS } from "../src/store/settings.ts";
import type { Candidate } from "../src/store/waiting.ts";
import { chosen, hall, lane, node, run } from "./support/hall_scene.ts";

/** Of so many runs that each of them is given. */
function shares(waiting: Candidate[], place: Hall): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [, worker_id] of chosen(waiting, place) as [number, string][]) {
    found[worker_id] = (found[worker_id] ?? 0) + 1;
  }
  return found;
}
const many = (runs: number, more: Partial<Candidate> = {}) =>
  Array.from({ length: runs }, (_, id) => run(id + 1, more));
const quick = (left: number, wait = false) => ({
  quick: { is: (digest: string) => digest === "d", packs: { left, wait } },
});

Deno.test("quick runs go to few workers in packs, others to whoever is least loaded", () => {
  const crew = { a: {}, b: { load: 60, slots: 100 }, c: { load: 40, slots: 100 }, e: {} };
  assert.deepEqual(shares(many(150), hall(crew, quick(300))), { a: PACK, c: 50 }, "b has more than half of one");
  assert.deepEqual(shares(many(300), hall(crew, quick(120))).a, PACK);
  assert.deepEqual(shares(many(4, { digest: "slow" }), hall(crew, quick(300))), { a: 2, e: 2 });
});

Deno.test("when as many quick runs as soon end are in hand, the next wait only where that is soon", () => {
  const crew = { a: {}, b: {} };
  assert.deepEqual(shares(many(10), hall(crew, quick(0, true))), {});
  assert.deepEqual(shares(many(10), hall(crew, quick(0))), { a: 2, b: 2 });
  assert.deepEqual(packsFor(0, 0), { left: 3 * PACK, wait: false });
  assert.deepEqual(packsFor(0, 3 * PACK), { left: 0, wait: false }, "nothing ends: whoever is idle is given them");
  assert.deepEqual(packsFor(4, 1_000), { left: 200, wait: true });
  assert.deepEqual(packsFor(4, 1_180), { left: 0, wait: true }, "an order of twenty is not worth it");
});

Deno.test("packs keep to what was said of places: limits of nodes and jobs, resources, labels, other code, no slot", () => {
  const limited = { nodes: [node("n1", { max_concurrent: 3 })] };
  assert.deepEqual(shares(many(10), hall({ a: {}, b: { node_id: "n2" } }, { ...limited, ...quick(300) })), { b: 10 });
  assert.deepEqual(shares(many(10), hall({ a: {}, b: {} }, { ...limited, ...quick(300) })), { a: 2, b: 1 });
  assert.deepEqual(shares(many(10, { node: "n2" }), hall({ a: {}, b: { node_id: "n2" } }, quick(300))), { b: 10 });
  assert.deepEqual(shares(many(10), hall({ a: { load: 2 }, b: {} }, quick(300))), { b: 10 }, "a's slots are taken");
  assert.deepEqual(shares(many(10), hall({ a: { load: 2 } }, quick(300))), {});
  const lacking = () => new Set(["a"]);
  assert.deepEqual(shares(many(10), hall({ a: {}, b: {} }, { ...quick(300), lacking })), { b: 2 });
  const two = [lane({ concurrency_limit: 2 })];
  assert.deepEqual(chosen(many(10), hall({ a: {}, b: {} }, quick(300)), two), [[1, "a"], [2, "a"]]);
  const resources = new Map([["r", { left: 3, capacity: 3 }]]);
  const gpu = [lane({ resources: { r: 1 } })];
  assert.equal(chosen(many(10), hall({ a: {}, b: {} }, { ...quick(300), resources }), gpu).length, 3);
  assert.deepEqual(chosen([run(1, { avoid_node: "n1" })], hall({ a: {}, b: { node_id: "n2" } }, quick(300))), [[
    1,
    "b",
  ]]);
});

Deno.test("a status in between is short: what runs is in one of each second, what runs take only when it has changed much", async () => {
  let code_times: CodeTime[] = [{ digest: "d", body_us: 300 }];
  const executor = { runs: [{ job_run_id: 7, attempt: 1 }], inHand: 1, codeTimes: () => code_times };
  const standing = new Standing({ worker_id: "w", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
  const handlers = workerHandlers({ executor, standing } as unknown as HandlerParts);
  const stop = new AbortController();
  const statuses = handlers.watch({ caller_role: "leader", leader_epoch: 1 }, CALLER, stop.signal)
    [Symbol.asyncIterator]();
  const next = async () => {
    standing.tell();
    const { value } = await statuses.next();
    return [value.in_hand, value.running.length, value.code_times];
  };
  const untilWhole = async () => {
    for (;;) {
      const [in_hand, running, times] = await next();
      if (running === 1) return times;
      assert.deepEqual([in_hand, times], [1, []]);
    }
  };
  assert.deepEqual(await next(), [1, 1, code_times]);
  assert.deepEqual(await next(), [1, 0, []]);
  code_times = [{ digest: "d", body_us: 400 }, { digest: "e", body_us: 9_000 }];
  assert.deepEqual(await untilWhole(), [{ digest: "e", body_us: 9_000 }]);
  code_times = [{ digest: "d", body_us: 190 }];
  assert.deepEqual(await untilWhole(), code_times);
  stop.abort();
  await statuses.return?.();
});
const CALLER = { fingerprint: "f", address: "127.0.0.1" };
