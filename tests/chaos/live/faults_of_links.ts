/** Faults of the network: one process is cut off from something, or what it hears comes late, half, or never. */
import type { Direction, FaultyLink } from "../../../src/ops/faulty_link.ts";
import type { Chance } from "../stress/chance.ts";
import { anyLock, type Fault, type Field, leadingLock, type Struck } from "./field.ts";
import { rest } from "../../../src/platform/timers.ts";
import type { Links, Lock } from "./seat.ts";
import { CHAOS_SETTINGS } from "./world.ts";

const WORKER_LEASE_MS = CHAOS_SETTINGS.worker_lease_seconds * 1000;
const ALL = ["postgres", "redis", "grpc"] as const;
const WAYS: Direction[][] = [["there"], ["back"], ["there", "back"], ["there", "back"]];

export const LINK_FAULTS: Fault[] = [
  { name: "cut the leader off from everything", weight: 5, strike: (on, chance) => cutLeader(on, chance, ALL) },
  { name: "cut the leader off from Postgres", weight: 3, strike: (on, chance) => cutLeader(on, chance, ["postgres"]) },
  { name: "cut the leader off from Redis", weight: 3, strike: (on, chance) => cutLeader(on, chance, ["redis"]) },
  { name: "cut the leader off from its peers", weight: 3, strike: cutPeers },
  {
    name: "cut a worker off from everything",
    weight: 5,
    strike: (on, chance) => cut(anyLock(on, chance), chance, ALL),
  },
  {
    name: "cut a worker off from Postgres",
    weight: 4,
    strike: (on, chance) => cut(anyLock(on, chance), chance, ["postgres"]),
  },
  {
    name: "cut a worker off from Redis",
    weight: 2,
    strike: (on, chance) => cut(anyLock(on, chance), chance, ["redis"]),
  },
  {
    name: "cut a worker off from its peers",
    weight: 3,
    strike: (on, chance) => cut(anyLock(on, chance), chance, ["grpc"]),
  },
  { name: "lose replies of Postgres", weight: 8, strike: (on, chance) => loseReplies(anyLock(on, chance), chance) },
  { name: "lose replies to the client", weight: 4, strike: loseClientsReplies },
  { name: "strand connections", weight: 4, strike: (on, chance) => once(anyLock(on, chance), chance, "strand") },
  { name: "reset connections", weight: 4, strike: (on, chance) => once(anyLock(on, chance), chance, "reset") },
  { name: "refuse connections", weight: 3, strike: (on, chance) => forAWhile(anyLock(on, chance), chance, "refuse") },
  { name: "swallow connections", weight: 3, strike: (on, chance) => forAWhile(anyLock(on, chance), chance, "swallow") },
  { name: "slow a link", weight: 3, strike: (on, chance) => slow(anyLock(on, chance), chance) },
];

type LinkName = keyof Links;

function cut(lock: Lock | undefined, chance: Chance, names: readonly LinkName[]): Struck | undefined {
  if (!lock) return undefined;
  const ways = chance.pick(WAYS);
  const lasts_ms = chance.whole(300, chance.happens(0.4) ? 1.5 * WORKER_LEASE_MS : 0.5 * WORKER_LEASE_MS);
  for (const name of names) lock.links[name].stall(...ways);
  return {
    what: `${lock.name} (${lock.worker_id}), ${ways.join(" and ")}, for ${lasts_ms} ms`,
    takes: [lock.name],
    lasts_ms,
    heal: () => lock.heal(),
  };
}

function cutLeader(on: Field, chance: Chance, names: readonly LinkName[]): Struck | undefined {
  const lock = leadingLock(on);
  const struck = cut(lock, chance, names);
  const lasts = struck && struck.lasts_ms > 1_000 * CHAOS_SETTINGS.leader_lease_seconds;
  return lasts && names.includes("postgres") ? { ...struck, unseats: lock?.worker_id } : struck;
}

/** Who leads calls the others, so what leads to them is cut as well: no two workers hear each other. */
function cutPeers({ world, taken }: Field, chance: Chance): Struck | undefined {
  if (world.seats.some(({ name }) => taken.has(name))) return undefined;
  const lasts_ms = chance.whole(500, WORKER_LEASE_MS);
  for (const { links } of world.seats) links.grpc.stall();
  return {
    what: `all workers from each other for ${lasts_ms} ms`,
    takes: world.seats.map(({ name }) => name),
    lasts_ms,
    heal: async () => void await Promise.all(world.seats.map((lock) => lock.heal())),
  };
}

/** What is asked meanwhile is done, and the answer never comes. */
function loseReplies(lock: Lock | undefined, chance: Chance): Struck | undefined {
  if (!lock) return undefined;
  const lasts_ms = chance.whole(30, 400);
  lock.links.postgres.stall("back");
  return {
    what: `to ${lock.name} (${lock.worker_id}), of ${lasts_ms} ms`,
    takes: [lock.name],
    lasts_ms,
    heal: () => resetAndHeal(lock.links.postgres),
  };
}

function loseClientsReplies({ load, taken }: Field, chance: Chance): Struck | undefined {
  if (taken.has("client")) return undefined;
  const lasts_ms = chance.whole(50, 3_000);
  load.link.stall("back");
  return { what: `of ${lasts_ms} ms`, takes: ["client"], lasts_ms, heal: () => resetAndHeal(load.link) };
}

async function resetAndHeal(link: FaultyLink): Promise<void> {
  link.reset();
  await link.heal();
}

function once(lock: Lock | undefined, chance: Chance, what: "strand" | "reset"): Struck | undefined {
  if (!lock) return undefined;
  const name = chance.pick(ALL);
  lock.links[name][what]();
  return { what: `${name} of ${lock.name} (${lock.worker_id})`, takes: [lock.name], lasts_ms: 500, heal: () => {} };
}

async function forAWhile(
  lock: Lock | undefined,
  chance: Chance,
  what: "refuse" | "swallow",
): Promise<Struck | undefined> {
  if (!lock) return undefined;
  const name = chance.pick(ALL);
  const lasts_ms = chance.whole(300, 4_000);
  await lock.links[name][what]();
  if (what === "swallow") lock.links[name].reset(); // so that there are new ones
  const told = `${name} of ${lock.name} (${lock.worker_id}) for ${lasts_ms} ms`;
  return { what: told, takes: [lock.name], lasts_ms, heal: () => lock.heal() };
}

function slow(lock: Lock | undefined, chance: Chance): Struck | undefined {
  if (!lock) return undefined;
  const name = chance.pick(ALL);
  const late_ms = chance.whole(20, 250);
  const lasts_ms = chance.whole(1_000, 6_000);
  lock.links[name].delay(late_ms);
  return {
    what: `${name} of ${lock.name} (${lock.worker_id}) by ${late_ms} ms for ${lasts_ms} ms`,
    takes: [lock.name],
    lasts_ms,
    heal: async () => {
      await lock.heal();
      await rest(late_ms); // what is on its way
    },
  };
}
