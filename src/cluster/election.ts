/**
 * Which role this process holds now. A worker always works; besides, it tries for the seat, and leads while it has it.
 *
 *   standing by --lock in Redis, then the row in Postgres--> leading --`lead` returns--> standing by
 *   standing by, as subleader of its node --the leader is proven dead: the row in Postgres--> leading
 *
 * Winning the Redis lock only lets a candidate ask Postgres. But Redis is never a single point of failure: once it has
 * been away for `leader_stale_seconds` candidates ask Postgres directly, spread by chance; and what it says of a taken
 * seat is checked with Postgres as often, since a lock may outlive its leader (a server clock set back, a holder that
 * reaches Redis but not Postgres). Each renewal of the worker's lease tells as well whether somebody leads.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { type Bell, chance, monotonicMs, rest, within } from "../platform/timers.ts";
import type { RedisDoor } from "../redis/connection.ts";
import { claimSeat, releaseSeat, takeSeat } from "../redis/leader_lock.ts";
import type { Sql } from "../postgres/connection.ts";
import { acquire, highestEpoch, type Term } from "../nodes/leadership.ts";
import type { Standing } from "../worker/worker_state.ts";

/** Watches the leader meanwhile, and may come back with a term; subleader.ts. */
export interface Watcher {
  attend(): Promise<void>;
  takeTerm(): Term | undefined;
  leave(): Promise<void>;
}

export interface MemberParts {
  sql: Sql;
  redis: RedisDoor;
  standing: Standing;
  subleader: Watcher;
  /** Rings when the seat may be free, or the subleader has won a term. */
  bell: Bell;
  /** Plays the leader; resolves when the role is lost. */
  lead: (term: Term, stop: AbortSignal) => Promise<string>;
}

/** Until stopped. */
export async function playRole(parts: MemberParts, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    parts.standing.looks_for_seat = true;
    const term = await findSeat(parts, stop);
    parts.standing.looks_for_seat = false;
    await parts.subleader.leave();
    if (!term) return;
    await failpoint("after-pg-acquire");
    await sitDown(parts, term);
    await parts.lead(term, stop);
    if (!stop.aborted) await rest(parts.standing.settings.leader_lease_seconds * 1000, stop); // let another one lead
  }
}

async function findSeat(me: MemberParts, stop: AbortSignal): Promise<Term | undefined> {
  const { standing } = me;
  let checked_ms = monotonicMs();
  let rings = 1;
  while (!stop.aborted) {
    let rest_ms = standing.settings.heartbeat_interval_seconds * 1000;
    try {
      const attempt = await trySeat(me, rings > 0);
      const stale_ms = standing.settings.leader_stale_seconds * 1000;
      const told_ms = monotonicMs() - standing.led_ms - RENEWAL_MS;
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
    rings = await me.bell.rest(rest_ms, stop);
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

/** Redis is asked when the seat may be free: once a heartbeat has heard that it is not, not before it can be, unless there is news. */
async function trySeat({ redis, standing }: MemberParts, is_news: boolean): Promise<Attempt> {
  if (standing.draining || standing.detached || !standing.mayRun) return { kind: "unfit" };
  const free_in_ms = standing.seat_taken_until_ms - monotonicMs();
  if (free_in_ms > 0 && !is_news) return { kind: "taken", free_in_ms };
  const ttl_ms = standing.settings.leader_lease_seconds * 1000;
  try {
    const seat = await takeSeat(redis, { worker_id: standing.worker_id, ttl_ms });
    return seat.free_in_ms === undefined ? { kind: "won", ...seat } : { kind: "taken", ...seat };
  } catch {
    return { kind: "unheard" };
  }
}

/** Who won the lock and gets no term, also since Postgres gave no answer, must not keep others from trying. */
async function tryPostgres({ sql, redis, standing }: MemberParts, attempt: Attempt): Promise<Term | undefined> {
  const { worker_id } = standing;
  const hint = attempt.kind === "won" ? attempt.epoch_hint : 0;
  const lease_ms = standing.settings.leader_lease_seconds * 1000;
  let term: Term | undefined;
  try {
    term = await acquire(sql, { worker_id, lease_ms, epoch_hint: Math.max(standing.epoch, hint) });
    if (term && hint >= term.epoch) observe("leader.hint_ignored", { worker_id, epoch: term.epoch, hint });
    return term;
  } finally {
    if (!term && attempt.kind === "won") await releaseSeat(redis, worker_id).catch(() => undefined); // it expires by itself
  }
}

/** Redis follows Postgres: the lock becomes ours whoever holds it, and the epoch a hint for a restored database. */
async function sitDown({ redis, standing }: MemberParts, { epoch }: Term): Promise<void> {
  const ttl_ms = standing.settings.leader_lease_seconds * 1000;
  const claim = { worker_id: standing.worker_id, ttl_ms, epoch, highest_epoch: highestEpoch(epoch) };
  await within(SIT_DOWN_MS, "sitting down", claimSeat(redis, claim)).catch(() => undefined); // without Redis we lead all the same
}

/** A Redis that froze must not use up the term that was just won. */
const SIT_DOWN_MS = 200;
