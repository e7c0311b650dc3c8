/**
 * What every worker process does, whatever role it holds: renew its lease, beat its heart, and make what runs here
 * agree with what Postgres says is its own.
 *
 * The lease is renewed on a connection of its own, since a starved pool must not look like death. Bodies may run until
 * `asked + lease - margin` on the local clock; beyond that the dead-man guard of each body stops hearing from us.
 * A detached worker goes on asking here what is its own, and its lease is not renewed by that; continuation.ts.
 * A StartJob is only a hint: each renewal also brings the runs that are assigned here, so a lost order costs seconds.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { every, monotonicMs, wallClock, within } from "../platform/timers.ts";
import { RedisAway, type RedisConnection } from "../redis/connection.ts";
import { beat } from "../redis/heartbeats.ts";
import type { Transport } from "../rpc/transport.ts";
import type { Sql } from "../postgres/connection.ts";
import { type OwnRun, renewWorker } from "../nodes/workers.ts";
import { giveBack, type GivenBack } from "../runs/lost_runs.ts";
import { attemptKey, type AttemptRef } from "../runs/states.ts";
import { heedDetach } from "./continuation.ts";
import type { Executor } from "./executor.ts";
import type { PendingStarts } from "./pending_starts.ts";
import type { LocalWorkerState } from "./worker_state.ts";
import { stored } from "../locale/message.ts";

export interface WorkerParts {
  sql: Sql;
  /** A pool of one session, for the lease alone. */
  lease_sql: Sql;
  redis: RedisConnection;
  executor: Executor;
  pending_starts: Pick<PendingStarts, "take" | "empty">;
  local: LocalWorkerState;
  /** Its certificate of now goes into the row, so that peers know it after a rotation. */
  transport: Pick<Transport, "fingerprint" | "former_fingerprint" | "trust_digest" | "not_after">;
  pid: number;
  grpc: { host: string; port: number };
}

/** Renews until stopped. Resolves early, with the reason, when this worker is dead to the others. */
export async function holdLease(parts: WorkerParts, stop: AbortSignal): Promise<string | undefined> {
  const { local } = parts;
  const over = new AbortController();
  let reason: string | undefined;
  const until = AbortSignal.any([stop, over.signal]);
  await every(RETRY_MS, async () => {
    const { worker_renew_seconds } = local.settings; // those of the lease that is asked for; what it brings may fit a longer one
    reason = await renewOnce(parts);
    if (reason) over.abort();
    return Math.min(worker_renew_seconds, local.settings.worker_renew_seconds) * 1000;
  }, { name: "worker lease", stop: until, wakeup: local.lease_wakeup });
  return reason;
}

/** A renewal that failed is asked for again soon: what is left of the lease is all the time there is. */
const RETRY_MS = 1_000;

/** One renewal, and all that follows from it. The reason when the lease cannot be had any more. */
export async function renewOnce(parts: WorkerParts): Promise<string | undefined> {
  const { local, executor } = parts;
  const { worker_lease_seconds, worker_renew_seconds } = local.settings;
  if (isDone(parts)) return local.detached_why;
  const before = executor.held; // not what still starts: an order may come before its assignment is to be seen (lone.ts)
  const asked_ms = monotonicMs();
  const asked_at = wallClock().getTime();
  const question = renewWorker(parts.lease_sql, local.worker_id, {
    lease_ms: worker_lease_seconds * 1000,
    slots: local.slots,
    subleader: local.role === "subleader",
    tls_fingerprint: parts.transport.fingerprint,
    tls_former_fingerprint: parts.transport.former_fingerprint,
    tls_trust_digest: parts.transport.trust_digest,
    tls_not_after: parts.transport.not_after,
    clock_skew_ms: local.clock_skew_ms,
  });
  const renewal = await within(worker_renew_seconds * 2_000, "renewing the worker's lease", question);
  await failpoint("after-worker-renew");
  if (!renewal) {
    local.may_run_until_ms = 0;
    return "Postgres says that this worker is dead";
  }
  if (renewal.lease_until_ms !== undefined) {
    local.holdsUntil(renewal.lease_until_ms);
    local.renewed_ms = asked_ms;
  }
  local.clock_skew_ms = Math.round((asked_at + wallClock().getTime()) / 2 - renewal.now.getTime());
  local.sawEpoch(renewal.epoch);
  if (!renewal.led && local.led_ms > -Infinity) local.election_wakeup.signal();
  local.led_ms = renewal.led ? asked_ms : -Infinity;
  local.answerers = renewal.answerers;
  heedDetach(local, renewal);
  if (isDone(parts)) return local.detached_why;
  local.draining = local.stopping || renewal.state === "DRAINING"; // the row is what operators change
  // Not awaited: it starts runs and asks the other pool, and the lease must not wait for either.
  reconcile(parts, renewal.runs, before).catch((error) => loopFailed("reconcile", error));
  local.settings = renewal.settings;
}

