/**
 * Leads for one term: a tick at least each `leader_tick_seconds`, earlier when the wake-up comes or something comes due.
 *
 *   renew and look -> slots -> overlaps -> events -> followers -> bulks -> arrivals -> late -> cancels -> lost -> silent -> checks -> wake -> moves
 *   -> lines -> assign -> order
 *
 * The term ends when Postgres says so (no row), when Redis says that the lock is not ours or that this epoch shall step
 * down, when a worker has seen a newer epoch, when its trust deadline passes without a renewal, when its ticks fail again and again
 * (failing_ticks.ts), or when the process stops. Redis that gives no answer ends nothing. Whatever then is still under way is refused by the
 * fence. Returning from `lead` is the loss of the role; nothing is left behind that could go on leading.
 */
import type { Archive } from "../archive/archive.ts";
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { BatchInterval, monotonicMs, rest, Wakeup, within } from "../platform/timers.ts";
import { messageOf } from "../platform/text.ts";
import type { Peers } from "../rpc/peers.ts";
import type { RedisConnection } from "../redis/connection.ts";
import { mirrorEpoch, releaseLeaderLock, renewLeaderLock } from "../redis/leader_lock.ts";
import { type PendingWork, renewAndReadWork } from "../dispatch/pending_work.ts";
import { onWork, type Sql } from "../postgres/connection.ts";
import { highestEpoch, resign, type Term } from "../nodes/leadership.ts";
import type { DispatchSnapshot } from "../dispatch/dispatch_queues.ts";
import type { LocalWorkerState } from "../worker/worker_state.ts";
import { checkLine, dispatch, RUNS_AT_ONCE, wakeDue } from "./assignment.ts";
import { lookAfterBulks } from "./bulks.ts";
import { Wakeups } from "./wakeups.ts";
import { WorkerMonitor } from "./worker_monitor.ts";
import { detachUnheard } from "./detach.ts";
import { checkNodes } from "./node_checks.ts";
import { Maintenance } from "./maintenance.ts";
import { FailingTicks } from "./failing_ticks.ts";
import type { LeaderContext } from "./leader_context.ts";
import { dispatchSingle } from "./fast_path.ts";
import { deliverCancels } from "./dispatch.ts";
import {
  movePriorities,
  planDueSlots,
  planEvents,
  planFollowers,
  planLate,
  settleOverlaps,
  wakeArrived,
} from "./planning.ts";
import { TickTimes } from "./tick_times.ts";
import { Contact, reassignStuck, recoverLost } from "./recovery.ts";

/**
 * Under load the wake-up comes for each body that ends, and a tick costs Postgres the same whether it assigns one run or
 * hundreds. What is sent beyond the slots (prefetch.ts) bridges the gap.
 */
const TICK_GAP_MS = 20;
const TICK_BURST = 10;
/** After one that gave so many runs that workers have enough to do until then: from its beginning to that of the next. */
const FULL_TICK_RUNS = 60;
const FULL_TICK_GAP_MS = 50;
/** The same after one that gave all the room there was, so nobody who comes now could begin at once. What is sent ahead lasts twice as long. */
const CROWDED_GAP_MS = 100;
const LOCK_EVERY_MS = 100;
/** After a look that was in haste: when what it was for has left the cores. */
const RENEW_SOON_MS = 50;

export interface LeaderParts {
  sql: Sql;
  redis: RedisConnection;
  peers: Peers;
  local: LocalWorkerState;
  archive?: Archive;
}

const STEP_DOWN = "it was asked to step down";

/** Resolves when the role is lost, with the reason. */
export async function lead(first: Term, parts: LeaderParts, stop: AbortSignal): Promise<string> {
  const { local } = parts;
  const wakeup = new Wakeup();
  const me: LeaderContext = {
    ...parts,
    wakeup,
    monitor: new WorkerMonitor({ peers: parts.peers, wakeup, epoch: first.epoch }),
    node_id: local.node_id,
    calls: new Wakeups(),
    checking: new Set(),
    term: first,
    settings: local.settings,
  };
  local.role = "leader";
  local.sawEpoch(first.epoch);
  observe("leader.elected", { worker_id: first.worker_id, epoch: first.epoch });
  const deaf = listen(parts.sql, me);
  const reason = await tickUntilLost(me, local, stop);
  local.role = "worker";
  me.monitor.disband();
  deaf();
  await handOver(me, local.epoch);
  parts.peers.retain([]); // or each that ever led would stay connected to all workers; whom it asks later is dialed anew
  local.tell(); // only now: who hears that this one no longer leads can take the leader lock at once
  observe("leader.ended", { worker_id: first.worker_id, epoch: first.epoch, reason });
  return reason;
}

