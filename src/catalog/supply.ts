/**
 * What runs need beside a free slot, against what there is: a node of that name, one with those labels, so much of a resource.
 * Whoever asks for a run is refused at the door what would wait for ever; a sync warns, since nodes may come later.
 */
import type { Db } from "../store/db.ts";
import { isNamed, readLabels } from "../store/nodes.ts";
import { readCapacities } from "../store/stops.ts";

export interface Needs {
  /** Nodes by name, or labels such as "gpu=a100,zone=tokyo"; empty: any. */
  selectors: Iterable<string>;
  /** How much of each resource one run takes. */
  resources: Record<string, number>;
}

/** Why these can never be met by what there is now; a node that is away or in maintenance is one that there is. */
export async function whyNever(sql: Db, needs: Needs): Promise<string | undefined> {
  const named = [...new Set(needs.selectors)].filter((selector) => selector !== "");
  const nodes = named.length > 0 ? await readLabels(sql) : [];
  const lost = named.find((selector) => !nodes.some((node) => isNamed(selector, node)));
  if (lost !== undefined) return whyNowhere(lost, nodes);
  const taken = Object.entries(needs.resources);
  const capacities = taken.length > 0 ? await readCapacities(sql) : new Map<string, number>();
  for (const [name, n] of taken) {
    const capacity = capacities.get(name);
    if (capacity === undefined) return `resource "${name}" is not known; add it: deno task resources set ${name} ${n}`;
    if (capacity < n) {
      return `a run takes ${n} of resource "${name}", and there are ${capacity}; raise it: deno task resources set ${name} ${n}`;
    }
  }
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
