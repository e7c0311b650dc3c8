/**
 * Which run queues are open, for how many runs, and why the others are closed. Pure: from what was read, to what may start.
 *
 * A run queue is closed by its definition (removed, paused, as many as its limit, its rate, a resource that is used up) or by
 * its place (no such node, one that is away, in maintenance or full, nobody with a free slot, nobody with its code).
 * Capacity is counted from rows each time and kept nowhere.
 */
import { noCodeText, type QueueBlock, whereOf } from "../runs/wait_reason.ts";
import type { RunQueue } from "../dispatch/dispatch_queues.ts";
import type { CapacitySnapshot, NodeCapacity } from "./placement.ts";

/** Why it is closed, as a sentence and for programs. */
interface BlockedReason {
  reason: string;
  parts: QueueBlock;
}

export type Admission = { queue: RunQueue; room: number } | { queue: RunQueue } & BlockedReason;

export function admissionsOf(lanes: RunQueue[], capacity: CapacitySnapshot): Admission[] {
  const places = new Map<string, BlockedReason | undefined>();
  const closedByPlace = (selector: string) => {
    if (!places.has(selector)) places.set(selector, whyNobody(selector, capacity));
    return places.get(selector);
  };
  return lanes.map((queue) => {
    const why = closedByDefinition(queue, capacity) ?? closedByPlaceOrCode(queue, capacity, closedByPlace(queue.node));
    return why === undefined ? { queue, room: roomOf(queue, capacity) } : { queue, ...why };
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

function closedByDefinition(queue: RunQueue, capacity: CapacitySnapshot): BlockedReason | undefined {
  const { job_name } = queue;
  if (capacity.paused) {
    return closed("all dispatch is paused; resume it: deno task queue resume --all", { code: "dispatch_paused" });
  }
  if (queue.removed) {
    const reason = `the file of job "${job_name}" was removed; put it back and sync, or cancel the run`;
    return closed(reason, { code: "job_removed", job_name });
  }
  if (queue.paused_by !== null) {
    const { paused_by: by, paused_reason: why } = queue;
    const end = `; resume it: deno task queue resume --job ${job_name}`;
    return closed(`job "${job_name}" is paused by ${said(by, why)}${end}`, {
      code: "job_paused",
      job_name,
      by,
      reason: why,
    });
  }
  const limit = queue.concurrency_key === null ? queue.concurrency_limit : null;
  if (limit !== null && queue.running >= limit) {
    const reason = `limit: ${queue.running} of at most ${limit} runs of job "${job_name}" are active`;
    return closed(reason, { code: "job_limit", job_name, running: queue.running, limit });
  }
  const { rate_count: count, rate_seconds: seconds } = queue;
  if (count !== null && seconds !== null && startsLeft(queue) === 0) {
    const reason = `rate: job "${job_name}" starts at most ${count} runs in ${seconds} s`;
    return closed(reason, { code: "rate", job_name, count, seconds });
  }
  return closedByResource(queue, capacity);
}

function closedByResource(queue: RunQueue, capacity: CapacitySnapshot): BlockedReason | undefined {
  for (const [resource, needed] of Object.entries(queue.resources)) {
    const there = capacity.resources.get(resource);
    if (!there) {
      const reason = `resource "${resource}" is not known; add it: deno task resources set ${resource} CAPACITY`;
      return closed(reason, { code: "resource_unknown", resource });
    }
    if (there.left < needed) {
      const free = Math.max(0, there.left);
      const reason = `resource "${resource}": ${needed} needed, ${free} of ${there.capacity} free`;
      return closed(reason, { code: "resource_short", resource, needed, free, capacity: there.capacity });
    }
  }
}

/** Why none of those whom a selector names can take a run. */
function whyNobody(selector: string, capacity: CapacitySnapshot): BlockedReason | undefined {
  const named = capacity.named(selector);
  const which = whereOf(selector);
  if (named.length === 0) {
    return closed(`no worker is alive${which}; ${whereToStart(selector)}`, { code: "nobody_there", node: selector });
  }
  const serving = capacity.serving(selector);
  const active = serving.filter((host) => host.node.is_active);
  if (active.length === 0) return inMaintenance(serving);
  const reachable = active.filter((host) => host.node.status !== "unavailable");
  if (reachable.length === 0) return failing(active, "unavailable");
  const calm = reachable.filter((host) => host.node.status !== "busy");
  if (calm.length === 0) return failing(reachable, "busy");
  const working = calm.filter((host) => host.places.length > 0);
  if (working.length === 0) {
    const reason =
      `no worker${which} takes work: draining, detached, not answering, or leading without runs of its own ` +
      "(setting leader_runs_jobs); start another: deno task worker";
    return closed(reason, { code: "none_takes_work", node: selector });
  }
  if (working.some((host) => host.free > 0)) return;
  const full = working.find(({ node, load }) => node.max_concurrent !== null && load >= node.max_concurrent);
  if (!full) return noSlot(selector);
  const { node: { node_id: node, max_concurrent }, load } = full;
  const limit = max_concurrent ?? 0;
  return closed(`node "${node}" is full: ${load} of ${limit}`, { code: "node_full", node, load, limit });
}

function noSlot(selector: string): BlockedReason {
  return closed(`no free slot${whereOf(selector)}`, { code: "no_slot", node: selector });
}

function whereToStart(selector: string): string {
  if (selector === "") return "start one: deno task worker";
  if (!selector.includes("=")) return `start one there, or as it: SCHEDULER_NODE_ID=${selector} deno task worker`;
  const labels = selector.split(",").map((pair) => pair.trim()).join(" ");
  return `start one on a node that has them, or give them to another: deno task nodes set NODE --label ${labels}`;
}

/** What would pass by itself, as that all are busy, is not the reason where nobody has the code. */
function closedByPlaceOrCode(
  queue: RunQueue,
  capacity: CapacitySnapshot,
  place: BlockedReason | undefined,
): BlockedReason | undefined {
  if (place && place.parts.code !== "no_slot" && place.parts.code !== "node_full") return place;
  if (!capacity.isLacked(queue.digest)) {
    return place ?? (capacity.roomFor(queue.node, queue.digest) > 0 ? undefined : noSlot(queue.node));
  }
  const { having, only_leader, others } = capacity.versions(queue.node, queue.digest);
  if (having > 0 && (place || capacity.roomFor(queue.node, queue.digest) > 0)) return place;
  const { job_name, digest, node } = queue;
  const parts = { code: "no_code" as const, job_name, digest, node, having, only_leader, others };
  return closed(noCodeText(parts), parts);
}

function closed(reason: string, parts: QueueBlock): BlockedReason {
  return { reason, parts };
}

function leftOf(name: string, capacity: CapacitySnapshot): number {
  return capacity.resources.get(name)?.left ?? 0;
}

function nodesOf(hosts: readonly NodeCapacity[]): string {
  const names = hosts.map((host) => `"${host.node.node_id}"`).join(", ");
  return hosts.length === 1 ? `node ${names} is` : `nodes ${names} are`;
}

function inMaintenance(hosts: readonly NodeCapacity[]): BlockedReason {
  const nodes = hosts.map(({ node }) => node.node_id);
  const [{ node }] = hosts as [NodeCapacity];
  const [by, why] = hosts.length > 1 ? [null, null] : [node.inactive_by, node.inactive_reason];
  const who = by === null ? "" : `, says ${said(by, why)}`;
  const end = `; end that: deno task nodes set ${node.node_id} --maintenance off`;
  return closed(`${nodesOf(hosts)} in maintenance${who}${end}`, { code: "maintenance", nodes, by, reason: why });
}

function said(by: string, why: string | null): string {
  return why === null ? by : `${by}: ${why}`;
}

function failing(hosts: readonly NodeCapacity[], code: "unavailable" | "busy"): BlockedReason {
  const problem = problemOf(hosts);
  const found = hosts.map(({ node: { node_id, failed, checked } }) => ({
    node: node_id,
    ...failed ? { failed } : {},
    checked,
  }));
  return closed(`${nodesOf(hosts)} ${code}: ${problem}`, {
    code,
    nodes: hosts.map(({ node }) => node.node_id),
    problem,
    found,
  });
}

/** What the checks of these nodes found, with the node's name where there are several. */
function problemOf(hosts: readonly NodeCapacity[]): string {
  return hosts.map(({ node }) => {
    const problem = node.problem ?? (node.checked ? "nothing says why" : "its check has not passed yet");
    return hosts.length === 1 ? problem : `${node.node_id}: ${problem}`;
  }).join("; ");
}
