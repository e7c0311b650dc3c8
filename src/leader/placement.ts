/**
 * Who may be given what in one tick: nodes and workers with room, by what a run queue or a run asks for. What a choice takes is taken
 * from here, so that the next one sees it.
 *
 * A group of workers may be large and so may be the number of run queues, so what a selector (any node, its name, its labels) leads to is found
 * out once, and the least loaded of those is kept on top of a queue. Within a tick room only shrinks and load only grows, so a place
 * whose rank is out of date is put back where it belongs when it comes up.
 */
import TinyQueue from "tinyqueue";
import { type PackAllowance, packOf, QUICK_MS, waitCost } from "./prefetch.ts";
import { isNamed, type NodeRow, type WorkerRow } from "../nodes/workers.ts";

/** A worker that may be given work. */
export interface WorkerCapacity {
  worker_id: string;
  node_id: string;
  /** Runs that it may be given: its free slots, and what is sent so that they never are. */
  free: number;
  /** Slots that are free; less than 0: so many wait there for one. */
  idle: number;
  /** The time of its slots that may be sent to wait for them. */
  line_ms: number;
  load: number;
  /** Runs that it was given ahead of their time. */
  ahead: number;
}

/** A node with workers alive on it. */
export interface NodeCapacity {
  node: NodeRow;
  /** Bodies of all its workers, and how many more it takes. */
  load: number;
  free: number;
  /** Its workers that may be given work, with a free slot or without. */
  places: WorkerCapacity[];
  /** Workers that take part here and are there to work, whether they answer just now or not. */
  staff: readonly string[];
  /** The leader's own worker, where it works for want of others; among `places` only where there is no staff. */
  stand_in?: WorkerCapacity;
  /** All workers that take part here, the leader's too where it never works. */
  active?: readonly string[];
}

/** Who may be given work. */
export interface Crewed {
  places: WorkerCapacity[];
  staff: readonly string[];
  stand_in?: WorkerCapacity;
}

/** By worker: what it has instead of some code; null: nothing that can be read. */
export type Lacking = ReadonlyMap<string, string | null>;

/** Who of those whom a selector names has a version of the code, and how many have another instead. */
export interface Versions {
  /** Of those who may be given runs. */
  having: number;
  /** The leader's worker has it, which is given none. */
  only_leader: boolean;
  others: { digest: string | null; workers: number }[];
}

export interface Placement {
  host: NodeCapacity;
  place: WorkerCapacity;
}

/** What a run asks of a place. */
export interface PlacementRequest {
  node: string;
  avoid_node: string | null;
  digest: string;
}

/** `now`: for a run that may start. `ahead`: for one that will, which needs a slot that is free and not yet spoken for. */
export type PlacementTime = "now" | "ahead";

interface Ranked extends Placement {
  rank: number;
  order: number;
}

export class CapacitySnapshot {
  readonly hosts: readonly NodeCapacity[];
  /** What is left of each resource. */
  readonly resources: Map<string, { left: number; capacity: number }>;
  /** An operator stopped all dispatch. */
  readonly paused: boolean;
  readonly #lacking: (digest: string) => Lacking;
  readonly #bodyMs: (digest: string) => number;
  readonly #packs: PackAllowance;
  readonly #packing = new Map<string, { places: Placement[]; at: number; begun: boolean }>();
  readonly #named = new Map<string, readonly NodeCapacity[]>();
  readonly #serving = new Map<string, readonly NodeCapacity[]>();
  readonly #rooms = new Map<string, number>();
  readonly #alone = new Map<string, string | null>();
  readonly #queues = new Map<string, TinyQueue<Ranked>>();
  /** By queue: no place there takes what costs as much as this, or more. */
  readonly #too_costly = new Map<TinyQueue<Ranked>, number>();

  constructor(parts: {
    hosts: NodeCapacity[];
    resources?: Map<string, { left: number; capacity: number }>;
    paused?: boolean;
    /** Workers that are known to have other code for this digest. */
    lacking?: (digest: string) => Lacking;
    /** What a run of this code takes; Infinity: that is not known. */
    bodyMs?: (digest: string) => number;
    /** How many runs of quick code may go to workers in packs. */
    packs?: PackAllowance;
  }) {
    this.hosts = parts.hosts;
    this.resources = parts.resources ?? new Map();
    this.paused = parts.paused ?? false;
    this.#lacking = parts.lacking ?? (() => NOBODY);
    this.#bodyMs = parts.bodyMs ?? (() => Infinity);
    this.#packs = { ...parts.packs ?? { left: 0, wait: false } };
  }

