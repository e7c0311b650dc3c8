/** What the leader tells of the length of its ticks. */
import assert from "node:assert/strict";
import { type Facts, hear } from "../../src/platform/facts.ts";
import { quantiles, TickTimes } from "../../src/leader/tick_times.ts";
import { Term } from "../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";

const term = Term.granted(7, "w-1", { asked_at_ms: 0, lease_ms: 1_000, tick: 1 });
const me = { term, settings: DEFAULT_SETTINGS };

Deno.test("a window in which something was done is told, with the quantiles of all its ticks", () => {
  const told: Facts["leader.ticks"][] = [];
  const deafen = hear((name, fact) => void (name === "leader.ticks" && told.push(fact as Facts["leader.ticks"])));
  try {
    const pace = new TickTimes(0);
    pace.note(me, 3, false);
    assert.deepEqual(told, [], "an idle window is not told");
    pace.note(me, 4.04, true);
    pace.note(me, 5, false);
    assert.deepEqual(told, [{ worker_id: "w-1", epoch: 7, ticks: 1, p50_ms: 4, p99_ms: 4, max_ms: 4 }]);
  } finally {
    deafen();
  }
});

Deno.test("a tick that is longer than its interval is told by itself", () => {
  const told: Facts["leader.tick_slow"][] = [];
  const deafen = hear((name, fact) =>
    void (name === "leader.tick_slow" && told.push(fact as Facts["leader.tick_slow"]))
  );
  try {
    const settings = { ...DEFAULT_SETTINGS, leader_tick_seconds: 0.2 };
    for (const tick_ms of [200, 200.6]) new TickTimes().note({ term, settings }, tick_ms, false);
    assert.deepEqual(told, [{ worker_id: "w-1", epoch: 7, tick_ms: 201 }]);
  } finally {
    deafen();
  }
});

Deno.test("quantiles are those of the sorted times", () => {
  const took_ms = Array.from({ length: 200 }, (_, n) => 200 - n);
  assert.deepEqual(quantiles(took_ms), { ticks: 200, p50_ms: 100, p99_ms: 198, max_ms: 200 });
});
