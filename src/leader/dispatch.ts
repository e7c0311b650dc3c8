/**
 * Tells workers what was decided. Never awaited by the tick: one slow worker must not hold up the others. An order is
 * only a hint, since a worker also reads what is assigned to it; a run whose order failed goes to someone else at once,
 * which is safe because both would have to move the same row.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { afterWrites } from "../platform/timers.ts";
import type { StartOrder } from "../rpc/messages.ts";
import type { WorkerRow } from "../nodes/workers.ts";
import { cancelsToDeliver } from "../runs/requests.ts";
import { orphanAssigned } from "../runs/lost_runs.ts";
import { type Assigned, type AttemptRef, cancelRequested, endPastDeadline } from "../runs/states.ts";
import type { LeaderContext } from "./leader_context.ts";
import { stored } from "../locale/message.ts";

/** A tenth of a second of Postgres' time, or two: a hundred thousand at once took longer than a term lasts. */
const CANCELS_AT_ONCE = 5_000;

/** One StartJobs per worker. `ahead`: the order of the only one went before its assignment, and resolves to whether it has started. */
export function orderStarts(me: LeaderContext, assigned: Assigned[], ahead?: Promise<boolean>): void {
  if (ahead) return void ahead.then((started) => started || orderStarts(me, assigned));
  const by_worker = Map.groupBy(assigned, (run) => run.worker_id);
  for (const [worker_id, runs] of by_worker) {
    orderStart(me, worker_id, runs).catch((error) => loopFailed(`orders to ${worker_id}`, error));
  }
}

async function orderStart(me: LeaderContext, worker_id: string, runs: Assigned[]): Promise<void> {
  const worker = me.monitor.get(worker_id);
  if (!worker) return void await takeBack(me, runs); // it went meanwhile
  const answer = await send(
    me,
    worker,
    runs.map(({ job_run_id, attempt, command_name, digest, due_unix_us, priority }) => {
      return { job_run_id, attempt, command_name, digest, due_unix_us, priority };
    }),
  );
  if (!answer.ok) {
    me.monitor.suspect(worker_id, me.settings.suspect_seconds);
    await takeBack(me, runs);
    me.wakeup.signal();
    return;
  }
  me.monitor.trust(worker_id);
  const refused: Assigned[] = [];
  let other_code = false;
  for (const [place, run] of runs.entries()) {
    const said = answer.value.results[place];
    if (said?.result === "ACCEPTED") continue;
    const result = said?.result ?? "RESULT_UNSPECIFIED";
    const message = said?.message ?? "";
    observe("run.refused", { job_run_id: run.job_run_id, attempt: run.attempt, worker_id, result, message });
    if (said?.other_code) { // the worker has undone the assignment, and is given no run of this code until it says otherwise
      me.monitor.hasOtherCode(worker_id, run.digest, said.other_code.digest || null);
      other_code = true;
      continue;
    }
    if (result !== "REJECTED_INVALID") me.monitor.hasRefused(worker_id); // else the run is no longer assigned there, or is to be canceled
    refused.push(run);
  }
  if (refused.length > 0) await takeBack(me, refused);
  if (other_code || refused.length > 0) me.wakeup.signal();
}

/** An order that goes before its assignment: whether it has started. What else comes of it is no news, and it never rejects. */
export async function orderAhead(me: LeaderContext, worker: WorkerRow, order: StartOrder): Promise<boolean> {
  await afterWrites(); // the statement goes first: it must be done when the worker's comes
  const said = await send(me, worker, [order]);
  const started = said.ok && said.value.results[0]?.result === "ACCEPTED";
  if (started) me.monitor.trust(worker.worker_id);
  return started;
}

/** Every order to start leaves here. */
function send(me: LeaderContext, worker: WorkerRow, orders: StartOrder[]) {
  return me.peers.to(worker).startJobs({ leader_epoch: me.term.epoch, orders });
}

async function takeBack(me: LeaderContext, runs: Assigned[]): Promise<AttemptRef[]> {
  if (!me.term.trusted) return [];
  await failpoint("after-lease-check-refused");
  const taken = await orphanAssigned(me.sql, me.term, { refused: runs });
  for (const run of taken) observe("run.orphaned", { ...run, cause: stored("runs.cause.refused") });
  return taken;
}

/** Requests to cancel: what has no body is CANCELED here; workers are told of the rest, again each tick until it ends. And what is past its deadline. */
export async function deliverCancels(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-cancels");
  const canceled = await cancelRequested(me.sql, me.term, CANCELS_AT_ONCE);
  for (const run of canceled) observe("run.canceled", { job_run_id: run.job_run_id, by: run.by });
  const timed_out = await endPastDeadline(me.sql, me.term, CANCELS_AT_ONCE);
  for (const run of timed_out) observe("run.deadline_passed", run);
  if (canceled.length === CANCELS_AT_ONCE || timed_out.length === CANCELS_AT_ONCE) me.wakeup.signal();
  for (const run of await cancelsToDeliver(me.sql)) {
    const worker = me.monitor.get(run.worker_id);
    if (!worker) continue;
    const { job_run_id, attempt, reason } = run;
    me.peers.to(worker).cancelJob({ leader_epoch: me.term.epoch, job_run_id, attempt, reason }); // its failure is a value, and told again next tick
  }
}

/** Workers whose rows say something else of draining than they do. Who is not reached learns it with the next renewal of its lease. */
export function orderDrains(me: LeaderContext): void {
  for (const { draining: enable, ...worker } of me.monitor.unawareOfDrain()) {
    me.peers.to(worker).drain({ leader_epoch: me.term.epoch, enable, noted: true });
  }
}
