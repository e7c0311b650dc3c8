/** Workers with a failpoint: where they stop or die is known before they start, so what happens there is no chance. */
import type { FailpointName } from "../../src/platform/failpoint.ts";
import type { FactName, Facts } from "../../src/platform/facts.ts";
import type { Settings } from "../../src/settings/settings.ts";
import { waitFor } from "./waiting.ts";
import type { Cluster, Heard, WorkerProcess } from "./cluster.ts";

/** `after-spawn:1:kill`, several with commas between. */
export type Doom = `${FailpointName}:${number}:${"stop" | "kill" | "error" | `delay:${number}`}`;

/** So long that on a busy machine no term and no order ends by itself; what is waited for is waited for anyway. */
export const STEADY: Partial<Settings> = {
  leader_lease_seconds: 5,
  leader_stale_seconds: 5,
  reassign_after_seconds: 3,
};

/** Starts a worker with one slot: it gets one run, and comes by with that one. */
export function startDoomed(cluster: Cluster, ...doom: Doom[]): Promise<WorkerProcess> {
  return cluster.startWorker({ env: { SCHEDULER_FAILPOINT: doom.join(","), SCHEDULER_SLOTS: "1" } });
}

/** Waits until that process has come to that point; where it stops, until it stands still and can be woken. */
export async function reaches(
  cluster: Cluster,
  worker: WorkerProcess,
  failpoint: FailpointName,
): Promise<Heard<"failpoint.hit">> {
  const hit = await cluster.hears("failpoint.hit", { failpoint }, { by: worker });
  if (hit.action === "stop") {
    await waitFor(`${worker.node_id} to stand still`, () => Promise.resolve(isStopped(worker.pid) || undefined));
  }
  return hit;
}

function isStopped(pid: number): boolean {
  return /^\d+ \(.*\) T/.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
}

/** What one process has said so far under some names, later than `after`. */
export function saidBy<K extends FactName>(
  cluster: Cluster,
  worker: WorkerProcess,
  on: { facts: readonly K[]; after?: { place: number } },
): { fact: K; said: Facts[K] }[] {
  return cluster.hearing.lines.slice((on.after?.place ?? -1) + 1)
    .filter(({ who, text }) => who === worker.node_id && text.startsWith('{"fact":"'))
    .map(({ text }) => JSON.parse(text) as Facts[K] & { fact: K })
    .filter(({ fact }) => on.facts.includes(fact))
    .map((said) => ({ fact: said.fact, said }));
}

/** The attempt with which a worker of one slot came to its failpoint: the last that it was given until then. */
export async function caughtWith(cluster: Cluster, worker: WorkerProcess): Promise<{ id: number; attempt: number }> {
  const hit = await cluster.hears("failpoint.hit", {}, { by: worker });
  const given = cluster.hearing.lines.slice(0, hit.place).filter(({ text }) =>
    text.startsWith('{"fact":"run.assigned"')
  )
    .map(({ text }) => JSON.parse(text) as Facts["run.assigned"])
    .findLast(({ worker_id }) => worker_id === worker.worker_id);
  if (!given) throw new Error(`Nothing was given to ${worker.worker_id}`);
  return { id: given.job_run_id, attempt: given.attempt };
}
