/** Nodes and labels that work names, against the nodes there are: refused at the door what would wait for ever. */
import type { Db } from "../store/db.ts";
import { fillSelectors, isNamed, readLabels } from "../store/nodes.ts";
import { EnqueueError } from "./args.ts";

/** A node that is away or in maintenance is one that there is. @throws EnqueueError, `what` such as `enqueue "hello"`. */
export async function checkPlaces(sql: Db, what: string, selectors: Iterable<string>): Promise<void> {
  const named = [...new Set(selectors)].filter((selector) => selector !== "");
  if (named.length === 0) return;
  const nodes = await readLabels(sql);
  const lost = named.find((selector) => !nodes.some((node) => isNamed(selector, node)));
  if (lost !== undefined) throw new EnqueueError(`Cannot ${what}: ${whyNowhere(lost, nodes)}`);
}

/** What runs of a job would name by its own `node`, for each of their args. */
export async function placesOf(sql: Db, node: string | null, args: unknown[]): Promise<string[]> {
  if (node === null || args.length === 0) return [];
  return node.includes("{") ? await fillSelectors(sql, node, args) : [node];
}

function whyNowhere(selector: string, nodes: { node_id: string; labels: Record<string, unknown> }[]): string {
  const by_labels = selector.includes("=");
  const missing = by_labels ? `no node has the labels ${selector}` : `no node has the name "${selector}"`;
  if (nodes.length === 0) return `${missing}: none was ever here; start a worker on it: deno task worker`;
  const labelsOf = (labels: Record<string, unknown>) =>
    Object.entries(labels).map(([label, value]) => `${label}=${value}`).join(",") || "no labels";
  const names = nodes.slice(0, MOST_NAMED).map(({ node_id, labels }) =>
    by_labels ? `${node_id} (${labelsOf(labels)})` : node_id
  );
  const more = nodes.length > MOST_NAMED ? ` and ${nodes.length - MOST_NAMED} more` : "";
  const fix = by_labels
    ? `; give them to one: deno task nodes set NODE --label ${selector.split(",").map((pair) => pair.trim()).join(" ")}`
    : "; name one of them, or start a worker on that one first";
  return `${missing}; there are ${names.join(", ")}${more}${fix}`;
}

const MOST_NAMED = 20;
