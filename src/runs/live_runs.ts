/**
 * What goes on: ASSIGNED and RUNNING runs, counted by their worker and by their definition, and who there is to carry more. All of it
 * changes with each run, and a look by the leader asks for it several ways, so the runs are read once for all of them.
 */
import type { Db } from "../postgres/connection.ts";

/** A part of a `with`: live(worker_id, job_definition_id, runs, ahead, assigned_at), one of the first two is null in each row. */
export function live(sql: Db) {
  return sql`live as materialized (
      select assigned_worker_id as worker_id, job_definition_id, count(*)::int as runs,
             (count(*) filter (where state = 'ASSIGNED' and due_at > clock_timestamp()))::int as ahead,
             min(greatest(assigned_at, due_at)) filter (where state = 'ASSIGNED') as assigned_at
        from job_run where state in ('ASSIGNED', 'RUNNING') group by grouping sets ((assigned_worker_id), (job_definition_id)))`;
}

/** Workers whose lease holds, with their nodes and what they carry: a query of WorkerRow & { node: NodeRow }, beside `live`. */
export function workersAlive(sql: Db) {
  return sql`
    select w.worker_id, w.node_id, w.state, w.grpc_host, w.grpc_port, w.tls_fingerprint, w.tls_former_fingerprint, w.slots,
           coalesce(l.runs - l.ahead, 0) as load, coalesce(l.ahead, 0) as ahead,
           json_build_object('node_id', n.node_id, 'is_active', n.is_active, 'status', n.status, 'labels', n.labels,
                             'max_concurrent', n.max_concurrent, 'left_behind', ${leftBehind(sql)},
                             'problem', n.check_result->>'problem', 'failed', n.check_result->'failed',
                             'checked', n.checked_at is not null, 'inactive_by', n.inactive_by,
                             'inactive_reason', n.inactive_reason) as node
      from worker w join node n using (node_id) left join live l on l.worker_id = w.worker_id
     where w.state <> 'DEAD' and w.lease_until > (select clock_timestamp())
     order by w.worker_id`;
}

/** Runs of workers whose lease is over, of a node with a limit: they count until they are taken from them. */
function leftBehind(sql: Db) {
  return sql`case when n.max_concurrent is null then 0 else (
    select coalesce(sum(o.runs), 0)::int from live o join worker x on x.worker_id = o.worker_id
     where x.node_id = n.node_id and (x.state = 'DEAD' or x.lease_until <= (select clock_timestamp()))) end`;
}

/** What became of runs that were given away, beside `live`: stuck, if one did not start in time or its worker is detached; lost, if it is dead. */
export function troubles(sql: Db, reassign_after_ms: number) {
  return sql`
    select coalesce(bool_or(l.assigned_at < clock_timestamp() - ${reassign_after_ms} * interval '1 ms'
                            or (w.state = 'DETACHED' and l.assigned_at is not null)), false) as stuck,
           coalesce(bool_or(w.worker_id is null), false) as lost
      from live l left join worker w on w.worker_id = l.worker_id and w.state <> 'DEAD' where l.worker_id is not null`;
}
