/**
 * Gives waiting runs to workers: from who has room and in which run queues something waits (read along with the renewal, unless
 * the tick has changed it since), see which run queues are open (admission.ts), read the first runs of those where they were not
 * all seen, choose (scheduling.ts), and write the assignments that hold.
 * A leader is left free to lead where others can do the work (`leader_runs_jobs`).
 */
import { observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { monotonicMs } from "../platform/timers.ts";
import { leaseRuns } from "../redis/leader_lock.ts";
import { readLacking } from "../runs/code_mismatch.ts";
import { type Fragment, isUniqueViolation } from "../postgres/connection.ts";
import { checkLines, hold, wake } from "../runs/key_queues.ts";
import type { NodeRow, WorkerRow } from "../nodes/workers.ts";
import { lockedRows } from "../postgres/row_locks.ts";
import { quarantine } from "../runs/lost_runs.ts";
import { type Assigned, type Assignment, assignRuns } from "../runs/states.ts";
import {
  type Candidate,
  candidates,
  type DispatchSnapshot,
  readDispatchSnapshot,
  readResources,
  type RunQueue,
  sayWhy,
} from "../dispatch/dispatch_queues.ts";
import type { Settings } from "../settings/settings.ts";
import { choose, chooseAhead, inOrder, openOf, type OpenQueue, queueKey, sharesOf } from "./scheduling.ts";
import { type Admission, admissionsOf, rateWait } from "./admission.ts";
import { CapacitySnapshot, type Crewed, hostsOf, type WorkerCapacity } from "./placement.ts";
import { lockedLately, noteLocked } from "./row_locks.ts";
import type { LeaderContext } from "./leader_context.ts";
import { worthSending } from "./prefetch.ts";
import { settleOverlaps } from "./planning.ts";
import { orderDrains, orderStarts } from "./dispatch.ts";

export const RUNS_AT_ONCE = 1_000;
/** Reasons are for people: written at most this often. */
const SAY_EVERY_MS = 250;
const CODE_EVERY_MS = 5_000;

/** Lets go what has come due. */
export async function wakeDue(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-wake");
  const asleep = await wake(me.sql, me.term);
  if (asleep.slots) { // with jitter: what goes on is known now, and was not when they were created
    me.overlaps_settled = false;
    await settleOverlaps(me);
  }
  if (asleep.more) me.wakeup.signal();
}

/** Lets go what is next in its line. */
export async function checkLine(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-lines");
  const { more } = await checkLines(me.sql, me.term, { skip_locked: lockedLately(me) }).catch((error) => {
    throw noteLocked(me, error);
  });
  if (more) me.wakeup.signal();
}

/** What is due first, then what soon will be, with the room that is left. An idle tick only looks who is there. */
export async function dispatch(me: LeaderContext, busy: boolean): Promise<void> {
  const snapshot = me.snapshot ?? await readDispatchSnapshot(me.sql, me.settings.assign_ahead_seconds);
  me.monitor.follow(snapshot.workers);
  orderDrains(me);
  await learnCode(me);
  me.rate_wait_ms = Infinity;
  if (!busy) me.crowded = false;
  if (!busy && snapshot.near.length === 0) return;
  const capacity = await capacityOf(me, snapshot);
  if (busy) await assign(me, await chooseReady(me, snapshot, capacity));
  if (!capacity.paused) await assign(me, chooseAhead(snapshot.near, capacity));
}

/** Which workers have other code than was synced: when one has said something of it, and every few seconds, since a bell may be lost. */
async function learnCode(me: LeaderContext): Promise<void> {
  const now_ms = monotonicMs();
  if (!me.calls.code_news && now_ms - (me.code_read_ms ?? -Infinity) < CODE_EVERY_MS) return;
  me.calls.code_news = false;
  await me.monitor.learnCode(() => readLacking(me.sql));
  me.code_read_ms = now_ms;
}

async function capacityOf(me: LeaderContext, { paused, workers, lanes }: DispatchSnapshot): Promise<CapacitySnapshot> {
  const monitor = placesFor(workers.filter(({ node }) => takesPart(node)), {
    leader_worker_id: me.term.worker_id,
    leader_runs_jobs: me.settings.leader_runs_jobs,
    fit: (worker_id) => me.monitor.fit(worker_id),
    prefetch: (worker) => me.monitor.prefetch(worker),
    lineLeft: (worker) => me.monitor.lineLeft(worker),
  });
  return new CapacitySnapshot({
    hosts: hostsOf(workers, monitor),
    resources: await resourcesFor(me, lanes),
    paused,
    lacking: (digest) => me.monitor.lacking(digest),
    bodyMs: (digest) => me.monitor.bodyMs(digest),
    packs: me.monitor.packs(quickInHand(me, { workers, lanes })),
  });
}

/** Runs of quick code that workers have, as far as more of it waits; what those have who do not answer will not end soon. */
function quickInHand(me: LeaderContext, { workers, lanes }: Pick<DispatchSnapshot, "workers" | "lanes">): number {
  const running = new Map(
    lanes.filter(({ digest }) => me.monitor.isQuick(digest)).map((queue) => [queue.job_definition_id, queue.running]),
  );
  const stuck = workers.reduce((sum, { worker_id, load }) => sum + (me.monitor.fit(worker_id) ? 0 : load), 0);
  return Math.max(0, running.values().reduce((sum, runs) => sum + runs, 0) - stuck);
}

/** Whoever of those that wait may start now, and where; what that takes is taken from the capacity snapshot. */
async function chooseReady(
  me: LeaderContext,
  { lanes, waiting }: DispatchSnapshot,
  capacity: CapacitySnapshot,
): Promise<Assignment[]> {
  const gates = admissionsOf(lanes, capacity);
  me.rate_wait_ms = nextByRate(lanes, []);
  await tell(me, gates);
  const open = openOf(gates);
  const free = capacity.hosts.reduce((sum, host) => sum + host.free, 0);
  const most = Math.min(open.reduce((room, queue) => Math.max(room, queue.room), free), RUNS_AT_ONCE); // packs go beyond what is free
  if (open.length === 0 || most === 0) return [];
  const { sure, more } = await nextOf(me, { open, most, waiting, capacity });
  me.crowded = !waiting && sure.length >= most;
  if (sure.some((run) => run.worn_out)) await giveUpWornOut(me);
  const behind = sure.filter((run) => run.behind);
  if (behind.length > 0) await failpoint("after-lease-check-hold");
  const held = behind.length > 0 && await hold(me.sql, me.term, behind.map((run) => run.job_run_id));
  const chosen = choose(sure.filter((run) => !run.worn_out && !run.behind), open, capacity).slice(0, most);
  if (more || held) me.wakeup.signal();
  const given = new Set(chosen.map((run) => run.job_run_id));
  me.rate_wait_ms = nextByRate(lanes, sure.filter((run) => given.has(run.job_run_id)));
  return chosen;
}

/** Until a rate allows the next start of a job that waits, when these have been given to workers: nobody else rings then. */
function nextByRate(lanes: RunQueue[], given: Pick<Candidate, "job_definition_id">[]): number {
  const rated = lanes.filter((queue) => queue.rate_count !== null);
  const waits = rated.map((queue) => {
    const starts = given.filter((run) => run.job_definition_id === queue.job_definition_id).length;
    return rateWait(queue, starts);
  });
  return Math.min(...waits.filter((wait_ms) => wait_ms > 0));
}

/**
 * The one exit of dispatch: writes assignments down, tells the workers, and gives those that hold. `single`: of a run that takes the fast
 * path, what must hold besides, and its order, which goes out while the statement is under way and says whether it has started.
 */
export async function assign(
  me: LeaderContext,
  chosen: Assignment[],
  single?: { besides: Fragment; order: () => Promise<boolean> },
): Promise<Assigned[]> {
  if (chosen.length === 0) return [];
  const writing = writeAssignments(me, chosen, single?.besides);
  const started = single?.order();
  const assigned = await writing;
  orderStarts(me, assigned, started);
  noteAssigned(me, assigned);
  return assigned;
}

/** What else is done about runs that were given to workers, when their orders are on the way. */
function noteAssigned(me: LeaderContext, assigned: Assigned[]): void {
  for (const { job_run_id, attempt, worker_id, digest, due_unix_us } of assigned) {
    observe("run.assigned", { job_run_id, attempt, worker_id, epoch: me.term.epoch });
    if (due_unix_us === 0) me.monitor.gave(worker_id, digest); // one that lies ahead is no load yet, and would seem to have ended
  }
  me.given = (me.given ?? 0) + assigned.length;
  lease(me, assigned);
}

/** The runs that come first in the open run queues: asked for, unless all that waits was seen already. */
async function nextOf(
  me: LeaderContext,
  from: { open: OpenQueue[]; most: number; waiting: Candidate[] | undefined; capacity: CapacitySnapshot },
): Promise<{ sure: Candidate[]; more: boolean }> {
  if (from.waiting) {
    const open = new Set(from.open.map(({ queue }) => queueKey(queue)));
    return { sure: from.waiting.filter((run) => open.has(queueKey(run))), more: false };
  }
  const shares = sharesOf(from.open, from.most, from.capacity);
  return inOrder(await candidates(me.sql, shares), shares);
}

/** Asked for only when a job that waits needs one. */
async function resourcesFor(me: LeaderContext, lanes: RunQueue[]): Promise<CapacitySnapshot["resources"]> {
  if (lanes.every((queue) => Object.keys(queue.resources).length === 0)) return new Map();
  const rows = await readResources(me.sql);
  return new Map(rows.map(({ name, capacity, taken }) => [name, { capacity, left: capacity - taken }]));
}

/** Writes down why run queues are closed, when that has changed. What a leader before wrote is unknown, so the first time always. */
async function tell(me: LeaderContext, gates: Admission[]): Promise<void> {
  const now_ms = monotonicMs();
  if (me.told && now_ms - me.told.at_ms < SAY_EVERY_MS) return;
  const waits = gates.flatMap((admission) =>
    "reason" in admission
      ? [{
        job_definition_id: admission.queue.job_definition_id,
        node: admission.queue.node,
        reason: admission.reason,
      }]
      : []
  );
  const text = JSON.stringify(waits);
  if (me.told?.text !== text) await failpoint("after-lease-check-why");
  if (me.told?.text !== text) await sayWhy(me.sql, me.term, waits);
  me.told = { at_ms: now_ms, text };
}

/** Interrupted too often, wherever it ran: it may be what kills the workers. */
async function giveUpWornOut(me: LeaderContext): Promise<void> {
  await failpoint("after-lease-check-quarantine");
  for (const run of await quarantine(me.sql, me.term)) observe("run.quarantined", run);
  me.wakeup.signal();
}

/**
 * Workers of a node that is away or in maintenance are nobody to wait for: a leader whose workers they are works itself, and
 * a run that wants another node stays. Not so before the first check, which will soon be over.
 */
export function takesPart(node: NodeRow): boolean {
  return node.is_active && (node.status !== "unavailable" || !node.checked);
}

/**
 * Workers that may be given work, with their free slots, and all that are there to work. The leader's own is one where the rule says so; by
 * default it counts as none, and is a place only on a node without any, or for code that none of them has: for those whom nobody else serves.
 */
export function placesFor(
  workers: WorkerRow[],
  rule: {
    leader_worker_id: string;
    leader_runs_jobs: Settings["leader_runs_jobs"];
    fit: (worker_id: string) => boolean;
    prefetch?: (worker: WorkerRow) => number;
    lineLeft?: (worker: WorkerRow) => number;
  },
): Crewed {
  const active = workers.filter((worker) => worker.state === "ACTIVE");
  const leads = ({ worker_id }: WorkerRow) => worker_id === rule.leader_worker_id;
  const staff = active.filter((worker) => !leads(worker) || rule.leader_runs_jobs === "always");
  const [leader] = rule.leader_runs_jobs === "alone" ? active.filter(leads) : [];
  const placeOf = (worker: WorkerRow): WorkerCapacity => {
    const { worker_id, node_id, slots, load, ahead } = worker;
    const idle = slots - load;
    const free = worthSending(rule.prefetch?.(worker) ?? 0, idle);
    return { worker_id, node_id, load, ahead, idle, free, line_ms: rule.lineLeft?.(worker) ?? 0 };
  };
  const places = staff.filter((worker) => rule.fit(worker.worker_id)).map(placeOf);
  const stand_in = leader && rule.fit(leader.worker_id) ? placeOf(leader) : undefined;
  if (stand_in && !staff.some(({ node_id }) => node_id === stand_in.node_id)) places.push(stand_in);
  return { places, stand_in, staff: staff.map(({ worker_id }) => worker_id) };
}

/**
 * The Redis lease of each run, asked for when all else is done: Postgres alone decides, and waiting for Redis first would only
 * make a pickup longer. But its word that a newer epoch has them is news, after which the term is asked for at once.
 */
function lease(me: LeaderContext, assigned: Assigned[]): void {
  if (assigned.length === 0) return;
  const job_run_ids = assigned.map(({ job_run_id }) => job_run_id);
  leaseRuns(me.redis, { job_run_ids, epoch: me.term.epoch, ttl_ms: LEASE_MS }).then((got) => {
    if (got.length < job_run_ids.length) me.wakeup.signal();
  }).catch(() => undefined);
}

const LEASE_MS = 5_000;

/**
 * A serial key that was taken between reading and writing refuses the whole statement; the next tick reads again. So it is with a run whose
 * row somebody's transaction keeps: when it did, such runs are looked for and left out, for a while.
 */
export async function writeAssignments(
  me: LeaderContext,
  chosen: Assignment[],
  besides?: Fragment,
): Promise<Assigned[]> {
  const kept = lockedLately(me) ? await lockedRows(me.sql, "job_run", chosen.map((run) => run.job_run_id)) : [];
  if (kept.length > 0) me.runs_locked_ms = monotonicMs();
  const given = chosen.filter((run) => !kept.includes(run.job_run_id));
  if (given.length === 0) return [];
  await failpoint("after-lease-check-assign");
  const assigned = await assignRuns(me.sql, me.term, given, besides).catch((error) => {
    me.unclear = true; // its reply may be lost, and the statement still under way
    if (!isUniqueViolation(error, "job_run_serial")) throw noteLocked(me, error);
    me.wakeup.signal();
    return [];
  });
  if (assigned.length > 0) await failpoint("after-assign-before-rpc");
  return assigned;
}
