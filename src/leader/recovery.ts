/**
 * What became of the work that was given away: runs that did not start, and runs of workers that are lost.
 *
 * Bury only after this leader has itself been in contact with Postgres for a whole worker lease: when the database was
 * away, every lease is over, and those who could not renew are not dead. Contact starts anew when two successful
 * statements lie further apart than half a worker lease, and when a leader takes over.
 */
import { observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { monotonicMs } from "../platform/timers.ts";
import { buryWorkers } from "../nodes/workers.ts";
import { orphanAssigned, orphanLost } from "../runs/lost_runs.ts";
import type { LeaderContext } from "./leader_context.ts";
import { stored } from "../locale/message.ts";

export class Contact {
  readonly #now: () => number;
  #since_ms: number;
  #last_ms: number;

  constructor(now: () => number = monotonicMs) {
    this.#now = now;
    this.#since_ms = this.#last_ms = now();
  }

  /** A statement has succeeded. */
  made(worker_lease_ms: number): void {
    const now_ms = this.#now();
    if (now_ms - this.#last_ms > worker_lease_ms / 2) this.#since_ms = now_ms;
    this.#last_ms = now_ms;
  }

  isLongerThan(worker_lease_ms: number): boolean {
    return this.#last_ms - this.#since_ms > worker_lease_ms;
  }
}

/** ASSIGNED for too long, or to a worker that is detached: given to someone else. One that is not detached answers calls but starts nothing, so it gets no more for a while. */
export async function reassignStuck(me: LeaderContext): Promise<void> {
  const limit_ms = me.settings.reassign_after_seconds * 1000;
  await failpoint("after-lease-check-stuck");
  const stuck = await orphanAssigned(me.sql, me.term, { assigned_longer_than_ms: limit_ms });
  for (const run of stuck) {
    observe("run.orphaned", { ...run, cause: stored("runs.cause.not_started_in", { ms: limit_ms }) });
  }
  for (const worker_id of new Set(stuck.map((run) => run.worker_id))) {
    me.monitor.suspect(worker_id, me.settings.suspect_seconds);
  }
  await failpoint("after-lease-check-detached");
  const detached = await orphanAssigned(me.sql, me.term, "to_detached");
  for (const run of detached) observe("run.orphaned", { ...run, cause: stored("runs.cause.worker_detached") });
  if (stuck.length + detached.length > 0) me.wakeup.signal();
}

/** Workers whose lease is over are dead, finally; only then is their work given to others. */
export async function recoverLost(me: LeaderContext, contact: Contact): Promise<void> {
  if (contact.isLongerThan(me.settings.worker_lease_seconds * 1000)) {
    await failpoint("after-lease-check-bury");
    for (const worker_id of await buryWorkers(me.sql, me.term)) {
      observe("worker.buried", { worker_id, epoch: me.term.epoch });
    }
  }
  await failpoint("after-bury-before-orphan");
  for (const run of await orphanLost(me.sql, me.term)) {
    observe("run.orphaned", { ...run, cause: stored("runs.cause.worker_dead") });
    me.wakeup.signal();
  }
}
