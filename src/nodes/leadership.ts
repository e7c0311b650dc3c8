/**
 * Who leads. The one row of `leader_term` decides; Redis only keeps the candidates apart.
 *
 *   free or expired --acquire--> a term of the next epoch --renew--> ... --resign or expiry--> free
 *   held by a dead process --depose--> a term of the next epoch
 *
 * A term is a value with an expiry that its holder trusts less than Postgres does. Nothing a leader does can be called
 * without one, and every statement of a leader starts with the fence: `select ... for share` on the row, in the same
 * statement. FOR SHARE is what makes it a fence: the next leader's update of the row waits for the statement, or the
 * statement finds the row changed and does nothing. A plain sub-select was seen to commit 800 ms after the new epoch.
 *
 * Not promised: that at most one process believes that it leads. Promised: only one can write.
 */
import { monotonicMs } from "../platform/timers.ts";
import type { Actor } from "../access/audit.ts";
import type { Db } from "../postgres/connection.ts";

/** Somebody deleted the row. */
export const NO_LEADER_ROW = "Cannot read leader_term: its row is missing; put it back: " +
  "insert into leader_term (id, epoch, lease_until) select 1, coalesce(max(leader_epoch), 0), '-infinity' from job_run";

/** Shorter than the lease by what a slow clock and a slow reply may cost. */
const MARGIN_MS = 300;

export class Term {
  constructor(
    readonly epoch: number,
    readonly worker_id: string,
    /** On the local monotonic clock, counted from before the request left: a slow reply shortens trust, never lengthens it. */
    readonly trusted_until_ms: number,
    /** Which tick of a leader last renewed the row, counted over all terms. */
    readonly tick = 0,
  ) {}

  static granted(
    epoch: number,
    worker_id: string,
    grant: { asked_at_ms: number; lease_ms: number; tick?: number },
  ): Term {
    const trusted_until_ms = grant.asked_at_ms + grant.lease_ms - Math.min(MARGIN_MS, grant.lease_ms / 4);
    return new Term(epoch, worker_id, trusted_until_ms, grant.tick);
  }

  get trusted(): boolean {
    return monotonicMs() < this.trusted_until_ms;
  }
}

/** The fence, first part of every statement that a leader makes. */
export function fence(sql: Db, term: Term) {
  return sql`fence as materialized (
    select epoch from leader_term where id = 1 and epoch = ${term.epoch} and worker_id = ${term.worker_id} for share)`;
}

/**
 * The fence of what a leader does beside its ticks and may take long, such as counting what ended: the next leader's election waits for
 * it as for the other, and its own renewals do not. FOR KEY SHARE lets pass what changes no column of a unique index; the epoch is
 * one for that (`leader_term_epoch`), and only an election changes it.
 */
export function fenceBeside(sql: Db, term: Term) {
  return sql`fence as materialized (
    select epoch from leader_term where id = 1 and epoch = ${term.epoch} and worker_id = ${term.worker_id} for key share)`;
}

/**
 * The fence of a statement that is right only for what this tick has read, such as how many runs of a key go on. When its
 * connection breaks, Postgres may carry it out after the next tick has read and decided anew; then it does nothing.
 */
export function fenceOfTick(sql: Db, term: Term) {
  return sql`fence as materialized (
    select epoch from leader_term
     where id = 1 and epoch = ${term.epoch} and worker_id = ${term.worker_id} and tick = ${term.tick} for share)`;
}

/**
 * The highest epoch that may be true where Postgres knows `epoch`. A claim beyond it is an error or an attack: believed
 * once, it would use up the numbers, or make workers refuse every leader to come.
 */
export function highestEpoch(epoch: number): number {
  return Math.min(epoch + FAR_AHEAD, Number.MAX_SAFE_INTEGER);
}

const FAR_AHEAD = 1_000_000;

/** The epoch after this one. A restored database must not issue an epoch again that workers already know. */
function nextEpoch(sql: Db, epoch_hint: number) {
  return sql`case when ${epoch_hint} <= epoch + ${FAR_AHEAD} then greatest(epoch, ${epoch_hint}) else epoch end + 1`;
}

/** Takes the leader lock if it is free. `epoch_hint` is the highest epoch seen elsewhere (Redis, other workers). */
export async function acquire(
  sql: Db,
  ask: { worker_id: string; lease_ms: number; epoch_hint: number },
): Promise<Term | undefined> {
  const asked_at_ms = monotonicMs();
  const [row] = await sql<{ epoch: number; tick: number }[]>`
    update leader_term
       set epoch = ${nextEpoch(sql, ask.epoch_hint)}, worker_id = ${ask.worker_id},
           lease_until = clock_timestamp() + ${ask.lease_ms} * interval '1 ms', acquired_at = clock_timestamp(),
           failovers = failovers + (worker_id is not null)::int
     where id = 1 and lease_until < clock_timestamp()
    returning epoch, tick`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms, lease_ms: ask.lease_ms, tick: row.tick });
}

