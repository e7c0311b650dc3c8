/** Why something waits, for people: in a viewer's words, and with what to do about it for whoever has no page to go to. */
import { isKey, messageText, type Viewer } from "./locale.ts";
import type { AnyMessage } from "./message.ts";

export function waitText(viewer: Viewer, { code, params }: AnyMessage): string {
  const key = `runs.wait.${code}`;
  return messageText(viewer, { code: isKey(key) ? key : code, params });
}

/** With the command that helps. */
export function waitLine(viewer: Viewer, waits: AnyMessage): string {
  const fix = fixOf(waits);
  return [waitText(viewer, waits), fix && messageText(viewer, fix)].filter(Boolean).join("; ");
}

function fixOf({ code, params }: AnyMessage): AnyMessage | undefined {
  if (code === "nobody_there") return startOne(params as { where?: AnyMessage | null });
  if (code === "maintenance") {
    const [node] = (params as { nodes: string[] }).nodes;
    return { code: "runs.fix.maintenance", params: { node } };
  }
  const key = `runs.fix.${code}`;
  return isKey(key) ? { code: key, params } : undefined;
}

function startOne({ where }: { where?: AnyMessage | null }): AnyMessage {
  if (!where) return { code: "runs.fix.worker_anywhere", params: {} };
  if (where.code === "runs.where.node") return { code: "runs.fix.worker_on_node", params: where.params };
  const { labels } = where.params as { labels: string };
  const each = labels.split(",").map((pair) => pair.trim()).join(" ");
  return { code: "runs.fix.worker_with_labels", params: { labels: each } };
}
