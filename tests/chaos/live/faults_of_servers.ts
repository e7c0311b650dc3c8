/** Faults of Postgres and Redis, and certificates that change. */
import { rest } from "../../../src/platform/timers.ts";
import { signalProcess } from "../../../src/sandbox/process_table.ts";
import type { Chance } from "../stress/chance.ts";
import { type Fault, type Field, oneOf, type Struck } from "./field.ts";
import { insist } from "./servers.ts";

/** Longer than the workers look away from their certificates. */
const NOTICED_MS = 7_000;

export const SERVER_FAULTS: Fault[] = [
  { name: "crash Redis", weight: 3, strike: crashRedis },
  { name: "flush Redis", weight: 3, strike: flushRedis },
  { name: "freeze Redis", weight: 3, strike: freezeRedis },
  { name: "crash Postgres", weight: 3, strike: crashPostgres },
  { name: "kill a backend of Postgres", weight: 3, strike: killBackend },
  { name: "terminate backends of Postgres", weight: 4, strike: terminateBackends },
  { name: "rotate a certificate", weight: 2, strike: rotate },
];

function crashRedis({ world, taken }: Field, chance: Chance): Struck | undefined {
  if (taken.has("redis")) return undefined;
  const down_ms = chance.whole(0, 3_000);
  const back = world.servers.crashRedis(down_ms);
  return { what: `away for ${down_ms} ms`, takes: ["redis"], lasts_ms: 0, heal: () => back };
}

async function flushRedis({ world, taken }: Field): Promise<Struck | undefined> {
  if (taken.has("redis")) return undefined;
  await world.servers.flushRedis();
  return { what: "all keys", takes: ["redis"], lasts_ms: 0, heal: () => {} };
}

function freezeRedis({ world, taken }: Field, chance: Chance): Struck | undefined {
  if (taken.has("redis")) return undefined;
  const lasts_ms = chance.whole(300, 5_000);
  world.servers.freezeRedis();
  return { what: `for ${lasts_ms} ms`, takes: ["redis"], lasts_ms, heal: () => world.servers.thawRedis() };
}

function crashPostgres({ world, taken }: Field, chance: Chance): Struck | undefined {
  if (taken.has("postgres")) return undefined;
  const down_ms = chance.whole(0, chance.happens(0.3) ? 8_000 : 1_000);
  const back = world.servers.crashPostgres(down_ms);
  return { what: `away for ${down_ms} ms and its recovery`, takes: ["postgres"], lasts_ms: 0, heal: () => back };
}

/** The death of one is a crash of all: the server starts over. */
async function killBackend({ world, taken }: Field, chance: Chance): Promise<Struck | undefined> {
  if (taken.has("postgres")) return undefined;
  const backends = await insist(world.sql, (sql) =>
    sql<{ pid: number; application_name: string }[]>`
      select pid, application_name from pg_stat_activity where application_name like 'dandori %' order by pid`);
  const victim = oneOf(backends, chance);
  if (!victim) return undefined;
  signalProcess(victim.pid, "SIGKILL");
  return {
    what: `of ${victim.application_name}`,
    takes: ["postgres"],
    lasts_ms: 1_000,
    heal: async () => void await insist(world.sql, (sql) => sql`select 1`),
  };
}

async function terminateBackends({ world, taken }: Field, chance: Chance): Promise<Struck | undefined> {
  if (taken.has("postgres")) return undefined;
  const rounds = chance.whole(1, 6);
  let ended = 0;
  for (let round = 0; round < rounds; round++) {
    const rows = await insist(world.sql, (sql) =>
      sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where application_name like 'dandori %' and application_name not like 'dandori chaos%' and random() < 0.7`);
    ended += rows.length;
    await rest(chance.whole(50, 400));
  }
  return { what: `${ended} in ${rounds} rounds`, takes: ["postgres"], lasts_ms: 0, heal: () => {} };
}

/** As the guide says: first the new pin everywhere, then the new certificate, then the old pin away. */
async function rotate({ world, taken }: Field, chance: Chance): Promise<Struck | undefined> {
  const node_id = chance.pick([...new Set(world.seats.map((lock) => lock.node_id))]);
  const name = `certificate of ${node_id}`;
  if (taken.has(name)) return undefined;
  const { certificates } = world;
  const old = certificates.shown(node_id);
  const next = await certificates.pinNext(node_id);
  return {
    what: `of ${node_id}`,
    takes: [name],
    lasts_ms: NOTICED_MS,
    heal: async () => {
      certificates.show(node_id, next);
      await rest(NOTICED_MS);
      certificates.unpin(old);
    },
  };
}
