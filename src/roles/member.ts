/**
 * Which role this process holds now. A worker always works; besides, it tries for the seat, and leads while it has it.
 *
 *   standing by --lock in Redis, then the row in Postgres--> leading --`lead` returns--> standing by
 *   standing by, as subleader of its node --the leader is proven dead: the row in Postgres--> leading
 *
 * Winning the Redis lock only lets a candidate ask Postgres. Redis away for `leader_stale_seconds`: candidates ask
 * Postgres directly, spread by chance, so Redis is never a single point of failure.
 */
import { observe } from "../base/facts.ts";
import { type Bell, chance, monotonicMs, rest } from "../base/loop.ts";
import type { RedisDoor } from "../cluster/redis.ts";
import { claimSeat, mirrorEpoch, releaseSeat, takeSeat } from "../cluster/seat.ts";
import type { Sql } from "../store/db.ts";
import { acquire, type Term } from "../store/leadership.ts";
import type { Standing } from "./standing.ts";

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
    const term = await findSeat(parts, stop);
    await parts.subleader.leave();
    if (!term) return;
    await sitDown(parts, term);
    await parts.lead(term, stop);
    if (!stop.aborted) await rest(parts.standing.settings.leader_lease_seconds * 1000, stop); // let another one lead
  }
}

async function findSeat(me: MemberParts, stop: AbortSignal): Promise<Term | undefined> {
  const { standing } = me;
  let heard_ms = monotonicMs();
  while (!stop.aborted) {
    try {
      const attempt = await tryRedis(me);
      if (attempt !== "unheard") heard_ms = monotonicMs();
      const silent = monotonicMs() - heard_ms > standing.settings.leader_stale_seconds * 1000;
      if (attempt === "won" || silent) {
        if (silent) await rest(chance() * 500, stop);
        const term = await tryPostgres(me);
        if (term) return term;
        if (attempt === "won") await releaseSeat(me.redis, standing.worker_id);
      }
      await me.subleader.attend();
    } catch (error) {
      observe("loop.failed", { loop: "candidate", error: error instanceof Error ? error.message : String(error) });
    }
    await me.bell.rest(standing.settings.heartbeat_interval_seconds * 1000, stop);
    const won = me.subleader.takeTerm();
    if (won?.trusted) return won;
  }
}

async function tryRedis({ redis, standing }: MemberParts): Promise<"won" | "taken" | "unheard"> {
  if (standing.draining || standing.detached || !standing.mayRun) return "taken";
  const ttl_ms = standing.settings.leader_lease_seconds * 1000;
  try {
    const won = await takeSeat(redis, { worker_id: standing.worker_id, ttl_ms });
    if (won) standing.sawEpoch(won.epoch_hint);
    return won ? "won" : "taken";
  } catch {
    return "unheard";
  }
}

function tryPostgres({ sql, standing }: MemberParts): Promise<Term | undefined> {
  return acquire(sql, {
    worker_id: standing.worker_id,
    lease_ms: standing.settings.leader_lease_seconds * 1000,
    epoch_hint: standing.epoch,
  });
}

/** Redis follows Postgres: the lock becomes ours whoever holds it, and the epoch a hint for a restored database. */
async function sitDown({ redis, standing }: MemberParts, term: Term): Promise<void> {
  const ttl_ms = standing.settings.leader_lease_seconds * 1000;
  await mirrorEpoch(redis, term.epoch)
    .then(() => claimSeat(redis, { worker_id: standing.worker_id, ttl_ms, epoch: term.epoch }))
    .catch(() => undefined); // without Redis we lead all the same
}
