/**
 * Nodes and the workers on them.
 *
 *   ACTIVE <-> DRAINING -> DEAD        ACTIVE, DRAINING -> DETACHED -> DEAD (detach.ts)
 *
 * A worker holds a lease here, by the database's clock. It renews it itself, unless it is DETACHED: then only the yes of a
 * leader or subleader does (detach.ts). When it is over, the leader marks the worker DEAD.
 * DEAD is final: the process that finds itself dead kills its bodies, proves them gone, and comes back under a new id.
 * Only after that mark are the runs of a lost worker given to others.
 */
import { monotonicMs } from "../platform/timers.ts";
import type { Actor } from "../access/audit.ts";
import { type Db, json } from "../postgres/connection.ts";
import type { CheckPart } from "./check_part.ts";
import { fence, type Term } from "./leadership.ts";
import { type OtherCode, otherCode } from "./other_code.ts";
import { type Settings, settingsOf } from "../settings/settings.ts";

export type WorkerState = "ACTIVE" | "DRAINING" | "DETACHED" | "DEAD";

export interface Registration {
  worker_id: string;
  node_id: string;
  pid: number;
  /** The kernel's start time of the pid; with it the pid names one process for ever. */
  process_started: string;
  /** Whose pids these are; empty where that cannot be told, and then nobody may certify its death. */
  host: string;
  grpc_host: string;
  grpc_port: number;
  tls_fingerprint: string;
  slots: number;
  version: string;
}

/** The highest number in a worker's id so far, 0 when there was none: for numbering the next one. */
export async function highestWorkerNumber(sql: Db): Promise<number> {
  const [row] = await sql<{ highest: number }[]>`
    select coalesce(max(substring(worker_id from '^w([0-9]{1,15})-')::bigint), 0) as highest from worker`;
  return row?.highest ?? 0;
}

/**
 * Adds a worker, and its node when it is new: unavailable until its first check passes (node_health.ts), which is due at once,
 * as it is whenever a worker comes to a node. Gives until when its lease is trusted, on the local monotonic clock. Asking
 * again, since a reply was lost, is the same. Undefined: the id is used up, by this process too when it was declared dead
 * before it heard that it is there.
 */
export async function registerWorker(sql: Db, me: Registration, lease_ms: number): Promise<number | undefined> {
  const asked_at_ms = monotonicMs();
  const rows = await sql`
    with host as (
      insert into node as n (node_id) values (${me.node_id})
      on conflict (node_id) do update set next_check_at = case when n.is_active then clock_timestamp() else n.next_check_at end
      returning node_id, pg_notify('scheduler', 'node'))
    insert into worker (worker_id, node_id, lease_until, pid, process_started, host, grpc_host, grpc_port, tls_fingerprint, slots, version, features)
    values (${me.worker_id}, ${me.node_id}, clock_timestamp() + ${lease_ms} * interval '1 ms', ${me.pid}, ${me.process_started},
            ${me.host}, ${me.grpc_host}, ${me.grpc_port}, ${me.tls_fingerprint}, ${me.slots}, ${me.version}, ${FEATURES}::text[])
    on conflict (worker_id) do update set lease_until = excluded.lease_until, seen_at = clock_timestamp()
      where worker.state in ('ACTIVE', 'DRAINING') and worker.node_id = excluded.node_id and worker.pid = excluded.pid
        and worker.process_started = excluded.process_started
    returning 1`;
  return rows.length > 0 ? asked_at_ms + lease_ms : undefined;
}

/** What workers of this version can do that some of an older one cannot: a run that has steps is given to no other (assignRuns). */
const FEATURES = ["steps"];

/** Whether a node is one that a run names: any, by its name, or by labels such as "gpu=a100,zone=tokyo". */
export function isNamed(selector: string, node: Pick<NodeRow, "node_id" | "labels">): boolean {
  if (selector === "") return true;
  if (!selector.includes("=")) return selector === node.node_id;
  return selector.split(",").every((pair) => {
    const [label = "", value = ""] = pair.split("=", 2).map((part) => part.trim());
    return Object.hasOwn(node.labels, label) && String(node.labels[label]) === value;
  });
}

/** All nodes that were ever there, by name, with their labels. */
export async function readLabels(sql: Db): Promise<Pick<NodeRow, "node_id" | "labels">[]> {
  return await sql<Pick<NodeRow, "node_id" | "labels">[]>`select node_id, labels from node order by node_id`;
}

/** What a template such as "{host}" names for these args, each once; empty: any node. */
export async function fillSelectors(sql: Db, template: string, args: unknown[]): Promise<string[]> {
  const rows = await sql<{ node: string }[]>`
    select distinct fill_template(${template}, a) as node from jsonb_array_elements(${json(sql, args)}) a`;
  return rows.map((row) => row.node);
}

