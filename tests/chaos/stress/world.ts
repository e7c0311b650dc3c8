/** What all parts of one stress share: the stores, the weather, the ledger, and the time scale. */
import { rest } from "../../../src/platform/timers.ts";
import type { RedisConnection } from "../../../src/redis/connection.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { DEFAULT_SETTINGS, type Settings } from "../../../src/settings/settings.ts";
import type { Effect, Evidence } from "../checker.ts";
import type { StepEvidence } from "../steps_evidence.ts";
import type { Chance } from "./chance.ts";
import type { Mistake } from "./mistakes.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";

/** How likely each fault is, each time that it could be. */
export interface Weather {
  /** The statement never reached Postgres. */
  sql_cut_before: number;
  /** It was carried out, and the reply was lost. */
  sql_cut_after: number;
  /** The connection broke, and Postgres carries the statement out all the same, some time later. */
  sql_late: number;
  sql_slow: number;
  /** The whole process stops just before it sends a statement or a call. */
  pause: number;
  /** It stops just after Postgres has carried a statement out. */
  pause_after: number;
  rpc_lost: number;
  /** Delivered after the caller has given up. */
  rpc_late: number;
  rpc_twice: number;
  /** What was ordered of a run before comes once more, just before the new order. */
  rpc_replay: number;
  /** It takes its time, but comes within the deadline. */
  rpc_slow: number;
  /** How often the nemesis strikes: faults in a second. */
  strikes: number;
}

export const FAIR: Weather = {
  sql_cut_before: 0,
  sql_cut_after: 0,
  sql_late: 0,
  sql_slow: 0,
  pause: 0,
  pause_after: 0,
  rpc_lost: 0,
  rpc_late: 0,
  rpc_twice: 0,
  rpc_replay: 0,
  rpc_slow: 0,
  strikes: 0,
};

export const FOUL: Weather = {
  sql_cut_before: 0.01,
  sql_cut_after: 0.012,
  sql_late: 0.012,
  sql_slow: 0.03,
  pause: 0.002,
  pause_after: 0.002,
  rpc_lost: 0.03,
  rpc_late: 0.03,
  rpc_twice: 0.08,
  rpc_replay: 0.3,
  rpc_slow: 0.1,
  strikes: 3,
};

/** Defaults divided by about twenty; a worker's guard strikes before its lease is over, as in production. */
const SECONDS = {
  leader_tick_seconds: 0.05,
  leader_lease_seconds: 0.5,
  leader_stale_seconds: 0.5,
  heartbeat_interval_seconds: 0.1,
  heartbeat_ttl_seconds: 0.5,
  worker_lease_seconds: 1,
  worker_renew_seconds: 0.15,
  worker_margin_seconds: 0.3,
  reassign_after_seconds: 0.5,
  suspect_seconds: 0.2,
  drain_grace_seconds: 0.3,
  worker_detach_grace_seconds: 0.6,
  continuation_retry_interval_seconds: 0.05,
  node_check_seconds: 2,
  node_retry_seconds: 0.2,
  node_recheck_seconds: 0.2,
  skip_late_runs_after_seconds: 5.003,
};

/** On a machine that is slow, or busy with other things, all times are as many times longer. None is a whole number of seconds, as any may be. */
export function settingsAt(scale: number): Settings {
  const usual = Object.entries(DEFAULT_SETTINGS).filter(([name]) => name.endsWith("_seconds")) as [string, number][];
  const odd = usual.map(([name, seconds]) => [name, seconds + 0.01]);
  const scaled = Object.entries(SECONDS).map(([name, seconds]) => [name, Math.round(seconds * scale * 1_000) / 1_000]);
  return { ...DEFAULT_SETTINGS, ...Object.fromEntries([...odd, ...scaled]) };
}

/** A body whose worker has not been heard for this long is killed by its guard; less than the margin. */
export const GUARD_MS = 200;
export const BEAT_MS = 60;

export interface World {
  sql: Sql;
  redis: RedisConnection;
  chance: Chance;
  weather: Weather;
  settings: Settings;
  /** How many times longer everything takes than on an idle machine. */
  scale: number;
  network: Network;
  ledger: Effect[];
  /** What bodies with steps did and were told. */
  steps: StepEvidence;
  /** How the ledger's clock and Postgres' go together. */
  clock: Evidence["clock"];
  mistake: Mistake | undefined;
  /** Little to do, so that most runs are created while nothing else waits, and go the short way. */
  quiet: boolean;
  /** Statements as they are sent: with the mistake, or as they were. */
  statements: Map<TemplateStringsArray, TemplateStringsArray>;
  /** Postgres, or Redis, cannot be reached by these. */
  without_postgres: Set<SimProcess>;
  without_redis: Set<SimProcess>;
  /** What happens later whoever is still there, and must have happened before the end. */
  later: Set<Promise<unknown>>;
  /** Fires when all is to be healed. */
  healed: AbortController;
  /** How often each thing happened. */
  counts: Map<string, number>;
}

export function count(world: Pick<World, "counts">, what: string, times = 1): void {
  world.counts.set(what, (world.counts.get(what) ?? 0) + times);
}

/** How long a process is frozen or cut off: mostly for less than any lease, now and then for longer than all of them. */
export function awayFor({ chance, mistake, scale }: World): number {
  const span = mistake?.away_ms ?? (chance.happens(0.7) ? { least: 30, most: 900 } : { least: 900, most: 3_500 });
  return scale * chance.between(span.least, span.most);
}

/** Done some time later, and not forgotten: the stress waits for it before it judges. */
export function later(world: Pick<World, "later">, act: Promise<unknown>): void {
  const done = act.catch(() => undefined).finally(() => world.later.delete(done));
  world.later.add(done);
}

/** Undoes a fault after a while, or when all is healed. */
export function undo(world: Pick<World, "later" | "healed">, ms: number, act: () => void): void {
  later(world, rest(ms, world.healed.signal).then(act));
}
