/** `nodes show`, `nodes test`, `nodes set`: whether a node can work, and what operators change of it. */
import { monotonicMs, rest } from "../base/loop.ts";
import type { Sql } from "../store/db.ts";
import {
  changeNode,
  type CheckPart,
  isAnswered,
  listNodes,
  type NodeChange,
  type NodeListing,
  requestCheck,
} from "../store/health.ts";
import { currentLeader } from "../store/leadership.ts";
import { readSettings } from "../store/settings.ts";
import { CommandError, EXIT, printJson, printTable, timeText } from "./output.ts";
import { actor, withDb } from "./runs.ts";

export function printNodes(nodes: NodeListing[]): void {
  printTable(
    ["node", "status", "load", "workers", "labels", "last check", "why"],
    nodes.map((one) => [
      one.node_id,
      one.is_active ? one.status : "maintenance",
      one.max_concurrent === null ? one.load : `${one.load}/${one.max_concurrent}`,
      one.workers,
      Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(",") || null,
      one.checked_at,
      whyOf(one),
    ]),
    "no node was ever here",
  );
}

function whyOf({ is_active, inactive_by, inactive_reason, status, problem, checked_at }: NodeListing): string | null {
  if (!is_active) return [inactive_by, inactive_reason].filter((word) => word !== null).join(": ") || null;
  if (status === "available") return null;
  return problem ?? (checked_at === null ? "its first check has not passed yet" : null);
}

export async function showNodesCommand(node_id: string | undefined, options: { json?: boolean }): Promise<void> {
  const nodes = await withDb(async (sql) =>
    node_id === undefined ? await listNodes(sql) : [await existing(sql, node_id)]
  );
  if (options.json) return printJson(node_id === undefined ? nodes : nodes[0]);
  printNodes(nodes);
  for (const node of nodes) {
    if (!node.check_result) continue;
    const next = node.next_check_at ? `, next at ${timeText(node.next_check_at)}` : "";
    console.log(`\n${node.node_id}, by ${node.check_result.worker_id ?? "nobody"}${next}`);
    printParts(node.check_result.parts);
  }
}

function printParts(parts: CheckPart[]): void {
  printTable(
    ["check", "", "value", "says", "took"],
    parts.map((part) => [
      part.name,
      part.ok ? "ok" : "FAILED",
      part.value || null,
      part.message || null,
      part.ms === 0 ? null : `${part.ms} ms`,
    ]),
    "",
  );
}

const ASK_EVERY_MS = 100;
/** For the leader's tick, calls that are tried twice, and a check before that is still under way. */
const PATIENCE_MS = 15_000;

/** The leader makes the check, over the way that work would take. */
export async function testNodeCommand(node_id: string, options: { json?: boolean }): Promise<void> {
  const node = await withDb(async (sql) => {
    const leader = await currentLeader(sql);
    if (leader.worker_id === undefined) {
      throw new CommandError(`Cannot test node "${node_id}": nobody leads; start a worker: deno task worker`);
    }
    const { is_active } = await existing(sql, node_id);
    const due = is_active ? await requestCheck(sql, node_id) : undefined;
    if (due === undefined) {
      throw new CommandError(
        `Cannot test node "${node_id}": it is in maintenance; end that with deno task nodes set ${node_id} --maintenance off`,
      );
    }
    if (!options.json) console.log(`${leader.worker_id}, who leads, checks ${node_id}`);
    const { node_script_seconds } = await readSettings(sql);
    const late_ms = monotonicMs() + node_script_seconds * 2_000 + PATIENCE_MS;
    while (!await isAnswered(sql, node_id, due)) {
      if (monotonicMs() > late_ms) {
        throw new CommandError(
          `Cannot test node "${node_id}": the leader has not answered; see deno task nodes ls`,
          EXIT.unreachable,
        );
      }
      await rest(ASK_EVERY_MS);
    }
    return await existing(sql, node_id);
  });
  if (options.json) printJson(node);
  else {
    printParts(node.check_result?.parts ?? []);
    console.log(`\n${node.node_id} is ${node.status}${node.problem ? `: ${node.problem}` : ""}`);
  }
  if (node.status !== "available") throw new CommandError("");
}

export async function setNodeCommand(
  node_id: string,
  options: { maxConcurrent?: string; label?: string[]; maintenance?: string; reason: string; json?: boolean },
): Promise<void> {
  const change: NodeChange = {
    max_concurrent: options.maxConcurrent === undefined ? undefined : limitFrom(options.maxConcurrent),
    labels: options.label && Object.fromEntries(options.label.map(labelFrom)),
    maintenance: options.maintenance === undefined ? undefined : switchFrom(options.maintenance),
  };
  if (Object.values(change).every((value) => value === undefined)) {
    throw new CommandError("Say what to change: --max-concurrent, --label or --maintenance", EXIT.usage);
  }
  const node = await withDb(async (sql) => {
    await existing(sql, node_id);
    await changeNode(sql, node_id, change, { actor: actor(), reason: options.reason });
    return await existing(sql, node_id);
  });
  if (options.json) return printJson(node);
  printNodes([node]);
}

async function existing(sql: Sql, node_id: string): Promise<NodeListing> {
  const nodes = await listNodes(sql);
  const found = nodes.find((node) => node.node_id === node_id);
  if (found) return found;
  const names = nodes.slice(0, MOST_NAMED).map((node) => node.node_id).join(", ");
  const known = nodes.length === 0
    ? "no node was ever here"
    : `there are ${names}${nodes.length > MOST_NAMED ? ", ..." : ""}`;
  throw new CommandError(`Cannot find node "${node_id}": ${known}`);
}

const MOST_NAMED = 20;

function limitFrom(text: string): number | null {
  if (text === "none") return null;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new CommandError(
    `Cannot use --max-concurrent "${text}": give a whole number of at least 0, or none`,
    EXIT.usage,
  );
}

/** What a selector such as "gpu=a100,zone=tokyo" can name. */
function labelFrom(text: string): [string, string] {
  const [, name, value] = /^([^=,\s]+)=([^=,\s]*)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return [name, value];
  throw new CommandError(`Cannot use --label "${text}": give name=value without spaces and commas`, EXIT.usage);
}

function switchFrom(text: string): boolean {
  if (text === "on" || text === "off") return text === "on";
  throw new CommandError(`Cannot use --maintenance "${text}": give on or off`, EXIT.usage);
}
