/**
 * Which lanes are open, for how many runs, and why the others are closed. Pure: from what was read, to what may start.
 *
 * A lane is closed by its definition (removed, paused, as many as its limit, its rate, a resource that is used up) or by
 * its place (no such node, one that is away, in maintenance or full, nobody with a free slot, nobody with its code).
 * Capacity is counted from rows each time and kept nowhere.
 */
import type { NodeRow, WorkerRow } from "../../store/nodes.ts";
import type { Lane } from "../../store/waiting.ts";

/** A worker that may be given work. */
export interface Place {
  worker_id: string;
  node_id: string;
  /** Runs that it may be given: its free slots, and what is sent so that they never are. */
  free: number;
  /** Slots that are free; less than 0: so many wait there for one. */
  idle: number;
  load: number;
  /** Runs that it was given ahead of their time. */
  ahead: number;
}

/** A node with workers alive on it. */
export interface Host {
  node: NodeRow;
  /** Bodies of all its workers, and how many more it takes. */
  load: number;
  free: number;
  /** Its workers that may be given work, with a free slot or without. */
  places: Place[];
}

export interface Hall {
  hosts: Host[];
  /** What is left of each resource. */
  resources: Map<string, { left: number; capacity: number }>;
  /** An operator stopped all dispatch. */
  paused: boolean;
  fit: (worker_id: string, digest: string) => boolean;
}

export type Gate = { lane: Lane; room: number } | { lane: Lane; reason: string };

/** All that has workers, by node. `places`: those of them that may be given work. */
export function hostsOf(workers: (WorkerRow & { node: NodeRow })[], places: Place[]): Host[] {
  return [...Map.groupBy(workers, (worker) => worker.node_id)].map(([node_id, members]) => {
    const node = (members[0] as { node: NodeRow }).node;
    // A node's own limit counts those that it was given ahead: when their time comes nobody asks again.
    const load = members.reduce(
      (sum, worker) => sum + worker.load + (node.max_concurrent === null ? 0 : worker.ahead),
      0,
    );
    const own = places.filter((place) => place.node_id === node_id);
    const slots = own.reduce((sum, place) => sum + Math.max(place.free, 0), 0);
    const limit = node.max_concurrent === null ? Infinity : node.max_concurrent - load;
    const usable = node.is_active && node.status === "available";
    return { node, load, free: usable ? Math.max(0, Math.min(slots, limit)) : 0, places: own };
  });
}

/** Whether a node is one that a lane names: any, by its name, or by labels such as "gpu=a100,zone=tokyo". */
export function isNamed(selector: string, node: NodeRow): boolean {
  if (selector === "") return true;
  if (!selector.includes("=")) return selector === node.node_id;
  return selector.split(",").every((pair) => {
    const [label = "", value = ""] = pair.split("=", 2).map((part) => part.trim());
    return Object.hasOwn(node.labels, label) && String(node.labels[label]) === value;
  });
}

export function gateOf(lane: Lane, hall: Hall): Gate {
  const reason = closedByDefinition(lane, hall) ?? closedByPlace(lane, hall);
  if (reason) return { lane, reason };
  const rooms = [
    hostsFor(lane, hall).reduce((sum, host) => sum + host.free, 0),
    lane.concurrency_limit === null || lane.concurrency_key !== null ? Infinity : lane.concurrency_limit - lane.running,
    startsLeft(lane),
    ...Object.entries(lane.resources).map(([name, n]) => n === 0 ? Infinity : Math.floor(leftOf(name, hall) / n)),
  ];
  return { lane, room: Math.min(...rooms) };
}

/** Starts that its rate allows now: they are evenly spread, and what a late tick left undone is made up for at most a second. */
export function startsLeft(lane: Pick<Lane, "rate_count" | "rate_seconds" | "rate_wait_ms">): number {
  if (lane.rate_count === null || lane.rate_seconds === null) return Infinity;
  if (lane.rate_wait_ms > 0) return 0;
  const each_ms = lane.rate_seconds * 1000 / lane.rate_count;
  return 1 + Math.floor(Math.min(-lane.rate_wait_ms, MAKE_UP_MS) / each_ms);
}

const MAKE_UP_MS = 1_000;

