/** What people do with the steps of runs: send them messages, go on from one of them in a new run, and end a wait. */
import { z } from "zod";
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { endWait } from "../steps/end_wait.ts";
import { forkRun } from "../steps/forks.ts";
import { listSteps, type StepRow, stepsNamed } from "../steps/run_steps.ts";
import { action, type ActionScope, anyJson, rowId, text } from "./action.ts";
import { Refused } from "./args.ts";
import { type MessageSent, sendToRun } from "./messages.ts";
import { existingRun } from "./run_actions.ts";
import type { UnknownKeys } from "../sync/unknown_keys.ts";

interface ForkAsked {
  /** The first step that is done anew, by its key or its name. */
  from?: string;
  /** Other results, by step. */
  set?: Record<string, unknown>;
  args?: unknown;
}

/** A new run that goes on from a step of an ended one, with copies of what came before. @throws Refused */
async function forkRunAs(
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
async function endWaitAs(sql: Sql, id: number, step: string, by: Actor): Promise<{ key: string }> {
  const run = await existingRun(sql, id);
  const waits = (await listSteps(sql, id)).filter(({ state }) => state === "WAITING");
  const [found] = stepsNamed(waits, step);
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

function named(waits: StepRow[]): string {
  const shown = waits.slice(0, 20).map(({ key }) => key).join(", ");
  return waits.length > 20 ? `${shown} and ${waits.length - 20} more` : shown;
}

export const send = action({
  name: "run.send",
  does: "send a message to a run",
  needs: "emit",
  reason: "optional",
  input: z.strictObject({
    id: rowId,
    name: text(64).meta({ description: "Of the message, as the job's file names it", example: "approval" }),
    payload: anyJson.meta({ description: "Checked by the schema of the message", example: { approved: true } })
      .optional(),
    dedupe_key: text(500).meta({ description: "A second message of the run with the same key is the first one" })
      .optional(),
    /** Takes down the keys of the payload that the schema does not name. */
    unknown: z.custom<UnknownKeys>().optional(),
  }),
  audit: ["run.send"],
  run: (on, { id, name, payload, dedupe_key, unknown }): Promise<MessageSent> =>
    sendToRun(on.sql, id, { name, payload }, { ...senderOf(on), dedupeKey: dedupe_key, unknown }),
});

/** Whoever has the database, as the command line does, is not asked who it is: it could write the answer itself. */
function senderOf({ by, allows }: ActionScope) {
  const emit = !allows("operate");
  const role = by.actor.startsWith("cli:") ? undefined : allows("admin") ? "admin" : emit ? "viewer" : "operator";
  return { sent_by: by.actor, by, emit, role } as const;
}

export const fork = action({
  name: "run.fork",
  does: "make a new run that goes on from a step of an ended one",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    id: rowId,
    from: text(300).meta({
      description: "The first step that is done anew, by key or name; default: what comes after the last",
    }).optional(),
    set: z.record(z.string(), anyJson).meta({ description: "Other results of steps before that, by key or name" })
      .optional(),
    args: anyJson.meta({ description: "Other args; left out: those of the run" }).optional(),
  }),
  audit: ["run.fork"],
  run: ({ sql, by }, { id, ...asked }) => forkRunAs(sql, id, asked, by),
});

export const wake = action({
  name: "run.wake",
  does: "end a wait of a run now",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    id: rowId,
    step: text(300).meta({ description: "The step that waits, by key or name", example: "sleep:" }),
  }),
  audit: ["run.wake"],
  run: ({ sql, by }, { id, step }) => endWaitAs(sql, id, step, by),
});
