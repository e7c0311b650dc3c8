/**
 * The leader's lock in Redis. It only keeps candidates apart and tells them quickly: whoever sits here may ask Postgres
 * for the term, and only that makes a leader. So nothing below is safe to rely on alone, and nothing needs to be.
 *
 *   free --takeSeat--> mine --renewSeat--> mine --releaseSeat or expiry--> free
 *
 * The three ways to lose the role all show in one answer of `renewSeat`: the leader lock expired, somebody else has it, or this
 * epoch was asked to step down. An error or no answer says nothing: then Postgres alone decides, as it does without Redis.
 */
import { type RedisConnection, wholeMs } from "./connection.ts";

export const LOCK = "leader:lock";
const EPOCH = "leader:epoch";
const LAST_SEEN = "leader:last_seen_ts";
const DEGRADE = "leader:degrade";

export interface LockRequest {
  worker_id: string;
  ttl_ms: number;
}

/** The leader lock, with the highest epoch that Redis has heard of, 0 when of none; or when it is free unless its holder renews it. */
export type LockAttempt = { epoch_hint: number; free_in_ms?: undefined } | { free_in_ms: number };

export async function takeLeaderLock(redis: RedisConnection, ask: LockRequest): Promise<LockAttempt> {
  const told = await redis.script("take_leader_lock", [LOCK, EPOCH, LAST_SEEN], [ask.worker_id, ask.ttl_ms]) as number;
  return told < 0 ? { free_in_ms: -told } : { epoch_hint: told };
}

/** `lost`: expired or somebody else's. `degraded`: this very epoch was asked to step down, and should release. */
export async function renewLeaderLock(
  redis: RedisConnection,
  ask: LockRequest & { epoch: number },
): Promise<"renewed" | "lost" | "degraded"> {
  const keys = [LOCK, LAST_SEEN, DEGRADE, EPOCH];
  const code = await redis.script("renew_leader_lock", keys, [ask.worker_id, ask.ttl_ms, ask.epoch]);
  return code === 1 ? "renewed" : code === -1 ? "degraded" : "lost";
}

/** Frees the leader lock if it is this worker's; says whether it was. */
export async function releaseLeaderLock(redis: RedisConnection, worker_id: string): Promise<boolean> {
  return await redis.script("release_lock", [LOCK], [worker_id]) === 1;
}

/**
 * Sits down because Postgres granted this epoch, also where somebody else still sits, and lets Redis know the epoch.
 * False: Redis knows a newer one that can be true.
 */
export async function claimSubleaderLock(
  redis: RedisConnection,
  ask: LockRequest & { epoch: number; highest_epoch: number },
): Promise<boolean> {
  const args = [ask.worker_id, ask.ttl_ms, ask.epoch, ask.highest_epoch];
  return await redis.script("claim_subleader", [LOCK, EPOCH], args) === 1;
}

/** The subleader's lock of a node: one worker of each node watches the leader. Heartbeats take it and keep it (heartbeats.ts). */
export async function releaseSubleaderLock(
  redis: RedisConnection,
  who: { worker_id: string; node_id: string },
): Promise<void> {
  await redis.script("release_lock", [subleaderKey(who.node_id)], [who.worker_id]);
}

export function subleaderKey(node_id: string): string {
  return `subleader:${node_id}:lock`;
}

/** Lets Redis know an epoch that some worker has seen; returns the highest that Redis knows now. */
export async function mirrorEpoch(redis: RedisConnection, epoch: number): Promise<number> {
  return await redis.script("mirror_epoch", [EPOCH], [epoch]) as number;
}

/** Who sits there by Redis. For showing. */
export async function readLeaderLock(redis: RedisConnection): Promise<string | undefined> {
  return await redis.ask("read the seat", (client) => client.get(LOCK)) ?? undefined;
}

/** Milliseconds since a leader last renewed, both by Redis' clock; undefined: none ever did. */
export async function leaderSeenAgo(redis: RedisConnection): Promise<number | undefined> {
  const [time, last_seen] = await redis.pipeline("ask for the leader", [["time"], ["get", LAST_SEEN]]);
  if (last_seen === null) return undefined;
  const [seconds, micros] = (time as string[]).map(Number) as [number, number];
  return seconds * 1_000 + Math.floor(micros / 1_000) - Number(last_seen);
}

/** Asks the leader of exactly this epoch to step down; a later leader is not concerned. Forgotten after `ttl_ms`. */
export async function askToDegrade(redis: RedisConnection, ask: { epoch: number; ttl_ms: number }): Promise<void> {
  await redis.ask("ask to degrade", (client) => client.set(DEGRADE, ask.epoch, "PX", wholeMs(ask.ttl_ms)));
}

/**
 * Reserves runs for assignment under an epoch, against a second leader that has not noticed yet. Returns the ids that
 * were got; a run that a newer epoch reserved is not among them. What decides is the guarded UPDATE in Postgres.
 */
export async function leaseRuns(
  redis: RedisConnection,
  ask: { job_run_ids: number[]; epoch: number; ttl_ms: number },
): Promise<number[]> {
  if (ask.job_run_ids.length === 0) return [];
  const keys = ask.job_run_ids.map((id) => `jobrun:lease:${id}`);
  const kept = await redis.script("lease_runs", keys, [ask.epoch, ask.ttl_ms]) as number[];
  return kept.length === 0 ? ask.job_run_ids : ask.job_run_ids.filter((_, place) => !kept.includes(place + 1));
}
