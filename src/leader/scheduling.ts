/**
 * Each run, in its order, to a worker: pure. What a choice takes (a slot, a place on the node, a share of a limit, a start
 * of a rate, resources) is taken from the hall that was given, so that the next choice sees it.
 */
import type { Assignment } from "../runs/states.ts";
import type { Candidate, Lane, LaneShare, Near } from "../dispatch/dispatch_queues.ts";
import type { Gate } from "./admission.ts";
import type { Found, Hall } from "./placement.ts";

export interface OpenLane {
  lane: Lane;
  room: number;
}

/** Rows to read of each lane: twice what is needed if all lanes were alike, and never fewer than this. */
const LEAST_SHARE = 8;

/** What is read of a lane; `cut` when it has room for more than that. */
export interface Share extends LaneShare {
  cut: boolean;
}

/** How much to read of each open lane so that `most` runs in order are likely among it. */
export function sharesOf(open: OpenLane[], most: number, hall: Hall): Share[] {
  const each = Math.max(LEAST_SHARE, Math.ceil(2 * most / open.length));
  return open.map(({ lane: { job_definition_id, node, digest }, room }) => {
    const useful = Math.max(Math.min(room, most), LEAST_SHARE);
    const alone = hall.aloneWithRoom(node, digest);
    return { job_definition_id, node, alone, most: Math.min(each, useful), cut: each < useful };
  });
}

/**
 * The candidates that certainly come first: a lane of which only a part was read may hold more that goes before the last
 * of the others. `more`: something was left out, so the next tick must not wait.
 */
export function inOrder(waiting: Candidate[], shares: Share[]): { sure: Candidate[]; more: boolean } {
  const left = new Map(shares.filter((share) => share.cut).map((share) => [laneKey(share), share.most]));
  for (const [place, run] of waiting.entries()) {
    const key = laneKey(run);
    const rest = left.get(key);
    if (rest === 1) return { sure: waiting.slice(0, place + 1), more: true };
    if (rest !== undefined) left.set(key, rest - 1);
  }
  return { sure: waiting, more: false };
}

export function choose(waiting: Candidate[], open: OpenLane[], hall: Hall): Assignment[] {
  const lanes = new Map(open.map((one) => [laneKey(one.lane), one.lane]));
  const left = new Map<number, number>();
  for (const { lane, room } of open) {
    left.set(lane.job_definition_id, Math.max(left.get(lane.job_definition_id) ?? 0, definitionRoom(lane, room)));
  }
  const serial = new Set<string>();
  const limited = new Map<string, number>();
  const bulks = new Map<number, number>();
  const chosen: Assignment[] = [];
  for (const run of waiting) {
    const lane = lanes.get(laneKey(run));
    const of_definition = left.get(run.job_definition_id) ?? 0;
    if (!lane || of_definition <= 0) continue;
    if (run.serial_key !== null && serial.has(run.serial_key)) continue;
    const of_key = run.limit_key === null ? Infinity : limited.get(run.limit_key) ?? run.limit_left ?? Infinity;
    const of_bulk = run.bulk_id === null ? Infinity : bulks.get(run.bulk_id) ?? run.bulk_left ?? Infinity;
    if (of_key <= 0 || of_bulk <= 0 || !hasResources(lane, hall)) continue;
    const found = hall.placeFor(run, "now");
    if (!found) continue;
    take(found, lane, hall);
    left.set(run.job_definition_id, of_definition - 1);
    if (run.serial_key !== null) serial.add(run.serial_key);
    if (run.limit_key !== null) limited.set(run.limit_key, of_key - 1);
    if (run.bulk_id !== null) bulks.set(run.bulk_id, of_bulk - 1);
    chosen.push({ job_run_id: run.job_run_id, version: run.version, worker_id: found.place.worker_id });
  }
  return chosen;
}

/**
 * Runs that are soon due, each to the worker that most likely has a slot then: it takes none before, so nobody who may start now
 * is kept from it. Where none is free now, the run waits for its time as it would have.
 */
export function chooseAhead(near: Near[], hall: Hall): Assignment[] {
  const chosen: Assignment[] = [];
  for (const { job_run_id, version, ...run } of near) {
    const found = hall.placeFor(run, "ahead");
    if (!found) continue;
    found.place.ahead++;
    if (found.host.node.max_concurrent !== null) found.host.free--;
    chosen.push({ job_run_id, version, worker_id: found.place.worker_id });
  }
  return chosen;
}

export function openOf(gates: Gate[]): OpenLane[] {
  return gates.filter((gate): gate is OpenLane => "room" in gate && gate.room > 0);
}

/** A definition's own limits go across its lanes; a node's room is another matter, which `Hall.placeFor` sees to. */
function definitionRoom(lane: Lane, room: number): number {
  const limit = lane.concurrency_key === null && lane.concurrency_limit !== null
    ? lane.concurrency_limit - lane.running
    : Infinity;
  return lane.rate_count === null ? limit : Math.min(limit, room);
}

function take({ host, place }: Found, lane: Lane, hall: Hall): void {
  if (place.free > 0) host.free--; // a pack goes beyond it
  place.free--;
  place.idle--;
  place.line_ms -= hall.costOf(lane.digest);
  place.load++;
  host.load++;
  for (const [name, n] of Object.entries(lane.resources)) {
    const resource = hall.resources.get(name);
    if (resource) resource.left -= n;
  }
}

function hasResources(lane: Lane, hall: Hall): boolean {
  return Object.entries(lane.resources).every(([name, n]) => (hall.resources.get(name)?.left ?? 0) >= n);
}

export function laneKey({ job_definition_id, node }: { job_definition_id: number; node: string }): string {
  return `${job_definition_id}\0${node}`;
}
