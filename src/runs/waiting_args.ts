/** The args of runs that have not started, a page at a time. */
import type { Json } from "../job.ts";
import type { Db } from "../postgres/connection.ts";
import { inStates, MAY_START } from "./run_states.ts";

export interface WaitingArgs {
  id: number;
  args: Json;
  /** Where the next page goes on. */
  place: { scheduled_for: string; id: number };
}

/** In the order in which they are due: those that come first matter most. */
export async function readWaitingArgs(
  sql: Db,
  job_definition_id: number,
  { after, most }: { after?: WaitingArgs["place"]; most: number },
): Promise<WaitingArgs[]> {
  const { scheduled_for = "-infinity", id = 0 } = after ?? {};
  const rows = await sql<{ id: number; args: Json; scheduled_for: string }[]>`
    select id, args_json as args, scheduled_for::text as scheduled_for from job_run
     where job_definition_id = ${job_definition_id} and ${inStates(sql, MAY_START)}
       and (scheduled_for, id) > (${scheduled_for}::text::timestamptz, ${id}::bigint) order by scheduled_for, id limit ${most}`;
  return rows.map((row) => ({ id: row.id, args: row.args, place: { scheduled_for: row.scheduled_for, id: row.id } }));
}
