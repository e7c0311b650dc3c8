/**
 * `deno run -A bench/scale/scale.ts`: how long the leader's tick is in an installation of a size that is not at hand. Postgres
 * and Redis are real, the tables are as full as they would be, and the leader's own functions make the ticks; workers are rows
 * and stand-ins (workers.ts). Not in it: the Watch streams of so many workers, their own statements, the network.
 */
import { parseArgs } from "node:util";
import { hear } from "../../src/platform/facts.ts";
import { monotonicMs, Wakeup } from "../../src/platform/timers.ts";
import { connectRedis } from "../../src/redis/connection.ts";
import { claimSubleaderLock } from "../../src/redis/leader_lock.ts";
import { Wakeups } from "../../src/leader/wakeups.ts";
import { WorkerMonitor } from "../../src/leader/worker_monitor.ts";
import { look, tick } from "../../src/leader/leader.ts";
import type { LeaderContext } from "../../src/leader/leader_context.ts";
import { quantiles } from "../../src/leader/tick_times.ts";
import { Contact } from "../../src/leader/recovery.ts";
import { connectDb, type Sql } from "../../src/postgres/connection.ts";
import { applySchema } from "../../src/postgres/schema.ts";
import { acquire } from "../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";
import { Servers } from "../servers.ts";
import { endSome, fill, obedient, type Size } from "./crew.ts";

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "10000" },
    runs: { type: "string", default: "10000000" },
    definitions: { type: "string", default: "1000" },
    ticks: { type: "string", default: "50" },
  },
});
/** Runs that end between two ticks. */
const ENDED_EACH = 400;
const WARM_TICKS = 10;
const LEASE_MS = 600_000;
const ME = { worker_id: "w0", lease_ms: LEASE_MS };
const say = (text: string) => console.error(`-- ${text}`);

async function main(): Promise<void> {
  const size: Size = {
    workers: Number(values.workers),
    runs: Number(values.runs),
    definitions: Number(values.definitions),
  };
  const servers = await Servers.start();
  const database_url = await servers.empty();
  const filling = connectDb(database_url, { name: "scale filling", max: 1, statement_timeout_ms: 0 });
  const sql = connectDb(database_url, { name: "scale", statement_timeout_ms: 0 }); // what takes too long is to be seen
  const redis = connectRedis(servers.redis_url, { prefix: "scale:" });
  try {
    await applySchema(filling);
    await filling`set synchronous_commit = off`;
    const began_ms = monotonicMs();
    await fill(filling, size, say);
    say(`filled in ${Math.round((monotonicMs() - began_ms) / 1000)} s`);
    const me = await seated(sql, redis);
    await ticks(me, filling, WARM_TICKS);
    const counting = await servers.countStatements();
    const { took_ms, assigned } = await ticks(me, filling, Number(values.ticks));
    const told = quantiles(took_ms);
    console.log(`${size.workers} workers, ${size.runs} runs waiting, ${size.definitions} definitions:`);
    console.log(
      `  tick p50 ${told.p50_ms} ms, p99 ${told.p99_ms} ms, longest ${told.max_ms} ms; ${assigned} runs assigned`,
    );
    if (counting) await tellStatements(servers, database_url, took_ms.length);
    await tellSizes(filling);
  } finally {
    redis.close();
    await sql.end({ timeout: 2 });
    await filling.end({ timeout: 2 });
    await servers.drop(database_url);
    await servers.stop();
  }
}

async function seated(sql: Sql, redis: LeaderContext["redis"]): Promise<LeaderContext> {
  const term = await acquire(sql, { ...ME, epoch_hint: 0 });
  if (!term) throw new Error("The seat is taken");
  await claimSubleaderLock(redis, {
    worker_id: ME.worker_id,
    ttl_ms: LEASE_MS,
    epoch: term.epoch,
    highest_epoch: term.epoch,
  });
  const wakeup = new Wakeup();
  const peers = obedient();
  const monitor = new WorkerMonitor({ peers, wakeup, epoch: term.epoch });
  const settings = { ...DEFAULT_SETTINGS, leader_lease_seconds: LEASE_MS / 1000 };
  return {
    sql,
    redis,
    peers,
    monitor,
    wakeup,
    calls: new Wakeups(),
    node_id: "node-1",
    checking: new Set(),
    term,
    settings,
  };
}

async function ticks(me: LeaderContext, filling: Sql, count: number): Promise<{ took_ms: number[]; assigned: number }> {
  const contact = new Contact();
  const took_ms: number[] = [];
  let assigned = 0;
  const deafen = hear((name) => void (name === "run.assigned" && assigned++));
  for (let n = 0; n < count; n++) {
    await endSome(filling, ENDED_EACH);
    const began_ms = monotonicMs();
    const pending = await look(me, contact);
    if (typeof pending === "string") throw new Error(`The term is over: ${pending}`);
    await tick(me, pending, contact);
    took_ms.push(monotonicMs() - began_ms);
  }
  deafen();
  return { took_ms, assigned };
}

async function tellStatements(servers: Servers, database_url: string, ticks: number): Promise<void> {
  for (const { query, calls, total_ms } of (await servers.statements(database_url)).slice(0, 8)) {
    const text = query.replace(/\s+/g, " ").slice(0, 100);
    console.log(
      `  ${(total_ms / ticks).toFixed(2).padStart(9)} ms a tick, ${(calls / ticks).toFixed(1)} calls: ${text}`,
    );
  }
}

async function tellSizes(sql: Sql): Promise<void> {
  const [row] = await sql<{ heap: string; indexes: string; ready: string }[]>`
    select pg_size_pretty(pg_table_size('job_run')) as heap, pg_size_pretty(pg_indexes_size('job_run')) as indexes,
           pg_size_pretty(pg_relation_size('job_run_ready')) as ready`;
  console.log(`  job_run: ${row?.heap}, its indexes ${row?.indexes}, of which what may start ${row?.ready}`);
}

await main();
Deno.exit();
