/** Rows of a run's journal, put straight into the table. */
import { json, type Sql } from "../../src/postgres/connection.ts";

/** A row with `kind` and `state` by its key and times; what is given wins. */
export async function aStep(
  sql: Sql,
  job_run_id: number,
  columns: Record<string, unknown> & { key: string },
): Promise<void> {
  const { result, prompt, ...given } = columns;
  const row = {
    job_run_id,
    kind: columns.key.split(":")[0] as string,
    state: given.seq === undefined ? "WAITING" : "DONE",
    attempt: 1,
    code_digest: "0123456789ab",
    ...(given.seq === undefined || given.ended_at !== undefined ? {} : { ended_at: new Date() }),
    ...given,
    ...(result === undefined ? {} : { result: json(sql, result) }),
    ...(prompt === undefined ? {} : { prompt: json(sql, prompt) }),
  };
  await sql`insert into run_step ${sql(row)}`;
}
