/** Drills on the servers: they are killed, and dev starts them again; or Redis forgets everything. */
import { countKeys, flushAll, forgetKeys } from "../../redis/redis_flush.ts";
import { list } from "../../redis/heartbeats.ts";
import { readLeaderLock } from "../../redis/leader_lock.ts";
import { signalProcess } from "../../sandbox/process_table.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { firstStartSince } from "../../runs/run_history.ts";
import { DRILL_JOB } from "./job_file.ts";
import type { Scene } from "./scene.ts";
import { DrillError, type Site } from "./site.ts";
import { holdBodies, leading } from "./workers.ts";

/** A crash: what Redis had not saved is lost. */
export async function redisRestart(scene: Scene): Promise<void> {
  const pid = scene.site.server("redis");
  await holdBodies(scene);
  const { epoch } = await leading(scene);
  await scene.strike(`killed Redis, process ${pid}`, () => void signalProcess(pid, "SIGKILL"));
  await scene.until("Redis to be there again", async () => {
    if (scene.site.ownServer("redis") === pid) return undefined;
    await scene.site.redis.ask("look whether Redis is back", (client) => client.ping());
    return true;
  });
  scene.measure("dev had Redis back", await scene.now());
  await redisKnowsAll(scene, epoch);
}

/** @throws DrillError when Redis is not dev's own and nobody said which keys may go. */
export async function mayFlush(site: Site, yes: string | undefined): Promise<void> {
  if (site.ownServer("redis") !== undefined || yes === site.redis.prefix) return;
  throw new DrillError(
    `Cannot flush Redis: ${site.redis.server} was given to dev by REDIS_URL and is not dev's own; this would delete the ` +
      `${await countKeys(
        site.redis,
      )} keys there that begin with "${site.redis.prefix}"; if they may go, say --yes ${site.redis.prefix}`,
  );
}

export async function redisFlush(scene: Scene): Promise<void> {
  const { site } = scene;
  const own = site.ownServer("redis") !== undefined;
  await holdBodies(scene);
  const { epoch } = await leading(scene);
  const what = own ? "everything in Redis" : `the keys in Redis that begin with "${site.redis.prefix}"`;
  await scene.strike(`deleted ${what}`, async () => {
    if (own) await flushAll(site.redis);
    else await forgetKeys(site.redis);
  });
  await redisKnowsAll(scene, epoch);
}

/** A crash: Postgres recovers from its log, and every session is cut. */
export async function postgresRestart(scene: Scene): Promise<void> {
  const pid = scene.site.server("postgres");
  await holdBodies(scene);
  const { epoch } = await leading(scene);
  await scene.strike(`stopped Postgres at once, process ${pid}`, () => void signalProcess(pid, "SIGQUIT"));
  const since = await scene.until("Postgres to be there again", async () => {
    return scene.site.ownServer("postgres") === pid ? undefined : await scene.now();
  });
  scene.measure("dev had Postgres back", since);
  const started = await scene.until(
    "a run to start",
    () => firstStartSince(scene.site.sql, { job_name: DRILL_JOB, since }),
  );
  scene.measure("the first run after that started", started);
  await sayLeader(scene, epoch);
}

/** Redis has the leader lock and each worker's heartbeat again. */
async function redisKnowsAll(scene: Scene, epoch: number): Promise<void> {
  const { site } = scene;
  await scene.until("the leader to have its seat in Redis", async () => {
    const { worker_id } = await currentLeader(site.sql);
    return worker_id && await readLeaderLock(site.redis) === worker_id ? true : undefined;
  });
  scene.measure("the leader had its seat in Redis", await scene.now());
  await scene.until("each worker's heartbeat in Redis", async () => {
    const beating = new Set((await list(site.redis)).map((one) => one.worker_id));
    return (await site.workers()).every((worker) => beating.has(worker.worker_id)) ? true : undefined;
  });
  scene.measure("Redis knew every worker again", await scene.now());
  await sayLeader(scene, epoch);
}

async function sayLeader(scene: Scene, epoch: number): Promise<void> {
  const leader = await scene.until("somebody to lead", async () => {
    const now = await currentLeader(scene.site.sql);
    return now.worker_id ? now : undefined;
  });
  if (leader.epoch < epoch) throw new Error(`The epoch went back from ${epoch} to ${leader.epoch}`);
  if (leader.epoch === epoch) scene.say("the leader is the same");
  else if (leader.acquired_at) {
    scene.measure(`${leader.node_id} leads, in epoch ${leader.epoch} after ${epoch}`, leader.acquired_at);
  }
}
