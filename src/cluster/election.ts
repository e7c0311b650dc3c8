/**
 * Which role this process holds now. A worker always works; besides, it tries for the leader lock, and leads while it has it.
 *
 *   standing by --lock in Redis, then the row in Postgres--> leading --`lead` returns--> standing by
 *   standing by, as subleader of its node --the leader is proven dead: the row in Postgres--> leading
 *
 * Winning the Redis lock only lets a candidate ask Postgres. But Redis is never a single point of failure: once it has
 * been away for `leader_stale_seconds` candidates ask Postgres directly, spread by chance; and what it says of a taken
 * lock is checked with Postgres as often, since a lock may outlive its leader (a server clock set back, a holder that
 * reaches Redis but not Postgres). Each renewal of the worker's lease tells as well whether somebody leads.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { chance, monotonicMs, rest, type Wakeup, within } from "../platform/timers.ts";
import type { RedisConnection } from "../redis/connection.ts";
import { claimSubleaderLock, releaseLeaderLock, takeLeaderLock } from "../redis/leader_lock.ts";
import type { Sql } from "../postgres/connection.ts";
import { acquire, highestEpoch, type Term } from "../nodes/leadership.ts";
import type { LocalWorkerState } from "../worker/worker_state.ts";

/** Watches the leader meanwhile, and may come back with a term; subleader.ts. */
export interface LeaderWatcher {
  attend(): Promise<void>;
  takeTerm(): Term | undefined;
  leave(): Promise<void>;
}

export interface MemberParts {
  sql: Sql;
  redis: RedisConnection;
  local: LocalWorkerState;
  subleader: LeaderWatcher;
  /** Rings when the leader lock may be free, or the subleader has won a term. */
  wakeup: Wakeup;
  /** Plays the leader; resolves when the role is lost. */
  lead: (term: Term, stop: AbortSignal) => Promise<string>;
}

/** Until stopped. */
export async function playRole(parts: MemberParts, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    parts.local.wants_to_lead = true;
    const term = await findLeadership(parts, stop);
    parts.local.wants_to_lead = false;
    await parts.subleader.leave();
    if (!term) return;
    await failpoint("after-pg-acquire");
    await sitDown(parts, term);
    await parts.lead(term, stop);
    if (!stop.aborted) await rest(parts.local.settings.leader_lease_seconds * 1000, stop); // let another one lead
  }
}

async function findLeadership(me: MemberParts, stop: AbortSignal): Promise<Term | undefined> {
  const { local } = me;
  let checked_ms = monotonicMs();
  let rings = 1;
  while (!stop.aborted) {
    let rest_ms = local.settings.heartbeat_interval_seconds * 1000;
    try {
      const attempt = await tryToLead(me, rings > 0);
      const stale_ms = local.settings.leader_stale_seconds * 1000;
      const told_ms = monotonicMs() - local.led_ms - RENEWAL_MS;
      const stale = Math.min(monotonicMs() - checked_ms, attempt.kind === "taken" ? told_ms : Infinity) > stale_ms;
      if (attempt.kind === "won" || (stale && attempt.kind !== "unfit")) {
        if (attempt.kind !== "unheard") checked_ms = monotonicMs();
        if (attempt.kind === "unheard") await rest(chance() * 500, stop);
        await failpoint("after-redis-lock");
        const term = await tryPostgres(me, attempt);
        if (term) return term;
      } else if (attempt.kind === "unfit") checked_ms = monotonicMs();
      await me.subleader.attend();
      if (attempt.kind === "taken") rest_ms = Math.min(rest_ms, attempt.free_in_ms);
    } catch (error) {
      loopFailed("candidate", error);
    }
    rings = await me.wakeup.rest(rest_ms, stop);
    const won = me.subleader.takeTerm();
    if (won?.trusted) return won;
  }
}

/** For a renewal to be answered, which may be asked for in the same turn. */
const RENEWAL_MS = 1_000;

/** `unfit`: this worker must not lead now. `unheard`: Redis is away. */
type Attempt = { kind: "won"; epoch_hint: number } | { kind: "taken"; free_in_ms: number } | {
  kind: "unfit" | "unheard";
};

/** Redis is asked when the leader lock may be free: once a heartbeat has heard that it is not, not before it can be, unless there is news. */
async function tryToLead({ redis, local }: MemberParts, is_news: boolean): Promise<Attempt> {
  if (local.draining || local.detached || !local.mayRun) return { kind: "unfit" };
  const free_in_ms = local.lock_held_until_ms - monotonicMs();
  if (free_in_ms > 0 && !is_news) return { kind: "taken", free_in_ms };
  const ttl_ms = local.settings.leader_lease_seconds * 1000;
  try {
    const lock = await takeLeaderLock(redis, { worker_id: local.worker_id, ttl_ms });
    return lock.free_in_ms === undefined ? { kind: "won", ...lock } : { kind: "taken", ...lock };
  } catch {
    return { kind: "unheard" };
  }
}

/** Who won the lock and gets no term, also since Postgres gave no answer, must not keep others from trying. */
async function tryPostgres({ sql, redis, local }: MemberParts, attempt: Attempt): Promise<Term | undefined> {
  const { worker_id } = local;
  const hint = attempt.kind === "won" ? attempt.epoch_hint : 0;
  const lease_ms = local.settings.leader_lease_seconds * 1000;
  let term: Term | undefined;
  try {
    term = await acquire(sql, { worker_id, lease_ms, epoch_hint: Math.max(local.epoch, hint) });
    if (term && hint >= term.epoch) observe("leader.hint_ignored", { worker_id, epoch: term.epoch, hint });
    return term;
  } finally {
    if (!term && attempt.kind === "won") await releaseLeaderLock(redis, worker_id).catch(() => undefined); // it expires by itself
  }
}

/** Redis follows Postgres: the lock becomes ours whoever holds it, and the epoch a hint for a restored database. */
async function sitDown({ redis, local }: MemberParts, { epoch }: Term): Promise<void> {
  const ttl_ms = local.settings.leader_lease_seconds * 1000;
  const claim = { worker_id: local.worker_id, ttl_ms, epoch, highest_epoch: highestEpoch(epoch) };
  await within(SIT_DOWN_MS, "sitting down", claimSubleaderLock(redis, claim)).catch(() => undefined); // without Redis we lead all the same
}

/** A Redis that froze must not use up the term that was just won. */
const SIT_DOWN_MS = 200;
