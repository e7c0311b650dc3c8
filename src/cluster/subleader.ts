/**
 * Watches the leader, and takes its place when its process is proven dead. One worker of each node is a subleader: the one
 * whose heartbeats got the node's subleader lock.
 *
 *   stream open --it says that it no longer leads--> the leader lock is free: try at once
 *   stream broke --a new connection is refused--> proven dead: depose the epoch that was observed
 *   stream broke --no answer--> silence: wait for its lease like everyone
 *   silence, and it has not renewed in Redis for `leader_stale_seconds` --> ask that epoch to step down
 *
 * A refused connection proves that no process listens there any more, and it takes milliseconds. Silence proves nothing:
 * the leader may be frozen, or this worker cut off from it (it was seen: a new worker whose certificate was not pinned
 * yet asked one healthy leader after the other to step down). A subleader on another node goes first, so that
 * the new leader is not on the node that is in trouble. Nothing here is needed for safety: the fence is.
 *
 * Who hears nothing asks again later each time, and not when all the others do: on a machine that starts sixty workers at
 * once, their handshakes, given up and begun anew, took all the time in which the leader would have answered and renewed.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { chance, monotonicMs, rest, type Wakeup } from "../platform/timers.ts";
import type { Failure, Peers } from "../rpc/peers.ts";
import type { RedisConnection } from "../redis/connection.ts";
import { askToDegrade, leaderSeenAgo, releaseSubleaderLock } from "../redis/leader_lock.ts";
import type { Sql } from "../postgres/connection.ts";
import { currentLeader, depose, type Leadership, type Term } from "../nodes/leadership.ts";
import type { LocalWorkerState } from "../worker/worker_state.ts";

export interface SubleaderParts {
  sql: Sql;
  redis: RedisConnection;
  peers: Peers;
  local: LocalWorkerState;
  /** Rings when the leader lock may be free now, or a term was won. */
  wakeup: Wakeup;
}

/** Subleaders elsewhere than on the leader's node go first by this much. */
const AFTER_OTHERS_MS = 150;
const DEGRADE_TTL_MS = 10_000;
/** Its end and its farewell are heard at once. For silence the lease is waited for anyway, and each status wakes this process. */
const HEAR_MS = 3_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;

interface Watched {
  epoch: number;
  leader: Leadership & { worker_id: string; grpc_host: string; grpc_port: number };
  unwatch: () => void;
}

export class Subleader {
  readonly #parts: SubleaderParts;
  #watched: Watched | undefined;
  #won: Term | undefined;
  /** Of which silence was told already. */
  #silent_epoch: number | undefined;
  /** How often in a row nothing was heard of a leader, whoever it was, and until when none is asked again. */
  #unheard = 0;
  #again_ms = 0;

  constructor(parts: SubleaderParts) {
    this.#parts = parts;
  }

  /** A term that was won since the last question. */
  takeTerm(): Term | undefined {
    const term = this.#won;
    this.#won = undefined;
    return term;
  }

  /** Called at each turn of the candidate's loop: watches while it has its node's subleader lock. */
  async attend(): Promise<void> {
    const { local } = this.#parts;
    const { worker_id, node_id } = local;
    if (local.draining || local.detached) return await this.leave();
    if (local.seated === undefined) return;
    if (!local.seated) return this.#stepBack();
    if (local.role !== "subleader") {
      local.role = "subleader";
      observe("subleader.seated", { worker_id, node_id });
      local.tell();
    }
    if (!this.#watched && monotonicMs() >= this.#again_ms) await this.#watch();
  }

  /** Leaves the leader lock to another worker of the node: this one leads now, or stops. */
  async leave(): Promise<void> {
    const { redis, local } = this.#parts;
    if (!local.seated) return;
    local.seated = undefined;
    this.#stepBack();
    await releaseSubleaderLock(redis, local).catch(() => undefined); // it expires by itself
  }

  #stepBack(): void {
    this.#watched?.unwatch();
    this.#watched = undefined;
    if (this.#parts.local.role === "subleader") this.#parts.local.role = "worker";
  }

  async #watch(): Promise<void> {
    const { sql, peers, local } = this.#parts;
    const leader = await currentLeader(sql);
    local.sawEpoch(leader.epoch);
    if (!isReachable(leader) || leader.worker_id === local.worker_id) return;
    const { epoch } = leader;
    const request = { caller_role: "subleader" as const, leader_epoch: epoch, status_every_ms: HEAR_MS };
    const unwatch = peers.to(leader).watch(request, {
      onStatus: (status) => {
        this.#unheard = 0;
        if (status.role !== "leader") this.#noLongerLeads(epoch);
      },
      onEnd: (why) => {
        this.#streamBroke(why).catch((error) => loopFailed("subleader", error));
      },
    });
    this.#watched = { epoch, leader, unwatch };
  }

  #noLongerLeads(epoch: number): void {
    if (this.#watched?.epoch !== epoch) return;
    this.#watched.unwatch();
    this.#watched = undefined;
    this.#parts.wakeup.signal();
  }

  async #streamBroke(why: Failure): Promise<void> {
    const watched = this.#watched;
    this.#watched = undefined;
    if (!watched) return;
    const { peers, sql, wakeup } = this.#parts;
    // Its row may have changed since, as after a rotation of certificates: then the old one would be a wrong address.
    const now = await currentLeader(sql).catch(() => watched.leader);
    if (now.epoch !== watched.epoch) return wakeup.signal();
    const proof = await peers.to(isReachable(now) ? now : watched.leader).ping({
      caller_role: "subleader",
      leader_epoch: watched.epoch,
    });
    if (!proof.ok && /ECONNREFUSED/.test(proof.message)) return await this.#depose(watched);
    if (proof.ok) return wakeup.signal(); // it lives: watch it again
    await this.#heardNothing(watched, `${why.code}: ${proof.message}`);
  }

  async #heardNothing({ epoch, leader }: Watched, error: string): Promise<void> {
    const { redis, local } = this.#parts;
    const wait_ms = Math.min(FIRST_WAIT_MS * 2 ** this.#unheard++, LONGEST_WAIT_MS);
    this.#again_ms = monotonicMs() + wait_ms * (0.5 + chance());
    if (this.#silent_epoch !== epoch) observe("leader.silent", { worker_id: leader.worker_id, epoch, error });
    this.#silent_epoch = epoch;
    const ago_ms = await leaderSeenAgo(redis).catch(() => undefined);
    if (ago_ms === undefined || ago_ms < local.settings.leader_stale_seconds * 1000) return;
    await askToDegrade(redis, { epoch, ttl_ms: DEGRADE_TTL_MS }).catch(() => undefined);
  }

  async #depose({ epoch, leader }: Watched): Promise<void> {
    const { sql, local, wakeup } = this.#parts;
    if (leader.node_id === local.node_id) await rest(AFTER_OTHERS_MS);
    if (local.draining || local.detached || !local.mayRun) return;
    const lease_ms = local.settings.leader_lease_seconds * 1000;
    const ask = { worker_id: local.worker_id, lease_ms, epoch, epoch_hint: local.epoch };
    const term = await depose(sql, ask);
    if (!term) return wakeup.signal(); // another one was quicker, or it had resigned
    await failpoint("after-depose");
    observe("leader.deposed", { worker_id: leader.worker_id, epoch, by: local.worker_id });
    this.#won = term;
    wakeup.signal();
  }
}

function isReachable(leader: Leadership): leader is Watched["leader"] {
  return leader.worker_id !== undefined && leader.grpc_host !== null && leader.grpc_port !== null;
}
