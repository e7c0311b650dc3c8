/** What a check of a node looked at: kept with the node (node_health.ts), and told by what waits for it (wait_reason.ts). */
import { type Message, message } from "../locale/message.ts";

/** One thing that was looked at. */
export interface CheckPart {
  name: string;
  ok: boolean;
  /** What was measured, as a stored message (locale/message.ts) or what a script printed; "" where there is nothing. */
  value: string;
  /** What is wrong, as one. */
  message: string;
  ms: number;
}

const PARTS = ["connection", "disk", "load", "memory", "bodies", "scripts"] as const;

/** What a check looked at, for people: a script has a name of its own. */
export function partName(name: string): Message | string {
  const known = PARTS.find((one) => one === name);
  if (known) return message(`nodes.part.${known}`);
  return name.startsWith("script ") ? message("nodes.part.script", { name: name.slice("script ".length) }) : name;
}
