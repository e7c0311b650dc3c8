/**
 * Gives waiting runs to workers: from who has room and in which lanes something waits (read along with the renewal, unless
 * the tick has changed it since), see which lanes are open (admission.ts), read the first runs of those where they were not
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
import { keptRows } from "../postgres/row_locks.ts";
import { type Assigned, type Assignment, assignRuns, quarantine } from "../runs/states.ts";
import {
  type Candidate,
  candidates,
  type Lane,
  readResources,
  readSight,
  sayWhy,
  type Sight,
} from "../dispatch/dispatch_queues.ts";
import type { Settings } from "../settings/settings.ts";
import { choose, chooseAhead, inOrder, laneKey, type OpenLane, openOf, sharesOf } from "./scheduling.ts";
import { type Gate, gatesOf, rateWait } from "./admission.ts";
import { type Crewed, Hall, hostsOf, type Place } from "./placement.ts";
import { keptLately, noteKept } from "./row_locks.ts";
import type { Leading } from "./leader_context.ts";
import { worthSending } from "./prefetch.ts";
import { settleOverlaps } from "./planning.ts";
import { orderStarts } from "./dispatch.ts";

export const RUNS_AT_ONCE = 1_000;
/** Reasons are for people: written at most this often. */
const SAY_EVERY_MS = 250;
const CODE_EVERY_MS = 5_000;

/** Lets go what has come due. */
export async function wakeDue(me: Leading): Promise<void> {
  await failpoint("after-lease-check-wake");
  const asleep = await wake(me.sql, me.term);
  if (asleep.slots) { // with jitter: what goes on is known now, and was not when they were born
    me.overlaps_settled = false;
    await settleOverlaps(me);
  }
  if (asleep.more) me.bell.ring();
}

/** Lets go what is next in its line. */
export async function checkLine(me: Leading): Promise<void> {
  await failpoint("after-lease-check-lines");
  const { more } = await checkLines(me.sql, me.term, { leaving_kept: keptLately(me) }).catch((error) => {
    throw noteKept(me, error);
  });
  if (more) me.bell.ring();
}

/** What is due first, then what soon will be, with the room that is left. An idle tick only looks who is there. */
export async function dispatch(me: Leading, busy: boolean): Promise<void> {
  const sight = me.sight ?? await readSight(me.sql, me.settings.assign_ahead_seconds);
  me.crew.follow(sight.workers);
  await learnCode(me);
  me.rate_wait_ms = Infinity;
  if (!busy) me.crowded = false;
  if (!busy && sight.near.length === 0) return;
  const hall = await hallOf(me, sight);
  if (busy) await assign(me, await chooseReady(me, sight, hall));
  if (!hall.paused) await assign(me, chooseAhead(sight.near, hall));
}

/** Which workers have other code than was synced: when one has said something of it, and every few seconds, since a bell may be lost. */
async function learnCode(me: Leading): Promise<void> {
  const now_ms = monotonicMs();
  if (!me.calls.code_news && now_ms - (me.code_read_ms ?? -Infinity) < CODE_EVERY_MS) return;
  me.calls.code_news = false;
  await me.crew.learnCode(() => readLacking(me.sql));
  me.code_read_ms = now_ms;
}

async function hallOf(me: Leading, { paused, workers, lanes }: Sight): Promise<Hall> {
  const crew = placesFor(workers.filter(({ node }) => takesPart(node)), {
    leader_worker_id: me.term.worker_id,
    leader_runs_jobs: me.settings.leader_runs_jobs,
    fit: (worker_id) => me.crew.fit(worker_id),
    prefetch: (worker) => me.crew.prefetch(worker),
    lineLeft: (worker) => me.crew.lineLeft(worker),
  });
  return new Hall({
    hosts: hostsOf(workers, crew),
    resources: await resourcesFor(me, lanes),
    paused,
    lacking: (digest) => me.crew.lacking(digest),
    bodyMs: (digest) => me.crew.bodyMs(digest),
    packs: me.crew.packs(quickInHand(me, { workers, lanes })),
  });
}

/** Runs of quick code that workers have, as far as more of it waits; what those have who do not answer will not end soon. */
function quickInHand(me: Leading, { workers, lanes }: Pick<Sight, "workers" | "lanes">): number {
  const running = new Map(
    lanes.filter(({ digest }) => me.crew.isQuick(digest)).map((lane) => [lane.job_definition_id, lane.running]),
  );
  const stuck = workers.reduce((sum, { worker_id, load }) => sum + (me.crew.fit(worker_id) ? 0 : load), 0);
  return Math.max(0, running.values().reduce((sum, runs) => sum + runs, 0) - stuck);
}

/** Whoever of those that wait may start now, and where; what that takes is taken from the hall. */
async function chooseReady(me: Leading, { lanes, waiting }: Sight, hall: Hall): Promise<Assignment[]> {
  const gates = gatesOf(lanes, hall);
  me.rate_wait_ms = nextByRate(lanes, []);
  await tell(me, gates);
  const open = openOf(gates);
  const free = hall.hosts.reduce((sum, host) => sum + host.free, 0);
  const most = Math.min(open.reduce((room, lane) => Math.max(room, lane.room), free), RUNS_AT_ONCE); // packs go beyond what is free
  if (open.length === 0 || most === 0) return [];
  const { sure, more } = await nextOf(me, { open, most, waiting, hall });
  me.crowded = !waiting && sure.length >= most;
  if (sure.some((run) => run.worn_out)) await giveUpWornOut(me);
  const behind = sure.filter((run) => run.behind);
  if (behind.length > 0) await failpoint("after-lease-check-hold");
  const held = behind.length > 0 && await hold(me.sql, me.term, behind.map((run) => run.job_run_id));
  const chosen = choose(sure.filter((run) => !run.worn_out && !run.behind), open, hall).slice(0, most);
  if (more || held) me.bell.ring();
  const given = new Set(chosen.map((run) => run.job_run_id));
  me.rate_wait_ms = nextByRate(lanes, sure.filter((run) => given.has(run.job_run_id)));
  return chosen;
}

