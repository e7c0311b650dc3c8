/** What a worker is told of the runs that it has made RUNNING: all that it needs to run their bodies. */
import type { Db } from "./db.ts";

/** How the runs of a definition are run. */
export interface Manner {
  job_name: string;
  command_name: string;
  digest: string;
  timeout_seconds: number;
  kill_grace_seconds: number;
  memory_mb: number;
  isolation_reuse: number;
  permissions: unknown;
  max_retries: number;
  retry_backoff_seconds: number;
  retry_factor: number;
  retry_jitter: number;
  retry_on: Record<string, { max: number; backoffSeconds?: number; otherNode?: boolean }>;
}

/** All that a worker needs to run a body, read in the statement that made the run its own. */
export interface StartedRun extends Manner {
  job_run_id: number;
  attempt: number;
  start_token: string;
  fence: number;
  leader_epoch: number;
  failures: number;
  scheduled_for: Date;
  /** Until it is due, by the database's clock at some moment between question and answer; 0 or less: it is. */
  due_in_ms: number;
  args_json: unknown;
}

/** A definition's manner comes with the first of its rows only: with a hundred runs of one job it would be most of the answer. */
export type StartedRow = Omit<StartedRun, keyof Manner> & { job_definition_id: number; manner: Manner | null };

/** Of the rows of `started`. */
export function startedColumns(sql: Db) {
  return sql`
    select s.id as job_run_id, s.attempt, s.start_token, s.fence, s.leader_epoch, s.failures, s.scheduled_for, s.args_json,
           (extract(epoch from s.due_at - clock_timestamp()) * 1000)::float8 as due_in_ms,
           s.job_definition_id, case when row_number() over (partition by s.job_definition_id) = 1 then (
             select to_jsonb(m) from (select d.name as job_name, d.command_name, d.digest, d.timeout_seconds, d.kill_grace_seconds,
               d.memory_mb, d.isolation_reuse, d.permissions, d.max_retries, d.retry_backoff_seconds, d.retry_factor,
               d.retry_jitter, d.retry_on from job_definition d where d.id = s.job_definition_id) m) end as manner
      from started s`;
}

export function mannered(rows: StartedRow[]): StartedRun[] {
  const manners = new Map<number, Manner>();
  for (const { job_definition_id, manner } of rows) if (manner) manners.set(job_definition_id, manner);
  return rows.map(({ job_definition_id, manner: _, ...run }) => ({
    ...manners.get(job_definition_id) as Manner,
    ...run,
  }));
}
