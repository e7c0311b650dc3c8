/** What people do with the steps of runs: go on from one of them in a new run, and end a wait. */
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { endWait } from "../steps/end_wait.ts";
import { forkRun } from "../steps/forks.ts";
import { listSteps, type StepRow } from "../steps/run_steps.ts";
import { Refused } from "./args.ts";
import { existingRun } from "./run_actions.ts";

export interface ForkAsked {
  /** The first step that is done anew, by its key or its name. */
  from?: string;
  /** Other results, by step. */
  set?: Record<string, unknown>;
  args?: unknown;
}

/** A new run that goes on from a step of an ended one, with copies of what came before. @throws Refused */
export async function forkRunAs(
  sql: Sql,
  id: number,
  asked: ForkAsked,
  by: Actor,
): Promise<{ id: number; steps: number }> {
  await existingRun(sql, id);
  const made = await forkRun(sql, { job_run_id: id, ...asked, by });
  if (!("refused" in made)) return made;
  throw new Refused(made.refused, { why: "conflict", says: { code: "fork_refused", text: made.refused } });
}

/** Ends a wait before its time: a sleep is over, a wait for a message or an event gives undefined. @throws Refused */
export async function endWaitAs(sql: Sql, id: number, step: string, by: Actor): Promise<{ key: string }> {
  const run = await existingRun(sql, id);
  const waits = (await listSteps(sql, id)).filter(({ state }) => state === "WAITING");
  const found = waits.find(({ key }) => key === step) ?? waits.find(({ key }) => nameIn(key) === step);
  if (!found) {
    const those = waits.length === 0 ? `it is ${run.state} and waits for nothing` : `it waits for ${named(waits)}`;
    throw new Refused(`Cannot end wait "${step}" of run ${id}: ${those}`, {
      why: "not_found",
      says: { code: "no_such_wait", names: waits.map(({ key }) => key) },
    });
  }
  if (await endWait(sql, { job_run_id: id, key: found.key }, by) === "ended") return { key: found.key };
  const other = found.child_run_id ?? found.child_bulk_id;
  const fix = other === null
    ? "it has just ended"
    : `it waits for ${found.kind === "bulk" ? "bulk" : "run"} ${other}; cancel that to end it`;
  throw new Refused(`Cannot end wait "${found.key}" of run ${id}: ${fix}`, {
    why: "conflict",
    says: { code: "wait_not_by_time", key: found.key },
  });
}

function nameIn(key: string): string {
  return key.slice(key.indexOf(":") + 1);
}

function named(waits: StepRow[]): string {
  const shown = waits.slice(0, 20).map(({ key }) => key).join(", ");
  return waits.length > 20 ? `${shown} and ${waits.length - 20} more` : shown;
}
