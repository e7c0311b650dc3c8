/**
 * Lets faults happen, one after another and often several at a time, by a schedule that the seed alone decides: when,
 * which, and with which throws of the chance. What a fault finds to strike (who leads just now, what is free) is up to
 * the moment.
 */
import { monotonicMs, rest } from "../../../src/platform/timers.ts";
import type { Chance } from "../stress/chance.ts";
import { LINK_FAULTS } from "./faults_of_links.ts";
import { PROCESS_FAULTS } from "./faults_of_processes.ts";
import { SERVER_FAULTS } from "./faults_of_servers.ts";
import type { Fault, Field, Struck } from "./field.ts";
import type { World } from "./world.ts";

export interface Planned {
  at_ms: number;
  fault: Fault;
  chance: Chance;
}

export interface Happened {
  name: string;
  what: string;
  /** By our clock, and by the monotonic one. */
  struck_at: Date;
  struck_ms: number;
  unseats: string | undefined;
  kills: string | undefined;
}

const FAULTS: readonly [Fault, ...Fault[]] = [...PROCESS_FAULTS, ...LINK_FAULTS, ...SERVER_FAULTS];

const MEAN_GAP_MS = 3_500;
const LEAST_GAP_MS = 800;
const LONGEST_GAP_MS = 9_000;
/** At the start all must be given a chance to be well. */
const FIRST_AT_MS = 2_000;

export function plan(chance: Chance, within_ms: number, faults: readonly [Fault, ...Fault[]] = FAULTS): Planned[] {
  const planned: Planned[] = [];
  let at_ms = FIRST_AT_MS;
  while (at_ms < within_ms) {
    planned.push({ at_ms, fault: weighed(chance, faults), chance: chance.fork(String(at_ms)) });
    const gap_ms = -Math.log(1 - chance.next()) * MEAN_GAP_MS;
    at_ms += Math.round(Math.min(Math.max(gap_ms, LEAST_GAP_MS), LONGEST_GAP_MS));
  }
  return planned;
}

function weighed(chance: Chance, faults: readonly [Fault, ...Fault[]]): Fault {
  let left = chance.next() * faults.reduce((sum, { weight }) => sum + weight, 0);
  return faults.find(({ weight }) => (left -= weight) < 0) ?? faults[0];
}

export class Nemesis {
  readonly happened: Happened[] = [];
  /** Faults for which there was nothing to strike when their time came. */
  passed = 0;
  readonly #field: Field;
  readonly #healing = new Set<Promise<void>>();
  readonly #hurry = new AbortController();

  constructor(field: Omit<Field, "taken">) {
    this.#field = { ...field, taken: new Set() };
  }

  /** Resolves at the end of the plan, with faults that still last. */
  async follow(planned: Planned[], stop: AbortSignal): Promise<void> {
    const began_ms = monotonicMs();
    for (const { at_ms, fault, chance } of planned) {
      await rest(began_ms + at_ms - monotonicMs(), stop);
      if (stop.aborted) return;
      await this.#strike(fault, chance);
    }
  }

  /** Ends all faults at once; resolves when all is well again. */
  async heal(): Promise<void> {
    this.#hurry.abort();
    await Promise.all(this.#healing);
    await Promise.all(this.#field.world.seats.map((lock) => lock.heal()));
    await this.#field.load.link.heal();
  }

  async #strike(fault: Fault, chance: Chance): Promise<void> {
    const { world, taken } = this.#field;
    const [struck_at, struck_ms] = [new Date(), monotonicMs()];
    const struck = await fault.strike(this.#field, chance);
    if (!struck) return void this.passed++;
    for (const name of struck.takes) taken.add(name);
    this.happened.push({
      name: fault.name,
      what: struck.what,
      struck_at,
      struck_ms,
      unseats: struck.unseats,
      kills: struck.kills,
    });
    world.note(`fault: ${fault.name}: ${struck.what}`);
    const healing: Promise<void> = this.#healLater(fault, struck).finally(() => this.#healing.delete(healing));
    this.#healing.add(healing);
  }

  async #healLater(fault: Fault, struck: Struck): Promise<void> {
    const { world, taken } = this.#field;
    await rest(struck.lasts_ms, this.#hurry.signal);
    try {
      await struck.heal();
    } catch (error) {
      world.mishaps.push(`Could not heal "${fault.name}" (${struck.what}): ${error}`);
    }
    for (const name of struck.takes) taken.delete(name);
    world.note(`healed: ${fault.name}: ${struck.what}`);
  }
}

/** Faults that can happen here, and for the others why not. */
export function possible(world: World, only = ""): { faults: [Fault, ...Fault[]]; left_out: string[] } {
  const left_out: string[] = [];
  const [first, ...others] = FAULTS.filter((fault) => {
    const reason = fault.missing?.(world);
    if (reason) left_out.push(`${fault.name}: ${reason}`);
    return !reason && fault.name.includes(only);
  });
  if (!first) throw new Error(`Cannot do "${only}": faults are ${FAULTS.map(({ name }) => name).join("; ")}`);
  return { faults: [first, ...others], left_out };
}
