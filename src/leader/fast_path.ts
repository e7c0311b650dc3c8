/**
 * The short way of a lone run: one that is created while nothing else waits goes to a worker that was free at the last look, without another
 * look, and its order is on the way while the assignment is written.
 *
 *   bell with its name -> a place from the last look -> the order, and the assignment -> no row: a look, as ever
 *
 * The statement that assigns it asks whether it is such a run, whether nothing else waits and whether the worker has a slot, so what is
 * remembered from the last look only says whom to try. The order that goes ahead gives the worker no right: its start finds the
 * row ASSIGNED to it, or nothing; then it is ordered again, as any run whose assignment is written.
 */
import type { WorkerRow } from "../nodes/workers.ts";
import { type AnnouncedRun, FIRST_VERSION, nothingElseCounts } from "../runs/fast_path.ts";
import { assign, placesFor, takesPart } from "./assignment.ts";
import { CapacitySnapshot, hostsOf } from "./placement.ts";
import type { LeaderContext } from "./leader_context.ts";
import { orderAhead } from "./dispatch.ts";

/** False: it was not given to anybody, and a look is due. */
export async function dispatchSingle(
  me: LeaderContext,
  { job_run_id, command_name, digest }: AnnouncedRun,
): Promise<boolean> {
  const worker = me.term.trusted ? freeWorker(me, digest) : undefined;
  if (!worker) return false;
  const { worker_id } = worker;
  const order = {
    job_run_id,
    attempt: FIRST_VERSION.attempt,
    command_name,
    digest,
    due_unix_us: 0,
    priority: 0,
    assigning: true,
  }; // nobody else waits
  const chosen = { job_run_id, version: FIRST_VERSION.version, worker_id };
  const assigned = await assign(me, [chosen], {
    besides: nothingElseCounts(me.sql, worker_id),
    order: () => orderAhead(me, worker, order),
  });
  return assigned.length > 0; // without a row the order has started nothing, whatever became of it
}

/** Who was free at the last look and nothing waited; undefined: that must be looked at. */
function freeWorker(me: LeaderContext, digest: string): WorkerRow | undefined {
  if (!me.snapshot || me.unclear || me.snapshot.paused || me.snapshot.lanes.length > 0) return undefined;
  const { workers } = me.snapshot;
  const monitor = placesFor(workers.filter(({ node }) => takesPart(node)), {
    leader_worker_id: me.term.worker_id,
    leader_runs_jobs: me.settings.leader_runs_jobs,
    fit: (worker_id) => me.monitor.fit(worker_id),
  });
  const capacity = new CapacitySnapshot({
    hosts: hostsOf(workers, monitor),
    lacking: (code) => me.monitor.lacking(code),
  });
  const found = capacity.placeFor({ node: "", avoid_node: null, digest }, "now");
  const worker = workers.find(({ worker_id }) => worker_id === found?.place.worker_id);
  if (worker) worker.load += 1; // should another come before the next look
  return worker;
}
