/**
 * Which runs may start now, in the order in which they do: priority, due time, id. Only the leader asks, so the cost
 * does not grow with the number of workers, and it never asks for more than there are free slots.
 */
import type { Db } from "./db.ts";

export interface Candidate {
  job_run_id: number;
  version: number;
  node: string | null;
  serial_key: string | null;
  digest: string;
}

/** `nodes`: those with a free slot; a run that is pinned to another waits without being in anybody's way. */
export async function candidates(sql: Db, ask: { most: number; nodes: string[] }): Promise<Candidate[]> {
  const rows = await sql<Candidate[]>`
    select r.id as job_run_id, r.version, r.node, r.serial_key, d.digest
      from job_run r join job_definition d on d.id = r.job_definition_id
     where r.state in ('PENDING', 'RETRYING', 'ORPHANED') and not r.held and r.due_at <= clock_timestamp()
       and r.cancel_requested_at is null and (r.node is null or r.node = any(${ask.nodes}))
       and (r.serial_key is null or (
         not exists (select from job_run o where o.serial_key = r.serial_key and o.id <> r.id
                      and o.state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED'))
         and not exists (select from job_run o where o.serial_key = r.serial_key and o.state = 'PENDING'
                      and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) and o.due_at <= clock_timestamp()
                      and r.state = 'PENDING')))
     order by r.priority, r.due_at, r.id
     limit ${ask.most}`;
  return [...rows];
}
