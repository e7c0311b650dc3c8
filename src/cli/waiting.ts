/** Why a run does not start, as far as the command line can tell. */
import { timeText } from "./output.ts";
import type { Sql } from "../store/db.ts";
import { databaseNow } from "../store/definitions.ts";
import { listWorkers } from "../store/nodes.ts";
import type { RunView } from "../store/run_view.ts";

/** Undefined: it has started or ended, or its turn comes. */
export async function whyWaiting(sql: Sql, run: RunView): Promise<string | undefined> {
  if (run.state !== "PENDING" && run.state !== "RETRYING") return undefined;
  if (run.due_at.getTime() > (await databaseNow(sql)).epochMilliseconds) return `it is due at ${timeText(run.due_at)}`;
  const alive = await listWorkers(sql);
  if (alive.length === 0) return "no worker is alive; start one: deno task worker, or all of it: deno task dev";
  if (run.node === null || alive.some((worker) => worker.node_id === run.node)) return undefined;
  return `no worker is alive on node "${run.node}"; \`deno task nodes ls\` shows who is`;
}
