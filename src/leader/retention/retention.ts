/**
 * What is kept for a time only, when that time is over: log lines move to the archive (log_retention.ts); bulks, runs and events are deleted
 * (run_retention.ts). Each is a walk through what is old, in pieces.
 *
 * Beside the tick, which does not wait for it; an election may, so statements are small. One piece at a time, and after each
 * a rest of many times as long as it took, so that all of it takes a few percent of a core at most. A walk that is through begins anew after a
 * while. Where a walk is stands nowhere: who leads next begins with the oldest.
 */
import { ArchiveError } from "../../archive/archive.ts";
import { loopFailed, observe } from "../../platform/facts.ts";
import { monotonicMs } from "../../platform/timers.ts";
import type { Settings } from "../../settings/settings.ts";
import type { LeaderContext } from "../leader_context.ts";
import { moveOldLogs } from "./log_retention.ts";
import { deleteEvents, deleteOldBulks, deleteOldRuns } from "./run_retention.ts";

const REST_FACTOR = 20;
const LEAST_REST_MS = 1_000;
const LONGEST_REST_MS = 3_600_000;
const FIRST_RETRY_MS = 10_000;
const DAY_MS = 86_400_000;

type KeptDays = "log_retention_days_db" | "run_retention_days";
/** One piece of a walk that came to `after`: where it goes on; null: it is through. */
type Piece = (me: LeaderContext, after: number) => Promise<number | null>;

export class Retention {
  readonly #walks = [
    new Walk("log_retention_days_db", moveOrTell()),
    new Walk("run_retention_days", deleteOldBulks), // before the runs: those of a bulk go with it
    new Walk("run_retention_days", deleteOldRuns),
    new Walk("run_retention_days", deleteEvents), // after the runs: an event stays while it has one
  ];
  #busy = false;
  #next_ms = 0;

  /** Begins a piece when it is time for one. Never waits for it. */
  keep(me: LeaderContext): void {
    if (this.#busy || monotonicMs() < this.#next_ms) return;
    const walk = this.#walks.find((one) => one.due(me.settings));
    if (!walk) return;
    this.#walks.push(...this.#walks.splice(this.#walks.indexOf(walk), 1)); // they take turns
    this.#busy = true;
    const began_ms = monotonicMs();
    walk.go(me).then(() => {
      const now_ms = monotonicMs();
      this.#next_ms = now_ms + Math.max(LEAST_REST_MS, REST_FACTOR * (now_ms - began_ms));
      this.#busy = false;
    });
  }
}

class Walk {
  readonly #kept: KeptDays;
  readonly #piece: Piece;
  #after = 0;
  #due_ms = 0;
  #failures = 0;
  /** It is through, by these settings. */
  #through: string | undefined;

  constructor(kept: KeptDays, piece: Piece) {
    this.#kept = kept;
    this.#piece = piece;
  }

  /** Settings that were changed hold at once. */
  due(settings: Settings): boolean {
    if (settings[this.#kept] === 0) return false;
    const changed = this.#through !== undefined && this.#through !== requestOf(settings);
    return changed || monotonicMs() >= this.#due_ms;
  }

  async go(me: LeaderContext): Promise<void> {
    const { settings } = me;
    try {
      const went_to = await this.#piece(me, this.#after);
      this.#after = went_to ?? 0;
      this.#failures = 0;
      this.#through = went_to === null ? requestOf(settings) : undefined;
      this.#due_ms = went_to === null ? monotonicMs() + often(settings[this.#kept]) : 0;
    } catch (error) {
      this.#due_ms = monotonicMs() + Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LONGEST_REST_MS);
      loopFailed("leader: retention", error instanceof ArchiveError ? `${error.message}; ${error.fix}` : error);
    }
  }
}

/** What is kept for minutes is looked at more often than what is kept for weeks. */
function often(days: number): number {
  return Math.min(Math.max(days * DAY_MS / 20, LEAST_REST_MS), LONGEST_REST_MS);
}

function requestOf({ old_logs, log_retention_days_db, run_retention_days }: Settings): string {
  return `${old_logs} ${log_retention_days_db} ${run_retention_days}`;
}

/** Told once in a term; `deno task doctor` says it as well. */
function moveOrTell(): Piece {
  let told = false;
  return async (me, after) => {
    const { went_to, kept } = await moveOldLogs(me, after);
    const { worker_id, epoch } = me.term;
    const meaning = "old log lines stay in Postgres: set SCHEDULER_ARCHIVE, or old_logs=delete";
    if (kept > 0 && !told) observe("logs.kept", { worker_id, epoch, runs: kept, meaning });
    told = kept > 0;
    return went_to;
  };
}
