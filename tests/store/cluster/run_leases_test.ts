/** A worker's lease, as its settings change. */
import assert from "node:assert/strict";
import type { Executor } from "../../../src/worker/executor.ts";
import { holdLease, renewOnce, type WorkerParts } from "../../../src/worker/worker.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { changeSettings, readSettings } from "../../../src/settings/settings.ts";
import { aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("an order that came before its assignment is left to start; a body that Postgres does not know is ended", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const [early, strange] = [await aRun(sql), await aRun(sql, { state: "SUCCEEDED", finished_at: new Date() })];
    const local = new LocalWorkerState({ worker_id, node_id: "here", slots: 1, settings: await readSettings(sql) });
    const abandoned: number[] = [];
    const executor: Pick<Executor, "runs" | "held" | "knows" | "abandon"> = {
      runs: [{ job_run_id: early.id, attempt: 1 }, { job_run_id: strange.id, attempt: 1 }],
      held: [{ job_run_id: strange.id, attempt: 1 }],
      knows: () => true,
      abandon: ({ job_run_id }) => void abandoned.push(job_run_id),
    };
    await renewOnce({ ...partsOf(sql, local), executor } as unknown as WorkerParts);
    assert.deepEqual(abandoned, [strange.id]);
  });
});

Deno.test("a renewal ends the body of a run that is to be canceled, and not of one that undoes what it did before it is", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const asked = { state: "RUNNING", assigned_worker_id: worker_id, cancel_requested_at: new Date() };
    const [ends, undoes] = [await aRun(sql, asked), await aRun(sql, { ...asked, ending: "CANCELED" })];
    const local = new LocalWorkerState({ worker_id, node_id: "here", slots: 2, settings: await readSettings(sql) });
    const canceled: number[] = [];
    const runs = [ends, undoes].map(({ id }) => ({ job_run_id: id, attempt: 1 }));
    const executor = {
      runs,
      held: runs,
      knows: () => true,
      abandon: () => {},
      cancel: ({ job_run_id }: { job_run_id: number }) => void canceled.push(job_run_id),
    };
    await renewOnce({ ...partsOf(sql, local), executor } as unknown as WorkerParts);
    assert.deepEqual(canceled, [ends.id]);
  });
});

Deno.test("who is to renew less often does so when it has the longer lease, not before", async () => {
  await withStores(async ({ sql }) => {
    const by = { actor: "somebody" };
    await changeSettings(sql, { worker_lease_seconds: 5, worker_renew_seconds: 0.2, worker_margin_seconds: 4 }, by);
    const { worker_id } = await aWorker(sql, { lease_ms: 5_000 });
    const settings = await readSettings(sql);
    const local = new LocalWorkerState({ worker_id, node_id: "here", slots: 1, settings });
    const stop = new AbortController();
    const held = holdLease(partsOf(sql, local) as unknown as WorkerParts, stop.signal);
    await waitFor("the first renewal", () => Promise.resolve(local.renewed_ms > 0 || undefined));
    await changeSettings(sql, { worker_lease_seconds: 300, worker_renew_seconds: 60 }, by);
    const left = () =>
      sql<{ left: number }[]>`
        select extract(epoch from lease_until - clock_timestamp())::float8 as left from worker where worker_id = ${worker_id}`;
    await waitFor("the longer lease", async () => (await left())[0]!.left > 200 || undefined);
    assert.equal(local.settings.worker_renew_seconds, 60);
    stop.abort();
    assert.equal(await held, undefined);
  });
});

function partsOf(sql: Sql, local: LocalWorkerState) {
  const transport = { fingerprint: "", former_fingerprint: "", trust_digest: "", not_after: undefined };
  return { sql, lease_sql: sql, local, transport, executor: { runs: [], held: [] }, pending_starts: {}, pid: 1 };
}
