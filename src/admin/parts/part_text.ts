/** What a check of a node looked at and found, in the visitor's language. What a script says is its own. */
import { type CheckPart, partName } from "../../nodes/check_part.ts";
import type { NodeListing } from "../../nodes/node_health.ts";
import { messageText, saidText, t, type Viewer } from "../../locale/locale.ts";

export function partNameText(on: Viewer, name: string): string {
  const said = partName(name);
  return typeof said === "string" ? said : messageText(on, said);
}

export function partText(on: Viewer, { value, message }: Pick<CheckPart, "value" | "message">): string {
  return [saidText(on, value), saidText(on, message)].filter(Boolean).join("\n");
}

/** The first that failed, in one line; undefined: none did, or nothing is known. */
export function problemOf(
  on: Viewer,
  { status, max_concurrent, load, problem }: NodeListing,
): string | undefined {
  if (status === "busy" && max_concurrent !== null && load >= max_concurrent) {
    return t(on, "nodes.check.full", { load, limit: max_concurrent });
  }
  return problem === null ? undefined : saidText(on, problem);
}
