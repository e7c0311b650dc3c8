/** `nodes`: who is there, which role each holds, and who may take no new work. Nodes themselves: node_health.ts. */
import { addressText } from "../../platform/text.ts";
import { degrade, detachSome, drainWorkers, undrainWorkers } from "../../actions/node_actions.ts";
import { listNodes } from "../../nodes/node_health.ts";
import { listWorkers } from "../../nodes/workers.ts";
import { otherCodeText } from "../../runs/wait_reason.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { printNodes } from "./node_health.ts";
import { printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export async function listCommand(options: JsonOption): Promise<void> {
  const [workers, nodes] = await withDb(async (sql) => [await listWorkers(sql), await listNodes(sql)] as const);
  if (options.json) return printJson({ nodes, workers });
  if (nodes.length > 0) {
    printNodes(nodes);
    say("");
  }
  printTable(
    ["worker", "node", "role", "state", "load", "files", "address", "pid", "since", "lease"],
    workers.map((one) => [
      one.worker_id,
      one.node_id,
      one.role,
      one.state,
      `${one.load}/${one.slots}`,
      one.other_jobs === null ? null : one.other_jobs === 0 ? "as synced" : `${one.other_jobs} differ`,
      addressText(one.grpc_host, one.grpc_port),
      one.pid,
      one.started_at,
      `${one.lease_seconds_left.toFixed(0)} s`,
    ]),
    "no worker is alive; start one: deno task worker, or everything: deno task dev",
  );
  for (const { worker_id, node_id, other_jobs, other_code } of workers) {
    for (const one of other_code) say(`${worker_id} on ${node_id}: ${otherCodeText(one)}`);
    const more = (other_jobs ?? 0) - other_code.length;
    if (more > 0) say(`${worker_id} on ${node_id}: and ${more} more`);
  }
}

export async function drainCommand(
  name: string,
  options: Reasoned,
  draining: boolean,
): Promise<void> {
  const moved = await act(draining ? drainWorkers : undrainWorkers, { name }, options);
  if (options.json) return printJson(moved);
  const what = draining ? "takes no new runs; its current runs go on" : "takes runs again";
  for (const { worker_id, node_id } of moved) say(`${worker_id} on ${node_id} ${what}`);
}

export async function detachCommand(name: string, options: Reasoned): Promise<void> {
  const { detached, told } = await act(detachSome, { name }, options);
  if (options.json) return printJson(detached);
  for (const { worker_id, node_id } of detached) {
    say(
      `${worker_id} on ${node_id} is detached: it starts nothing more, and returns under a new id when its bodies have ended`,
    );
  }
  say("Running bodies go on only while the leader or a subleader confirms them");
  if (!told) say("Redis is unreachable; the worker learns of this at its next lease renewal");
}

export async function degradeCommand(options: Reasoned): Promise<void> {
  const degraded = await act(degrade, {}, options);
  if (options.json) return printJson(degraded);
  say(`${degraded.worker_id}, leader of epoch ${degraded.epoch}, steps down; another worker leads in a moment`);
  say("If there is no other worker, it leads again after its lease ends");
}
