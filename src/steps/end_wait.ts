/**
 * Somebody ends a wait of a run before its time: a sleep is over, a wait for a message or an event has timed out. The row's limit is now, so the
 * look that follows finds it (arrivals.ts); `wakes` and the check are written with it, as for anything that arrives.
 * What waits for another run or a bulk ends with that, and a step's next try comes when its pause is over.
 */
import type { Actor } from "../access/audit.ts";
import type { Db } from "../postgres/connection.ts";

export type WaitEnded = "ended" | "no_such_wait";

const ENDS_BY_TIME = ["sleep", "message", "event"];

/** Audited in the same statement. */
export async function endWait(sql: Db, wait: { job_run_id: number; key: string }, by: Actor): Promise<WaitEnded> {
  const rows = await sql`
    with run as materialized (
      select id from job_run where id = ${wait.job_run_id} and finished_at is null for no key update),
    over as (
      update run_step s set until = clock_timestamp() from run
       where s.job_run_id = run.id and s.key = ${wait.key} and s.state = 'WAITING' and s.kind = any(${ENDS_BY_TIME}::text[])
      returning s.job_run_id),
    raised as (update job_run r set wakes = r.wakes + 1 from over where r.id = over.job_run_id),
    checked as (insert into wake_check (job_run_id) select job_run_id from over),
    rung as (select pg_notify('scheduler', 'run_message') from over),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'run.wake', 'run', job_run_id::text, jsonb_build_object('step', ${wait.key}::text), ${by.reason} from over)
    select job_run_id from over left join rung on true`;
  return rows.length > 0 ? "ended" : "no_such_wait";
}
