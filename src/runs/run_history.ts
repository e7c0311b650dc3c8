/** Everything that Postgres keeps of the runs of one job: for drills, which judge what became of them. Nothing here changes a row. */
import type { Sql } from "../postgres/connection.ts";
import type { RunState } from "./run_states.ts";

export interface RunRecord {
  job_run_id: number;
  idempotency_key: string | null;
  state: RunState;
  attempt: number;
  fence: number | null;
  serial_key: string | null;
  failures: number;
  interruptions: number;
  worker_id: string | null;
  started_at: Date | null;
  error_summary: string | null;
}

/** An attempt that ended without deciding its run. */
export interface AttemptRecord {
  job_run_id: number;
  attempt: number;
  outcome: string;
  error_summary: string | null;
  fence: number | null;
  started_at: Date | null;
  ended_at: Date;
}

/** The runs of a job after the run `after_id`, and their earlier attempts. */
export async function readHistory(
  sql: Sql,
  of: { job_name: string; after_id: number },
): Promise<{ runs: RunRecord[]; attempts: AttemptRecord[] }> {
  const runs = await sql<RunRecord[]>`
    select r.id as job_run_id, r.idempotency_key, r.state, r.attempt, r.fence, r.serial_key, r.failures, r.interruptions,
           r.assigned_worker_id as worker_id, r.started_at, r.error_summary
      from job_run r join job_definition d on d.id = r.job_definition_id
     where d.name = ${of.job_name} and r.id > ${of.after_id} order by r.id`;
  const attempts = await sql<AttemptRecord[]>`
    select a.job_run_id, a.attempt, a.outcome, a.error_summary, a.fence, a.started_at, a.ended_at
      from job_run_attempt a join job_run r on r.id = a.job_run_id join job_definition d on d.id = r.job_definition_id
     where d.name = ${of.job_name} and r.id > ${of.after_id} order by a.job_run_id, a.attempt`;
  return { runs, attempts };
}

/** When the first run of a job started among those that were assigned from this instant on. */
export async function firstStartSince(sql: Sql, of: { job_name: string; since: Date }): Promise<Date | undefined> {
  const [row] = await sql<{ started_at: Date | null }[]>`
    select min(r.started_at) as started_at from job_run r join job_definition d on d.id = r.job_definition_id
     where d.name = ${of.job_name} and r.assigned_at >= ${of.since} and r.started_at >= ${of.since}`;
  return row?.started_at ?? undefined;
}
