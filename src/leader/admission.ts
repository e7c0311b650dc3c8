/**
 * Which lanes are open, for how many runs, and why the others are closed. Pure: from what was read, to what may start.
 *
 * A lane is closed by its definition (removed, paused, as many as its limit, its rate, a resource that is used up) or by
 * its place (no such node, one that is away, in maintenance or full, nobody with a free slot, nobody with its code).
 * Capacity is counted from rows each time and kept nowhere.
 */
import { type LaneWait, noCodeText, whereOf } from "../runs/wait_reason.ts";
import type { Lane } from "../dispatch/dispatch_queues.ts";
import { type Hall, type Host } from "./placement.ts";

/** Why it is closed, as a sentence and for programs. */
interface Closed {
  reason: string;
  parts: LaneWait;
}

export type Gate = { lane: Lane; room: number } | { lane: Lane } & Closed;

export function gatesOf(lanes: Lane[], hall: Hall): Gate[] {
  const places = new Map<string, Closed | undefined>();
  const closedByPlace = (selector: string) => {
    if (!places.has(selector)) places.set(selector, whyNobody(selector, hall));
    return places.get(selector);
  };
  return lanes.map((lane) => {
    const why = closedByDefinition(lane, hall) ?? closedByPlaceOrCode(lane, hall, closedByPlace(lane.node));
    return why === undefined ? { lane, room: roomOf(lane, hall) } : { lane, ...why };
  });
}

function roomOf(lane: Lane, hall: Hall): number {
  return Math.min(
    hall.roomFor(lane.node, lane.digest),
    lane.concurrency_limit === null || lane.concurrency_key !== null ? Infinity : lane.concurrency_limit - lane.running,
    startsLeft(lane),
    ...Object.entries(lane.resources).map(([name, n]) => n === 0 ? Infinity : Math.floor(leftOf(name, hall) / n)),
  );
}

/**
 * Starts that its rate allows now. They are evenly spread; what a late tick left undone is made up for, but no more than a tenth of
 * the rate's time holds, nor a second: whoever was idle must not begin with a burst that the rate is there to prevent.
 */
export function startsLeft(lane: RateOf): number {
  if (lane.rate_count === null || lane.rate_seconds === null) return Infinity;
  const wait_ms = rateWait(lane, 0);
  return wait_ms > 0 ? 0 : 1 + Math.floor(-wait_ms * lane.rate_count / (lane.rate_seconds * 1000));
}

type RateOf = Pick<Lane, "rate_count" | "rate_seconds" | "rate_wait_ms">;

/** How long after so many more starts until the rate allows another; 0 or less: it does, and so much is left to make up for. */
export function rateWait({ rate_count, rate_seconds, rate_wait_ms }: RateOf, starts: number): number {
  if (rate_count === null || rate_seconds === null) return -Infinity;
  const made_up_ms = Math.min(rate_seconds * 100, MOST_MAKE_UP_MS);
  return Math.max(rate_wait_ms, -made_up_ms) + starts * rate_seconds * 1000 / rate_count;
}

const MOST_MAKE_UP_MS = 1_000; // as in `assignRuns`

function closedByDefinition(lane: Lane, hall: Hall): Closed | undefined {
  const { job_name } = lane;
  if (hall.paused) {
    return closed("all dispatch is paused; resume it: deno task queue resume --all", { code: "dispatch_paused" });
  }
  if (lane.removed) {
    const reason = `the file of job "${job_name}" was removed; put it back and sync, or cancel the run`;
    return closed(reason, { code: "job_removed", job_name });
  }
  if (lane.paused_by !== null) {
    const { paused_by: by, paused_reason: why } = lane;
    const end = `; resume it: deno task queue resume --job ${job_name}`;
    return closed(`job "${job_name}" is paused by ${said(by, why)}${end}`, {
      code: "job_paused",
      job_name,
      by,
      reason: why,
    });
  }
  const limit = lane.concurrency_key === null ? lane.concurrency_limit : null;
  if (limit !== null && lane.running >= limit) {
    const reason = `limit: ${lane.running} of at most ${limit} runs of job "${job_name}" are active`;
    return closed(reason, { code: "job_limit", job_name, running: lane.running, limit });
  }
  const { rate_count: count, rate_seconds: seconds } = lane;
  if (count !== null && seconds !== null && startsLeft(lane) === 0) {
    const reason = `rate: job "${job_name}" starts at most ${count} runs in ${seconds} s`;
    return closed(reason, { code: "rate", job_name, count, seconds });
  }
  return closedByResource(lane, hall);
}

