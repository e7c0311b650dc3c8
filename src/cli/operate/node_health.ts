/** `nodes show`, `nodes test`, `nodes set`: whether a node can work, and what operators change of it. */
import { awaitCheck, changeOneNode, checkNode, existingNode, removeOneNode } from "../../actions/node_actions.ts";
import type { CheckPart } from "../../nodes/check_part.ts";
import { listNodes, type NodeChange, type NodeListing } from "../../nodes/node_health.ts";
import { act, type JsonOption, performOn, type Reasoned, withDb } from "../operator.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { timeText } from "../times.ts";
import { english } from "../../locale/english.ts";

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
    "no nodes yet",
  );
}

function whyOf({ is_active, inactive_by, inactive_reason, status, problem, checked_at }: NodeListing): string | null {
  if (!is_active) return [inactive_by, english(inactive_reason)].filter((word) => word !== null).join(": ") || null;
  if (status === "available") return null;
  return english(problem) ?? (checked_at === null ? "no check has passed yet" : null);
}

export async function showNodesCommand(node_id: string | undefined, options: JsonOption): Promise<void> {
  const nodes = await withDb(async (sql) =>
    node_id === undefined ? await listNodes(sql) : [await existingNode(sql, node_id)]
  );
  if (options.json) return printJson(node_id === undefined ? nodes : nodes[0]);
  printNodes(nodes);
  for (const node of nodes) {
    if (!node.check_result) continue;
    const next = node.next_check_at ? `, next at ${timeText(node.next_check_at)}` : "";
    say(`\n${node.node_id}, by ${node.check_result.worker_id ?? "nobody"}${next}`);
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

/** The leader makes the check, over the way that work would take. */
export async function testNodeCommand(node_id: string, options: Reasoned): Promise<void> {
  const came = options.json ? undefined : ({ name, ok, value, message }: CheckPart) => {
    const said = [ok ? "" : "FAILED", english(value), english(message)].filter(Boolean).join(" ") || "ok";
    say(`  ${name}: ${said}`);
  };
  const node = await withDb(async (sql) => {
    const { leader, due } = await performOn(sql, checkNode, { node_id }, options);
    if (!options.json) say(`leader ${leader} checks ${node_id}`);
    return await awaitCheck(sql, node_id, { due, came });
  });
  if (options.json) printJson(node);
  else {
    say("");
    printParts(node.check_result?.parts ?? []);
    const rests = node.is_active ? "" : " (in maintenance)";
    say(`\n${node.node_id} is ${node.status}${node.problem ? `: ${english(node.problem)}` : ""}${rests}`);
  }
  if (node.status !== "available") throw new CommandError("");
}

export async function setNodeCommand(
  node_id: string,
  options: JsonOption & { maxConcurrent?: string; label?: string[]; maintenance?: string; reason?: string },
): Promise<void> {
  const change: NodeChange = {
    max_concurrent: options.maxConcurrent === undefined ? undefined : limitFrom(options.maxConcurrent),
    labels: options.label && Object.fromEntries(options.label.map(labelFrom)),
    maintenance: options.maintenance === undefined ? undefined : switchFrom(options.maintenance),
  };
  if (Object.values(change).every((value) => value === undefined)) {
    throw new CommandError(
      "Cannot change the node: no option is given; give --max-concurrent, --label or --maintenance",
      EXIT.usage,
    );
  }
  const node = await act(changeOneNode, { node_id, ...change }, options);
  if (options.json) return printJson(node);
  printNodes([node]);
}

export async function removeNodeCommand(node_id: string, options: Reasoned): Promise<void> {
  await act(removeOneNode, { node_id }, options);
  if (options.json) return printJson({ node_id, removed: true });
  say(`node ${node_id} is removed; a worker that starts there registers it again`);
}

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
