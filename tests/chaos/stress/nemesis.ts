/** Strikes at random: freezes and kills processes, cuts links and stores, drains and restarts; and people stop things for a while. */
import { rest } from "../../../src/platform/timers.ts";
import { setPaused } from "../../../src/actions/queue_actions.ts";
import { requestDetach } from "../../../src/dispatch/detach.ts";
import { changeNode } from "../../../src/nodes/node_health.ts";
import { requestDrain } from "../../../src/nodes/workers.ts";
import type { Actor } from "./actor.ts";
import type { Chance } from "./chance.ts";
import type { SimProcess } from "./process.ts";
import { awayFor, count, later, undo, type World } from "./world.ts";

export type Strike =
  | "freeze"
  | "freeze the leader"
  | "kill"
  | "kill the leader"
  | "restart"
  | "cut a link"
  | "no postgres for one"
  | "no postgres for anybody"
  | "no redis"
  | "forget redis"
  | "drain"
  | "detach"
  | "hold rows"
  | "pause a job"
  | "pause dispatch"
  | "maintenance";

const STRIKES: Record<Strike, number> = {
  "freeze": 5,
  "freeze the leader": 3,
  "kill": 3,
  "kill the leader": 1,
  "restart": 2,
  "cut a link": 4,
  "no postgres for one": 3,
  "no postgres for anybody": 1,
  "no redis": 1,
  "forget redis": 1,
  "drain": 1,
  "detach": 1,
  "hold rows": 2,
  "pause a job": 1,
  "pause dispatch": 1,
  "maintenance": 2,
};

export async function strikeUntil(world: World, actors: Actor[], stop: AbortSignal): Promise<void> {
  const chance = world.chance.fork("nemesis");
  const only = world.mistake?.strikes;
  const all = Object.entries(STRIKES) as [Strike, number][];
  const odds = only ? only.map((strike) => [strike, 1] as [Strike, number]) : all;
  while (!stop.aborted) {
    await rest(chance.between(0.2, 1.8) * 1_000 * world.scale / world.weather.strikes, stop);
    if (stop.aborted) return;
    const strike = drawn(chance, odds);
    count(world, strike);
    await act(strike, { world, actors, chance }).catch(() => count(world, "strikes that failed"));
  }
}

function drawn(chance: Chance, odds: [Strike, number][]): Strike {
  let luck = chance.next() * odds.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [strike, weight] of odds) if ((luck -= weight) < 0) return strike;
  return "freeze";
}

async function act(strike: Strike, on: { world: World; actors: Actor[]; chance: Chance }): Promise<void> {
  const { world, actors, chance } = on;
  const victim = chance.pick(actors);
  const all = actors.map((actor) => actor.process);
  switch (strike) {
    case "freeze":
      return victim.process.freeze(awayFor(world));
    case "freeze the leader":
      return (await leaderOf(world, actors))?.process.freeze(awayFor(world));
    case "kill":
      return victim.process.kill();
    case "kill the leader":
      return (await leaderOf(world, actors))?.process.kill();
    case "restart":
      return victim.restart();
    case "cut a link":
      return world.network.cut(victim.process, chance.pick(actors).process, chance.between(100, 1_500) * world.scale);
    case "no postgres for one":
      return without(world, { set: world.without_postgres, processes: [victim.process], ms: awayFor(world) });
    case "no postgres for anybody":
      return without(world, { set: world.without_postgres, processes: all, ms: awayFor(world) });
    case "no redis":
      return without(world, {
        set: world.without_redis,
        processes: chance.happens(0.5) ? [victim.process] : all,
        ms: chance.between(200, 1_500) * world.scale,
      });
    case "forget redis":
      return await forgetRedis(world);
    case "drain":
      return drain(world, victim, chance);
    case "detach":
      return later(world, requestDetach(world.sql, victim.process.name, { actor: "somebody", reason: "chance" }));
    case "hold rows":
      return holdRows(world, chance);
    default:
      return await stopForAWhile(strike, world, chance);
  }
}

function without(world: World, from: { set: Set<SimProcess>; processes: SimProcess[]; ms: number }): void {
  for (const process of from.processes) from.set.add(process);
  undo(world, from.ms, () => {
    for (const process of from.processes) from.set.delete(process);
  });
}

async function leaderOf(world: World, actors: Actor[]): Promise<Actor | undefined> {
  const [row] = await world.sql<{ worker_id: string | null }[]>`select worker_id from leader_term`;
  return actors.find((actor) => actor.process.name === row?.worker_id);
}

/** A fail-over to an empty replica. */
async function forgetRedis({ redis }: World): Promise<void> {
  const keys = ["leader:lock", "leader:epoch", "leader:last_seen_ts", "leader:degrade"];
  await redis.ask("forget", (client) => client.del(...keys)).catch(() => undefined);
}

function drain(world: World, { process }: Actor, chance: Chance): void {
  const wish = { actor: "somebody", reason: "maintenance" };
  later(world, requestDrain(world.sql, process.name, { ...wish, draining: true }));
  undo(
    world,
    chance.between(100, 1_000) * world.scale,
    () => later(world, requestDrain(world.sql, process.name, { ...wish, draining: false })),
  );
}

/** Somebody's slow transaction: statements that want these rows wait, in the middle of what they do. */
function holdRows(world: World, chance: Chance): void {
  const seconds = chance.between(0.1, 1.2) * world.scale;
  later(
    world,
    world.sql.begin(async (tx) => {
      await tx`select id from job_run where finished_at is null order by random() limit ${
        chance.whole(1, 8)
      } for update skip locked`;
      await tx`select pg_sleep(${seconds})`;
    }),
  );
}

/** What an operator stops, and lets go again before the end. */
async function stopForAWhile(
  what: "pause a job" | "pause dispatch" | "maintenance",
  { sql, ...world }: World,
  chance: Chance,
): Promise<void> {
  const by = { actor: "somebody", reason: "chance" };
  const job_name = chance.pick(["plain", "limited", "long", "licensed"]); // of no key, whose line would stand still behind it
  const node_id = chance.pick(["north", "south"]);
  const acts = {
    "pause a job": (paused: boolean) => setPaused(sql, { job_name }, { ...by, paused }),
    "pause dispatch": (paused: boolean) => setPaused(sql, { all: true }, { ...by, paused }),
    "maintenance": (maintenance: boolean) => changeNode(sql, node_id, { maintenance }, by),
  };
  await acts[what](true);
  undo(world, chance.between(100, 1_500) * world.scale, () => later(world, acts[what](false)));
}