/**
 * Takes the leader lock from a leader whose process is proven dead, without waiting for its lease. Only against the term that
 * was observed: of several that try, one succeeds. The proof only avoids flapping; what keeps this safe is the fence.
 */
export async function depose(
  sql: Db,
  ask: { worker_id: string; lease_ms: number; epoch: number; epoch_hint: number },
): Promise<Term | undefined> {
  const asked_at_ms = monotonicMs();
  const [row] = await sql<{ epoch: number; tick: number }[]>`
    update leader_term
       set epoch = ${nextEpoch(sql, ask.epoch_hint)}, worker_id = ${ask.worker_id}, acquired_at = clock_timestamp(),
           lease_until = clock_timestamp() + ${ask.lease_ms} * interval '1 ms', failovers = failovers + 1
     where id = 1 and epoch = ${ask.epoch} and worker_id is not null returning epoch, tick`;
  return row && Term.granted(row.epoch, ask.worker_id, { asked_at_ms, lease_ms: ask.lease_ms, tick: row.tick });
}

/** Ends a term at once: it can neither write nor renew any more, and the next tick elsewhere leads. Harmless when it is over. */
export async function resign(sql: Db, term: Term): Promise<boolean> {
  const rows = await sql`
    update leader_term set lease_until = '-infinity', worker_id = null, resigned_at = clock_timestamp()
     where id = 1 and epoch = ${term.epoch} and worker_id = ${term.worker_id} returning id`;
  return rows.length > 0;
}

export interface Leadership {
  epoch: number;
  /** Undefined while nobody leads. */
  worker_id: string | undefined;
  /** Where it is reached. */
  node_id: string | null;
  grpc_host: string | null;
  grpc_port: number | null;
  /** The certificate of the worker that got this epoch, by which its orders are known. */
  tls_fingerprint: string | null;
  /** And that of before, for a minute after a rotation. */
  tls_former_fingerprint: string | null;
  acquired_at: Date | null;
}

/** Who leads now, by the database's clock. */
export async function currentLeader(sql: Db): Promise<Leadership> {
  const [row] = await sql<(Omit<Leadership, "worker_id"> & { worker_id: string | null })[]>`
    select t.epoch, case when t.lease_until > clock_timestamp() then t.worker_id end as worker_id, t.acquired_at,
           w.tls_fingerprint, w.tls_former_fingerprint, w.node_id, w.grpc_host, w.grpc_port
      from leader_term t left join worker w on w.worker_id = t.worker_id where t.id = 1`;
  if (!row) throw new Error(NO_LEADER_ROW);
  return { ...row, worker_id: row.worker_id ?? undefined };
}

export interface Degraded {
  epoch: number;
  worker_id: string;
}

/**
 * An operator's wish that the leader of exactly this epoch steps down; it does so with its next tick, which this starts,
 * and another worker leads. Audited in the same statement. Undefined: that epoch leads no more, or was asked before.
 */
export async function requestDegrade(sql: Db, epoch: number, by: Actor): Promise<Degraded | undefined> {
  const [row] = await sql<Degraded[]>`
    with asked as (
      update leader_term set degrade_epoch = epoch
       where id = 1 and epoch = ${epoch} and worker_id is not null and lease_until > clock_timestamp()
         and degrade_epoch is distinct from epoch
      returning epoch, worker_id),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'leader.degrade', 'worker', worker_id, jsonb_build_object('epoch', epoch), ${by.reason} from asked),
    rung as (select pg_notify('scheduler', 'degrade') from asked)
    select asked.epoch, asked.worker_id from asked left join rung on true`;
  return row;
}

export interface TermView {
  epoch: number;
  /** Null while nobody leads. */
  worker_id: string | null;
  node_id: string | null;
  acquired_at: Date | null;
  /** How often the leader lock was taken from a leader that had not given it back. */
  failovers: number;
  /** The epoch that was asked to step down last. */
  degrade_epoch: number | null;
}

/** For people: who leads, since when, and how it came. */
export async function readTerm(sql: Db): Promise<TermView> {
  const [row] = await sql<TermView[]>`
    select t.epoch, w.worker_id, w.node_id, t.acquired_at, t.failovers, t.degrade_epoch
      from leader_term t left join worker w on w.worker_id = t.worker_id and t.lease_until > clock_timestamp() where t.id = 1`;
  if (!row) throw new Error(NO_LEADER_ROW);
  return row;
}
