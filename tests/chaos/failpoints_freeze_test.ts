/**
 * Workers freeze between two steps, longer than their lease, and wake while their runs go on elsewhere. Whatever they
 * were about to do must then be left undone, or be refused; and they come back under a new id.
 */
import assert from "node:assert/strict";
import type { FailpointName } from "../../src/platform/failpoint.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "../support/cluster.ts";
import { caughtWith, reaches, saidBy, startDoomed, STEADY } from "../support/doomed.ts";
import { judge, ledgerJob, readLedger } from "../support/ledger.ts";
import { waitFor } from "../support/waiting.ts";

/** A first attempt that only a guard can end, or that ends by itself; the second is still at work when all wake. */
const LONG = { hold_ms: [60_000, 3_000] };
const SHORT = { hold_ms: [200, 3_000] };

interface Frozen {
  point: FailpointName;
  args: typeof LONG;
  /** All that its first body can have noted. */
  notes: string;
}

const FROZEN: Frozen[] = [
  { point: "before-start-commit", args: LONG, notes: "" },
  { point: "after-start-commit-before-spawn", args: LONG, notes: "" },
  { point: "after-spawn-before-guard", args: LONG, notes: "" },
  { point: "after-spawn", args: LONG, notes: "begin" },
  { point: "after-rpc-before-reply", args: LONG, notes: "begin" },
  { point: "after-body-exit-before-finish", args: SHORT, notes: "begin end" },
];

Deno.test("workers that wake after their lease begin no body, record nothing, and come back as others", async () => {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    const stories = await freezeAll(cluster);
    await waitFor("a second body of each run", () => {
      const begun = stories.every(({ id, attempt }) =>
        readLedger(cluster).some((note) => note.job_run_id === id && note.attempt > attempt)
      );
      return Promise.resolve(begun || undefined);
    });
    for (const { worker } of stories) worker.kill("SIGCONT");
    for (const { worker } of stories) await cluster.hears("worker.lost", {}, { by: worker });
    for (const { id } of stories) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    for (const { id, attempt, point, notes } of stories) {
      const noted = notesOf(cluster, id, attempt).join(" ");
      assert(notes.startsWith(noted) && (noted === notes || notes === "begin"), `${point}: ${noted}`);
    }
    await judge(cluster, { new_runs: stories.length });
    const late = stories.find(({ point }) => point === "after-body-exit-before-finish");
    const [act] = await cluster.sql`select action from admin_action_log where target_type = 'run' and target_id = ${
      String(late?.id)
    }`;
    assert.equal(act?.action, "run.late_result");
    for (const { worker, hit, point } of stories) {
      const [next] = saidBy(cluster, worker, { facts: ["body.spawned", "worker.lost"], after: hit });
      // It says so of the process that it had started before it froze, and that got no order.
      if (point !== "after-spawn-before-guard") assert.equal(next?.fact, "worker.lost", point);
      const again = await cluster.hears("worker.ready", {}, { by: worker, after: hit });
      assert.notEqual(again.worker_id, worker.worker_id, point);
    }
    await theyWorkAgain(cluster, stories);
  }, { jobs: (dir) => ({ "ledger.ts": ledgerJob(dir) }), more_workers: FROZEN.length, settings: STEADY });
});

/** Each with one run of its own: it has one slot, and is started only when the others have stopped. */
async function freezeAll(cluster: Cluster) {
  const stories = [];
  for (const args of [LONG, SHORT]) {
    const some = FROZEN.filter((frozen) => frozen.args === args);
    const workers = await Promise.all(some.map(({ point }) => startDoomed(cluster, `${point}:1:stop`)));
    for (const _ of some) await cluster.enqueue("ledger", args);
    stories.push(
      ...await Promise.all(some.map(async (frozen, place) => {
        const worker = workers[place] as WorkerProcess;
        const hit = await reaches(cluster, worker, frozen.point);
        return { ...frozen, worker, hit, ...await caughtWith(cluster, worker) };
      })),
    );
  }
  return stories;
}

function notesOf(cluster: Cluster, job_run_id: number, attempt: number): string[] {
  return readLedger(cluster)
    .filter((note) => note.job_run_id === job_run_id && note.attempt === attempt && note.what !== "alive")
    .map(({ what }) => what);
}

async function theyWorkAgain(cluster: Cluster, stories: { worker: WorkerProcess }[]): Promise<void> {
  const { worker: leader } = await cluster.hears("leader.elected");
  const runs = await Promise.all(stories.map(() => cluster.enqueue("ledger")));
  for (const id of runs) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
  const ids = await cluster.sql<{ worker_id: string }[]>`
    select distinct assigned_worker_id as worker_id from job_run where id = any(${runs})`;
  const not_theirs = [leader, ...stories.map(({ worker }) => worker)].map(({ worker_id }) => worker_id);
  for (const { worker_id } of ids) assert(!not_theirs.includes(worker_id), `${worker_id} is not one of the new`);
}
