/** `nodes`: who is there. */
import { listWorkers } from "../store/nodes.ts";
import { printJson, printTable } from "./output.ts";
import { withDb } from "./runs.ts";

export async function listCommand(options: { json?: boolean }): Promise<void> {
  const workers = await withDb(listWorkers);
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
