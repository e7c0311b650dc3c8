/** Workers die between two steps, and replies are lost between two: every run ends once, and each repeat is explained. */
import assert from "node:assert/strict";
import type { FailpointName } from "../../src/platform/failpoint.ts";
import { requestCancel } from "../../src/runs/requests.ts";
import { readAttempts, readRun } from "../../src/runs/run_view.ts";
import { withProcesses, type WorkerProcess } from "../support/cluster.ts";
import { caughtWith, type Doom, reaches, startDoomed, STEADY } from "../support/doomed.ts";
import { judge, ledgerJob, readLedger } from "../support/ledger.ts";

/** Where a worker dies with its run; how that attempt ended, and whether its body had done its work. */
const DEATHS: { point: FailpointName; first: string; worked: boolean | "maybe" }[] = [
  { point: "before-start-commit", first: "GIVEN_BACK", worked: false },
  { point: "after-start-commit-before-spawn", first: "LOST", worked: false },
  { point: "after-spawn-before-guard", first: "LOST", worked: false },
  { point: "after-spawn", first: "LOST", worked: "maybe" },
  { point: "after-rpc-before-reply", first: "LOST", worked: "maybe" },
  { point: "after-body-exit-before-finish", first: "LOST", worked: true },
  { point: "after-finish-commit", first: "SUCCEEDED", worked: true },
];

Deno.test("a worker that is killed between two steps loses no run, and its run is repeated only where it must be", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const workers = await Promise.all(DEATHS.map(({ point }) => startDoomed(cluster, `${point}:1:kill`)));
    for (const _ of DEATHS) await cluster.enqueue("ledger", { hold_ms: 100 });
    await Promise.all(workers.map(({ ended }) => ended));
    for (const [place, { point, first, worked }] of DEATHS.entries()) {
      const { id, attempt } = await caughtWith(cluster, workers[place] as WorkerProcess);
      const run = await cluster.ends(id);
      assert.equal(run.state, "SUCCEEDED", point);
      const kept = (await readAttempts(cluster.sql, id)).find((one) => one.attempt === attempt);
      assert.equal(kept?.outcome ?? run.state, first, point);
      const notes = readLedger(cluster).filter((note) => note.job_run_id === id && note.attempt === attempt);
      if (worked !== "maybe") assert.equal(notes.some(({ what }) => what === "end"), worked, point);
    }
    await judge(cluster, { new_runs: DEATHS.length });
  }, { jobs, settings: STEADY, more_workers: DEATHS.length });
});

/** A connection that is cut before or after a statement, or a reply that does not arrive. */
const LOST_REPLIES: Doom[] = [
  "before-start-commit:1:error",
  "after-start-commit-before-spawn:1:error",
  "after-rpc-before-reply:1:error",
  "after-body-exit-before-finish:1:error",
  "after-finish-commit:1:error",
];

Deno.test("a worker whose replies are lost runs each run once, and records its end once", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const workers = await Promise.all(LOST_REPLIES.map((doom) => startDoomed(cluster, doom)));
    const runs = await Promise.all(LOST_REPLIES.map(() => cluster.enqueue("ledger", { hold_ms: 300 })));
    for (const id of runs) {
      assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
      assert.equal(readLedger(cluster).filter((note) => note.job_run_id === id && note.what === "begin").length, 1);
      const view = await readRun(cluster.sql, id);
      assert.deepEqual([view?.failures, view?.interruptions], [0, 0]);
    }
    await judge(cluster, { new_runs: runs.length });
    for (const worker of workers) await cluster.hears("failpoint.hit", {}, { by: worker });
    const { result } = await cluster.hears("run.refused"); // by the one that could not ask for it
    assert.equal(result, "REJECTED_DETACHED", "not as if it had other code, which would be believed of it for a while");
    assert.deepEqual([...await cluster.sql`select 1 from admin_action_log where action = 'run.late_result'`], []);
  }, { jobs, settings: STEADY, more_workers: LOST_REPLIES.length });
});

Deno.test("what is asked between a start's commit and its body is done, and the body does not begin", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const doom = "after-start-commit-before-spawn:1:delay:4000";
    const [canceled, drained] = await Promise.all([startDoomed(cluster, doom), startDoomed(cluster, doom)]);
    const runs = await Promise.all([0, 1].map(() => cluster.enqueue("ledger", { hold_ms: [60_000, 100] })));
    for (const worker of [canceled, drained]) await reaches(cluster, worker, "after-start-commit-before-spawn");
    const unwanted = (await caughtWith(cluster, canceled)).id;
    await requestCancel(cluster.sql, unwanted, { actor: "test", reason: "not needed any more" });
    drained.kill("SIGTERM");
    const ends = await Promise.all(runs.map((id) => cluster.ends(id)));
    for (const { id, state } of ends) assert.equal(state, id === unwanted ? "CANCELED" : "SUCCEEDED");
    assert.deepEqual(readLedger(cluster).filter((note) => note.job_run_id === unwanted), []);
    await judge(cluster, { new_runs: 2 });
  }, { jobs, settings: { ...STEADY, drain_grace_seconds: 0 } });
});

function jobs(effects_dir: string): Record<string, string> {
  return { "ledger.ts": ledgerJob(effects_dir) };
}