  named(selector: string): readonly NodeCapacity[] {
    return kept(this.#named, selector, () => this.hosts.filter((host) => isNamed(selector, host.node)));
  }

  /**
   * Those of the named that work for this selector. Without staff, or with staff that has other code, a host has nobody but a leader that is to be free to
   * lead: it works where nobody else ever will.
   */
  serving(selector: string, avoid_node: string | null = null, digest = ""): readonly NodeCapacity[] {
    const lacking = this.#lacking(digest);
    return kept(this.#serving, keyOf(lacking, digest, `${avoid_node ?? ""}\0${selector}`), () => {
      const named = this.named(selector).filter((host) => host.node.node_id !== avoid_node);
      const staffed = named.filter((host) => host.staff.some((worker_id) => !lacking.has(worker_id)));
      return staffed.length > 0 ? staffed : named;
    });
  }

  /** Runs of this code that may be given to those whom the selector names, before any of this tick has been. */
  roomFor(selector: string, digest: string): number {
    const lacking = this.#lacking(digest);
    const cost = this.costOf(digest);
    const room = kept(this.#rooms, keyOf(lacking, digest, `${cost}\0${selector}`), () => {
      return this.serving(selector, null, digest).reduce((sum, host) => sum + roomIn(host, cost, lacking), 0);
    });
    return room > 0 && lacking.size === 0 && this.#isQuick(digest) ? Math.max(room, this.#packs.left) : room;
  }

  /** What a run of this code takes of `WorkerCapacity.line_ms`. */
  costOf(digest: string): number {
    return waitCost(this.#bodyMs(digest));
  }

  /** Whether some workers have other code than this. */
  isLacked(digest: string): boolean {
    return this.#lacking(digest).size > 0;
  }

  /** Who has this code of those whom the selector names. */
  versions(selector: string, digest: string): Versions {
    const lacking = this.#lacking(digest);
    const named = this.named(selector);
    const able = named.flatMap(({ staff, stand_in }) => stand_in ? [...staff, stand_in.worker_id] : staff);
    const having = new Set(able.filter((worker_id) => !lacking.has(worker_id))).size;
    const all = new Set([...able, ...named.flatMap(({ active = [] }) => active)]);
    const found = Map.groupBy([...all].filter((worker_id) => lacking.has(worker_id)), (worker_id) => {
      return lacking.get(worker_id) ?? null;
    });
    const others = [...found].map(([digest, workers]) => ({ digest, workers: workers.length }));
    const only_leader = having === 0 && [...all].some((worker_id) => !lacking.has(worker_id));
    return { having, only_leader, others: others.sort((a, b) => b.workers - a.workers) };
  }

  #isQuick(digest: string): boolean {
    return this.#bodyMs(digest) <= QUICK_MS;
  }

  /** The node that alone has room for this, where a run that avoids it waits for another one: none such can start before that has room. */
  aloneWithRoom(selector: string, digest: string): string | null {
    const lacking = this.#lacking(digest);
    return kept(this.#alone, keyOf(lacking, digest, selector), () => {
      const [first, ...more] = this.serving(selector, null, digest).filter((host) => hasRoom(host, lacking));
      if (!first || more.length > 0) return null;
      const others = this.serving(selector, first.node.node_id, digest);
      const wait = others.some((host) => hasWorkers(host, lacking)) && !others.some((host) => hasRoom(host, lacking));
      return wait ? first.node.node_id : null;
    });
  }

  /** The least loaded worker that fits; on the node that the run asked to avoid only when no other node will ever do. */
  placeFor({ node, avoid_node, digest }: PlacementRequest, when: PlacementTime): Placement | undefined {
    const lacking = this.#lacking(digest);
    if (when === "now" && avoid_node === null && lacking.size === 0 && this.#isQuick(digest)) {
      const packed = this.#packs.left > 0 ? this.#packed(node, this.costOf(digest)) : undefined;
      if (packed) this.#packs.left--;
      if (packed || (this.#packs.left <= 0 && this.#packs.wait)) return packed;
    }
    const avoids = avoid_node !== null &&
      this.serving(node, avoid_node, digest).some((host) => hasWorkers(host, lacking));
    const queue = this.#queueOf(node, avoids ? avoid_node : null, digest, when);
    const cost = this.costOf(digest);
    if (cost >= (this.#too_costly.get(queue) ?? Infinity)) return undefined;
    const passed: Ranked[] = [];
    let found: Ranked | undefined;
    while (!found) {
      const top = queue.pop();
      if (!top) break;
      if (top.host.free <= 0 || !isFree(top.place, when)) continue; // not again in this tick
      const rank = rankOf(top.place);
      if (rank !== top.rank) queue.push({ ...top, rank });
      else if (!mayWait(top.place, cost)) passed.push(top);
      else found = top;
    }
    if (!found) this.#too_costly.set(queue, cost);
    for (const one of found ? [...passed, found] : passed) queue.push(one);
    return found;
  }

  /** The first that has room for half a pack, until it has a whole one. Nodes with a limit of their own have no packs. */
  #packed(selector: string, cost: number): Placement | undefined {
    const line = kept(this.#packing, selector, () => {
      const hosts = this.serving(selector).filter(({ node, free }) => node.max_concurrent === null && free > 0);
      return { places: hosts.flatMap((host) => host.places.map((place) => ({ host, place }))), at: 0, begun: false };
    });
    for (; line.at < line.places.length; line.at++, line.begun = false) {
      const found = line.places[line.at] as Placement;
      const { load, free, idle } = found.place;
      const pack = packOf(load + idle); // which are its slots
      line.begun ||= free > 0 && load <= pack / 2;
      if (line.begun && load < pack && mayWait(found.place, cost)) return found;
    }
  }

  #queueOf(selector: string, avoid_node: string | null, digest: string, when: PlacementTime): TinyQueue<Ranked> {
    const lacking = this.#lacking(digest);
    return kept(this.#queues, keyOf(lacking, digest, `${when}\0${avoid_node ?? ""}\0${selector}`), () => {
      const serving = this.serving(selector, avoid_node, digest);
      const all = serving.flatMap((host) => placesFor(host, lacking).map((place) => ({ host, place })));
      const ranked = all.map((one, order) => ({ ...one, order, rank: rankOf(one.place) }));
      return new TinyQueue(ranked, (a, b) => a.rank - b.rank || a.order - b.order);
    });
  }
}

