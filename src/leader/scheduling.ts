/**
 * Each run, in its order, to a worker: pure. What a choice takes (a slot, a place on the node, a share of a limit, a start
 * of a rate, resources) is taken from the capacity snapshot that was given, so that the next choice sees it.
 */
import type { Assignment } from "../runs/states.ts";
import type { Candidate, QueueShare, RunQueue, UpcomingRun } from "../dispatch/dispatch_queues.ts";
import type { Admission } from "./admission.ts";
import type { CapacitySnapshot, Placement } from "./placement.ts";

export interface OpenQueue {
  queue: RunQueue;
  room: number;
}

/** Rows to read of each run queue: twice what is needed if all run queues were alike, and never fewer than this. */
const LEAST_SHARE = 8;

/** What is read of a run queue; `cut` when it has room for more than that. */
export interface QueueRead extends QueueShare {
  cut: boolean;
}

/** How much to read of each open run queue so that `most` runs in order are likely among it. */
export function sharesOf(open: OpenQueue[], most: number, capacity: CapacitySnapshot): QueueRead[] {
  const each = Math.max(LEAST_SHARE, Math.ceil(2 * most / open.length));
  return open.map(({ queue: { job_definition_id, node, digest }, room }) => {
    const useful = Math.max(Math.min(room, most), LEAST_SHARE);
    const alone = capacity.aloneWithRoom(node, digest);
    return { job_definition_id, node, alone, most: Math.min(each, useful), cut: each < useful };
  });
}

/**
 * The candidates that certainly come first: a run queue of which only a part was read may hold more that goes before the last
 * of the others. `more`: something was left out, so the next tick must not wait.
 */
export function inOrder(waiting: Candidate[], shares: QueueRead[]): { sure: Candidate[]; more: boolean } {
  const left = new Map(shares.filter((share) => share.cut).map((share) => [queueKey(share), share.most]));
  for (const [place, run] of waiting.entries()) {
    const key = queueKey(run);
    const rest = left.get(key);
    if (rest === 1) return { sure: waiting.slice(0, place + 1), more: true };
    if (rest !== undefined) left.set(key, rest - 1);
  }
  return { sure: waiting, more: false };
}

export function choose(waiting: Candidate[], open: OpenQueue[], capacity: CapacitySnapshot): Assignment[] {
  const lanes = new Map(open.map((one) => [queueKey(one.queue), one.queue]));
  const left = new Map<number, number>();
  for (const { queue, room } of open) {
    left.set(queue.job_definition_id, Math.max(left.get(queue.job_definition_id) ?? 0, definitionRoom(queue, room)));
  }
  const serial = new Set<string>();
  const limited = new Map<string, number>();
  const bulks = new Map<number, number>();
  const chosen: Assignment[] = [];
  for (const run of waiting) {
    const queue = lanes.get(queueKey(run));
    const of_definition = left.get(run.job_definition_id) ?? 0;
    if (!queue || of_definition <= 0) continue;
    if (run.serial_key !== null && serial.has(run.serial_key)) continue;
    const of_key = run.limit_key === null ? Infinity : limited.get(run.limit_key) ?? run.limit_left ?? Infinity;
    const of_bulk = run.bulk_id === null ? Infinity : bulks.get(run.bulk_id) ?? run.bulk_left ?? Infinity;
    if (of_key <= 0 || of_bulk <= 0 || !hasResources(queue, capacity)) continue;
    const found = capacity.placeFor(run, "now");
    if (!found) continue;
    take(found, queue, capacity);
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
export function chooseAhead(near: UpcomingRun[], capacity: CapacitySnapshot): Assignment[] {
  const chosen: Assignment[] = [];
  for (const { job_run_id, version, ...run } of near) {
    const found = capacity.placeFor(run, "ahead");
    if (!found) continue;
    found.place.ahead++;
    if (found.host.node.max_concurrent !== null) found.host.free--;
    chosen.push({ job_run_id, version, worker_id: found.place.worker_id });
  }
  return chosen;
}

export function openOf(gates: Admission[]): OpenQueue[] {
  return gates.filter((admission): admission is OpenQueue => "room" in admission && admission.room > 0);
}

/** A definition's own limits go across its run queues; a node's room is another matter, which `CapacitySnapshot.placeFor` sees to. */
function definitionRoom(queue: RunQueue, room: number): number {
  const limit = queue.concurrency_key === null && queue.concurrency_limit !== null
    ? queue.concurrency_limit - queue.running
    : Infinity;
  return queue.rate_count === null ? limit : Math.min(limit, room);
}

function take({ host, place }: Placement, queue: RunQueue, capacity: CapacitySnapshot): void {
  if (place.free > 0) host.free--; // a pack goes beyond it
  place.free--;
  place.idle--;
  place.line_ms -= capacity.costOf(queue.digest);
  place.load++;
  host.load++;
  for (const [name, n] of Object.entries(queue.resources)) {
    const resource = capacity.resources.get(name);
    if (resource) resource.left -= n;
  }
}

function hasResources(queue: RunQueue, capacity: CapacitySnapshot): boolean {
  return Object.entries(queue.resources).every(([name, n]) => (capacity.resources.get(name)?.left ?? 0) >= n);
}

export function queueKey({ job_definition_id, node }: { job_definition_id: number; node: string }): string {
  return `${job_definition_id}\0${node}`;
}
