/** What is done again is what has ended, and the audit names what was acted on and loses nothing between two pages. */
import assert from "node:assert/strict";
import { listAudit } from "../../../src/access/audit.ts";
import { rerunWhere } from "../../../src/runs/create_runs.ts";
import { aRun } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("only what has ended is run again, and the audit names the run that was acted on, and the new one beside it", () =>
  withStores(async ({ sql }) => {
    const { id: ended } = await aRun(sql, { state: "FAILED" });
    const { id: inflight } = await aRun(sql, { state: "RUNNING" });
    const by = { actor: "ann", reason: "because", most: 10, wish: "w" };
    const again = await rerunWhere(sql, { ids: [ended, inflight] }, by);
    assert.deepEqual(again.map(({ rerun_of }) => rerun_of), [ended]);
    const [act, ...others] = await listAudit(sql, { most: 10 });
    assert.deepEqual([act?.action, act?.target_id, act?.after], ["run.retry", String(ended), { rerun: again[0]?.id }]);
    assert.equal(others.length, 0);
  }));

Deno.test("acts of one instant are each on one page of the audit", () =>
  withStores(async ({ sql }) => {
    await sql`
      insert into admin_action_log (actor, action, target_type, target_id, at)
      select 'ann', 'run.cancel', 'run', n::text, '2026-01-01' from generate_series(1, 5) n`;
    const found: string[] = [];
    let before_id: number | undefined;
    do {
      const acts = await listAudit(sql, { most: 2, before_id });
      found.push(...acts.map(({ target_id }) => target_id));
      before_id = acts.at(-1)?.id;
    } while (before_id !== undefined);
    assert.deepEqual(found, ["5", "4", "3", "2", "1"]);
  }));