/** A detached worker with nothing in hand leaves at once, to come back under a new id. */
function isDone({ local, executor }: WorkerParts): boolean {
  return local.detached && executor.runs.length === 0;
}

/** `before`: what ran here when the question was asked; what changed since then is not judged by an older answer. */
async function reconcile(parts: WorkerParts, rows: OwnRun[], before: AttemptRef[]): Promise<void> {
  const { executor, local } = parts;
  const mine = new Set(rows.map(attemptKey));
  for (const run of before) {
    if (!mine.has(attemptKey(run))) executor.abandon(run, stored("runs.cause.not_ours"));
  }
  const back: GivenBack[] = [];
  for (const row of rows) {
    const { job_run_id, attempt, state: from } = row;
    if (row.cancel_requested) executor.cancel(row, stored("reason.requested"));
    if (executor.knows(row)) continue;
    if (row.state === "RUNNING") {
      back.push({ job_run_id, attempt, from, outcome: "LOST", cause: stored("runs.cause.no_body") });
    } else if (local.draining || local.detached) {
      const cause = stored(local.detached ? "runs.cause.worker_detached" : "runs.cause.worker_draining");
      back.push({ job_run_id, attempt, from, outcome: "GIVEN_BACK", cause });
    } else parts.pending_starts.take(row); // never rejects; its answer is for those who ordered
  }
  if (back.length === 0) return;
  for (const run of await giveBack(parts.sql, local.worker_id, back)) {
    const cause = back.find((one) => one.job_run_id === run.job_run_id)?.cause ?? "";
    observe("run.orphaned", { ...run, worker_id: local.worker_id, cause });
  }
}

/** Tells Redis that we are here, every second, for pages and for peers' hints; who stands by hears of the lock with that. */
export async function beatHeart(parts: WorkerParts, stop: AbortSignal): Promise<void> {
  const { local, executor } = parts;
  let flagged = false;
  await every(local.settings.heartbeat_interval_seconds * 1000, async () => {
    const { heartbeat_ttl_seconds, heartbeat_interval_seconds } = local.settings;
    const stands_by = local.standsBy;
    const told = await beat(parts.redis, {
      worker_id: local.worker_id,
      node_id: local.node_id,
      pid: parts.pid,
      grpc_host: parts.grpc.host,
      grpc_port: parts.grpc.port,
      role: local.role,
      slots: local.slots,
      draining: local.draining,
      running: executor.runs,
    }, { ttl_ms: heartbeat_ttl_seconds * 1000, stands_by }).catch(unlessAway);
    if (told) local.last_heartbeat_unix_ms = wallClock().getTime();
    if (told && stands_by && local.standsBy) local.heardOfSeats(told);
    if (told?.detached && !flagged) local.lease_wakeup.signal(); // the flag is a hint: the row says whether it is so
    flagged = told?.detached ?? flagged;
    return heartbeat_interval_seconds * 1000;
  }, { name: "heartbeat", stop });
}

/** That Redis is away has been said already, by its door, and once. */
function unlessAway(error: unknown): undefined {
  if (!(error instanceof RedisAway)) throw error;
}
