/** What bodies say: log lines and progress. Both may be lost with their worker; neither decides anything. */
import { type Db, json } from "../postgres/connection.ts";

export interface LogRow {
  job_run_id: number;
  attempt: number;
  level: string;
  message: string;
  fields: unknown;
}

/** Appends lines in their order. */
export async function appendLogs(sql: Db, lines: LogRow[]): Promise<void> {
  await sql`
    insert into job_run_log (job_run_id, attempt, level, message, fields)
    select job_run_id, attempt, level, message, nullif(fields, 'null'::jsonb)
      from jsonb_to_recordset(${
    json(sql, lines)
  }) as x(job_run_id bigint, attempt int, level text, message text, fields jsonb)`;
}

export interface LogLineView {
  id: number;
  attempt: number;
  at: Date;
  level: string;
  message: string;
  fields: unknown;
}

/**
 * Asked for as a range, in the order of the index by run: of an equation the planner thinks that the lines' own order is as good, and reads
 * those of all runs that have spoken since (125,000 for 300).
 *
 * The lines of a run after line `after` (0: from the first), oldest first. */
export async function readLogs(
  sql: Db,
  job_run_id: number,
  page: { after: number; most: number },
): Promise<LogLineView[]> {
  return await sql<LogLineView[]>`
    select id, attempt, at, level, message, fields from job_run_log
     where (job_run_id, id) > (${job_run_id}::bigint, ${page.after}::bigint) and job_run_id <= ${job_run_id}
     order by job_run_id, id limit ${page.most}`;
}

/** The last lines of a run, oldest first. */
export async function readLogTail(sql: Db, job_run_id: number, most: number): Promise<LogLineView[]> {
  const lines = await sql<LogLineView[]>`
    select id, attempt, at, level, message, fields from job_run_log
     where job_run_id between ${job_run_id} and ${job_run_id} order by job_run_id desc, id desc limit ${most}`;
  return lines.toReversed();
}

/** How far a body says it is. No transition; a run that is no longer this attempt's is left alone. */
export async function reportProgress(
  sql: Db,
  reports: { job_run_id: number; start_token: string; fraction: number; message: string | null }[],
): Promise<void> {
  await sql`
    update job_run r set progress = x.fraction, progress_message = x.message
      from jsonb_to_recordset(${
    json(sql, reports)
  }) as x(job_run_id bigint, start_token text, fraction float8, message text)
     where r.id = x.job_run_id and r.start_token = x.start_token and r.state is not distinct from 'RUNNING'`;
}
