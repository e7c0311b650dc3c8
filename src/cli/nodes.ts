/** `nodes`: who is there, which role each holds, and who may take no new work. Nodes themselves: node_health.ts. */
import { readConfig } from "../base/config.ts";
import { connectRedis, type RedisDoor } from "../cluster/redis.ts";
import { setDetach } from "../cluster/roster.ts";
import type { Sql } from "../store/db.ts";
import { type Detached, requestDetach, workersNamed } from "../store/detach.ts";
import { listNodes } from "../store/health.ts";
import { listWorkers, requestDrain } from "../store/nodes.ts";
import { readSettings } from "../store/settings.ts";
import { printNodes } from "./node_health.ts";
import { CommandError, printJson, printTable } from "./output.ts";
import { actor, withDb } from "./runs.ts";

export async function listCommand(options: { json?: boolean }): Promise<void> {
  const [workers, nodes] = await withDb(async (sql) => [await listWorkers(sql), await listNodes(sql)] as const);
  if (options.json) {
    return printJson(workers.map((one) => ({ ...one, node: nodes.find(({ node_id }) => node_id === one.node_id) })));
  }
  if (nodes.length > 0) {
    printNodes(nodes);
    console.log();
  }
  printTable(
    ["worker", "node", "role", "state", "load", "address", "pid", "since", "lease"],
    workers.map((one) => [
      one.worker_id,
      one.node_id,
      one.role,
      one.state,
      `${one.load}/${one.slots}`,
      `${one.grpc_host}:${one.grpc_port}`,
      one.pid,
      one.started_at,
      `${one.lease_seconds_left.toFixed(0)} s`,
    ]),
    "no worker is alive; start one with `deno task worker`, or all of it with `deno task dev`",
  );
}

export async function drainCommand(
  name: string,
  options: { json?: boolean; reason: string },
  draining: boolean,
): Promise<void> {
  const moved = await withDb((sql) => requestDrain(sql, name, { draining, actor: actor(), reason: options.reason }));
  const verb = draining ? "drain" : "undrain";
  if (moved.length === 0) {
    const state = draining ? "active" : "draining";
    throw new CommandError(
      `Cannot ${verb} "${name}": no ${state} worker or node of that name; see \`deno task nodes ls\``,
    );
  }
  if (options.json) return printJson(moved);
  const what = draining ? "takes no new runs; those it has go on" : "takes runs again";
  for (const { worker_id, node_id } of moved) console.log(`${worker_id} on ${node_id} ${what}`);
}

/** The row is the truth; the flag in Redis only tells the worker sooner than its next renewal would. */
export async function detachCommand(name: string, options: { json?: boolean; reason: string }): Promise<void> {
  const { detached, ttl_ms } = await withDb(async (sql) => {
    const detached = await requestDetach(sql, name, { actor: actor(), reason: options.reason });
    if (detached.length === 0) throw new CommandError(`Cannot detach "${name}": ${await whyNotDetached(sql, name)}`);
    return { detached, ttl_ms: (await readSettings(sql)).worker_lease_seconds * 2_000 };
  });
  const told = await flagDetached(detached, ttl_ms);
  if (options.json) return printJson(detached);
  for (const { worker_id, node_id } of detached) {
    console.log(
      `${worker_id} on ${node_id} is detached: it starts nothing more and comes back under a new id when its bodies have ended`,
    );
  }
  console.log("Bodies that run go on only while the leader or a subleader confirms them");
  if (!told) console.log("Redis could not be reached, so it learns of this with its next renewal");
}

async function whyNotDetached(sql: Sql, name: string): Promise<string> {
  const [found, ...others] = await workersNamed(sql, name);
  if (found && (found.worker_id === name || others.length === 0)) {
    const by = found.detached_by ? `, by ${found.detached_by}: ${found.detach_reason}` : "";
    return found.state === "DETACHED" ? `it is DETACHED already${by}` : `${found.worker_id} is DEAD`;
  }
  if (found) return "none of its workers is ACTIVE or DRAINING; see `deno task nodes ls`";
  const known = await listWorkers(sql);
  if (known.length === 0) return "no worker is alive";
  const names = known.slice(0, MOST_NAMED).map((one) => `${one.worker_id} on ${one.node_id}`).join(", ");
  const more = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : "";
  return `no worker or node has that name; there are ${names}${more}`;
}

const MOST_NAMED = 20;

async function flagDetached(workers: Detached[], ttl_ms: number): Promise<boolean> {
  let redis: RedisDoor | undefined;
  try {
    const config = readConfig();
    redis = connectRedis(config.redis_url, { prefix: config.redis_prefix, name: "cli" });
    await redis.ready(1_000);
    for (const { worker_id } of workers) await setDetach(redis, worker_id, { ttl_ms });
    return true;
  } catch {
    return false;
  } finally {
    await redis?.close();
  }
}
