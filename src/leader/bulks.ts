/**
 * Looks after bulks that have changed: ends those that are done, asks the runs of canceled ones to end, pauses and throttles
 * those that fail, and feeds the others. What each of them needs is decided here, from what was read; the statements are
 * those of bulks/bulk_dispatch.ts. A leader that dies in the middle leaves the checks to the next one.
 */
import { observe } from "../platform/facts.ts";
import { isLockTimeout, isUniqueViolation } from "../postgres/connection.ts";
import {
  bulksSeen,
  type BulkState,
  bulksToSee,
  feed,
  finish,
  type Helping,
  letGo,
  pauseFailing,
  planFeed,
  readBulks,
  throttle,
  THROTTLE_WINDOW,
} from "../bulks/bulk_dispatch.ts";
import { lockedRows } from "../postgres/row_locks.ts";
import { requestBulkCancel } from "../runs/requests.ts";
import type { LeaderContext } from "./leader_context.ts";

const CHECKS_AT_ONCE = 1000;
/** Items of one bulk at once, so that no statement takes long. */
const ITEMS_AT_ONCE = 1000;
/** Requests of one bulk at once. */
const CANCELS_AT_ONCE = 5_000;
/** When runs are looked at again whose rows somebody's transaction keeps. */
const KEPT_MS = 1_000;
/** A plan that is this far off is left as it is. */
const PLAN_SLACK_MS = 20;

/**
 * A bulk whose row an open transaction keeps would hold up the tick for as long as a statement waits for a lock. When one did, those are
 * left for later until there are none.
 */
export async function lookAfterBulks(me: LeaderContext): Promise<void> {
  const { check_ids, bulk_ids, more } = await bulksToSee(me.sql, CHECKS_AT_ONCE);
  if (bulk_ids.length === 0) return;
  const kept = me.bulks_locked ? await lockedRows(me.sql, "bulk", bulk_ids) : [];
  me.bulks_locked = kept.length > 0;
  const seen = await seeTo(me, bulk_ids.filter((id) => !kept.includes(id))).catch((error) => {
    me.bulks_locked ||= isLockTimeout(error);
    throw error;
  });
  if (!seen) return;
  if (check_ids.length > 0) await bulksSeen(me.sql, me.term, check_ids, kept);
  if (more) me.wakeup.signal();
}

/** False: they are to be looked at again. */
async function seeTo(me: LeaderContext, bulk_ids: number[]): Promise<boolean> {
  const helpings: Helping[] = [];
  const names = new Map<number, string>();
  for (const bulk of await readBulks(me.sql, bulk_ids)) {
    if (!me.term.trusted) return false;
    names.set(bulk.bulk_id, bulk.job_name);
    const helping = await lookAfter(me, bulk);
    if (helping) helpings.push(helping);
  }
  return helpings.length === 0 || await feedAll(me, helpings, names);
}

/** False: two bulks of one serial key wanted to begin. What was read is old, so the next tick looks again. */
async function feedAll(me: LeaderContext, helpings: Helping[], names: Map<number, string>): Promise<boolean> {
  try {
    for (const { bulk_id, runs } of await feed(me.sql, me.term, helpings)) {
      observe("bulk.fed", { bulk_id, job_name: names.get(bulk_id) as string, runs });
    }
  } catch (error) {
    if (!isUniqueViolation(error, "bulk_serial")) throw error;
    me.wakeup.signal();
    return false;
  }
  for (const { bulk_id } of helpings.filter((one) => one.items === ITEMS_AT_ONCE)) {
    await planFeed(me.sql, me.term, bulk_id, 0);
    me.wakeup.signal();
  }
  return true;
}

