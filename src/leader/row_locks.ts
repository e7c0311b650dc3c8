/** Whether somebody's transaction kept the row of a run lately: then what would wait for such rows asks for those that are free. */
import { monotonicMs } from "../platform/timers.ts";
import { isLockTimeout } from "../postgres/connection.ts";
import type { Leading } from "./leader_context.ts";

const KEPT_MS = 60_000;

export function keptLately({ runs_kept_ms }: Pick<Leading, "runs_kept_ms">): boolean {
  return runs_kept_ms !== undefined && monotonicMs() - runs_kept_ms < KEPT_MS;
}

/** Of what a statement failed with; gives that back, to be thrown. */
export function noteKept(me: Leading, error: unknown): unknown {
  if (isLockTimeout(error)) me.runs_kept_ms = monotonicMs();
  return error;
}
