/** Faults of the workers' processes: killed, frozen, restarted, drained, and with a clock that jumps. */
import { within } from "../../../src/platform/timers.ts";
import { requestDetach } from "../../../src/dispatch/detach.ts";
import { requestDrain } from "../../../src/nodes/workers.ts";
import { signalProcess } from "../../../src/sandbox/process_table.ts";
import type { Chance } from "../stress/chance.ts";
import { anyLock, type Fault, type Field, leadingLock, oneOf, otherLock, type Struck } from "./field.ts";
import type { Lock } from "./seat.ts";
import { insist } from "./servers.ts";
import { CHAOS_SETTINGS, READY_WITHIN_MS } from "./world.ts";

const LEADER_LEASE_MS = CHAOS_SETTINGS.leader_lease_seconds * 1000;
const WORKER_LEASE_MS = CHAOS_SETTINGS.worker_lease_seconds * 1000;

export const PROCESS_FAULTS: readonly [Fault, ...Fault[]] = [
  { name: "kill the leader", weight: 10, strike: (on) => kill(leadingLock(on), true) },
  { name: "kill a worker", weight: 7, strike: (on, chance) => kill(otherLock(on, chance), false) },
  { name: "kill a guard", weight: 4, strike: (on, chance) => killBeside(anyLock(on, chance), "guard", chance) },
  { name: "kill a body", weight: 4, strike: (on, chance) => killBeside(otherLock(on, chance), "body", chance) },
  {
    name: "freeze the leader for less than its lease",
    weight: 3,
    strike: (on, chance) => freeze(leadingLock(on), chance.whole(0.2 * LEADER_LEASE_MS, 0.8 * LEADER_LEASE_MS)),
  },
  {
    name: "freeze the leader for longer than its lease",
    weight: 6,
    strike: (on, chance) => freeze(leadingLock(on), chance.whole(1.2 * LEADER_LEASE_MS, 4 * LEADER_LEASE_MS), true),
  },
  {
    name: "freeze a worker for less than its lease",
    weight: 5,
    strike: (on, chance) => freeze(anyLock(on, chance), chance.whole(500, 0.8 * WORKER_LEASE_MS)),
  },
  {
    name: "freeze a worker for longer than its lease",
    weight: 5,
    strike: (on, chance) => freeze(anyLock(on, chance), chance.whole(1.2 * WORKER_LEASE_MS, 1.6 * WORKER_LEASE_MS)),
  },
  { name: "restart a worker", weight: 4, strike: (on, chance) => restart(anyLock(on, chance), chance) },
  { name: "rolling restart", weight: 2, strike: (on) => rollingRestart(on) },
  { name: "detach a worker", weight: 3, strike: (on, chance) => detach(on, anyLock(on, chance)) },
  { name: "drain a worker", weight: 3, strike: (on, chance) => drain(on, anyLock(on, chance), chance) },
  {
    name: "step the leader's clock by an hour",
    weight: 5,
    missing: ({ clock_library }) => clock_library ? undefined : "libfaketime is not installed",
    strike: (on, chance) => stepClock(leadingLock(on), chance),
  },
];

/** It is started again by itself. */
function kill(lock: Lock | undefined, leads: boolean): Struck | undefined {
  if (!lock) return undefined;
  const { worker_id } = lock;
  lock.signal("SIGKILL");
  return {
    what: `${lock.name} (${worker_id})`,
    takes: [lock.name],
    lasts_ms: 0,
    heal: () => {},
    kills: worker_id,
    ...(leads ? { unseats: worker_id } : {}),
  };
}

/** A process that the worker started: its guard is the one shell among them, a body is any other. */
function killBeside(lock: Lock | undefined, which: "guard" | "body", chance: Chance): Struck | undefined {
  if (!lock?.pid) return undefined;
  const pid = oneOf(childrenOf(lock.pid).filter(({ name }) => (name === "bash") === (which === "guard")), chance)?.pid;
  if (pid === undefined) return undefined;
  signalProcess(pid, "SIGKILL");
  return { what: `process ${pid} of ${lock.name}`, takes: [lock.name], lasts_ms: 500, heal: () => {} };
}

function childrenOf(parent: number): { pid: number; name: string }[] {
  const children: { pid: number; name: string }[] = [];
  for (const entry of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(entry.name)) continue;
    try {
      const stat = Deno.readTextFileSync(`/proc/${entry.name}/stat`);
      const [, ppid] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
      if (Number(ppid) === parent) children.push({ pid: Number(entry.name), name });
    } catch {
      // it ended while we looked
    }
  }
  return children;
}

function freeze(lock: Lock | undefined, lasts_ms: number, unseats = false): Struck | undefined {
  if (!lock) return undefined;
  const { pid } = lock;
  lock.signal("SIGSTOP");
  return {
    what: `${lock.name} (${lock.worker_id}) for ${lasts_ms} ms`,
    takes: [lock.name],
    lasts_ms,
    heal: () => void (pid && signalProcess(pid, "SIGCONT")),
    ...(unseats ? { unseats: lock.worker_id } : {}),
  };
}

function restart(lock: Lock | undefined, chance: Chance): Struck | undefined {
  if (!lock) return undefined;
  const stopped = lock.stop();
  const what = `${lock.name} (${lock.worker_id})`;
  return { what, takes: [lock.name], lasts_ms: chance.whole(0, 1_000), heal: () => stopped };
}

/** One after another, each when the one before is ready again. */
function rollingRestart({ world, taken }: Field): Struck | undefined {
  const seats = world.seats.filter((lock) => !taken.has(lock.name));
  const inflight = (async () => {
    for (const lock of seats) {
      await lock.stop();
      await within(READY_WITHIN_MS, `the start of ${lock.name}`, lock.ready);
    }
  })();
  const names = seats.map(({ name }) => name);
  return { what: names.join(", "), takes: names, lasts_ms: 0, heal: () => inflight };
}

/** It comes back by itself, under a new id, when its bodies have ended. */
async function detach({ world }: Field, lock: Lock | undefined): Promise<Struck | undefined> {
  if (!lock) return undefined;
  const { worker_id } = lock;
  await insist(world.sql, (sql) => requestDetach(sql, worker_id, { actor: "chaos", reason: "taken out" }));
  return { what: `${lock.name} (${worker_id})`, takes: [], lasts_ms: 0, heal: () => {} };
}

async function drain({ world }: Field, lock: Lock | undefined, chance: Chance): Promise<Struck | undefined> {
  if (!lock) return undefined;
  const { worker_id } = lock;
  const wish = { actor: "chaos", reason: "maintenance" };
  await insist(world.sql, (sql) => requestDrain(sql, worker_id, { ...wish, draining: true }));
  return {
    what: `${lock.name} (${worker_id})`,
    takes: [], // it is as mortal as the others
    lasts_ms: chance.whole(1_000, 6_000),
    heal: async () => {
      await insist(world.sql, (sql) => requestDrain(sql, worker_id, { ...wish, draining: false }));
    },
  };
}

function stepClock(lock: Lock | undefined, chance: Chance): Struck | undefined {
  if (!lock) return undefined;
  const off_seconds = chance.pick([-3_600, 3_600]);
  lock.setClock(off_seconds);
  return {
    what: `${lock.name} by ${off_seconds} s`,
    takes: [`clock of ${lock.name}`],
    lasts_ms: chance.whole(2_000, 8_000),
    heal: () => lock.setClock(0),
  };
}
