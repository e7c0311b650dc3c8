/**
 * How long work stands still when a process dies: from the signal until a run is RUNNING again, as the worker that runs it
 * says. Default settings; each try with fresh processes in the place of those that were killed.
 */
import { rest } from "../../src/platform/timers.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";
import type { Cluster, WorkerProcess } from "../../tests/support/cluster.ts";
import { type Figure, figures, percentiles, type Workload } from "../workload.ts";

/** Stays in its first attempt until it is killed. */
const JOBS = {
  "again.ts": `
    import { defineJob } from "dandori";
    export default defineJob({
      run: ({ attempt }) => attempt > 1 ? undefined : new Promise((resolve) => setTimeout(resolve, 3_600_000)),
    });`,
  "nothing.ts": `import { defineJob } from "dandori";\nexport default defineJob({ run() {} });`,
};
/** Until everybody watches whom they should, and spares are loaded. */
const SETTLE_MS = 3_000;

export const recovery: Workload = {
  name: "recovery",
  about: "how long work stands still when a process dies; with --long also where no sibling repairs it, 30 s each",
  only_by_name: true,
  async run(bench) {
    const tries = bench.runs ?? (bench.quick ? 2 : 10);
    const found: Figure[] = [];
    const measure = async (how: string, act: (took: number[]) => Promise<void>) => {
      bench.say(`recovery, ${how}: ${tries} times`);
      const took: number[] = [];
      await act(took);
      found.push(...figures({ workload: "recovery", who: "dandori", how, n: tries }, percentiles(took)));
    };
    await measure("kill -9 of a worker with a sibling", (took) => killWorkers(took, tries, true));
    await measure("kill -9 of the leader", (took) => stopLeaders(took, tries, "SIGKILL"));
    await measure("SIGSTOP of the leader", (took) => stopLeaders(took, tries, "SIGSTOP"));
    if (bench.long) await measure("kill -9 of a worker without one", (took) => killWorkers(took, tries, false));
    return found;
  },
};

/** Loaded only here, since it starts servers of its own: those of the tests. */
async function withProcesses(workers: number, act: (cluster: Cluster) => Promise<void>): Promise<void> {
  const support = await import("../../tests/support/cluster.ts");
  await support.withProcesses(workers, act, { jobs: JOBS, settings: DEFAULT_SETTINGS });
}

/** Until the run that it interrupted is RUNNING on another. */
async function killWorkers(took: number[], tries: number, sibling: boolean): Promise<void> {
  await withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    for (const node_id of ["node-2", sibling ? "node-2" : "node-3"]) await cluster.startWorker({ node_id });
    for (let n = 0; n < tries; n++) {
      await rest(SETTLE_MS);
      const job_run_id = await cluster.enqueue("again");
      const worker = workerOf(cluster, (await cluster.hears("run.started", { job_run_id })).worker_id);
      const began = performance.now();
      worker.kill("SIGKILL");
      await heardSoon(cluster, job_run_id, 2);
      took.push(performance.now() - began);
      await worker.ended;
      await cluster.startWorker({ node_id: worker.node_id });
    }
  });
}

/** Until a run that is enqueued in that moment is RUNNING, by order of its successor. */
async function stopLeaders(took: number[], tries: number, signal: "SIGKILL" | "SIGSTOP"): Promise<void> {
  await withProcesses(3, async (cluster) => {
    let leader = await cluster.hears("leader.elected");
    for (let n = 0; n < tries; n++) {
      await rest(SETTLE_MS);
      const worker = workerOf(cluster, leader.worker_id);
      const last = cluster.hearing.last;
      const began = performance.now();
      worker.kill(signal);
      await heardSoon(cluster, await cluster.enqueue("nothing"), 1);
      took.push(performance.now() - began);
      leader = await cluster.hears("leader.elected", {}, { after: last });
      worker.kill("SIGKILL");
      await worker.ended;
      await cluster.startWorker({ node_id: worker.node_id });
    }
  });
}

/** A lease may have to end first, which is longer than the tests' patience with a line. */
async function heardSoon(cluster: Cluster, job_run_id: number, attempt: number): Promise<void> {
  const hear = () => cluster.hears("run.started", { job_run_id, attempt });
  await hear().catch(hear);
}

function workerOf(cluster: Cluster, worker_id: string): WorkerProcess {
  const worker = cluster.workers.find((one) => one.worker_id === worker_id);
  if (!worker) throw new Error(`No process of ${worker_id}`);
  return worker;
}