/** What all code shares that every worker has is found out once for it. */
function keyOf(lacking: Lacking, digest: string, rest: string): string {
  return lacking.size === 0 ? rest : `${digest}\0${rest}`;
}

const NOBODY: Lacking = new Map();
/** More than anybody carries. */
const BEHIND_OTHERS = 1e9;

/** A free slot before a place behind others, then whoever carries less. */
function rankOf({ idle, load, ahead }: WorkerCapacity): number {
  return load + ahead + (idle > 0 ? 0 : BEHIND_OTHERS);
}

function isFree(place: WorkerCapacity, when: PlacementTime): boolean {
  return when === "now" ? place.free > 0 : place.idle > place.ahead;
}

/** A slot is free, or it may wait for one there. */
function mayWait({ idle, line_ms }: WorkerCapacity, cost: number): boolean {
  return idle > 0 || cost <= line_ms;
}

/** Its workers that may be given this code: the staff that has it; where none of it ever will, the leader's own. */
function placesFor({ places, staff, stand_in }: NodeCapacity, lacking: Lacking): readonly WorkerCapacity[] {
  if (lacking.size === 0) return places;
  const has = ({ worker_id }: { worker_id: string }) => !lacking.has(worker_id);
  if (staff.some((worker_id) => has({ worker_id }))) return places.filter(has);
  return stand_in && has(stand_in) ? [stand_in] : [];
}

/** How many runs of this cost a host may be given. */
function roomIn(host: NodeCapacity, cost: number, lacking: Lacking): number {
  const room = placesFor(host, lacking).reduce((sum, { free, idle, line_ms }) => {
    return sum + Math.max(0, Math.min(free, Math.max(0, idle) + Math.floor(Math.max(0, line_ms) / cost)));
  }, 0);
  return Math.min(host.free, room);
}

function hasRoom(host: NodeCapacity, lacking: Lacking): boolean {
  return host.free > 0 && placesFor(host, lacking).some((place) => place.free > 0);
}

/** Somebody takes part there who will do it, if not just now: worth waiting for. */
function hasWorkers(host: NodeCapacity, lacking: Lacking): boolean {
  return host.staff.some((worker_id) => !lacking.has(worker_id)) || placesFor(host, lacking).length > 0;
}

function kept<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** All that has workers, by node. */
export function hostsOf(
  workers: (WorkerRow & { node: NodeRow })[],
  { places, staff, stand_in }: Crewed,
): NodeCapacity[] {
  const by_node = Map.groupBy(places, (place) => place.node_id);
  const works = new Set(staff);
  return [...Map.groupBy(workers, (worker) => worker.node_id)].map(([node_id, members]) => {
    const node = (members[0] as { node: NodeRow }).node;
    // A node's own limit counts those that it was given ahead: when their time comes nobody asks again.
    const load = members.reduce(
      (sum, worker) => sum + worker.load + (node.max_concurrent === null ? 0 : worker.ahead),
      node.left_behind,
    );
    const own = by_node.get(node_id) ?? [];
    const leader = stand_in?.node_id === node_id ? stand_in : undefined;
    const slots = [...new Set(leader ? [...own, leader] : own)].reduce(
      (sum, place) => sum + Math.max(place.free, 0),
      0,
    );
    const limit = node.max_concurrent === null ? Infinity : node.max_concurrent - load;
    const usable = node.is_active && node.status === "available";
    const active = members.filter((worker) => worker.state === "ACTIVE").map((worker) => worker.worker_id);
    return {
      node,
      load,
      free: usable ? Math.max(0, Math.min(slots, limit)) : 0,
      places: own,
      staff: active.filter((worker_id) => works.has(worker_id)),
      stand_in: leader,
      active,
    };
  });
}
