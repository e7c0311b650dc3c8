/**
 * What there is to do, in the same statement that renews the leader's term: an idle tick is one round trip, and one that only
 * has runs to assign two, since who is there and what waits is read along.
 * Each question reads a partial index that holds only what is open, so an idle system pays the same with ten rows as
 * with ten million. The answers are hints: every step asks again in the statement that acts.
 */
import { monotonicMs } from "../platform/timers.ts";
import { type Sql, unsynced } from "../postgres/connection.ts";
import { slotLead } from "../definitions/due_schedules.ts";
import { Term } from "../nodes/leadership.ts";
import { troubles } from "../runs/live_runs.ts";
import { canMove } from "../runs/requests.ts";
import {
  type DispatchSnapshot,
  type DispatchSnapshotRow,
  snapshot,
  snapshotOf,
  snapshotParts,
} from "./dispatch_queues.ts";
import { inStates, NOT_ENDED } from "../runs/run_states.ts";

export interface PendingWork {
  /** Slots of schedules have come. */
  slots: boolean;
  /** Events wait for their runs. */
  events: boolean;
  /** Runs have ended that other jobs come after. */
  followers: boolean;
  /** Bulks may be fed, or have changed. */
  bulks: boolean;
  /** Something has come for runs that wait for it, or a run has ended that has children. */
  arrivals: boolean;
  /** Runs may start now, unless their run queue is closed. */
  ready: boolean;
  /** Runs of schedules wait that are too late to start. */
  late: boolean;
  /** Runs that were held have come due. */
  asleep: boolean;
  /** Runs that were held may start, since something has changed in their line. */
  lines: boolean;
  /** The priority of a definition has changed, and its runs that wait follow. */
  moves: boolean;
  /** Somebody asked to cancel a run that has not ended. */
  cancels: boolean;
  /** A run that is not RUNNING is past its deadline. */
  deadlines: boolean;
  /** A run was assigned long ago and did not start, or to a worker that is detached. */
  stuck: boolean;
  /** A worker's lease is over, or a dead worker still owns runs. */
  lost: boolean;
  /** A node is to be checked. */
  checks: boolean;
  /** An operator asked this epoch to step down. */
  degraded: boolean;
  /** Milliseconds until something is due that is not yet; undefined: nothing is known to come. */
  next_due_ms: number | undefined;
}

export interface PendingWorkQuery {
  lease_ms: number;
  reassign_after_ms: number;
  /** 0: no run is ever too late. */
  late_seconds: number;
  /** So long before they are due runs are given to workers; 0: not before. */
  ahead_seconds: number;
  /** Not to renew, unless it is time; default false. */
  hasty?: boolean;
  /** So much waits that its first runs need not be read along: they will be asked for; default false. */
  crowded?: boolean;
}

/** Of a sight that was read along, this must hold: no assignment of an earlier tick is under way; else it is to be read again. */
export interface PendingWorkResult {
  term: Term;
  pending: PendingWork;
  snapshot: DispatchSnapshot;
}

/** Of the lease: with less left, haste is no reason not to renew. */
const RENEW_BELOW = 0.6;

/**
 * The renewed term and the pending work, or undefined: the term is over, stop at once. A renewal waits for the disk, since the term is trusted by
 * it. One who is in haste, since somebody has rung, only counts the tick, and renews right after; a count that is lost in a crash of
 * Postgres is lost with every session that could hold a statement of an earlier tick.
 */