/** Ticks, the short way of a lone run between them, and the rest after each, until the term is over: the reason. */
async function tickUntilLost(me: LeaderContext, local: LocalWorkerState, stop: AbortSignal): Promise<string> {
  const contact = new Contact();
  const maintenance = new Maintenance();
  const tempo = new BatchInterval(TICK_GAP_MS, TICK_BURST);
  const times = new TickTimes();
  const failing = new FailingTicks(local);
  let rings = 0;
  let look_at_ms = 0;
  while (!stop.aborted && !local.detached) {
    me.settings = local.settings;
    const began_ms = monotonicMs();
    let next_ms = me.settings.leader_tick_seconds * 1000;
    let busy = false;
    me.given = 0;
    if (learnNewer(me, local)) return `a worker has seen epoch ${local.epoch}`;
    const lone = me.calls.takeSingle(rings);
    try {
      if (lone && began_ms < look_at_ms && await dispatchSingle(me, lone)) {
        failing.note(undefined);
        look_at_ms = Math.min(look_at_ms, monotonicMs() + RENEW_SOON_MS);
        const took_ms = monotonicMs() - began_ms;
        rings = await me.wakeup.rest(look_at_ms - monotonicMs(), stop);
        await rest(tempo.wait(took_ms), stop);
        continue;
      }
      const { trusted_until_ms } = me.term;
      const pending = await look(me, contact, { hasty: rings > 0 });
      if (typeof pending === "string") return pending;
      if (me.term.trusted_until_ms === trusted_until_ms) next_ms = Math.min(next_ms, RENEW_SOON_MS);
      failing.note(await tick(me, pending, contact));
      maintenance.keep(me);
      busy = isBusy(pending);
      const due_ms = Math.min(pending.next_due_ms ?? Infinity, me.rate_wait_ms ?? Infinity);
      next_ms = Math.min(next_ms, Math.max(due_ms, 1));
    } catch (error) {
      if (!me.term.trusted) return `could not renew in time: ${messageOf(error)}`;
      loopFailed("leader tick", error);
      failing.note(error);
      next_ms = Math.min(next_ms, 100);
    }
    const given_up = failing.givesUp({
      failing_seconds: me.settings.leader_failing_seconds,
      others: me.others ?? false,
    });
    if (given_up) return given_up;
    renewLock(me);
    const took_ms = monotonicMs() - began_ms;
    times.note(me, took_ms, busy);
    look_at_ms = monotonicMs() + next_ms;
    rings = await me.wakeup.rest(next_ms, stop);
    await rest(Math.max(tempo.wait(took_ms), began_ms + gapAfter(me) - monotonicMs()), stop);
  }
  return local.detached ? local.detached_why : "the process is stopping";
}

/** How long after the beginning of a tick the next one may begin, by what it gave; after one that could give no more there is room left. */
function gapAfter({ given = 0, crowded }: LeaderContext): number {
  if (given < FULL_TICK_RUNS || given >= RUNS_AT_ONCE) return 0;
  return crowded ? CROWDED_GAP_MS : FULL_TICK_GAP_MS;
}

/**
 * Workers obey no older epoch than they have seen. Usually that is a successor's; where Postgres was restored from an
 * older copy it is one that Postgres forgot, and whoever leads next must be above it.
 */
function learnNewer(me: LeaderContext, local: LocalWorkerState): boolean {
  const newest = me.monitor.newestEpoch;
  if (newest <= me.term.epoch || newest > highestEpoch(me.term.epoch)) return false;
  local.sawEpoch(newest);
  return true;
}

/** Renews in Postgres, in haste only when it must; the pending work, or the reason why the term is over. */
export async function look(
  me: LeaderContext,
  contact: Contact,
  { hasty }: { hasty: boolean } = { hasty: false },
): Promise<PendingWork | string> {
  const lease_ms = me.settings.leader_lease_seconds * 1000;
  const left_ms = me.term.trusted_until_ms - monotonicMs();
  if (left_ms <= 0) return "its trust deadline passed";
  await failpoint("before-pg-renew");
  const question = renewAndReadWork(me.sql, me.term, {
    lease_ms,
    reassign_after_ms: me.settings.reassign_after_seconds * 1000,
    late_seconds: me.settings.skip_late_runs_after_seconds,
    ahead_seconds: me.settings.assign_ahead_seconds,
    hasty,
    crowded: me.crowded,
  });
  const renewed = await within(left_ms, "renewing the term", question);
  if (!renewed) return "Postgres says that the term is over";
  me.term = renewed.term;
  me.snapshot = snapshotFor(me, renewed.snapshot);
  me.others = renewed.snapshot.workers.some(({ worker_id, state }) =>
    worker_id !== me.term.worker_id && state === "ACTIVE"
  );
  me.unclear = false; // from here on the fence refuses it
  contact.made(me.settings.worker_lease_seconds * 1000);
  await failpoint("after-pg-renew");
  return me.lost ?? (renewed.pending.degraded ? STEP_DOWN : renewed.pending);
}

/**
 * A renewal waits for an assignment under way, but what it reads along is of before: such an assignment would be counted
 * nowhere. Only one whose answer was not heard can still be under way, and then all is read anew after the renewal.
 */
export function snapshotFor(
  { unclear }: Pick<LeaderContext, "unclear">,
  snapshot: DispatchSnapshot,
): DispatchSnapshot | undefined {
  return unclear ? undefined : snapshot;
}

