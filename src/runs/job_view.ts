/** Jobs as people look at them: whether they are on, what waits and runs of them, when they come next. Reads only. */
import type { Permissions } from "../job.ts";
import type { Db } from "../postgres/connection.ts";
import { newestOf } from "./run_scans.ts";
import { inStates, type RunState, WAITING } from "./run_states.ts";

export interface JobView {
  id: number;
  name: string;
  description: string;
  command_name: string;
  type: "time" | "event" | "demand";
  /** Off: it gets no slots and no events; what is enqueued still runs. */
  enabled: boolean;
  removed_at: Date | null;
  paused_at: Date | null;
  paused_by: string | null;
  paused_reason: string | null;
  event_types: string[];
  priority: number;
  permissions: Permissions;
  /** The next slot of its schedules that are on and not paused. */
  next_slot: Date | null;
  schedules: number;
  paused_schedules: number;
  /** The newest one that has come due. */
  last_run:
    | { id: number; state: RunState; due_at: string; started_at: string | null; finished_at: string | null }
    | null;
  waiting: number;
  /** Runs that have begun and wait for a time, a message or another run. */
  suspended: number;
  running: number;
  /** Options that are set beside the file. */
  overrides: number;
  /** When and by which sync it was changed last; without the rest where that was before syncs were kept. */
  synced_at: Date;
  synced_by: string | null;
  machine: string | null;
  git_commit: string | null;
  /** Whether the checkout differed from the commit. */
  git_dirty: boolean | null;
}

/**
 * All jobs by name, or the one of this name. What waits is counted up to `most_counted` of each (so that a page is as fast with
 * a million of them), and by default in full.
 */
export async function listJobs(sql: Db, name: string | null = null, most_counted = 2_000_000_000): Promise<JobView[]> {
  return await sql<JobView[]>`
    select d.id, d.name, d.description, d.command_name, d.type, d.enabled, d.removed_at, d.paused_at, d.paused_by, d.paused_reason,
           d.event_types, d.priority, d.permissions, d.synced_at, y.synced_by, y.machine, y.git_commit, y.git_dirty,
           least(w.ready + w.held, ${most_counted})::int as waiting, w.suspended::int as suspended, coalesce(r.running, 0)::int as running,
           s.next_slot, s.schedules, s.paused_schedules, l.last_run,
           (select count(*) from job_override o where o.job_definition_id = d.id)::int as overrides
      from job_definition d
      left join job_sync y on y.id = d.job_sync_id
      left join (select job_definition_id, count(*) as running,
                        (array_agg(id order by scheduled_for desc) filter (where scheduled_for <= clock_timestamp()))[1] as newest
                   from job_run where state in ('ASSIGNED', 'RUNNING') group by job_definition_id) r on r.job_definition_id = d.id
      cross join lateral (
        select (select count(*) from (select from job_run where job_definition_id = d.id and ${inStates(sql, WAITING)}
                                         and not held limit ${most_counted}) ready) as ready,
               (select count(*) from (select from job_run where job_definition_id = d.id and held and state <> 'SUSPENDED' limit ${most_counted}) held) as held,
               (select count(*) from (select from job_run where job_definition_id = d.id and state = 'SUSPENDED' limit ${most_counted}) suspended)
                 as suspended) w
      cross join lateral (
        select min(next_slot) filter (where enabled and d.enabled and paused_at is null and d.paused_at is null) as next_slot,
               count(*)::int as schedules, (count(*) filter (where paused_at is not null))::int as paused_schedules
          from job_schedule where job_definition_id = d.id) s
      left join lateral (
        select jsonb_build_object('id', id, 'state', state, 'due_at', due_at, 'started_at', started_at, 'finished_at', finished_at) as last_run
          from job_run where id = any(array(${
    newestOf(sql, sql`d.id`, 1)
  }) || r.newest) order by scheduled_for desc limit 1) l on true
     where ${name}::text is null or d.name = ${name} order by d.name`;
}

/** The types of events that start runs, of all jobs that are on. */
export async function listEventTypes(sql: Db): Promise<string[]> {
  const rows = await sql<{ event_type: string }[]>`
    select distinct unnest(event_types) as event_type from job_definition where enabled and removed_at is null order by 1`;
  return rows.map((row) => row.event_type);
}
