/**
 * Which role this process holds now. A worker always works; besides, it tries for the seat, and leads while it has it.
 *
 *   standing by --lock in Redis, then the row in Postgres--> leading --`lead` returns--> standing by
 *
 * Winning the Redis lock only lets a candidate ask Postgres. Redis away for `leader_stale_seconds`: candidates ask
 * Postgres directly, spread by chance, so Redis is never a single point of failure.
 */
import { observe } from "../base/facts.ts";
import { chance, monotonicMs, rest } from "../base/loop.ts";
import type { RedisDoor } from "../cluster/redis.ts";
import { mirrorEpoch, releaseSeat, takeSeat } from "../cluster/seat.ts";
import type { Sql } from "../store/db.ts";
import { acquire, type Term } from "../store/leadership.ts";
import type { Standing } from "./standing.ts";

export interface MemberParts {
  sql: Sql;
  redis: RedisDoor;
  standing: Standing;
  /** Plays the leader; resolves when the role is lost. */
  lead: (term: Term, stop: AbortSignal) => Promise<string>;
}

/** Until stopped. */
export async function playRole(parts: MemberParts, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const term = await findSeat(parts, stop);
    if (!term) return;
    await parts.lead(term, stop);
    if (!stop.aborted) await rest(parts.standing.settings.leader_lease_seconds * 1000, stop); // let another one lead
  }
}

async function findSeat(parts: MemberParts, stop: AbortSignal): Promise<Term | undefined> {
  const { standing } = parts;
  let heard_ms = monotonicMs();
  while (!stop.aborted) {
    try {
      const attempt = await tryRedis(parts);
      if (attempt !== "unheard") heard_ms = monotonicMs();
      const silent = monotonicMs() - heard_ms > standing.settings.leader_stale_seconds * 1000;
      if (attempt === "won" || silent) {
        if (silent) await rest(chance() * 500, stop);
        const term = await tryPostgres(parts);
        if (term) return term;
        if (attempt === "won") await releaseSeat(parts.redis, standing.worker_id);
      }
    } catch (error) {
      observe("loop.failed", { loop: "candidate", error: error instanceof Error ? error.message : String(error) });
    }
    await rest(standing.settings.heartbeat_interval_seconds * 1000, stop);
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

async function tryPostgres({ sql, redis, standing }: MemberParts): Promise<Term | undefined> {
  const term = await acquire(sql, {
    worker_id: standing.worker_id,
    lease_ms: standing.settings.leader_lease_seconds * 1000,
    epoch_hint: standing.epoch,
  });
  if (term) mirrorEpoch(redis, term.epoch).catch(() => undefined); // a hint for workers and for a restored database
  return term;
}
