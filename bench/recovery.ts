/**
 * How long work stands still when a process dies: from the signal until a run is RUNNING again, as the worker that runs it
 * says. Default settings; each try with fresh processes in the place of those that were killed.
 */
import { rest } from "../src/base/loop.ts";
import { DEFAULT_SETTINGS } from "../src/store/settings.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "../tests/support/cluster.ts";

export interface Recovery {
  workload: string;
  n: number;
  unit: "ms";
  median: number;
  max: number;
}

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

/** `lease`: also what no sibling repairs, and that takes half a minute each time. */
export async function recovery(tries: number, options: { lease: boolean }): Promise<Recovery[]> {
  const figures = [
    await figure("kill -9 of a worker with a sibling", tries, (took) => killWorkers(took, tries, true)),
    await figure("kill -9 of the leader", tries, (took) => stopLeaders(took, tries, "SIGKILL")),
    await figure("SIGSTOP of the leader", tries, (took) => stopLeaders(took, tries, "SIGSTOP")),
  ];
  if (!options.lease) return figures;
  return [
    ...figures,
    await figure("kill -9 of a worker without one", tries, (took) => killWorkers(took, tries, false)),
  ];
}

async function figure(workload: string, n: number, measure: (took: number[]) => Promise<void>): Promise<Recovery> {
  const took: number[] = [];
  await measure(took);
  took.sort((one, other) => one - other);
  const median = ((took[Math.floor((n - 1) / 2)] as number) + (took[Math.floor(n / 2)] as number)) / 2;
  return { workload, n, unit: "ms", median: Math.round(median), max: Math.round(took.at(-1) as number) };
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
  }, { jobs: JOBS, settings: DEFAULT_SETTINGS });
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
  }, { jobs: JOBS, settings: DEFAULT_SETTINGS });
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
