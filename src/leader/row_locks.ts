/** Whether somebody's transaction kept the row of a run lately: then what would wait for such rows asks for those that are free. */
import { monotonicMs } from "../platform/timers.ts";
import { isLockTimeout } from "../postgres/connection.ts";
import type { LeaderContext } from "./leader_context.ts";

const KEPT_MS = 60_000;

export function lockedLately({ runs_locked_ms }: Pick<LeaderContext, "runs_locked_ms">): boolean {
  return runs_locked_ms !== undefined && monotonicMs() - runs_locked_ms < KEPT_MS;
}

/** Of what a statement failed with; gives that back, to be thrown. */
export function noteLocked(me: LeaderContext, error: unknown): unknown {
  if (isLockTimeout(error)) me.runs_locked_ms = monotonicMs();
  return error;
}
