/**
 * Which runs may start now, in the order in which they do: priority, due time, id. Only the leader asks, so the cost
 * does not grow with the number of workers, and it never asks for more than there are free slots.
 */
import { type Db, json } from "./db.ts";

export interface Candidate {
  job_run_id: number;
  version: number;
  node: string | null;
  serial_key: string | null;
  digest: string;
  /** Interrupted more often than its job allows: to be quarantined, not started. */
  worn_out: boolean;
}

export interface Room {
  /** Free slots. */
  most: number;
  /** Those with a free slot; a run that is pinned to another waits without being in anybody's way. */
  nodes: string[];
  /** Code that nobody with a free slot has, at a node or (null) at all: such runs are in nobody's way either. */
  without?: { node: string | null; digest: string }[];
}

export async function candidates(sql: Db, room: Room): Promise<Candidate[]> {
  const rows = await sql<Candidate[]>`
    select r.id as job_run_id, r.version, r.node, r.serial_key, d.digest, r.interruptions > d.max_interruptions as worn_out
      from job_run r join job_definition d on d.id = r.job_definition_id
     where r.state in ('PENDING', 'RETRYING', 'ORPHANED') and not r.held and r.due_at <= clock_timestamp()
       and r.cancel_requested_at is null and (r.node is null or r.node = any(${room.nodes}))
       and d.removed_at is null
       and not exists (select from jsonb_to_recordset(${json(sql, room.without ?? [])}) as x(node text, digest text)
                        where x.digest = d.digest and x.node is not distinct from r.node)
       and (r.serial_key is null or (
         not exists (select from job_run o where o.serial_key = r.serial_key and o.id <> r.id
                      and o.state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED'))
         and not exists (select from job_run o where o.serial_key = r.serial_key and o.state = 'PENDING'
                      and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) and o.due_at <= clock_timestamp()
                      and r.state = 'PENDING')))
     order by r.priority, r.due_at, r.id
     limit ${room.most}`;
  return [...rows];
}