/** Until a rate allows the next start of a job that waits, when these have been given to workers: nobody else rings then. */
function nextByRate(lanes: Lane[], given: Pick<Candidate, "job_definition_id">[]): number {
  const rated = lanes.filter((lane) => lane.rate_count !== null);
  const waits = rated.map((lane) => {
    const starts = given.filter((run) => run.job_definition_id === lane.job_definition_id).length;
    return rateWait(lane, starts);
  });
  return Math.min(...waits.filter((wait_ms) => wait_ms > 0));
}

/** Writes it down and tells the workers. */
async function assign(me: Leading, chosen: Assignment[]): Promise<void> {
  if (chosen.length === 0) return;
  const assigned = await writeAssignments(me, chosen);
  orderStarts(me, assigned);
  noteAssigned(me, assigned);
}

/** What else is done about runs that were given to workers, when their orders are on the way. */
export function noteAssigned(me: Leading, assigned: Assigned[]): void {
  for (const { job_run_id, attempt, worker_id, digest, due_unix_us } of assigned) {
    observe("run.assigned", { job_run_id, attempt, worker_id, epoch: me.term.epoch });
    if (due_unix_us === 0) me.crew.gave(worker_id, digest); // one that lies ahead is no load yet, and would seem to have ended
  }
  me.given = (me.given ?? 0) + assigned.length;
  lease(me, assigned);
}

/** The runs that come first in the open lanes: asked for, unless all that waits was seen already. */
async function nextOf(
  me: Leading,
  from: { open: OpenLane[]; most: number; waiting: Candidate[] | undefined; hall: Hall },
): Promise<{ sure: Candidate[]; more: boolean }> {
  if (from.waiting) {
    const open = new Set(from.open.map(({ lane }) => laneKey(lane)));
    return { sure: from.waiting.filter((run) => open.has(laneKey(run))), more: false };
  }
  const shares = sharesOf(from.open, from.most, from.hall);
  return inOrder(await candidates(me.sql, shares), shares);
}

/** Asked for only when a job that waits needs one. */
async function resourcesFor(me: Leading, lanes: Lane[]): Promise<Hall["resources"]> {
  if (lanes.every((lane) => Object.keys(lane.resources).length === 0)) return new Map();
  const rows = await readResources(me.sql);
  return new Map(rows.map(({ name, capacity, taken }) => [name, { capacity, left: capacity - taken }]));
}

/** Writes down why lanes are closed, when that has changed. What a leader before wrote is unknown, so the first time always. */
async function tell(me: Leading, gates: Gate[]): Promise<void> {
  const now_ms = monotonicMs();
  if (me.told && now_ms - me.told.at_ms < SAY_EVERY_MS) return;
  const waits = gates.flatMap((gate) =>
    "reason" in gate
      ? [{
        job_definition_id: gate.lane.job_definition_id,
        node: gate.lane.node,
        reason: gate.reason,
        parts: gate.parts,
      }]
      : []
  );
  const text = JSON.stringify(waits);
  if (me.told?.text !== text) await failpoint("after-lease-check-why");
  if (me.told?.text !== text) await sayWhy(me.sql, me.term, waits);
  me.told = { at_ms: now_ms, text };
}

/** Interrupted too often, wherever it ran: it may be what kills the workers. */
async function giveUpWornOut(me: Leading): Promise<void> {
  await failpoint("after-lease-check-quarantine");
  for (const run of await quarantine(me.sql, me.term)) observe("run.quarantined", run);
  me.bell.ring();
}

/**
 * Workers of a node that is away or in maintenance are nobody to wait for: a leader whose crew they are works itself, and
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
  const placeOf = (worker: WorkerRow): Place => {
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
function lease(me: Leading, assigned: Assigned[]): void {
  if (assigned.length === 0) return;
  const job_run_ids = assigned.map(({ job_run_id }) => job_run_id);
  leaseRuns(me.redis, { job_run_ids, epoch: me.term.epoch, ttl_ms: LEASE_MS }).then((got) => {
    if (got.length < job_run_ids.length) me.bell.ring();
  }).catch(() => undefined);
}

const LEASE_MS = 5_000;

/**
 * A serial key that was taken between reading and writing refuses the whole statement; the next tick reads again. So it is with a run whose
 * row somebody's transaction keeps: when it did, such runs are looked for and left out, for a while.
 */
export async function writeAssignments(me: Leading, chosen: Assignment[], besides?: Fragment): Promise<Assigned[]> {
  const kept = keptLately(me) ? await keptRows(me.sql, "job_run", chosen.map((run) => run.job_run_id)) : [];
  if (kept.length > 0) me.runs_kept_ms = monotonicMs();
  const given = chosen.filter((run) => !kept.includes(run.job_run_id));
  if (given.length === 0) return [];
  await failpoint("after-lease-check-assign");
  const assigned = await assignRuns(me.sql, me.term, given, besides).catch((error) => {
    me.unclear = true; // its reply may be lost, and the statement still under way
    if (!isUniqueViolation(error, "job_run_serial")) throw noteKept(me, error);
    me.bell.ring();
    return [];
  });
  if (assigned.length > 0) await failpoint("after-assign-before-rpc");
  return assigned;
}
