/**
 * A run that is created while nothing else waits, and of which nothing has to be counted, compared or weighed: no limit, rate, resource,
 * key, bulk or node of its own. Its creation names it when it wakes the leader, who may then give it to a worker without looking what else
 * there is (leader/fast_path.ts). What it was named with is a hint; whether it is such a run is asked in the statement that assigns it.
 */
import type { Db, Fragment } from "../postgres/connection.ts";
import { inStates, MAY_START } from "./run_states.ts";

/** What a worker is told of a run. */
export interface AnnouncedRun {
  job_run_id: number;
  command_name: string;
  digest: string;
}

/** The first version of a row, and the number of its first attempt. */
export const FIRST_VERSION = { version: 0, attempt: 1 };

/** A part of a `with` after `bearing`, to be named in a `from`: one row, which wakes the leader with the run that was created. */
export function named(sql: Db): Fragment {
  return sql`named as materialized (
    select count(pg_notify('scheduler', jsonb_build_object('job_run_id', born.id, 'command_name', d.command_name, 'digest', d.digest)::text))
      from born join lined using (id) join job_definition d on d.id = born.job_definition_id
     where not lined.early and not lined.behind and lined.serial_key is null and lined.limit_key is null and coalesce(lined.node, '') = '')`;
}

/** The run that rang; undefined: something else did. Anybody may ring with anything. */
export function announcedRun(what: string): AnnouncedRun | undefined {
  if (!what.startsWith("{")) return undefined;
  try {
    const { job_run_id, command_name, digest } = JSON.parse(what);
    const known = Number.isSafeInteger(job_run_id) && typeof command_name === "string" && typeof digest === "string";
    return known ? { job_run_id, command_name, digest } : undefined;
  } catch {
    return undefined;
  }
}

/** Of run `r` of definition `d`, in the statement that assigns it: that it can be given to this worker without a look at anything else. */
export function nothingElseCounts(sql: Db, worker_id: string): Fragment {
  return sql`r.state is not distinct from 'PENDING' and not r.held and r.due_at <= clock_timestamp()
         and coalesce(r.node, '') = '' and r.serial_key is null and r.limit_key is null and r.bulk_id is null
         and d.removed_at is null and d.concurrency_limit is null and d.rate_count is null and d.resources = '{}'
         and not exists (select from scheduler_settings where name = 'dispatch' and value = '"paused"')
         and not exists (select from job_run o where ${
    inStates(sql, MAY_START, sql`o.state`)
  } and not o.held and o.id <> r.id)
         and exists (
           select from worker w join node n using (node_id)
            where w.worker_id = ${worker_id} and w.lease_until > clock_timestamp()
              and n.is_active and n.status = 'available' and n.max_concurrent is null
              and w.slots > (select count(*) from job_run o where o.assigned_worker_id = w.worker_id and o.state in ('ASSIGNED', 'RUNNING')))`;
}
