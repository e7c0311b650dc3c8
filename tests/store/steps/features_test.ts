/** A run that has steps goes to no worker of a version that does not know them. */
import assert from "node:assert/strict";
import { assignRuns } from "../../../src/runs/states.ts";
import { aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("a run that has steps is assigned to a worker that knows them; any other run to any worker", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const old = await aWorker(sql, { features: [] });
    const able = await aWorker(sql);
    const [stepped, plain, fresh] = await Promise.all([
      aRun(sql, { state: "ORPHANED", attempt: 2 }),
      aRun(sql, { state: "ORPHANED", attempt: 2 }),
      aRun(sql),
    ]);
    await sql`insert into run_step (job_run_id, key, kind, state, seq, attempt, code_digest, ended_at)
              values (${stepped.id}, 'step:a', 'step', 'DONE', 1, 1, 'digest', clock_timestamp())`;
    const assign = async (worker_id: string) => {
      const runs = [stepped, plain, fresh].map(({ id, version }) => ({ job_run_id: id, version, worker_id }));
      return (await assignRuns(sql, term, runs)).map(({ job_run_id }) => job_run_id).toSorted((a, b) => a - b);
    };
    assert.deepEqual(await assign(old.worker_id), [plain.id, fresh.id].toSorted((a, b) => a - b));
    assert.deepEqual(await assign(able.worker_id), [stepped.id]);
  }));