async function lookAfter(me: LeaderContext, bulk: BulkState): Promise<Helping | undefined> {
  const { bulk_id } = bulk;
  if (bulk.state === "CANCELED" && bulk.unasked > 0) {
    const asked = await requestBulkCancel(me.sql, me.term, bulk_id, CANCELS_AT_ONCE);
    observe("bulk.canceled", { bulk_id, runs: asked.length });
    me.wakeup.signal(); // for the step that delivers them
    if (asked.length < bulk.unasked) { // some are left
      return void await planFeed(me.sql, me.term, bulk_id, asked.length === CANCELS_AT_ONCE ? 0 : KEPT_MS);
    }
  }
  if (bulk.live === 0 && (bulk.state === "CANCELED" || bulk.next_seq > bulk.last_seq)) {
    return void await end(me, bulk_id);
  }
  if (bulk.state === "RUNNING") {
    if (await isFailing(me, bulk)) return;
    bulk.running_limit = await throttledLimit(me, bulk);
  }
  const let_go = bulk.held > 0 && bulk.running < bulk.running_limit && await letGo(me.sql, me.term, bulk_id);
  const items = roomFor(bulk);
  if (items > 0 && bulk.wait_ms === 0) return { bulk_id, next_seq: bulk.next_seq, items };
  const plan_ms = let_go && let_go.left ? KEPT_MS : items > 0 ? bulk.wait_ms : null;
  if (isOff(plan_ms, bulk.plan_ms)) await planFeed(me.sql, me.term, bulk_id, plan_ms);
}

/** How many items are to become runs, if its interval is over. */
export function roomFor(bulk: BulkState): number {
  if (bulk.state !== "RUNNING" || bulk.behind) return 0;
  const live = bulk.live - bulk.suspended;
  const going = live - bulk.retrying;
  return Math.min(
    bulk.running_limit - going,
    2 * bulk.running_limit - live,
    bulk.last_seq - bulk.next_seq + 1,
    ITEMS_AT_ONCE,
  );
}

/** A plan for the end of the interval is kept while there is no room: room may come before, and then it is needed. */
function isOff(wanted_ms: number | null, planned_ms: number | null): boolean {
  if (wanted_ms === null) return planned_ms !== null && planned_ms <= 0;
  return planned_ms === null || Math.abs(wanted_ms - planned_ms) > PLAN_SLACK_MS;
}

async function end(me: LeaderContext, bulk_id: number): Promise<void> {
  const ended = await finish(me.sql, me.term, bulk_id);
  if (!ended) return;
  observe("bulk.finished", { bulk_id, ...ended });
  me.wakeup.signal(); // for who is next of its serial key
}

async function isFailing(me: LeaderContext, { bulk_id, failures, max_failures }: BulkState): Promise<boolean> {
  if (max_failures === null || failures <= max_failures) return false;
  const paused = await pauseFailing(me.sql, me.term, bulk_id);
  if (paused) observe("bulk.paused", { bulk_id, reason: paused.reason });
  return true;
}

/** Half as many while too much fails, and one more after each window of ends that did not. */
export function throttleFor(bulk: BulkState): number | null {
  const { parallel, running_limit, throttled, throttle_above } = bulk;
  if (throttle_above === null) return null;
  if (bulk.recent < THROTTLE_WINDOW) return throttled;
  if (bulk.recent_failures / bulk.recent > throttle_above) return Math.max(1, Math.floor(running_limit / 2));
  return throttled === null || throttled + 1 >= parallel ? null : throttled + 1;
}

async function throttledLimit(me: LeaderContext, bulk: BulkState): Promise<number> {
  const throttled = throttleFor(bulk);
  if (throttled === bulk.throttled) return bulk.running_limit;
  await throttle(me.sql, me.term, bulk.bulk_id, throttled);
  const running_limit = Math.min(bulk.parallel, throttled ?? bulk.parallel);
  observe("bulk.throttled", {
    bulk_id: bulk.bulk_id,
    parallel: bulk.parallel,
    running_limit,
    error_rate: bulk.recent === 0 ? 0 : bulk.recent_failures / bulk.recent,
  });
  return running_limit;
}
