/** Jobs as people look at them: whether they are on, what waits and runs of them, when they come next. Reads only. */
import type { Db } from "./db.ts";

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
  event_types: string[];
  priority: number;
  /** The next slot of its schedules that are on. */
  next_slot: Date | null;
  waiting: number;
  running: number;
  /** Options that are set beside the file. */
  overrides: number;
  synced_at: Date;
}

/** All jobs by name, or the one of this name. */
export async function listJobs(sql: Db, name: string | null = null): Promise<JobView[]> {
  return await sql<JobView[]>`
    select d.id, d.name, d.description, d.command_name, d.type, d.enabled, d.removed_at, d.paused_at, d.paused_by, d.event_types,
           d.priority, d.synced_at, coalesce(r.waiting, 0)::int as waiting, coalesce(r.running, 0)::int as running,
           (select min(s.next_slot) from job_schedule s where s.job_definition_id = d.id and s.enabled and d.enabled) as next_slot,
           (select count(*) from job_override o where o.job_definition_id = d.id)::int as overrides
      from job_definition d left join (
        select job_definition_id, count(*) filter (where state not in ('ASSIGNED', 'RUNNING')) as waiting,
               count(*) filter (where state in ('ASSIGNED', 'RUNNING')) as running
          from job_run where state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED') group by job_definition_id) r
        on r.job_definition_id = d.id
     where ${name}::text is null or d.name = ${name} order by d.name`;
}