/** A run of mine as Postgres has it. */
export interface OwnRun {
  job_run_id: number;
  attempt: number;
  state: "ASSIGNED" | "RUNNING";
  cancel_requested: boolean;
  command_name: string;
  digest: string;
  /** By the database's clock, in microseconds since 1970, if it lies ahead; 0: now. */
  due_unix_us: number;
  priority: number;
}

/** Where a worker is reached, and the certificate by which it is known. */
export interface WorkerAddress {
  worker_id: string;
  node_id: string;
  grpc_host: string;
  grpc_port: number;
  tls_fingerprint: string;
  tls_former_fingerprint: string | null;
}

export interface Renewal {
  state: WorkerState;
  /** Monotonic: until then the lease holds, unless renewed again. Counted from before the request left. Undefined: it was not renewed, since I am DETACHED. */
  lease_until_ms: number | undefined;
  /** Who detached me and why. */
  detached_by: string | null;
  detach_reason: string | null;
  /** The newest epoch that Postgres knows. */
  epoch: number;
  /** Whether somebody leads: a term holds. */
  led: boolean;
  /** By the database's clock. */
  now: Date;
  /** The leader first, then some of the subleaders, those of other nodes before: whom to ask when Postgres is out of reach. */
  answerers: WorkerAddress[];
  /** The live settings. */
  settings: Settings;
  /** Everything that Postgres says is mine: what the worker must be running, and nothing else. */
  runs: OwnRun[];
}

/** What may have changed of a worker since it registered: a live setting, a certificate that was rotated, its pins. */
export interface Renewed {
  lease_ms: number;
  slots: number;
  tls_fingerprint: string;
  tls_former_fingerprint: string | null;
  tls_trust_digest: string;
  /** Until when the certificate is good; null: a mesh identifies. */
  tls_not_after?: Date | null;
  /** How far this machine's clock was ahead of the database's when last asked. */
  clock_skew_ms?: number | null;
  subleader: boolean;
}

/** More than these are not asked; each of them is asked only while those before do not answer. */
const MOST_ANSWERERS = 3;

/** Renews my lease, unless I am DETACHED, and reads what is mine and the live settings, as one statement. Undefined: I am dead or was never there. */
export async function renewWorker(sql: Db, worker_id: string, my: Renewed): Promise<Renewal | undefined> {
  const asked_at_ms = monotonicMs();
  type Row = Omit<Renewal, "lease_until_ms" | "runs" | "answerers" | "settings"> & {
    settings: Record<string, unknown> | null;
    runs: OwnRun[] | null;
    answerers: WorkerAddress[] | null;
  };
  const [row] = await sql<Row[]>`
    with me as (
      update worker set slots = ${my.slots}, subleader = ${my.subleader},
             tls_fingerprint = ${my.tls_fingerprint}, tls_former_fingerprint = ${my.tls_former_fingerprint},
             tls_trust_digest = ${my.tls_trust_digest}, tls_not_after = ${my.tls_not_after ?? null},
             clock_skew_ms = ${my.clock_skew_ms ?? null}, seen_at = clock_timestamp(),
             lease_until = case when state = 'DETACHED' then lease_until else clock_timestamp() + ${my.lease_ms} * interval '1 ms' end
       where worker_id = ${worker_id} and state <> 'DEAD' returning worker_id, node_id, state, detached_by, detach_reason),
    answerers as (
      select w.worker_id, w.node_id, w.grpc_host, w.grpc_port, w.tls_fingerprint, w.tls_former_fingerprint
        from me, leader_term t, worker w
       where w.worker_id <> me.worker_id and w.state in ('ACTIVE', 'DRAINING') and w.lease_until > clock_timestamp()
         and (w.subleader or (w.worker_id = t.worker_id and t.lease_until > clock_timestamp()))
       order by w.worker_id = t.worker_id desc, w.node_id = me.node_id, random() limit ${MOST_ANSWERERS})
    select me.state, me.detached_by, me.detach_reason, t.epoch, t.lease_until > clock_timestamp() as led, clock_timestamp() as now,
      (select json_agg(answerers) from answerers) as answerers,
      (select json_object_agg(name, value) from scheduler_settings) as settings,
      (select json_agg(json_build_object('job_run_id', r.id, 'attempt', r.attempt, 'state', r.state,
              'cancel_requested', r.cancel_requested_at is not null and r.ending is null, 'command_name', d.command_name, 'digest', d.digest, 'priority', r.priority,
              'due_unix_us', ${dueUnix(sql)}))
         from job_run r join job_definition d on d.id = r.job_definition_id
        where r.assigned_worker_id = me.worker_id and r.state in ('ASSIGNED', 'RUNNING')) as runs
      from me, leader_term t`;
  if (!row) return undefined;
  const lease_until_ms = row.state === "DETACHED" ? undefined : asked_at_ms + my.lease_ms;
  const { runs, answerers, settings } = row;
  return { ...row, runs: runs ?? [], answerers: answerers ?? [], settings: settingsOf(settings), lease_until_ms };
}