/**
 * Not awaited, and after the work of a tick, which it only would hold up: Redis may be away, and Postgres decides. But its
 * word that the lock is not ours ends the term. Busy ticks follow each other faster than the lock needs to be prolonged.
 */
function renewLock(me: LeaderContext): void {
  const ttl_ms = me.settings.leader_lease_seconds * 1000;
  const now_ms = monotonicMs();
  if (now_ms - (me.lock_asked_ms ?? -Infinity) < Math.min(LOCK_EVERY_MS, ttl_ms / 10)) return;
  me.lock_asked_ms = now_ms;
  renewLeaderLock(me.redis, { worker_id: me.term.worker_id, epoch: me.term.epoch, ttl_ms }).then((answer) => {
    if (answer === "renewed") return;
    me.lost = answer === "degraded" ? STEP_DOWN : "Redis says that the lock is not ours";
    me.wakeup.signal();
  }).catch(() => undefined);
}

/**
 * One round of work. Each step asks Postgres again; a step without trust is not begun. A step that fails is told and
 * does not keep the others from being done: what one event or schedule breaks must not stop all dispatch. Gives the error of the last that failed.
 */
export async function tick(me: LeaderContext, pending: PendingWork, contact: Contact): Promise<unknown> {
  const steps: [string, boolean, () => Promise<void>][] = [
    ["slots", pending.slots, () => planDueSlots(me)],
    ["overlaps", true, () => settleOverlaps(me)],
    ["events", pending.events, () => planEvents(me)],
    ["followers", pending.followers, () => planFollowers(me)],
    ["bulks", pending.bulks, () => lookAfterBulks(me)],
    ["arrivals", pending.arrivals, () => wakeArrived(me)],
    ["late", pending.late || pending.slots, () => planLate(me)],
    ["cancels", pending.cancels || pending.deadlines, () => deliverCancels(me)],
    ["stuck", pending.stuck, () => reassignStuck(me)],
    ["lost", pending.lost, () => recoverLost(me, contact)],
    ["silent", true, () => Promise.resolve(detachUnheard(me))],
    ["checks", pending.checks, () => checkNodes(me)],
    ["wake", pending.asleep, () => wakeDue(me)],
    ["moves", pending.moves, () => movePriorities(me)],
    ["lines", pending.lines, () => checkLine(me)],
    ["assign", true, () => dispatch(me, isBusy(pending) && !me.late_left)],
  ];
  me.late_left = false;
  let failed: unknown;
  for (const [name, due, step] of steps) {
    if (!due) continue;
    if (!await mayGoOn(me, contact)) break;
    if (CHANGES.has(name)) me.snapshot = undefined;
    await step().catch((error) => {
      loopFailed(`leader: ${name}`, error);
      failed = error;
    });
  }
  return failed;
}

/** Steps after which other runs may start than were seen with the renewal. */
const CHANGES = new Set([
  "slots",
  "events",
  "followers",
  "bulks",
  "arrivals",
  "late",
  "cancels",
  "stuck",
  "lost",
  "checks",
  "wake",
  "moves",
  "lines",
]);

/**
 * A long tick renews on its way. Else, on a day when everything is slow, each leader would lose the leader lock before its first
 * tick was done, and none would ever come to assigning a run.
 */
async function mayGoOn(me: LeaderContext, contact: Contact): Promise<boolean> {
  if (!me.term.trusted) return false;
  const left_ms = me.term.trusted_until_ms - monotonicMs();
  if (left_ms > me.settings.leader_lease_seconds * 1000 / 2) return true;
  renewLock(me);
  return typeof await look(me, contact) !== "string"; // the reason why not is found again by the next tick
}

/** An idle tick does not look for runs to assign. */
function isBusy(pending: PendingWork): boolean {
  return pending.ready || pending.asleep || pending.lines || pending.slots || pending.events || pending.followers ||
    pending.bulks || pending.arrivals ||
    pending.stuck || pending.lost;
}

/** So that the next tick elsewhere leads at once. Its own deadline: the stop signal has already fired. */
async function handOver(me: LeaderContext, newest_epoch: number): Promise<void> {
  await Promise.allSettled([
    within(1_000, "resigning", resign(me.sql, me.term)),
    within(1_000, "releasing the lock", releaseLeaderLock(me.redis, me.term.worker_id)),
    within(1_000, "telling the newest epoch", mirrorEpoch(me.redis, newest_epoch)),
  ]);
}

function listen(sql: Sql, { wakeup, calls }: LeaderContext): () => void {
  let silence: (() => Promise<void>) | undefined;
  let over = false;
  const hear = (what: string) => {
    calls.hear(what);
    wakeup.signal();
  };
  onWork(sql, hear).then((unlisten) => {
    silence = unlisten;
    if (over) return unlisten();
  }).catch((error) => loopFailed("listen", error));
  return () => {
    over = true;
    silence?.().catch(() => undefined);
  };
}
