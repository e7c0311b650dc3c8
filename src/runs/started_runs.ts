/** What a worker is told of the runs that it has made RUNNING: all that it needs to run their bodies. */
import type { RunJournal } from "../sandbox/frames/step_frames.ts";
import { type Db, json } from "../postgres/connection.ts";

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
  /** Names of those that it takes. */
  messages: string[];
  on_change: "continue" | "restart" | "fail";
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
  /** `attempt` without these is what people count. */
  suspensions: number;
  /** When this execution began. */
  started_unix_ms: number;
  /** What it becomes once all that it did is undone; null: nothing is to be undone. */
  ending: "FAILED" | "CANCELED" | "TIMED_OUT" | null;
  /** It has run before, or repeats one that has: it may have steps. */
  may_have_journal: boolean;
  /** What it has; read by its worker, and let go of once its body has it. */
  journal?: RunJournal;
  /** A step of it has something to undo. */
  may_undo?: boolean;
  /** Its body has ended with waits open. */
  leaves_waits?: boolean;
}

/** A run without its manner; after all runs, one row for the manner of each definition: with each run it would be most of the answer. */
export type StartedRow =
  & { job_definition_id: number }
  & ((Omit<StartedRun, keyof Manner> & { manner: null }) | { job_run_id: null; manner: Manner });

/** Of `r`, what `started` holds. */
export function startedColumns(sql: Db) {
  return sql`r.id as job_run_id, r.attempt, r.start_token, r.fence, r.leader_epoch, r.failures, r.scheduled_for, r.args_json,
    (extract(epoch from r.due_at - clock_timestamp()) * 1000)::float8 as due_in_ms, r.suspensions,
    trunc(extract(epoch from r.started_at) * 1000)::float8 as started_unix_ms, r.ending,
    (r.attempt > 1 or r.rerun_of is not null) as may_have_journal, r.job_definition_id`;
}

/** The rows of `started`, and then their definitions'. */
export function startedAndManners(sql: Db) {
  return sql`
    select *, null::jsonb as manner from started
    union all
    select null, null, null, null, null, null, null, null, null, null, null, null, null, d.id, jsonb_build_object('job_name', d.name,
           'command_name', d.command_name, 'digest', d.digest, 'timeout_seconds', d.timeout_seconds,
           'kill_grace_seconds', d.kill_grace_seconds, 'memory_mb', d.memory_mb, 'isolation_reuse', d.isolation_reuse,
           'permissions', d.permissions, 'messages', array(select json_object_keys(d.messages)), 'on_change', d.on_change, 'max_retries', d.max_retries, 'retry_backoff_seconds', d.retry_backoff_seconds,
           'retry_factor', d.retry_factor, 'retry_jitter', d.retry_jitter, 'retry_on', d.retry_on)
      from job_definition d where d.id = any(array(select job_definition_id from started))`;
}

export function mannered(rows: StartedRow[]): StartedRun[] {
  const manners = new Map<number, Manner>();
  for (const { job_definition_id, manner } of rows) if (manner) manners.set(job_definition_id, manner);
  return rows.flatMap((row) => {
    if (row.manner) return [];
    const { job_definition_id, manner: _, ...run } = row;
    return [{ ...manners.get(job_definition_id) as Manner, ...run }];
  });
}

/** After a start whose reply was lost: what did start, proven by my own tokens. */
export async function readStarted(
  sql: Db,
  worker_id: string,
  orders: { job_run_id: number; token: string }[],
): Promise<StartedRun[]> {
  return mannered(
    await sql<StartedRow[]>`
    with started as (
      select ${startedColumns(sql)} from job_run r
       where r.id = any(${orders.map(({ job_run_id }) => job_run_id)}::bigint[])
         and r.start_token = any(${orders.map(({ token }) => token)}::text[])
         and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id})
    ${startedAndManners(sql)}`,
  );
}

/** Of an execution that was to be suspended and gave no row. */
export interface SuspendedOrOurs {
  /** By an earlier statement, whose reply was lost. */
  is_suspended: boolean;
  wakes: number;
}

/** What has become of them; one that is not among the answers is not this worker's any more. */
export async function readExecutions(
  sql: Db,
  worker_id: string,
  runs: { job_run_id: number; attempt: number; start_token: string }[],
): Promise<Map<number, SuspendedOrOurs>> {
  const rows = await sql<({ job_run_id: number } & SuspendedOrOurs)[]>`
    select r.id as job_run_id, r.wakes, a.job_run_id is not null as is_suspended
      from jsonb_to_recordset(${
    json(sql, runs)
  }) as x(job_run_id bigint, attempt int, start_token text) join job_run r on r.id = x.job_run_id
      left join job_run_attempt a on a.job_run_id = x.job_run_id and a.attempt = x.attempt and a.outcome = 'SUSPENDED'
     where a.job_run_id is not null
        or (r.attempt = x.attempt and r.start_token = x.start_token and r.state = 'RUNNING' and r.assigned_worker_id = ${worker_id})`;
  return new Map(rows.map(({ job_run_id, ...found }) => [job_run_id, found]));
}
