/**
 * Health of nodes: which are due for a check, and what it found.
 *
 *   unavailable (new) --its check passes--> available <--checks--> busy, unavailable
 *
 * `status` is what the last check said, and only the leader writes it; `is_active = false` (maintenance) is an operator's, and such
 * a node is checked only when somebody asks. Its end forgets what was found before (a trigger does): whatever was done to
 * the node may have broken it. A node that is full is not written down as busy: capacity is counted from rows. A check is due at `next_check_at`. Whoever wants one sooner (a worker that comes or goes, an operator) sets that to now;
 * a result that arrives after such a wish is kept, and the node is checked again.
 */
import type { CheckPart } from "./check_part.ts";
import { type Actor, recordAudit } from "../access/audit.ts";
import { type Db, type Fragment, json, type Sql } from "../postgres/connection.ts";
import { fence, fenceBeside, type Term } from "./leadership.ts";
import type { NodeRow, WorkerAddress } from "./workers.ts";

export interface CheckResult {
  /** Who was asked; null: there is nobody. */
  worker_id: string | null;
  /** The first part that failed, with what it said; null: none. */
  problem: string | null;
  /** That part itself. */
  failed?: CheckPart;
  parts: CheckPart[];
}

export interface DueCheck {
  node_id: string;
  /** The wish that this check answers. */
  due: string;
  /** Its living workers, those that take work before. */
  workers: (WorkerAddress & {
    /** On another machine than the leader. */
    elsewhere: boolean;
  })[];
}

const NODES_AT_ONCE = 100;

export async function dueChecks(sql: Db): Promise<DueCheck[]> {
  return await sql<DueCheck[]>`
    select n.node_id, n.next_check_at::text as due,
           coalesce((select json_agg(json_build_object('worker_id', w.worker_id, 'node_id', w.node_id, 'grpc_host', w.grpc_host,
                                                       'grpc_port', w.grpc_port, 'tls_fingerprint', w.tls_fingerprint,
                                                       'tls_former_fingerprint', w.tls_former_fingerprint,
                                                       'elsewhere', w.host <> '' and exists (
                                                         select from leader_term t join worker l using (worker_id)
                                                          where l.host not in ('', w.host)))
                            order by w.state = 'ACTIVE' desc, w.started_at desc)
                       from worker w where w.node_id = n.node_id and w.state <> 'DEAD' and w.lease_until > clock_timestamp()),
                    '[]') as workers
      from node n where n.next_check_at <= clock_timestamp() order by n.next_check_at limit ${NODES_AT_ONCE}`;
}

export interface CheckInterval {
  check_seconds: number;
  retry_seconds: number;
  retry_count: number;
  recheck_seconds: number;
}

export interface NodeVerdict {
  node_id: string;
  due: string;
  status: NodeRow["status"];
  result: CheckResult;
}

/**
 * Writes what a check found and when the next is due. A node without workers waits for one to come. Undefined: nothing was
 * written and the check stays due, since the term is over, or a node where nobody was alive has a worker that is not dead: it
 * came meanwhile, or was cut off from Postgres and either renews its lease, of which no check comes, or is buried.
 */
export async function recordCheck(
  sql: Db,
  term: Term,
  { node_id, due, status, result }: NodeVerdict,
  pace: CheckInterval,
): Promise<{ status_was: NodeRow["status"]; failed_checks: number } | undefined> {
  const nobody = result.worker_id === null;
  const [row] = await sql<{ status_was: NodeRow["status"]; failed_checks: number }[]>`
    with ${fence(sql, term)},
    was as (
      select n.node_id, n.status, case when ${status}::text = 'available' then 0 else n.failed_checks + 1 end as failed
        from node n, fence where n.node_id = ${node_id}
         and not (${nobody}::boolean and exists (
               select from worker w where w.node_id = n.node_id and w.state <> 'DEAD')))
    update node n set status = ${status}, check_parts = null, check_result = ${
    json(sql, result)
  }, checked_at = clock_timestamp(),
           failed_checks = was.failed, status_at = case when was.status = ${status} then n.status_at else clock_timestamp() end,
           next_check_at = case
             when n.next_check_at::text <> ${due} then n.next_check_at
             when ${nobody}::boolean or not n.is_active then 'infinity'
             else clock_timestamp() + ${until(sql, sql`was.failed`, pace)} end
      from was where n.node_id = was.node_id
    returning was.status as status_was, was.failed as failed_checks`;
  return row;
}

