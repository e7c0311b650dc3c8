/** What a worker prints: every fact, in order, and those of every run together. */
import assert from "node:assert/strict";
import { observe } from "../src/base/facts.ts";
import { printFacts } from "../src/cli/fact_lines.ts";

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
