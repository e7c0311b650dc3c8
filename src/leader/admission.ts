/**
 * Which run queues are open, for how many runs, and why the others are closed. Pure: from what was read, to what may start.
 *
 * A run queue is closed by its definition (removed, paused, as many as its limit, its rate, a resource that is used up) or by
 * its place (no such node, one that is away, in maintenance or full, nobody with a free slot, nobody with its code).
 * Capacity is counted from rows each time and kept nowhere.
 */
import { message } from "../locale/message.ts";
import { versionOf, versionsOf, type Wait, whereOf } from "../runs/wait_reason.ts";
import type { RunQueue } from "../dispatch/dispatch_queues.ts";
import type { CapacitySnapshot, NodeCapacity } from "./placement.ts";

export type Admission = { queue: RunQueue; room: number } | { queue: RunQueue; reason: Wait };

export function admissionsOf(lanes: RunQueue[], capacity: CapacitySnapshot): Admission[] {
  const places = new Map<string, Wait | undefined>();
  const closedByPlace = (selector: string) => {
    if (!places.has(selector)) places.set(selector, whyNobody(selector, capacity));
    return places.get(selector);
  };
  return lanes.map((queue) => {
    const why = closedByDefinition(queue, capacity) ?? closedByPlaceOrCode(queue, capacity, closedByPlace(queue.node));
    return why === undefined ? { queue, room: roomOf(queue, capacity) } : { queue, reason: why };
  });
}

function roomOf(queue: RunQueue, capacity: CapacitySnapshot): number {
  return Math.min(
    capacity.roomFor(queue.node, queue.digest),
    queue.concurrency_limit === null || queue.concurrency_key !== null
      ? Infinity
      : queue.concurrency_limit - queue.running,
    startsLeft(queue),
    ...Object.entries(queue.resources).map(([name, n]) => n === 0 ? Infinity : Math.floor(leftOf(name, capacity) / n)),
  );
}

/**
 * Starts that its rate allows now. They are evenly spread; what a late tick left undone is made up for, but no more than a tenth of
 * the rate's time holds, nor a second: whoever was idle must not begin with a burst that the rate is there to prevent.
 */
export function startsLeft(queue: RateOf): number {
  if (queue.rate_count === null || queue.rate_seconds === null) return Infinity;
  const wait_ms = rateWait(queue, 0);
  return wait_ms > 0 ? 0 : 1 + Math.floor(-wait_ms * queue.rate_count / (queue.rate_seconds * 1000));
}

type RateOf = Pick<RunQueue, "rate_count" | "rate_seconds" | "rate_wait_ms">;

/** How long after so many more starts until the rate allows another; 0 or less: it does, and so much is left to make up for. */
export function rateWait({ rate_count, rate_seconds, rate_wait_ms }: RateOf, starts: number): number {
  if (rate_count === null || rate_seconds === null) return -Infinity;
  const made_up_ms = Math.min(rate_seconds * 100, MOST_MAKE_UP_MS);
  return Math.max(rate_wait_ms, -made_up_ms) + starts * rate_seconds * 1000 / rate_count;
}

const MOST_MAKE_UP_MS = 1_000; // as in `assignRuns`

function closedByDefinition(queue: RunQueue, capacity: CapacitySnapshot): Wait | undefined {
  const { job_name } = queue;
  if (capacity.paused) return { code: "dispatch_paused", params: {} };
  if (queue.removed) return { code: "job_removed", params: { job_name } };
  if (queue.paused_by !== null) {
    return { code: "job_paused", params: { job_name, by: queue.paused_by, reason: queue.paused_reason } };
  }
  const limit = queue.concurrency_key === null ? queue.concurrency_limit : null;
  if (limit !== null && queue.running >= limit) {
    return { code: "job_limit", params: { job_name, running: queue.running, limit } };
  }
  const { rate_count: count, rate_seconds: seconds } = queue;
  if (count !== null && seconds !== null && startsLeft(queue) === 0) {
    return { code: "rate", params: { job_name, count, seconds } };
  }
  return closedByResource(queue, capacity);
}

