/** A leader whose ticks fail again and again lets another worker lead. */
import assert from "node:assert/strict";
import { FailingTicks } from "../../../src/leader/failing_ticks.ts";
import { withProcesses } from "../../support/cluster.ts";

const OTHERS = { failing_seconds: 30, others: true };
const BROKEN = new Error("it is broken");

/** Ticks of a second each, of which all fail until it gives up: after how many. */
function ticksUntilItGivesUp(failing: FailingTicks): number {
  for (let tick = 1; tick < 10_000; tick++) {
    failing.note(BROKEN, tick * 1000);
    if (failing.givesUp(OTHERS, tick * 1000)) return tick;
  }
  return Infinity;
}

Deno.test("a leader gives up after half a minute of ticks that all failed, and says why; one that succeeds begins it anew", () => {
  const failing = new FailingTicks({ failed_terms: 0 });
  for (let second = 0; second < 30; second++) failing.note(BROKEN, second * 1000);
  assert.equal(failing.givesUp(OTHERS, 29_999), undefined);
  failing.note(undefined, 29_999);
  assert.equal(failing.givesUp(OTHERS, 100_000), undefined);
  for (let second = 200; second <= 230; second++) failing.note(BROKEN, second * 1000);
  assert.equal(failing.givesUp({ ...OTHERS, others: false }, 230_000), undefined, "nobody else is there");
  assert.equal(failing.givesUp(OTHERS, 230_000), "its last 31 ticks failed, for 30 s: it is broken");
});

Deno.test("two ticks that failed are not enough, however long they took", () => {
  const failing = new FailingTicks({ failed_terms: 0 });
  failing.note(BROKEN, 0);
  failing.note(BROKEN, 600_000);
  assert.equal(failing.givesUp(OTHERS, 600_000), undefined);
  failing.note(BROKEN, 600_001);
  assert.match(failing.givesUp(OTHERS, 600_001) ?? "", /^its last 3 ticks failed, for 600 s/);
});

Deno.test("where it fails for everybody, each waits twice as long before it gives up again, until a tick succeeds", () => {
  const local = { failed_terms: 0 };
  const terms = () => Array.from({ length: 8 }, () => ticksUntilItGivesUp(new FailingTicks(local)) - 1);
  assert.deepEqual(terms(), [30, 60, 120, 240, 480, 960, 1920, 1920]);
  new FailingTicks(local).note(undefined);
  assert.equal(ticksUntilItGivesUp(new FailingTicks(local)) - 1, 30);
});

/** Each of its ticks that has a run to give fails, as far as the test goes. */
const CANNOT_ASSIGN = {
  SCHEDULER_FAILPOINT: Array.from({ length: 500 }, (_, n) => `after-lease-check-assign:${n + 1}:error`).join(),
};

Deno.test("work that its leader cannot give away goes on under another one, which is told why; alone it keeps the seat", () =>
  withProcesses(0, async (cluster) => {
    const broken = await cluster.startWorker({ env: CANNOT_ASSIGN });
    const first = await cluster.hears("leader.elected", {}, { by: broken });
    const id = await cluster.enqueue("append_one_row");
    await cluster.hears("failpoint.hit", { hit: 30 }); // more than it would take one that is not alone
    assert.equal(cluster.times("leader.ended"), 0, "nobody else is there");

    const other = await cluster.startWorker();
    const ended = await cluster.hears("leader.ended", { epoch: first.epoch });
    assert.match(ended.reason, /^its last \d+ ticks failed, for \d+ s: failpoint after-lease-check-assign/);
    await cluster.hears("leader.elected", {}, { by: other });
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, cluster.effects(id)], ["SUCCEEDED", 1, 1]);
  }, { more_workers: 2, settings: { leader_failing_seconds: 1, leader_lease_seconds: 5, leader_stale_seconds: 5 } }));
