/** What a worker prints: every fact, in order, and those of every run together. */
import assert from "node:assert/strict";
import { loopFailed, observe } from "../../src/platform/facts.ts";
import { printFacts } from "../../src/app/fact_lines.ts";
import { waitFor } from "../support/waiting.ts";

const assigned = (job_run_id: number) =>
  observe("run.assigned", { job_run_id, attempt: 1, worker_id: "w1-00000001", epoch: 1 });

Deno.test("what comes with every run is written once a turn, anything else at once, and all in order", async () => {
  const writes: string[][] = [];
  const silence = printFacts((lines) => writes.push(lines.map((line) => JSON.parse(line).job_run_id ?? "other")));
  try {
    assigned(1);
    assigned(2);
    assert.deepEqual(writes, []);
    await Promise.resolve();
    assert.deepEqual(writes, [[1, 2]]);
    assigned(3);
    observe("worker.stopped", { worker_id: "w1-00000001" });
    assert.deepEqual(writes, [[1, 2], [3, "other"]]);
    await Promise.resolve();
    assert.equal(writes.length, 2);
  } finally {
    silence();
  }
});

Deno.test("the same failure of a loop is printed once in a while, with how often it came", async () => {
  const lines: Record<string, unknown>[] = [];
  const silence = printFacts((printed) => lines.push(...printed.map((line) => JSON.parse(line))), 300);
  let failed = 0;
  const fail = () => {
    failed += 1;
    loopFailed("leader", new Error("the disk is full"));
  };
  try {
    for (let n = 0; n < 50; n++) fail();
    loopFailed("leader", new Error("something else"));
    loopFailed("alerts", new Error("the disk is full"));
    for (const run of [7, 8]) loopFailed(`storing the log of run ${run}`, new Error("the disk is full"));
    const again = await waitFor("it to be printed again", async () => {
      fail();
      return await Promise.resolve(lines.find(({ times }) => times !== undefined));
    });
    assert.deepEqual([again.loop, again.error, again.times], ["leader", "the disk is full", failed - 1]);
    assert.deepEqual(lines.slice(0, -1).map(({ loop, error }) => `${loop}: ${error}`), [
      "leader: the disk is full",
      "leader: something else",
      "alerts: the disk is full",
      "storing the log of run 7: the disk is full",
    ]);
  } finally {
    silence();
  }
});