export async function renewAndReadWork(
  sql: Sql,
  term: Term,
  look: PendingWorkQuery,
): Promise<PendingWorkResult | undefined> {
  const asked_at_ms = monotonicMs();
  const renews = !look.hasty || term.trusted_until_ms - asked_at_ms < look.lease_ms * RENEW_BELOW;
  const ahead = sql`(${look.ahead_seconds}::float8 * interval '1 s')`;
  const [row] = await sql<
    (Omit<PendingWork, "next_due_ms"> & { next_due_ms: number | null; tick: number } & DispatchSnapshotRow)[]
  >`
    with recursive ${unsynced(sql, !renews)},
    renewed as (
      update leader_term set tick = tick + 1,
             lease_until = case when ${renews} then clock_timestamp() + ${look.lease_ms} * interval '1 ms' else lease_until end
        from unsynced
       where id = 1 and epoch = ${term.epoch} and worker_id = ${term.worker_id}
      returning tick, degrade_epoch is not distinct from epoch as degraded),
    clock as materialized (select clock_timestamp() as now),
    ${snapshotParts(sql, look.ahead_seconds)}
    select renewed.tick, renewed.degraded,
      exists (select from job_schedule s join job_definition d on d.id = s.job_definition_id and d.paused_at is null
               where s.enabled and s.paused_at is null and s.next_slot <= clock.now + ${ahead}
                 and s.next_slot <= clock.now + ${slotLead(sql, look.ahead_seconds)}) as slots,
      (select id from event where processed_at is null order by id limit 1) is not null as events,
      exists (select from group_check) as followers,
      exists (select from bulk_recheck) or exists (select from bulk where next_feed_at <= clock.now) as bulks,
      exists (select from wake_check) as arrivals,
      exists (select from lane) as ready,
      ${look.late_seconds}::float8 > 0
        and (select due_at from job_run where state = 'PENDING' and source = 'schedule' order by due_at limit 1)
            < clock.now - ${look.late_seconds}::float8 * interval '1 s' as late,
      coalesce((select wakes_at from job_run where wakes_at is not null order by wakes_at limit 1) <= clock.now, false) as asleep,
      exists (select from key_recheck) as lines,
      exists (select from priority_change m where ${canMove(sql)}) as moves,
      (select id from job_run where cancel_requested_at is not null and ending is null
         and ${inStates(sql, NOT_ENDED)} order by id limit 1) is not null as cancels,
      exists (select from job_run where deadline_at <= clock.now and finished_at is null and ending is null and state <> 'RUNNING') as deadlines,
      trouble.stuck, trouble.lost or exists (select from worker where state <> 'DEAD' and lease_until < clock.now) as lost,
      exists (select from node where next_check_at <= clock.now) as checks,
      (extract(epoch from least(
        (select next_slot from job_schedule where enabled and paused_at is null and next_slot > clock.now
          order by next_slot limit 1),
        (select next_slot - ${ahead} from job_schedule where enabled and paused_at is null and next_slot > clock.now + ${ahead}
          order by next_slot limit 1),
        (select next_feed_at from bulk where next_feed_at > clock.now order by next_feed_at limit 1),
        (select min(wakes_at) from soon),
        (select greatest(wakes_at - ${ahead}, clock.now + ${ahead} / 4) from job_run
          where wakes_at > clock.now + ${ahead} and wakes_at < 'infinity'
          order by wakes_at limit 1),
        (select deadline_at from job_run where deadline_at > clock.now and finished_at is null and ending is null order by deadline_at limit 1),
        (select next_check_at from node where next_check_at > clock.now and next_check_at < 'infinity'
          order by next_check_at limit 1)) - clock.now) * 1000)::float8 as next_due_ms,
      ${snapshot(sql, !look.crowded)}
    from renewed, clock, (${troubles(sql, look.reassign_after_ms)}) trouble`;
  if (!row) return undefined;
  const { tick, paused, workers, lanes: open, glance, near, ...pending } = row;
  return {
    term: renews
      ? Term.granted(term.epoch, term.worker_id, { asked_at_ms, lease_ms: look.lease_ms, tick })
      : new Term(term.epoch, term.worker_id, term.trusted_until_ms, tick),
    pending: { ...pending, next_due_ms: pending.next_due_ms ?? undefined },
    snapshot: snapshotOf({ paused, workers, lanes: open, glance, near }, !look.crowded),
  };
}
