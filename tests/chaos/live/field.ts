/**
 * What a fault is, and what it may strike. Each takes what it strikes (a lock, Postgres, Redis, a node's certificate)
 * for as long as it lasts, so that it does what its name says; several at a time strike different things.
 */
import type { Chance } from "../stress/chance.ts";
import type { Load } from "./load.ts";
import type { Lock } from "./seat.ts";
import type { World } from "./world.ts";

export interface Fault {
  name: string;
  /** How often, compared with the others. */
  weight: number;
  /** Why it cannot be done here; undefined: it can. */
  missing?(world: World): string | undefined;
  /** Does it; undefined when there is nothing to strike just now. */
  strike(on: Field, chance: Chance): Promise<Struck | undefined> | Struck | undefined;
}

export interface Field {
  world: World;
  load: Load;
  /** What other faults have taken, by name. */
  taken: Set<string>;
}

export interface Struck {
  /** In a few words: what was struck, and how. */
  what: string;
  /** What it has taken. */
  takes: string[];
  lasts_ms: number;
  heal(): Promise<void> | void;
  /** The worker that led and can lead no more. */
  unseats?: string;
  /** The worker that can no longer finish its runs. */
  kills?: string;
}

/** A lock that nothing else has, with a worker that is ready. */
export function anyLock({ world, taken }: Field, chance: Chance): Lock | undefined {
  return oneOf(world.seats.filter((lock) => isFree(lock, taken)), chance);
}

export function leadingLock({ world, taken }: Field): Lock | undefined {
  const { leader } = world;
  return leader && isFree(leader, taken) ? leader : undefined;
}

export function otherLock({ world, taken }: Field, chance: Chance): Lock | undefined {
  return oneOf(world.seats.filter((lock) => lock !== world.leader && isFree(lock, taken)), chance);
}

function isFree(lock: Lock, taken: Set<string>): boolean {
  return lock.worker_id !== "" && !taken.has(lock.name);
}

/** Undefined of an empty list. */
export function oneOf<T>(list: readonly T[], chance: Chance): T | undefined {
  return list.length > 0 ? chance.pick(list) : undefined;
}
