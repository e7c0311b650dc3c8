/** `nodes`: who is there, which role each holds, and who may take no new work. */
import { readConfig } from "../base/config.ts";
import { connectRedis } from "../cluster/redis.ts";
import { list } from "../cluster/roster.ts";
import { listWorkers, requestDrain, type WorkerListing } from "../store/nodes.ts";
import { CommandError, printJson, printTable } from "./output.ts";
import { actor, withDb } from "./runs.ts";

export async function listCommand(options: { json?: boolean }): Promise<void> {
  const workers = await withRoles(await withDb(listWorkers));
  if (options.json) return printJson(workers);
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

/** Postgres knows who leads; which of the others are subleaders only Redis does, and it may be away. */
async function withRoles(workers: WorkerListing[]): Promise<WorkerListing[]> {
  const config = readConfig();
  const redis = connectRedis(config.redis_url, { prefix: config.redis_prefix, name: "cli" });
  try {
    await redis.ready(1_000);
    const subleaders = new Set(
      (await list(redis)).filter((one) => one.role === "subleader").map((one) => one.worker_id),
    );
    return workers.map((one) =>
      one.role !== "leader" && subleaders.has(one.worker_id) ? { ...one, role: "subleader" } : one
    );
  } catch {
    return workers;
  } finally {
    await redis.close();
  }
}
