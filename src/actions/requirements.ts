/** Runs and bulks at the door: what no node and no resource that there is could ever meet is refused. */
import { type Requirements, whyInfeasible } from "../dispatch/feasibility.ts";
import type { Db } from "../postgres/connection.ts";
import type { Demands } from "../definitions/definition_rows.ts";
import { fillSelectors } from "../nodes/workers.ts";
import { EnqueueError } from "./args.ts";

/** @throws EnqueueError, `what` such as `enqueue "hello"`. */
export async function checkFeasible(sql: Db, what: string, needs: Requirements): Promise<void> {
  const lack = await whyInfeasible(sql, needs);
  if (lack) throw new EnqueueError(`Cannot ${what}: ${lack.reason}; ${lack.fix}`, { says: lack.says });
}

/** What runs of a job need by themselves, for each of their args. */
export async function requirementsOf(sql: Db, { node, resources }: Demands, args: unknown[]): Promise<Requirements> {
  if (node === null || args.length === 0) return { selectors: [], resources };
  return { selectors: node.includes("{") ? await fillSelectors(sql, node, args) : [node], resources };
}
