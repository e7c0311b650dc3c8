/**
 * Workers that are taken out of the work, and what lets their bodies go on.
 *
 *   ACTIVE, DRAINING --an operator, or the leader that hears nothing of it--> DETACHED --it retired, or its lease is over--> DEAD
 *
 * DETACHED starts nothing and gets nothing, and cannot renew its own lease. A body of it goes on only while a leader or
 * subleader, asked by the worker, says yes: that yes is `confirm`, a renewal of the lease by proxy. It asks what Postgres
 * knows and nobody's memory, so it is right whoever makes it. While the worker asks, its run is CONFIRMING, which delays
 * orphaning until the deadline in the row and no longer; the yes ends that in the same statement, also where the worker
 * itself cannot reach Postgres.
 */
import type { Actor } from "../access/audit.ts";
import type { Db } from "../postgres/connection.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import type { WorkerState } from "../nodes/workers.ts";
import type { RunState } from "../runs/run_states.ts";
import { notCanceled } from "../runs/states.ts";

export interface Detached {
  worker_id: string;
  node_id: string;
}

/** An operator's act on a worker or on all workers of a node, with its audit. The leader takes back at once what they did not start. */
export async function requestDetach(sql: Db, name: string, by: Actor): Promise<Detached[]> {
  return await sql<Detached[]>`
    with moved as (
      update worker w set state = 'DETACHED', detached_by = ${by.actor}, detach_reason = ${by.reason}
        from (select worker_id, state from worker where (worker_id = ${name} or node_id = ${name}) and state in ('ACTIVE', 'DRAINING')
               order by worker_id for update) was
       where w.worker_id = was.worker_id returning w.worker_id, w.node_id, w.detached_by, w.detach_reason, was.state),
    ${noted(sql)},
    rung as (select pg_notify('scheduler', 'detach') from moved limit 1)
    select moved.worker_id, moved.node_id from moved left join rung on true`;
}

/** The leader's: workers that answer neither calls nor Redis. */
export async function detachSilent(sql: Db, term: Term, which: Actor & { worker_ids: string[] }): Promise<Detached[]> {
  return await sql<Detached[]>`
    with ${fence(sql, term)},
    moved as (
      update worker w set state = 'DETACHED', detached_by = ${which.actor}, detach_reason = ${which.reason}
        from fence, (select worker_id, state from worker where worker_id = any(${which.worker_ids}) and state in ('ACTIVE', 'DRAINING')
               order by worker_id for update) was
       where w.worker_id = was.worker_id returning w.worker_id, w.node_id, w.detached_by, w.detach_reason, was.state),
    ${noted(sql)}
    select worker_id, node_id from moved`;
}

function noted(sql: Db) {
  return sql`
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select detached_by, 'worker.detach', 'worker', worker_id, jsonb_build_object('state', state),
             jsonb_build_object('state', 'DETACHED'), detach_reason from moved)`;
}

/** Workers of that id or node, dead ones too, the newest first: to say why an act did nothing. */
export async function workersNamed(
  sql: Db,
  name: string,
): Promise<(Detached & { state: WorkerState; detached_by: string | null; detach_reason: string | null })[]> {
  return await sql<(Detached & { state: WorkerState; detached_by: string | null; detach_reason: string | null })[]>`
    select worker_id, node_id, state, detached_by, detach_reason from worker
     where worker_id = ${name} or node_id = ${name} order by started_at desc limit 20`;
}

/** All RUNNING runs of a detached worker -> CONFIRMING, until what is left of its lease is over by the database's clock. */
export async function beginConfirming(sql: Db, worker_id: string): Promise<void> {
  await sql`
    update job_run r set continuation_state = 'CONFIRMING', continuation_check_started_at = clock_timestamp(),
           continuation_check_deadline_at = w.lease_until
      from worker w
     where w.worker_id = ${worker_id} and w.state = 'DETACHED' and r.assigned_worker_id = w.worker_id
       and r.state in ('ASSIGNED', 'RUNNING') and r.state = 'RUNNING'`;
}

export interface ContinuationQuestion {
  worker_id: string;
  job_run_id: number;
  attempt: number;
  /** Of the certificate that the one who asks has shown. */
  tls_fingerprint: string;
  lease_ms: number;
}

export interface ContinuationVerdict {
  /** The lease was renewed. */
  allowed: boolean;
  /** The certificate is the worker's, or the one it had until a minute ago. */
  known: boolean;
  /** What stands in the rows; null where there is none. */
  tls_fingerprint: string | null;
  worker_state: WorkerState | null;
  state: RunState | null;
  attempt: number | null;
  assigned_worker_id: string | null;
  canceled: boolean;
}

/** May this body go on? Yes: its worker's lease is renewed, and the run is no longer CONFIRMING. No: nothing is changed, and the rows say why. */
export async function confirm(sql: Db, ask: ContinuationQuestion): Promise<ContinuationVerdict> {
  const [verdict] = await sql<ContinuationVerdict[]>`
    with mine as (
      select r.id from job_run r
       where r.id = ${ask.job_run_id} and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${ask.worker_id}
         and r.attempt = ${ask.attempt} and ${notCanceled(sql)}),
    renewed as (
      update worker w set lease_until = greatest(w.lease_until, clock_timestamp() + ${ask.lease_ms} * interval '1 ms')
        from mine
       where w.worker_id = ${ask.worker_id} and w.state <> 'DEAD'
         and ${ask.tls_fingerprint} in (w.tls_fingerprint, w.tls_former_fingerprint)
         and w.lease_until > '-infinity' -- that one was proven gone
      returning w.worker_id),
    freed as (
      update job_run r set continuation_state = 'NONE' from renewed
       where r.id = ${ask.job_run_id} and r.attempt = ${ask.attempt} and r.continuation_state = 'CONFIRMING')
    select exists (select from renewed) as allowed, w.tls_fingerprint, w.state as worker_state,
           coalesce(${ask.tls_fingerprint} in (w.tls_fingerprint, w.tls_former_fingerprint), false) as known, r.state, r.attempt,
           r.assigned_worker_id, r.cancel_requested_at is not null and r.ending is null as canceled
      from (values (1)) as one left join worker w on w.worker_id = ${ask.worker_id}
      left join job_run r on r.id = ${ask.job_run_id}`;
  return verdict as ContinuationVerdict;
}
