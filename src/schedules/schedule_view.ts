/** Schedules as people and programs read them. Nothing here changes a row. */
import type { Db } from "../postgres/connection.ts";
import type { ScheduleSetting } from "../definitions/definition_rows.ts";
import type { RunState } from "../runs/run_states.ts";

/** A schedule of a job that is there, with what stops it and what came of it last. */
export interface ScheduleView extends ScheduleSetting {
  id: number;
  job_name: string;
  /** Its job's args, which its own go over. */
  default_args_json: ScheduleSetting["args_json"];
  /** False: its job, or it, is switched off. */
  enabled: boolean;
  /** Who paused it, or its job; null: nobody. */
  paused_by: string | null;
  paused_reason: string | null;
  paused_at: Date | null;
  /** It is the job that is paused. */
  job_paused: boolean;
  /** The run of its newest slot. */
  last_run: { id: number; state: RunState; scheduled_for: string } | null;
}

/** The schedules of all jobs, or of one, by job and id; and what the database's clock says. */
export async function readSchedules(
  sql: Db,
  of: { job_name?: string } = {},
): Promise<{ now: Temporal.Instant; schedules: ScheduleView[] }> {
  const rows = await sql<(ScheduleView & { now: Date })[]>`
    with clock as materialized (select clock_timestamp() as now)
    select clock.now, s.*
      from clock left join lateral (
        select s.id, d.name as job_name, s.schedule_id, s.schedule_type, s.schedule_value, s.timezone, s.misfire, s.dst_gap,
               s.dst_overlap, s.exclude, s.jitter_seconds, s.args_json, d.default_args_json, s.enabled and d.enabled as enabled,
               case when d.paused_at is not null then d.paused_by else s.paused_by end as paused_by,
               case when d.paused_at is not null then d.paused_reason else s.paused_reason end as paused_reason,
               coalesce(d.paused_at, s.paused_at) as paused_at, d.paused_at is not null as job_paused,
               (select jsonb_build_object('id', r.id, 'state', r.state, 'scheduled_for', r.scheduled_for)
                  from job_run r where r.job_definition_id = d.id and r.job_schedule_id = s.id
                 order by r.scheduled_for desc limit 1) as last_run
          from job_schedule s join job_definition d on d.id = s.job_definition_id and d.removed_at is null
         where ${of.job_name ?? null}::text is null or d.name = ${of.job_name ?? null}
         order by d.name, s.schedule_id) s on true`;
  const [first] = rows;
  return {
    now: (first as { now: Date }).now.toTemporalInstant(),
    schedules: rows.filter(({ id }) => id !== null).map(({ now: _, ...schedule }) => schedule),
  };
}