/** ACTIVE <-> DRAINING. False: the worker is detached or dead. */
export async function setDraining(sql: Db, worker_id: string, draining: boolean): Promise<boolean> {
  const rows = await sql`
    update worker set state = ${draining ? "DRAINING" : "ACTIVE"}
     where worker_id = ${worker_id} and state in ('ACTIVE', 'DRAINING') returning 1`;
  return rows.length > 0;
}

/**
 * An operator's wish: workers, named by their own id or by their node's, take no new runs, or take them again. The leader
 * is woken, gives them nothing from now on, and tells them; without one they learn of it with their next renewal. Audited in the same statement.
 */
export async function requestDrain(
  sql: Db,
  name: string,
  wish: Actor & { draining: boolean },
): Promise<{ worker_id: string; node_id: string }[]> {
  const [from, to] = wish.draining ? ["ACTIVE", "DRAINING"] : ["DRAINING", "ACTIVE"];
  return await sql<{ worker_id: string; node_id: string }[]>`
    with moved as (
      update worker set state = ${to} where (worker_id = ${name} or node_id = ${name}) and state = ${from} returning worker_id, node_id),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${wish.actor}, ${wish.draining ? "worker.drain" : "worker.undrain"}, 'worker', worker_id,
             jsonb_build_object('state', ${from}::text), jsonb_build_object('state', ${to}::text), ${wish.reason} from moved),
    rung as (select pg_notify('scheduler', 'drain') from moved limit 1)
    select worker_id, node_id from moved left join rung on true`;
}

/** The last word of a worker that stops well: its lease is over, and its id is never used again. */
export async function retireWorker(sql: Db, worker_id: string): Promise<void> {
  await sql`
    with dead as (
      update worker set state = 'DEAD', lease_until = '-infinity', ended_at = clock_timestamp()
       where worker_id = ${worker_id} and state <> 'DEAD' returning node_id),
    ${nodeChecks(sql)}
    select 1`;
}

/** Whoever marks workers DEAD has their nodes checked, in the same statement. */
function nodeChecks(sql: Db) {
  return sql`
    checks as (update node n set next_check_at = clock_timestamp() where n.node_id in (select node_id from dead) and n.is_active)`;
}

/** Asks for a check of a node: a worker of it cannot do its work. */
export async function checkSoon(sql: Db, node_id: string): Promise<void> {
  await sql`
    with soon as (update node set next_check_at = clock_timestamp() where node_id = ${node_id} and is_active and next_check_at > clock_timestamp() returning 1)
    select pg_notify('scheduler', 'node') from soon`;
}

/**
 * The same said by a sibling that has proven its process and all its bodies gone: so no lease is waited for. Only of that
 * very process; nothing that it sent before it died can undo this. Rings the leader. False: it was said before, or the row
 * is another process'.
 */
export async function certifyDeath(
  sql: Db,
  of: Pick<Registration, "worker_id" | "pid" | "process_started" | "host">,
): Promise<boolean> {
  const rows = await sql`
    with dead as (
      update worker set state = 'DEAD', lease_until = '-infinity', ended_at = coalesce(ended_at, clock_timestamp())
       where worker_id = ${of.worker_id} and pid = ${of.pid} and process_started = ${of.process_started}
         and host = ${of.host} and host <> '' and lease_until > '-infinity'
      returning worker_id, node_id),
    ${nodeChecks(sql)},
    rung as (select pg_notify('scheduler', 'worker') from dead)
    select worker_id from dead left join rung on true`;
  return rows.length > 0;
}

/** Undefined: no such worker was ever here. */
export async function workerState(sql: Db, worker_id: string): Promise<WorkerState | undefined> {
  const [row] = await sql<{ state: WorkerState }[]>`select state from worker where worker_id = ${worker_id}`;
  return row?.state;
}

