/**
 * Which worker gets which run. Capacity is slots minus rows, so it is right after any failure; the choice itself is a
 * pure function. Workers in a crew of several leave the leader free to lead (`leader_runs_jobs`).
 */
import { observe } from "../../base/facts.ts";
import { leaseRuns } from "../../cluster/seat.ts";
import { isUniqueViolation } from "../../store/db.ts";
import { liveWorkers, type WorkerRow } from "../../store/nodes.ts";
import { type Assigned, type Assignment, assignRuns, quarantine } from "../../store/runs.ts";
import { type Candidate, candidates } from "../../store/waiting.ts";
import type { Settings } from "../../store/settings.ts";
import type { Crew } from "./crew.ts";
import type { Leading } from "./leading.ts";

const RUNS_AT_ONCE = 500;

export interface Place {
  worker_id: string;
  node_id: string;
  free: number;
  load: number;
}

/** Reads who has room, chooses, and writes the assignments that hold. An idle tick only looks who is there. */
export async function assignReady(me: Leading, busy: boolean): Promise<Assigned[]> {
  const workers = await liveWorkers(me.sql);
  me.crew.follow(workers);
  if (!busy) return [];
  const places = placesFor(workers, {
    leader_worker_id: me.term.worker_id,
    leader_runs_jobs: me.settings.leader_runs_jobs,
    fit: (worker_id) => me.crew.fit(worker_id),
  });
  const most = Math.min(places.reduce((sum, place) => sum + place.free, 0), RUNS_AT_ONCE);
  if (most === 0) return [];
  const nodes = [...new Set(places.map((place) => place.node_id))];
  const waiting = await candidates(me.sql, { most, nodes, without: codeNobodyHas(places, me.crew) });
  if (waiting.some((run) => run.worn_out)) await giveUpWornOut(me);
  const chosen = choose(waiting.filter((run) => !run.worn_out), places, (id, digest) => me.crew.fit(id, digest));
  if (chosen.length === 0) return [];
  const assigned = await writeAssignments(me, await leased(me, chosen));
  for (const run of assigned) {
    observe("run.assigned", {
      job_run_id: run.job_run_id,
      attempt: run.attempt,
      worker_id: run.worker_id,
      epoch: me.term.epoch,
    });
  }
  return assigned;
}

/**
 * What the workers with room have all refused lately, for each node and (null) for all. Without it a few runs of a job
 * whose file is not deployed yet would be chosen from again and again, and hide all that wait behind them.
 */
export function codeNobodyHas(
  places: Place[],
  crew: Pick<Crew, "refusedDigests">,
): { node: string | null; digest: string }[] {
  const groups = new Map<string | null, Place[]>(Map.groupBy(places, (place) => place.node_id));
  groups.set(null, places);
  return [...groups].flatMap(([node, members]) => {
    const refused = members.map((place) => new Set(crew.refusedDigests(place.worker_id)));
    const by_all = refused.reduce((common, digests) => common.intersection(digests));
    return [...by_all].map((digest) => ({ node, digest }));
  });
}

/** Interrupted too often, wherever it ran: it may be what kills the workers. */
async function giveUpWornOut(me: Leading): Promise<void> {
  for (const run of await quarantine(me.sql, me.term)) observe("run.quarantined", run);
  me.bell.ring();
}

/** Workers that may be given work, with their free slots. The leader's own only when the rule allows it. */
export function placesFor(
  workers: WorkerRow[],
  rule: {
    leader_worker_id: string;
    leader_runs_jobs: Settings["leader_runs_jobs"];
    fit: (worker_id: string) => boolean;
  },
): Place[] {
  const active = workers.filter((worker) => worker.state === "ACTIVE");
  const alone = active.every((worker) => worker.worker_id === rule.leader_worker_id);
  const leader_works = rule.leader_runs_jobs === "always" || (rule.leader_runs_jobs === "alone" && alone);
  return active
    .filter((worker) => worker.worker_id !== rule.leader_worker_id || leader_works)
    .filter((worker) => rule.fit(worker.worker_id))
    .map(({ worker_id, node_id, slots, load }) => ({ worker_id, node_id, load, free: slots - load }))
    .filter((place) => place.free > 0);
}

/** Each run, in its order, to the fitting worker with the least load; one run per serial key. `places` are used up. */
export function choose(
  waiting: Candidate[],
  places: Place[],
  fit: (worker_id: string, digest: string) => boolean,
): Assignment[] {
  const chosen: Assignment[] = [];
  const keys = new Set<string>();
  for (const run of waiting) {
    if (run.serial_key !== null && keys.has(run.serial_key)) continue;
    let best: Place | undefined;
    for (const place of places) {
      if (place.free === 0 || (run.node !== null && run.node !== place.node_id)) continue;
      if (best && best.load <= place.load) continue;
      if (fit(place.worker_id, run.digest)) best = place;
    }
    if (!best) continue;
    best.free--;
    best.load++;
    if (run.serial_key !== null) keys.add(run.serial_key);
    chosen.push({ job_run_id: run.job_run_id, version: run.version, worker_id: best.worker_id });
  }
  return chosen;
}

/** The Redis lease thins out what two leaders might try at once; Postgres alone decides, so without Redis we go on. */
async function leased(me: Leading, chosen: Assignment[]): Promise<Assignment[]> {
  const job_run_ids = chosen.map((assignment) => assignment.job_run_id);
  try {
    const got = new Set(await leaseRuns(me.redis, { job_run_ids, epoch: me.term.epoch, ttl_ms: LEASE_MS }));
    return chosen.filter((assignment) => got.has(assignment.job_run_id));
  } catch {
    return chosen;
  }
}

const LEASE_MS = 5_000;

/** A serial key that was taken between reading and writing refuses the whole statement; the next tick reads again. */
async function writeAssignments(me: Leading, chosen: Assignment[]): Promise<Assigned[]> {
  if (chosen.length === 0) return [];
  try {
    return await assignRuns(me.sql, me.term, chosen);
  } catch (error) {
    if (!isUniqueViolation(error, "job_run_serial")) throw error;
    me.bell.ring();
    return [];
  }
}
