/**
 * RUNNING -> SUSPENDED, and with it the promise that no wake is lost: what comes leaves a check in its own transaction, by which the leader
 * raises `wakes` (wakes.ts). A suspension is guarded by the `wakes` of the look that found nothing (arrivals.ts). So it comes before
 * what arrives, and the run is woken, or after it, and is refused.
 */
import { byId, placeAmong } from "../postgres/array_params.ts";
import type { Db } from "../postgres/connection.ts";
import type { AttemptRef } from "../runs/states.ts";

/** A run whose body waits, and waits for nothing else. */
export interface Suspension extends AttemptRef {
  start_token: string;
  /** As they were read with the look that found nothing for it (steps/arrivals.ts). */
  wakes: number;
  /** Until the first of its waits is over by time; null: none is. */
  wakes_in_ms: number | null;
}

/**
 * Its body ends, its slot is free, and it keeps its serial key. Held until its time, or until the leader hears that
 * something has come (steps/wakes.ts). What came after the look has raised `wakes`: then no row comes back, and the worker looks again. The
 * execution is kept and charged to nobody; the suspension is counted with the next one (assignRuns).
 */
export async function suspendRuns(sql: Db, worker_id: string, runs: Suspension[]): Promise<number[]> {
  const sorted = byId(runs);
  const ids = sorted.map(({ job_run_id }) => job_run_id);
  const place = placeAmong(sql, ids);
  const waits = sorted.map(({ wakes_in_ms: ms }) => ms === null ? -1 : Math.round(Math.min(Math.max(ms, 0), 3.2e12)));
  const wait = sql`(${waits}::bigint[])[${place}]`;
  const rows = await sql<{ id: number }[]>`
    with suspended as (
      update job_run r
         set state = 'SUSPENDED', held = true, continuation_state = 'NONE', version = r.version + 1,
             wakes_at = case when ${wait} < 0 then 'infinity' else clock_timestamp() + ${wait} * interval '1 ms' end
       where r.id = any(${ids}::bigint[]) and r.attempt = (${sorted.map(({ attempt }) => attempt)}::int[])[${place}]
         and r.start_token = (${sorted.map(({ start_token }) => start_token)}::text[])[${place}]
         and r.wakes = (${sorted.map(({ wakes }) => wakes)}::int[])[${place}]
         and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}
         and (r.cancel_requested_at is null or r.ending is not null)
      returning r.id, r.attempt, r.leader_epoch, r.fence, r.started_at),
    kept as (
      insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, outcome)
      select id, attempt, ${worker_id}, leader_epoch, fence, started_at, 'SUSPENDED' from suspended
      on conflict do nothing)
    select id from suspended`;
  return rows.map(({ id }) => id);
}