/** Marks workers DEAD whose lease is over, and has their nodes checked. Only a leader that itself was in contact for a whole lease may ask this. */
export async function buryWorkers(sql: Db, term: Term): Promise<string[]> {
  const rows = await sql<{ worker_id: string }[]>`
    with ${fence(sql, term)},
    dead as (
      update worker w set state = 'DEAD', dead_epoch = fence.epoch, ended_at = clock_timestamp()
        from fence where w.state <> 'DEAD' and w.lease_until < clock_timestamp() returning w.worker_id, w.node_id),
    ${nodeChecks(sql)}
    select worker_id from dead`;
  return rows.map((row) => row.worker_id);
}

export interface WorkerRow {
  worker_id: string;
  node_id: string;
  state: WorkerState;
  grpc_host: string;
  grpc_port: number;
  tls_fingerprint: string;
  tls_former_fingerprint: string | null;
  slots: number;
  /** Runs that are ASSIGNED to it or RUNNING on it, counted from their rows. */
  load: number;
  /** Runs that it was given ahead of their time, which take no slot yet. */
  ahead: number;
}

/** A node as far as giving it work goes. */
export interface NodeRow {
  node_id: string;
  is_active: boolean;
  status: "available" | "busy" | "unavailable";
  labels: Record<string, string>;
  max_concurrent: number | null;
  /** With a limit: runs that workers of it have whose lease is over, until those are taken from them. */
  left_behind: number;
  /** What its last check found wrong; null: nothing, or it was never checked. */
  problem: string | null;
  /** The part of the check that says so, for whoever says it in other words. */
  failed?: CheckPart | null;
  checked: boolean;
  inactive_by: string | null;
  inactive_reason: string | null;
}

/** When run `r` is due, in microseconds since 1970, if that lies ahead; else 0. */
export function dueUnix(sql: Db) {
  return sql`case when r.due_at > clock_timestamp() then extract(epoch from r.due_at) * 1000000 else 0 end::bigint`;
}

/** When a worker was marked DEAD or left; undefined while it is neither. */
export async function workerEnded(sql: Db, worker_id: string): Promise<Date | undefined> {
  const [row] = await sql<{ ended_at: Date | null }[]>`
    select ended_at from worker where worker_id = ${worker_id} and state = 'DEAD'`;
  return row?.ended_at ?? undefined;
}

export interface WorkerListing extends Omit<WorkerRow, "ahead"> {
  pid: number;
  role: "leader" | "subleader" | "worker";
  detached_by: string | null;
  detach_reason: string | null;
  version: string;
  started_at: Date;
  /** When it last renewed its lease itself. */
  seen_at: Date;
  /** The same for all that let in the same peers. */
  tls_trust_digest: string | null;
  /** Until when its certificate is good; null: a mesh identifies, or it has not told yet. */
  tls_not_after: Date | null;
  /** How far the clock of its machine is ahead of the database's; null: it has not told yet. */
  clock_skew_ms: number | null;
  lease_seconds_left: number;
  /** Jobs of which it has other files than were synced; null: it has not compared them yet. */
  other_jobs: number | null;
  /** The first of them, by name. */
  other_code: OtherCode[];
}

/** For people: all workers that are not dead, who leads, and how long their leases last. */
export async function listWorkers(sql: Db): Promise<WorkerListing[]> {
  return await sql<WorkerListing[]>`
    ${listing(sql)} where w.state <> 'DEAD' and w.lease_until > clock_timestamp() order by w.node_id, w.started_at`;
}

/** One of them, also after its end. */
export async function readWorker(
  sql: Db,
  worker_id: string,
): Promise<WorkerListing & { ended_at: Date | null } | undefined> {
  const [row] = await sql<(WorkerListing & { ended_at: Date | null })[]>`
    ${listing(sql, sql`, w.ended_at`)} where w.worker_id = ${worker_id}`;
  return row;
}

function listing(sql: Db, more: ReturnType<Db> = sql``) {
  return sql`
    select w.worker_id, w.node_id, w.pid,
           case when t.worker_id = w.worker_id and t.lease_until > clock_timestamp() then 'leader'
                when w.subleader then 'subleader' else 'worker' end as role,
           w.state, w.detached_by, w.detach_reason,
           (select count(*)::int from job_run r where r.assigned_worker_id = w.worker_id and r.state in ('ASSIGNED', 'RUNNING')) as load,
           w.slots, w.grpc_host, w.grpc_port, w.tls_fingerprint, w.tls_former_fingerprint,
           w.tls_trust_digest, w.tls_not_after, w.clock_skew_ms, w.version, w.started_at, w.seen_at,
           greatest(0, extract(epoch from w.lease_until) - extract(epoch from clock_timestamp()))::float8 as lease_seconds_left,
           case when w.code_seen_at is not null then c.jobs end as other_jobs, coalesce(c.first, '[]') as other_code ${more}
      from leader_term t, worker w cross join lateral (${otherCode(sql)}) c`;
}
