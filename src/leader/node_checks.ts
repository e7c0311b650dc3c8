/**
 * Checks nodes: asks a worker of each that is due, judges its answer by the settings, and writes down what came of it.
 *
 *   no worker answers, a script says no, the disk is full,
 *   no body can begin for want of something               -> unavailable
 *   load above its limit                                  -> busy
 *   otherwise                                             -> available
 *
 * Beside the tick, which must not wait for a script or a dead port. Nothing is remembered beyond the term: a check that
 * was not written down is due again for whoever leads next.
 */
import { isLoopback } from "../platform/config.ts";
import { loopFailed, observe } from "../platform/facts.ts";
import { monotonicMs } from "../platform/timers.ts";
import { addressText } from "../platform/text.ts";
import type { CheckNodeResponse } from "../rpc/messages.ts";
import type { CheckPart } from "../nodes/check_part.ts";
import {
  type CheckInterval,
  type CheckResult,
  type DueCheck,
  dueChecks,
  keepPace,
  recordCheck,
} from "../nodes/node_health.ts";
import type { NodeRow } from "../nodes/workers.ts";
import type { Settings } from "../settings/settings.ts";
import type { LeaderContext } from "./leader_context.ts";
import { type Message, message, stored } from "../locale/message.ts";
import { partName } from "../nodes/check_part.ts";

/** For the way there and back, beyond what the scripts may take. */
const CALL_MS = 2_000;

export async function checkNodes(me: LeaderContext): Promise<void> {
  for (const node of await dueChecks(me.sql)) {
    if (me.checking.has(node.node_id)) continue;
    me.checking.add(node.node_id);
    checkNode(me, node)
      .catch((error) => loopFailed(`check of node ${node.node_id}`, error))
      .finally(() => me.checking.delete(node.node_id));
  }
}

async function checkNode(me: LeaderContext, node: DueCheck): Promise<void> {
  const { status, result } = await ask(me, node);
  if (!me.term.trusted) return;
  const judged = { node_id: node.node_id, due: node.due, status, result };
  const written = await recordCheck(me.sql, me.term, judged, paceOf(me.settings));
  if (!written) return;
  if (written.status_was !== status) {
    observe("node.status", {
      node_id: node.node_id,
      status,
      was: written.status_was,
      problem: result.problem ?? "",
    });
  }
  me.wakeup.signal(); // what waited for it may start
}

/** What was planned by settings that have changed since; the next tick looks what is due. */
export async function followPace(me: LeaderContext): Promise<void> {
  if (await keepPace(me.sql, me.term, paceOf(me.settings)) > 0) me.wakeup.signal();
}

function paceOf(settings: Settings): CheckInterval {
  return {
    check_seconds: settings.node_check_seconds,
    retry_seconds: settings.node_retry_seconds,
    retry_count: settings.node_retry_count,
    recheck_seconds: settings.node_recheck_seconds,
  };
}

/** One worker after the other until one answers: a node is there as long as one of its workers is. */
async function ask(me: LeaderContext, node: DueCheck): Promise<{ status: NodeRow["status"]; result: CheckResult }> {
  const began_ms = monotonicMs();
  const script_ms = Math.round(me.settings.node_script_seconds * 1000);
  const failures: Message[] = [];
  for (const worker of node.workers) {
    const { worker_id } = worker;
    const request = { caller_role: "leader" as const, leader_epoch: me.term.epoch, script_ms };
    const answer = await me.peers.to(worker).checkNode(request, { deadline_ms: script_ms + CALL_MS });
    const ms = Math.round(monotonicMs() - began_ms);
    if (answer.ok) return judge(answer.value, { settings: me.settings, ms });
    // A worker of an older version answers, which is all that can be asked of it.
    if (answer.code === "UNIMPLEMENTED") return concluded(worker_id, [part("connection", true, { ms })]);
    failures.push(message("nodes.check.silent_worker", { worker_id, code: answer.code, message: answer.message }));
  }
  const ms = Math.round(monotonicMs() - began_ms);
  const silent = failures.length === 0
    ? stored("nodes.check.nobody")
    : stored("nodes.check.silent", { workers: failures });
  const address = localAddress(node.workers);
  const value = address ? stored("nodes.check.local_address", { address }) : "";
  return concluded(node.workers[0]?.worker_id ?? null, [part("connection", false, { value, message: silent, ms })]);
}

/** The default address of a worker is for one machine: from another one it is somebody else's, or nobody's. */
function localAddress(workers: DueCheck["workers"]): string | undefined {
  const local = workers.find(({ elsewhere, grpc_host }) => elsewhere && isLoopback(grpc_host));
  return local && addressText(local.grpc_host, local.grpc_port);
}

/** Pure: what a worker measured, as the settings see it. */
export function judge(
  measured: CheckNodeResponse,
  by: { settings: Settings; ms: number },
): { status: NodeRow["status"]; result: CheckResult } {
  const { load_percent, cores, disk_free_mb } = measured;
  const { node_max_load_percent: most_load, node_min_free_disk_mb: least_disk } = by.settings;
  const full = least_disk > 0 && disk_free_mb >= 0 && disk_free_mb < least_disk;
  const loaded = most_load > 0 && load_percent > most_load;
  return concluded(measured.worker_id, [
    part("connection", true, { ms: by.ms }),
    part("disk", !full, {
      value: disk_free_mb < 0 ? stored("nodes.check.not_measured") : stored("nodes.check.free", { mb: disk_free_mb }),
      message: full ? stored("nodes.check.least_free", { mb: least_disk }) : "",
    }),
    ...measured.scripts.map((script) =>
      part(`script ${script.name}`, script.ok, { message: script.message, ms: script.ms })
    ),
    part("load", !loaded, {
      value: stored("nodes.check.load", { percent: load_percent, cores }),
      message: loaded ? stored("nodes.check.most_load", { percent: most_load }) : "",
    }),
    part("memory", true, { value: stored("nodes.check.free", { mb: measured.memory_free_mb }) }),
    part("bodies", !measured.lack, {
      value: String(measured.bodies),
      message: measured.lack ? stored("nodes.check.no_room", { lack: measured.lack }) : "",
    }),
  ]);
}

/** A node that fails in nothing but its load is there, and has too much to do. */
function concluded(
  worker_id: string | null,
  parts: CheckPart[],
): { status: NodeRow["status"]; result: CheckResult } {
  const failed = parts.filter((one) => !one.ok);
  const [first] = failed;
  const status = !first ? "available" : failed.every((one) => one.name === "load") ? "busy" : "unavailable";
  const problem = first ? problemText(first) : null;
  return { status, result: { worker_id, problem, ...first ? { failed: first } : {}, parts } };
}

function problemText({ name, value, message: wrong }: CheckPart): string {
  return stored("nodes.problem.part", { part: partName(name), found: [value, wrong].filter(Boolean) });
}

function part(name: string, ok: boolean, more: Partial<CheckPart>): CheckPart {
  return { name, ok, value: "", message: "", ms: 0, ...more };
}