function closedByResource(lane: Lane, hall: Hall): Closed | undefined {
  for (const [resource, needed] of Object.entries(lane.resources)) {
    const there = hall.resources.get(resource);
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
function whyNobody(selector: string, hall: Hall): Closed | undefined {
  const named = hall.named(selector);
  const which = whereOf(selector);
  if (named.length === 0) {
    return closed(`no worker is alive${which}; ${whereToStart(selector)}`, { code: "nobody_there", node: selector });
  }
  const serving = hall.serving(selector);
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

function noSlot(selector: string): Closed {
  return closed(`no free slot${whereOf(selector)}`, { code: "no_slot", node: selector });
}

function whereToStart(selector: string): string {
  if (selector === "") return "start one: deno task worker";
  if (!selector.includes("=")) return `start one there, or as it: SCHEDULER_NODE_ID=${selector} deno task worker`;
  const labels = selector.split(",").map((pair) => pair.trim()).join(" ");
  return `start one on a node that has them, or give them to another: deno task nodes set NODE --label ${labels}`;
}

/** What would pass by itself, as that all are busy, is not the reason where nobody has the code. */
function closedByPlaceOrCode(lane: Lane, hall: Hall, place: Closed | undefined): Closed | undefined {
  if (place && place.parts.code !== "no_slot" && place.parts.code !== "node_full") return place;
  if (!hall.isLacked(lane.digest)) {
    return place ?? (hall.roomFor(lane.node, lane.digest) > 0 ? undefined : noSlot(lane.node));
  }
  const { having, only_leader, others } = hall.versions(lane.node, lane.digest);
  if (having > 0 && (place || hall.roomFor(lane.node, lane.digest) > 0)) return place;
  const { job_name, digest, node } = lane;
  const parts = { code: "no_code" as const, job_name, digest, node, having, only_leader, others };
  return closed(noCodeText(parts), parts);
}

function closed(reason: string, parts: LaneWait): Closed {
  return { reason, parts };
}

function leftOf(name: string, hall: Hall): number {
  return hall.resources.get(name)?.left ?? 0;
}

function nodesOf(hosts: readonly Host[]): string {
  const names = hosts.map((host) => `"${host.node.node_id}"`).join(", ");
  return hosts.length === 1 ? `node ${names} is` : `nodes ${names} are`;
}

function inMaintenance(hosts: readonly Host[]): Closed {
  const nodes = hosts.map(({ node }) => node.node_id);
  const [{ node }] = hosts as [Host];
  const [by, why] = hosts.length > 1 ? [null, null] : [node.inactive_by, node.inactive_reason];
  const who = by === null ? "" : `, says ${said(by, why)}`;
  const end = `; end that: deno task nodes set ${node.node_id} --maintenance off`;
  return closed(`${nodesOf(hosts)} in maintenance${who}${end}`, { code: "maintenance", nodes, by, reason: why });
}

function said(by: string, why: string | null): string {
  return why === null ? by : `${by}: ${why}`;
}

function failing(hosts: readonly Host[], code: "unavailable" | "busy"): Closed {
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
function problemOf(hosts: readonly Host[]): string {
  return hosts.map(({ node }) => {
    const problem = node.problem ?? (node.checked ? "nothing says why" : "its check has not passed yet");
    return hosts.length === 1 ? problem : `${node.node_id}: ${problem}`;
  }).join("; ");
}
