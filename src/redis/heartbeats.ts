/**
 * The workers that live, by the second: one hash for each, which vanishes when its heartbeats stop, and a list of their
 * ids so that nobody has to search the keys.
 *
 * Times are Redis' own: a heartbeat is stamped inside Redis and its age is told by the same clock, so a worker whose
 * clock is wrong is neither dead nor young for it.
 *
 * Not the truth about a worker: where it listens and whether it may work is its row in Postgres. An address found only
 * here must not be dialled.
 */
import type { ClusterRole, RunningJob } from "../rpc/messages.ts";
import { RedisAway, type RedisConnection, wholeMs } from "./connection.ts";
import { LOCK, subleaderKey } from "./leader_lock.ts";

const WORKERS = "workers";

/** What a worker says of itself with each heartbeat. */
export interface Heartbeat {
  worker_id: string;
  node_id: string;
  pid: number;
  grpc_host: string;
  grpc_port: number;
  role: ClusterRole;
  slots: number;
  draining: boolean;
  running: RunningJob[];
}

/** What is asked of a worker here. The rest of its hash is for whoever looks into Redis. */
export interface LiveWorker extends Pick<Heartbeat, "worker_id" | "node_id" | "role"> {
  /** By Redis' clock, when the list was read. */
  heartbeat_age_ms: number;
}

/**
 * A new worker's name, `w<number>-<8 hex>`. The number is above all that Redis or Postgres (`highest_number`) knows, so
 * it does not fall when one of them forgets. Without Redis two workers may get the same number; the rest tells them apart.
 */
export async function nextWorkerId(redis: RedisConnection, highest_number: number): Promise<string> {
  const number = await redis.script("next_worker_number", ["worker:id_seq"], [highest_number]).catch((error) => {
    if (error instanceof RedisAway) return highest_number + 1;
    throw error;
  });
  return `w${number}-${crypto.randomUUID().slice(0, 8)}`;
}

export interface BeatAnswer {
  /** Somebody detached it. */
  detached: boolean;
  /** It has its node's subleader lock, for `ttl_ms`. */
  seated: boolean;
  /** When the leader lock, which is somebody else's, is free unless it is renewed; 0: it may be free now, or was not asked for. */
  lock_free_in_ms: number;
}

/**
 * Says that the worker lives, for `ttl_ms`. One that stands by also takes or keeps its node's subleader lock and hears of the
 * leader's: one round trip, since each wakes a process that does nothing else.
 */
export async function beat(
  redis: RedisConnection,
  heartbeat: Heartbeat,
  options: { ttl_ms: number; stands_by?: boolean },
): Promise<BeatAnswer> {
  const { worker_id, running, draining, ...fields } = heartbeat;
  const pairs = Object.entries({
    ...fields,
    load: running.length,
    current_job_run_id: running[0]?.job_run_id ?? "",
    running: running.map((run) => `${run.job_run_id}/${run.attempt}`).join(" "),
    draining: draining ? 1 : 0,
  }).flat();
  const keys = [workerKey(worker_id), WORKERS, detachKey(worker_id), subleaderKey(heartbeat.node_id), LOCK];
  const args = [worker_id, options.ttl_ms, options.stands_by ? 1 : 0, ...pairs];
  const [detached, seated, lock_free_in_ms] = await redis.script("beat", keys, args) as [number, number, number];
  return { detached: detached === 1, seated: seated === 1, lock_free_in_ms };
}

/** The workers whose heartbeat has not run out, freshest first. Ids whose hash is gone are struck off on the way. */
export async function list(redis: RedisConnection): Promise<LiveWorker[]> {
  const [time, ids] = await redis.pipeline("list workers", [["time"], ["zrange", WORKERS, 0, -1]]);
  const [seconds, micros] = (time as string[]).map(Number) as [number, number];
  const now_ms = seconds * 1_000 + Math.floor(micros / 1_000);
  const worker_ids = ids as string[];
  if (worker_ids.length === 0) return [];
  const hashes = await redis.pipeline("list workers", worker_ids.map((id) => ["hgetall", workerKey(id)]));
  const gone: string[] = [];
  const entries: LiveWorker[] = [];
  worker_ids.forEach((worker_id, place) => {
    const entry = entryFrom(worker_id, hashes[place] as Record<string, string>, now_ms);
    if (entry) entries.push(entry);
    else gone.push(worker_id);
  });
  // One that beats in this very moment is put on the list again by its next heartbeat.
  if (gone.length > 0) await redis.ask("strike off workers", (client) => client.zrem(WORKERS, ...gone));
  return entries.sort((one, other) => one.heartbeat_age_ms - other.heartbeat_age_ms);
}

/** Takes a worker off the list, e.g. when it stops. */
export async function remove(redis: RedisConnection, worker_id: string): Promise<void> {
  await redis.pipeline("remove a worker", [["del", workerKey(worker_id)], ["zrem", WORKERS, worker_id]]);
}

/** Tells a worker to stop working; it learns of it with its next heartbeat. Forgotten after `ttl_ms`. */
export async function setDetach(redis: RedisConnection, worker_id: string, options: { ttl_ms: number }): Promise<void> {
  await redis.ask("detach a worker", (client) => client.set(detachKey(worker_id), 1, "PX", wholeMs(options.ttl_ms)));
}

export async function clearDetach(redis: RedisConnection, worker_id: string): Promise<void> {
  await redis.ask("end a detach", (client) => client.del(detachKey(worker_id)));
}

function workerKey(worker_id: string): string {
  return `worker:${worker_id}`;
}

function detachKey(worker_id: string): string {
  return `detach:${worker_id}`;
}

function entryFrom(worker_id: string, hash: Record<string, string>, now_ms: number): LiveWorker | undefined {
  const last_heartbeat_ts = Number(hash.last_heartbeat_ts);
  if (!last_heartbeat_ts) return undefined;
  return {
    worker_id,
    node_id: hash.node_id ?? "",
    role: (hash.role ?? "worker") as ClusterRole,
    heartbeat_age_ms: Math.max(0, now_ms - last_heartbeat_ts),
  };
}
