/** Waits that a body leaves open when it ends, such as the one that lost a race. */
import assert from "node:assert/strict";
import type { Ending } from "../../../src/runs/finished_runs.ts";
import { finishRuns } from "../../../src/runs/states.ts";
import { aStep } from "../../support/journal.ts";
import { anOwnedRun, type Owned } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

const LATER = new Date(Date.UTC(2100, 0, 1));

function ending({ job_run_id, attempt, start_token }: Owned, more: Partial<Ending>): Ending {
  const said = { outcome: "SUCCEEDED" as const, exit_code: 0, error_name: null, error_summary: null, result: null };
  const retry = { retry_max: 0, retry_after_ms: 0, other_node: false };
  return { job_run_id, attempt, start_token, ...said, ...retry, ...more };
}

Deno.test("a run that ends closes the waits that it leaves, so nobody is asked and no event looked for; one that is tried again keeps them", () =>
  withStores(async ({ sql }) => {
    const [over, again] = [await anOwnedRun(sql), await anOwnedRun(sql)];
    for (const { id } of [over, again]) {
      await aStep(sql, id, { key: "step:a", seq: 1 });
      await aStep(sql, id, { key: "event:paid", waits_for: "paid", until: LATER });
    }
    const ended = await finishRuns(sql, "w-of-nobody", [
      ending(over, { leaves_waits: true }),
      ending(again, { leaves_waits: true, outcome: "FAILED", retry_max: 3 }),
    ]);
    assert.deepEqual(ended.map(({ state }) => state).toSorted(), ["RETRYING", "SUCCEEDED"]);
    const waits = await sql`select job_run_id as id, state from run_step where kind = 'event' order by job_run_id`;
    assert.deepEqual([...waits], [{ id: over.id, state: "CANCELED" }, { id: again.id, state: "WAITING" }]);
  }));