function closedByResource(queue: RunQueue, capacity: CapacitySnapshot): Wait | undefined {
  for (const [resource, needed] of Object.entries(queue.resources)) {
    const there = capacity.resources.get(resource);
    if (!there) return { code: "resource_unknown", params: { resource } };
    if (there.left < needed) {
      const free = Math.max(0, there.left);
      return { code: "resource_short", params: { resource, needed, free, capacity: there.capacity } };
    }
  }
}

/** Why none of those whom a selector names can take a run. */
function whyNobody(selector: string, capacity: CapacitySnapshot): Wait | undefined {
  const named = capacity.named(selector);
  const where = whereOf(selector);
  if (named.length === 0) return { code: "nobody_there", params: { where } };
  const serving = capacity.serving(selector);
  const active = serving.filter((host) => host.node.is_active);
  if (active.length === 0) return inMaintenance(serving);
  const reachable = active.filter((host) => host.node.status !== "unavailable");
  if (reachable.length === 0) return failing(active, "unavailable");
  const calm = reachable.filter((host) => host.node.status !== "busy");
  if (calm.length === 0) return failing(reachable, "busy");
  const working = calm.filter((host) => host.places.length > 0);
  if (working.length === 0) return { code: "none_takes_work", params: { where } };
  if (working.some((host) => host.free > 0)) return;
  const full = working.find(({ node, load }) => node.max_concurrent !== null && load >= node.max_concurrent);
  if (!full) return noSlot(selector);
  const { node: { node_id: node, max_concurrent }, load } = full;
  return { code: "node_full", params: { node, load, limit: max_concurrent ?? 0 } };
}

function noSlot(selector: string): Wait {
  return { code: "no_slot", params: { where: whereOf(selector) } };
}

/** What would pass by itself, as that all are busy, is not the reason where nobody has the code. */
function closedByPlaceOrCode(queue: RunQueue, capacity: CapacitySnapshot, place: Wait | undefined): Wait | undefined {
  if (place && place.code !== "no_slot" && place.code !== "node_full") return place;
  if (!capacity.isLacked(queue.digest)) {
    return place ?? (capacity.roomFor(queue.node, queue.digest) > 0 ? undefined : noSlot(queue.node));
  }
  const { having, only_leader, others } = capacity.versions(queue.node, queue.digest);
  if (having > 0 && (place || capacity.roomFor(queue.node, queue.digest) > 0)) return place;
  const { job_name, digest, node } = queue;
  const what = { job_name, digest, version: versionOf(digest), where: whereOf(node) };
  return {
    code: "no_code",
    params: { ...what, having, only_leader: only_leader ?? false, others: versionsOf(others) },
  };
}

function leftOf(name: string, capacity: CapacitySnapshot): number {
  return capacity.resources.get(name)?.left ?? 0;
}

function inMaintenance(hosts: readonly NodeCapacity[]): Wait {
  const nodes = hosts.map(({ node }) => node.node_id);
  const [{ node }] = hosts as [NodeCapacity];
  const [by, reason] = hosts.length > 1 ? [null, null] : [node.inactive_by, node.inactive_reason];
  return { code: "maintenance", params: { nodes, by, reason } };
}

function failing(hosts: readonly NodeCapacity[], code: "unavailable" | "busy"): Wait {
  const nodes = hosts.map(({ node }) => node.node_id);
  return { code, params: { nodes, problems: hosts.map((host) => problemOf(host, hosts.length > 1)) } };
}

/** What the check of a node found, with the node's name where there are several. */
function problemOf({ node: { node_id, problem, checked } }: NodeCapacity, named: boolean) {
  const found = problem ?? message(checked ? "nodes.problem.unknown" : "nodes.problem.unchecked");
  return named ? message("nodes.problem.of_node", { node: node_id, problem: found }) : found;
}