function until(sql: Db, failed_checks: Fragment, pace: CheckInterval) {
  return sql`interval '1 second' * case when ${failed_checks} = 0 then ${pace.check_seconds}::float8
               when ${failed_checks} <= ${pace.retry_count}::int then ${pace.retry_seconds}::float8 else ${pace.recheck_seconds}::float8 end`;
}

/** Checks that were planned at a slower pace than this one come sooner; how many. */
export async function keepPace(sql: Db, term: Term, pace: CheckInterval): Promise<number> {
  const rows = await sql`
    with ${fenceBeside(sql, term)}
    update node n set next_check_at = n.checked_at + ${until(sql, sql`n.failed_checks`, pace)} from fence
     where n.is_active and n.next_check_at > clock_timestamp() and n.next_check_at < 'infinity'
       and n.next_check_at > n.checked_at + ${until(sql, sql`n.failed_checks`, pace)} returning 1`;
  return rows.length;
}

/** An operator's wish to have it checked now, by which its answer is known, audited in the same statement. Undefined: no such node. */
export async function requestCheck(sql: Db, node_id: string, by: Actor): Promise<string | undefined> {
  const [row] = await sql<{ due: string }[]>`
    with asked as (
      update node set next_check_at = clock_timestamp(), check_parts = null where node_id = ${node_id}
      returning node_id, next_check_at::text as due),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${by.actor}, 'node.test', 'node', node_id, ${by.reason} from asked)
    select due, pg_notify('scheduler', 'check') from asked`;
  return row?.due;
}

/** A part of a check under way, said by the worker that makes it: only for those who look on, and gone with the result. */
export async function noteCheckPart(sql: Db, node_id: string, part: CheckPart): Promise<void> {
  await sql`update node set check_parts = coalesce(check_parts, '[]') || ${
    json(sql, [part])
  } where node_id = ${node_id}`;
}

/** The parts of the check under way that have come so far. */
export async function readCheckParts(sql: Db, node_id: string): Promise<CheckPart[]> {
  const [row] = await sql<
    { check_parts: CheckPart[] | null }[]
  >`select check_parts from node where node_id = ${node_id}`;
  return row?.check_parts ?? [];
}

/** Whether a check that began after that wish has been written down, or none will be. */
export async function isAnswered(sql: Db, node_id: string, due: string): Promise<boolean> {
  const rows = await sql`
    select 1 from node where node_id = ${node_id} and (next_check_at::text = ${due} or next_check_at <= clock_timestamp())`;
  return rows.length === 0;
}

export interface NodeListing extends Omit<NodeRow, "checked"> {
  /** Workers alive on it. */
  workers: number;
  /** Runs ASSIGNED to its workers or RUNNING on them, also on one whose lease is over, until they are taken from it. */
  load: number;
  checked_at: Date | null;
  /** Null: only when a worker of it comes, after its maintenance, or when somebody asks. */
  next_check_at: Date | null;
  /** A check is due or under way. */
  checking: boolean;
  failed_checks: number;
  check_result: CheckResult | null;
}

/** For people: all nodes that were ever there, with the status that holds now: one that is full is busy. */
export async function listNodes(sql: Db): Promise<NodeListing[]> {
  return await sql<NodeListing[]>`
    with live as materialized (
      select assigned_worker_id as worker_id, count(*)::int as runs from job_run where state in ('ASSIGNED', 'RUNNING') group by 1)
    select n.node_id, n.is_active, case when n.status = 'available' and l.load >= n.max_concurrent then 'busy' else n.status end as status,
           n.labels, n.max_concurrent,
           case when n.status = 'available' and l.load >= n.max_concurrent then 'full: ' || l.load || ' of ' || n.max_concurrent
                else n.check_result->>'problem' end as problem,
           n.inactive_by, n.inactive_reason, l.load,
           (select count(*) from worker w where w.node_id = n.node_id and w.state <> 'DEAD' and w.lease_until > clock_timestamp())::int as workers, n.checked_at,
           case when n.is_active and n.next_check_at < 'infinity' then n.next_check_at end as next_check_at,
           n.next_check_at <= clock_timestamp() as checking, n.failed_checks, n.check_result
      from node n cross join lateral (
        select coalesce(sum(live.runs), 0)::int as load from live join worker w using (worker_id) where w.node_id = n.node_id) l
     order by n.node_id`;
}

