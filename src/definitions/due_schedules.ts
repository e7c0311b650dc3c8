/** The schedules whose next slot has come. */
import type { Db } from "../postgres/connection.ts";
import type { ScheduleSpec } from "./definition_rows.ts";

/** A schedule that has come due, as the leader's tick needs it. */
export interface DueSchedule extends ScheduleSpec {
  id: number;
  job_name: string;
  schedule_id: string;
  last_slot: Temporal.Instant;
  /** ISO 8601, as it was read: the statement that moves the schedule on checks that nobody else has. */
  next_slot: string;
}

/** The schedules whose next slot has come, longest due first, and what the database's clock said then. */
export async function dueSchedules(
  sql: Db,
  most: number,
  ahead_seconds = 0,
): Promise<{ now: Temporal.Instant; schedules: DueSchedule[] }> {
  const rows = await sql<
    (Omit<DueSchedule, "last_slot" | "next_slot"> & {
      now: Date;
      last_slot: Date;
      next_slot: Date;
      id: number | null;
    })[]
  >`
    with clock as materialized (select clock_timestamp() as now)
    select clock.now, s.id, s.job_name, s.schedule_id, s.schedule_type, s.schedule_value, s.timezone, s.misfire, s.dst_gap,
           s.dst_overlap, s.exclude, s.jitter_seconds, s.last_slot, s.next_slot
      from clock left join lateral (
        select s.*, d.name as job_name from job_schedule s
          join job_definition d on d.id = s.job_definition_id and d.paused_at is null
         where s.enabled and s.paused_at is null and s.next_slot <= clock.now + ${slotLead(sql, ahead_seconds)}
           and s.next_slot <= clock.now + ${ahead_seconds}::float8 * interval '1 s' -- known before the job is: the index is read no further
         order by s.next_slot, s.id limit ${most}) s on true`;
  const [first] = rows;
  return {
    now: (first as { now: Date }).now.toTemporalInstant(),
    schedules: rows.filter((row) => row.id !== null).map(({ now: _, ...row }) => ({
      ...row,
      last_slot: row.last_slot.toTemporalInstant(),
      next_slot: row.next_slot.toTemporalInstant().toString(),
    })),
  };
}

/**
 * How long before a slot of definition `d` its run is created, so that a worker can be ready. Where runs of a job exclude each
 * other, who is there at the slot decides what becomes of it: those are created when it comes.
 */
export function slotLead(sql: Db, ahead_seconds: number) {
  return sql`(case when d.concurrency_policy = 'allow' then ${ahead_seconds}::float8 else 0 end * interval '1 s')`;
}
