/**
 * Which lanes are open, for how many runs, and why the others are closed. Pure: from what was read, to what may start.
 *
 * A lane is closed by its definition (removed, paused, as many as its limit, its rate, a resource that is used up) or by
 * its place (no such node, one that is away, in maintenance or full, nobody with a free slot, nobody with its code).
 * Capacity is counted from rows each time and kept nowhere.
 */
import type { Lane } from "../../store/waiting.ts";
import { type Hall, type Host } from "./hall.ts";

export type Gate = { lane: Lane; room: number } | { lane: Lane; reason: string };

export function gatesOf(lanes: Lane[], hall: Hall): Gate[] {
  const places = new Map<string, string | undefined>();
  const closedByPlace = (selector: string) => {
    if (!places.has(selector)) places.set(selector, whyNobody(selector, hall));
    return places.get(selector);
  };
  return lanes.map((lane) => {
    const reason = closedByDefinition(lane, hall) ?? closedByPlace(lane.node) ?? closedByCode(lane, hall);
    return reason === undefined ? { lane, room: roomOf(lane, hall) } : { lane, reason };
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

/** Why none of those whom a selector names can take a run. */
function whyNobody(selector: string, hall: Hall): string | undefined {
  const named = hall.named(selector);
  const which = selector === "" ? "" : selector.includes("=") ? ` with labels ${selector}` : ` on node "${selector}"`;
  if (named.length === 0) return `no worker is alive${which}; start one: deno task worker`;
  const active = named.filter((host) => host.node.is_active);
  if (active.length === 0) return `${nodesOf(named)} in maintenance${whyInactive(named)}`;
  const reachable = active.filter((host) => host.node.status !== "unavailable");
  if (reachable.length === 0) return `${nodesOf(active)} unavailable: ${problemOf(active)}`;
  const calm = reachable.filter((host) => host.node.status !== "busy");
  if (calm.length === 0) return `${nodesOf(reachable)} busy: ${problemOf(reachable)}`;
  const working = calm.filter((host) => host.places.length > 0);
  if (working.length === 0) {
    return `no worker${which} takes work: draining, detached, not answering, or leading, which it does without runs of its own ` +
      `while there are others (setting leader_runs_jobs)`;
  }
  const free = working.filter((host) => host.free > 0);
  if (free.length === 0) {
    const full = working.find((host) => host.node.max_concurrent !== null && host.load >= host.node.max_concurrent);
    if (full) return `node "${full.node.node_id}" is full: ${full.load} of ${full.node.max_concurrent}`;
    return `no free slot${which}`;
  }
}

function closedByCode(lane: Lane, hall: Hall): string | undefined {
  if (hall.roomFor(lane.node, lane.digest) > 0) return;
  return `no worker with a free slot has the code of job "${lane.job_name}" as it was synced (digest ${
    lane.digest.slice(0, 12)
  })`;
}

function leftOf(name: string, hall: Hall): number {
  return hall.resources.get(name)?.left ?? 0;
}

function nodesOf(hosts: readonly Host[]): string {
  const names = hosts.map((host) => `"${host.node.node_id}"`).join(", ");
  return hosts.length === 1 ? `node ${names} is` : `nodes ${names} are`;
}

function whyInactive(hosts: readonly Host[]): string {
  const [{ node }] = hosts as [Host];
  const end = `; end that: deno task nodes set ${node.node_id} --maintenance off`;
  if (hosts.length > 1 || node.inactive_by === null) return end;
  return `, says ${node.inactive_by}${node.inactive_reason === null ? "" : `: ${node.inactive_reason}`}${end}`;
}

/** What the checks of these nodes found, with the node's name where there are several. */
function problemOf(hosts: readonly Host[]): string {
  return hosts.map(({ node }) => {
    const problem = node.problem ?? (node.checked ? "nothing says why" : "its first check has not passed yet");
    return hosts.length === 1 ? problem : `${node.node_id}: ${problem}`;
  }).join("; ");
}
