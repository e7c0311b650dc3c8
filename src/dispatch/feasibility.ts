/**
 * What runs need beside a free slot, against what there is: a node of that name, one with those labels, so much of a resource.
 * Whoever asks for a run is refused at the door what would wait for ever; a sync warns, since nodes may come later.
 */
import type { Db } from "../postgres/connection.ts";
import { isNamed, readLabels } from "../nodes/workers.ts";
import { readCapacities } from "./pauses.ts";

export interface Requirements {
  /** Nodes by name, or labels such as "gpu=a100,zone=tokyo"; empty: any. */
  selectors: Iterable<string>;
  /** How much of each resource one run takes. */
  resources: Record<string, number>;
}

/** What there is too little of, what to do about it, and the same for whoever says it in other words. */
export interface Shortage {
  reason: string;
  fix: string;
  says:
    | { code: "nowhere"; selector: string; known: readonly string[]; more: number }
    | { code: "resource_unknown"; resource: string; needed: number }
    | { code: "resource_short"; resource: string; needed: number; capacity: number };
}

/** Why these can never be met by what there is now; a node that is away or in maintenance is one that there is. */
export async function whyInfeasible(sql: Db, needs: Requirements): Promise<Shortage | undefined> {
  const named = [...new Set(needs.selectors)].filter((selector) => selector !== "");
  const nodes = named.length > 0 ? await readLabels(sql) : [];
  const lost = named.find((selector) => !nodes.some((node) => isNamed(selector, node)));
  if (lost !== undefined) return whyNowhere(lost, nodes);
  const taken = Object.entries(needs.resources);
  const capacities = taken.length > 0 ? await readCapacities(sql) : new Map<string, number>();
  for (const [name, n] of taken) {
    const capacity = capacities.get(name);
    const fix = (verb: string) => `${verb}: deno task resources set ${name} ${n}`;
    if (capacity === undefined) {
      const says = { code: "resource_unknown" as const, resource: name, needed: n };
      return { reason: `resource "${name}" is not known`, fix: fix("add it"), says };
    }
    if (capacity < n) {
      return {
        reason: `a run takes ${n} of resource "${name}", and there are ${capacity}`,
        fix: fix("raise it"),
        says: { code: "resource_short", resource: name, needed: n, capacity },
      };
    }
  }
}

function whyNowhere(selector: string, nodes: { node_id: string; labels: Record<string, unknown> }[]): Shortage {
  const by_labels = selector.includes("=");
  const missing = by_labels ? `no node has the labels ${selector}` : `no node has the name "${selector}"`;
  const labelsOf = (labels: Record<string, unknown>) =>
    Object.entries(labels).map(([label, value]) => `${label}=${value}`).join(",") || "no labels";
  const known = nodes.slice(0, MOST_NAMED).map(({ node_id }) => node_id);
  const more = nodes.length - known.length;
  const says = { code: "nowhere" as const, selector, known, more };
  if (nodes.length === 0) {
    return { reason: `${missing}: none was ever here`, fix: "start a worker on it: deno task worker", says };
  }
  const names = nodes.slice(0, MOST_NAMED).map(({ node_id, labels }) =>
    by_labels ? `${node_id} (${labelsOf(labels)})` : node_id
  );
  const fix = by_labels
    ? `give them to one: deno task nodes set NODE --label ${selector.split(",").map((pair) => pair.trim()).join(" ")}`
    : "name one of them, or start a worker on that one first";
  return { reason: `${missing}; there are ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`, fix, says };
}

const MOST_NAMED = 20;