function closedByDefinition(lane: Lane, hall: Hall): string | undefined {
  if (hall.paused) return "all dispatch is paused; resume it: deno task queue resume";
  if (lane.removed) return `the file of job "${lane.job_name}" was removed; put it back and sync, or cancel the run`;
  if (lane.paused_by !== null) {
    return `job "${lane.job_name}" is paused by ${lane.paused_by}; resume it: deno task queue resume --job ${lane.job_name}`;
  }
  const limit = lane.concurrency_key === null ? lane.concurrency_limit : null;
  if (limit !== null && lane.running >= limit) {
    return `limit: ${lane.running} of at most ${limit} runs of job "${lane.job_name}" are active`;
  }
  if (startsLeft(lane) === 0) {
    return `rate: job "${lane.job_name}" starts at most ${lane.rate_count} runs in ${lane.rate_seconds} s`;
  }
  for (const [name, n] of Object.entries(lane.resources)) {
    const resource = hall.resources.get(name);
    if (!resource) return `resource "${name}" is not known; add it: deno task resources set ${name} CAPACITY`;
    if (resource.left < n) {
      return `resource "${name}": ${n} needed, ${Math.max(0, resource.left)} of ${resource.capacity} free`;
    }
  }
}

function closedByPlace(lane: Lane, hall: Hall): string | undefined {
  const named = hall.hosts.filter((host) => isNamed(lane.node, host.node));
  const which = lane.node === ""
    ? ""
    : lane.node.includes("=")
    ? ` with labels ${lane.node}`
    : ` on node "${lane.node}"`;
  if (named.length === 0) return `no worker is alive${which}`;
  const active = named.filter((host) => host.node.is_active);
  if (active.length === 0) return `${nodesOf(named)} in maintenance${whyInactive(named)}`;
  const reachable = active.filter((host) => host.node.status !== "unavailable");
  if (reachable.length === 0) return `${nodesOf(active)} unavailable: ${problemOf(active)}`;
  const calm = reachable.filter((host) => host.node.status !== "busy");
  if (calm.length === 0) return `${nodesOf(reachable)} busy: ${problemOf(reachable)}`;
  const working = calm.filter((host) => host.places.length > 0);
  if (working.length === 0) return `no worker${which} takes work: they are draining, detached, or do not answer`;
  const free = working.filter((host) => host.free > 0);
  if (free.length === 0) {
    const full = working.find((host) => host.node.max_concurrent !== null && host.load >= host.node.max_concurrent);
    if (full) return `node "${full.node.node_id}" is full: ${full.load} of ${full.node.max_concurrent}`;
    return `no free slot${which}`;
  }
  if (hostsFor(lane, hall).length === 0) {
    return `no worker with a free slot has the code of job "${lane.job_name}" as it was synced (digest ${
      lane.digest.slice(0, 12)
    })`;
  }
}

/** Hosts with room on which some worker has the lane's code. */
function hostsFor(lane: Lane, hall: Hall): Host[] {
  return hall.hosts.filter((host) =>
    host.free > 0 && isNamed(lane.node, host.node) &&
    host.places.some((place) => place.free > 0 && hall.fit(place.worker_id, lane.digest))
  );
}

function leftOf(name: string, hall: Hall): number {
  return hall.resources.get(name)?.left ?? 0;
}

function nodesOf(hosts: Host[]): string {
  const names = hosts.map((host) => `"${host.node.node_id}"`).join(", ");
  return hosts.length === 1 ? `node ${names} is` : `nodes ${names} are`;
}

function whyInactive(hosts: Host[]): string {
  const [{ node }] = hosts as [Host];
  if (hosts.length > 1 || node.inactive_by === null) return "";
  return `, says ${node.inactive_by}${node.inactive_reason === null ? "" : `: ${node.inactive_reason}`}`;
}

/** What the checks of these nodes found, with the node's name where there are several. */
function problemOf(hosts: Host[]): string {
  return hosts.map(({ node }) => {
    const problem = node.problem ?? (node.checked ? "nothing says why" : "its first check has not passed yet");
    return hosts.length === 1 ? problem : `${node.node_id}: ${problem}`;
  }).join("; ");
}
