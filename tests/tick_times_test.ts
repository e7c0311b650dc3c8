/** What the leader tells of the length of its ticks. */
import assert from "node:assert/strict";
import { type Facts, hear } from "../src/base/facts.ts";
import { quantiles, TickTimes } from "../src/roles/leader/tick_times.ts";
import { Term } from "../src/store/leadership.ts";

const term = Term.granted(7, "w-1", { asked_at_ms: 0, lease_ms: 1_000, tick: 1 });

Deno.test("a window in which something was done is told, with the quantiles of all its ticks", () => {
  const told: Facts["leader.ticks"][] = [];
  const deafen = hear((name, fact) => void (name === "leader.ticks" && told.push(fact as Facts["leader.ticks"])));
  try {
    const pace = new TickTimes(0);
    pace.note(term, 3, false);
    assert.deepEqual(told, [], "an idle window is not told");
    pace.note(term, 4.04, true);
    pace.note(term, 5, false);
    assert.deepEqual(told, [{ worker_id: "w-1", epoch: 7, ticks: 1, p50_ms: 4, p99_ms: 4, max_ms: 4 }]);
  } finally {
    deafen();
  }
});

Deno.test("quantiles are those of the sorted times", () => {
  const took_ms = Array.from({ length: 200 }, (_, n) => 200 - n);
  assert.deepEqual(quantiles(took_ms), { ticks: 200, p50_ms: 100, p99_ms: 198, max_ms: 200 });
});