/** What an operator changes of a node; what is not given stays. */
export interface NodeChange {
  /** Null: no limit but its workers' slots. */
  max_concurrent?: number | null;
  /** An empty value takes the label away. */
  labels?: Record<string, string>;
  maintenance?: boolean;
}

/**
 * Changes a node, audited in the same statement; false: there is none of that name. After maintenance it is checked at once, and takes no
 * work before that has passed.
 */
export async function changeNode(sql: Db, node_id: string, change: NodeChange, by: Actor): Promise<boolean> {
  const { maintenance = null, max_concurrent, labels = {} } = change;
  const rows = await sql`
    with was as (select * from node where node_id = ${node_id} for update),
    given as (
      select coalesce(jsonb_object_agg(key, value) filter (where value <> ''), '{}') as added,
             coalesce(array_agg(key) filter (where value = ''), '{}') as removed
        from jsonb_each_text(${json(sql, labels)})),
    moved as (
      update node n set
             max_concurrent = case when ${max_concurrent !== undefined}::boolean then ${
    max_concurrent ?? null
  }::int else n.max_concurrent end,
             labels = (n.labels || given.added) - given.removed,
             is_active = coalesce(not ${maintenance}::boolean, n.is_active),
             inactive_by = case ${maintenance}::boolean when true then ${by.actor} when false then null else n.inactive_by end,
             inactive_reason = case ${maintenance}::boolean when true then ${by.reason} when false then null else n.inactive_reason end
        from was, given where n.node_id = was.node_id returning n.*)
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    select ${by.actor}, 'node.set', 'node', moved.node_id,
           jsonb_build_object('is_active', was.is_active, 'max_concurrent', was.max_concurrent, 'labels', was.labels),
           jsonb_build_object('is_active', moved.is_active, 'max_concurrent', moved.max_concurrent, 'labels', moved.labels), ${by.reason}
      from moved, was
    returning pg_notify('scheduler', 'node')`;
  return rows.length > 0;
}

/**
 * Forgets a node that is gone for good, with its workers, which are all DEAD; audited. Asked and done under the node's lock, so
 * that a worker which comes meanwhile finds it there or makes it anew. `carries`: a run of theirs has no other end yet.
 */
export async function removeNode(
  sql: Sql,
  node_id: string,
  by: Actor,
): Promise<"removed" | "unknown" | { lives: string } | { carries: number }> {
  return await sql.begin(async (tx) => {
    const [node] = await tx`select is_active, max_concurrent, labels from node where node_id = ${node_id} for update`;
    if (!node) return "unknown";
    const [left] = await tx<{ worker_id: string | null; job_run_id: number | null }[]>`
      select (select worker_id from worker where node_id = ${node_id} and state <> 'DEAD' limit 1) as worker_id,
             (select r.id from worker w join job_run r on r.assigned_worker_id = w.worker_id and r.state in ('ASSIGNED', 'RUNNING')
               where w.node_id = ${node_id} limit 1) as job_run_id`;
    if (left?.worker_id) return { lives: left.worker_id };
    if (left?.job_run_id) return { carries: left.job_run_id };
    await tx`delete from worker where node_id = ${node_id}`;
    await tx`delete from node where node_id = ${node_id}`;
    await recordAudit(tx, { ...by, action: "node.remove", target_type: "node", target_id: node_id, before: node });
    return "removed";
  }) as "removed" | "unknown" | { lives: string } | { carries: number };
}
