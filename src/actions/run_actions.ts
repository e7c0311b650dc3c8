/** What people do with single runs and events, from the command line and the API: checked, and in the audit under their name. */
import { z } from "zod";
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import { hasFollowers } from "../events/followers.ts";
import { type Actor, recordAudit } from "../access/audit.ts";
import { createRuns, givenOwn } from "../runs/create_runs.ts";
import type { Db, Sql } from "../postgres/connection.ts";
import { readDemands } from "../definitions/definition_rows.ts";
import { emitEventBy } from "../events/events.ts";
import { requestCancel } from "../runs/requests.ts";
import { readRun, readState, type RunView } from "../runs/run_view.ts";
import { type RunState, TERMINAL } from "../runs/run_states.ts";
import { forceClose } from "../runs/states.ts";
import { checkText, EnqueueError, Refused, storable } from "./args.ts";
import {
  type Enqueued,
  enqueueMany,
  type EnqueueOptions,
  type EventGiven,
  eventOf,
  refuseKeyOfOther,
} from "./enqueue.ts";
import { action, anyJson, instant, jobName, priority, rowId, text } from "./action.ts";
import { type EventFit, eventFit } from "./event_fit.ts";
import { checkArgs } from "./job_args.ts";
import { checkFeasible, requirementsOf } from "./requirements.ts";

/** Enqueues one run; a key that was used before is no act. @throws EnqueueError */
async function enqueueRun(
  sql: Sql,
  job: { name: string; args: unknown; options?: EnqueueOptions; unknown?: UnknownKeys },
  by: Actor,
): Promise<Enqueued> {
  return await sql.begin(async (tx) => {
    const [enqueued] = await enqueueMany(tx, job.name, [{ ...job.options, args: job.args }]) as [Enqueued];
    if (job.unknown) await checkArgs(tx, job.name, job.args, job.unknown); // they fit
    const act = { ...by, action: "run.enqueue", target_type: "run", target_id: enqueued.id };
    if (enqueued.isNew) await recordAudit(tx, { ...act, after: { job_name: job.name } });
    return enqueued;
  }) as Enqueued;
}

/** Emits an event; `isNew` false: the dedupe key was used before, and this is the event of that time. @throws EnqueueError */
async function emitAs(sql: Db, type: string, given: EventGiven, by: Actor): Promise<Enqueued> {
  const { id, is_new } = await emitEventBy(sql, eventOf(type, given), by).catch(refuseKeyOfOther);
  return { id, isNew: is_new };
}

export async function existingRun(sql: Db, id: number): Promise<RunView> {
  const run = await readRun(sql, id);
  if (!run) throw noSuchRun(id);
  return run;
}

function noSuchRun(id: number): Refused {
  return new Refused(`Cannot find run "${id}": there is none`, {
    why: "not_found",
    fix: "`deno task runs ls` shows the newest",
    says: { code: "none", what: String(id) },
  });
}

/** Asks for the end of a run; `requested` false: somebody had asked before. @throws Refused when there is none, or it has ended. */
export async function cancelRun(sql: Db, id: number, by: Actor): Promise<{ state: RunState; requested: boolean }> {
  const answer = await requestCancel(sql, id, by);
  if (!answer) throw noSuchRun(id);
  if (TERMINAL.includes(answer.state)) throw hasEnded("cancel", id, answer.state);
  return answer;
}

function hasEnded(verb: "cancel" | "close", id: number, state: RunState): Refused {
  return new Refused(`Cannot ${verb} run "${id}": it has ended as ${state}`, {
    why: "conflict",
    says: { code: "run_ended", state },
  });
}

/** Ends a run that nothing else ends, as FAILED (`Missing`); a body of it that may still go on is not touched. @throws Refused */
export async function closeRun(sql: Db, id: number, by: Actor): Promise<void> {
  if (await forceClose(sql, id, by)) return;
  const state = await readState(sql, id);
  throw state === undefined ? noSuchRun(id) : hasEnded("close", id, state);
}

/**
 * A new run of what has ended, with its args or others: its key and node are those of the args, unless it was given its own.
 * @throws Refused
 */
export async function retryRun(
  sql: Sql,
  id: number,
  wish: Actor & { args?: unknown; idempotencyKey?: string; unknown?: UnknownKeys; withFollowers?: boolean },
): Promise<Enqueued & { rerun_of: number }> {
  const run = await existingRun(sql, id);
  if (!TERMINAL.includes(run.state)) {
    throw new Refused(`Cannot retry run "${id}": it is ${run.state}; wait for its end or cancel it first`, {
      why: "conflict",
      says: { code: "run_goes_on", state: run.state },
    });
  }
  if (wish.withFollowers && !await hasFollowers(sql, run.job_name)) {
    throw new Refused(
      `Cannot retry run "${id}" with its followers: no job comes after "${run.job_name}"; retry it alone`,
      {
        says: { code: "no_followers", job_name: run.job_name },
      },
    );
  }
  const edited = wish.args !== undefined;
  if (edited) await checkArgs(sql, run.job_name, wish.args, wish.unknown);
  checkText(`retry run "${id}"`, "idempotencyKey", wish.idempotencyKey);
  const args = edited ? storable(`a run of "${run.job_name}"`, wish.args, "args") : run.args;
  const own = await givenOwn(sql, id);
  const demands = await readDemands(sql, run.job_name);
  if (!demands) throw jobRemoved(run);
  const needs = await requirementsOf(sql, demands, own.node === undefined ? [args] : []);
  await checkFeasible(sql, `retry run "${id}"`, { ...needs, selectors: [...needs.selectors, own.node ?? ""] });
  return await sql.begin(async (tx) => {
    const [created] = await createRuns(tx, [{
      job_name: run.job_name,
      args,
      idempotency_key: wish.idempotencyKey,
      priority: run.priority,
      ...own,
      rerun_of: run.id,
      repeats_followers: wish.withFollowers,
    }]);
    if (created?.job_run_id === undefined) throw jobRemoved(run);
    if (!created.is_new) await checkIsRetryOf(tx, run, created.job_run_id);
    const act = { actor: wish.actor, reason: wish.reason, action: "run.retry", target_type: "run", target_id: run.id };
    if (created.is_new) {
      await recordAudit(tx, {
        ...act,
        after: { rerun: created.job_run_id, edited, with_followers: wish.withFollowers },
      });
    }
    return { id: created.job_run_id, isNew: created.is_new, rerun_of: run.id };
  }) as Enqueued & { rerun_of: number };
}

/** A key that was given for something else would answer that this run is repeated, and nothing would be. */
async function checkIsRetryOf(sql: Db, run: RunView, earlier_id: number): Promise<void> {
  if ((await readRun(sql, earlier_id))?.rerun_of === run.id) return;
  throw new Refused(
    `Cannot retry run "${run.id}": its idempotency key was used before, for run ${earlier_id}, which is no retry of this one; give another key`,
    { why: "conflict", says: { code: "key_of_other" } },
  );
}

function jobRemoved(run: RunView): EnqueueError {
  return new EnqueueError(
    `Cannot retry run "${run.id}": its job "${run.job_name}" was removed; restore its file and run \`deno task sync\``,
    { why: "conflict", says: { code: "job_gone", job_name: run.job_name } },
  );
}

const noted = z.custom<UnknownKeys>().optional();

export const enqueue = action({
  name: "run.enqueue",
  does: "enqueue a run of a job",
  needs: "emit",
  reason: "optional",
  input: z.strictObject({
    job_name: jobName,
    args: anyJson.meta({ description: "Checked against the job's args_schema", example: { tenant: "acme" } })
      .optional(),
    priority: priority.meta({ description: "Default: that of the job" }).optional(),
    run_at: instant.meta({ description: "Not before this instant" }).optional(),
    serial_key: text(500).meta({
      description: "Runs with the same key go one at a time, and not beside a bulk of that key",
    }).optional(),
    node: text(500).meta({ description: "The node, or labels, that must run it" }).optional(),
    idempotency_key: text(500).meta({ description: "A second run of the job with the same key is the first one" })
      .optional(),
    /** Takes down the keys of args that the job's schema does not name. */
    unknown: noted,
  }),
  audit: ["run.enqueue"],
  run({ sql, by }, { job_name, args = {}, unknown, ...given }): Promise<Enqueued> {
    const options = {
      priority: given.priority,
      runAt: given.run_at,
      serialKey: given.serial_key,
      node: given.node,
      idempotencyKey: given.idempotency_key,
    };
    return enqueueRun(sql, { name: job_name, args, options, unknown }, by);
  },
});

/** `fit`: which jobs take it; undefined when it is the event of an earlier time. */
export const emit = action({
  name: "event.emit",
  does: "emit an event",
  needs: "emit",
  reason: "optional",
  input: z.strictObject({
    event_type: z.string().meta({ description: "Jobs whose `on` names it get a run", example: "order.placed" }),
    payload: anyJson.meta({ description: "Becomes the args of the runs", example: { order: 7, total: 1200 } })
      .optional(),
    dedupe_key: text(500).meta({ description: "An event with a key that was used before starts nothing" }).optional(),
  }),
  audit: ["event.emit"],
  async run({ sql, by }, { event_type, payload = {}, dedupe_key }): Promise<Enqueued & { fit: EventFit | undefined }> {
    const emitted = await emitAs(sql, event_type, { payload, dedupeKey: dedupe_key }, by);
    return { ...emitted, fit: emitted.isNew ? await eventFit(sql, { event_type, payload }) : undefined };
  },
});

export const cancel = action({
  name: "run.cancel",
  does: "end a run that has not ended",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ id: rowId }),
  audit: ["run.cancel"],
  run: ({ sql, by }, { id }) => cancelRun(sql, id, by),
});

export const close = action({
  name: "run.close",
  does: "end a run that nothing else ends, as FAILED with the error `Missing`",
  needs: "operate",
  reason: "required",
  input: z.strictObject({ id: rowId }),
  audit: ["run.close"],
  run: ({ sql, by }, { id }) => closeRun(sql, id, by),
});

export const retry = action({
  name: "run.retry",
  does: "make a new run of one that has ended, with its args or others",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    id: rowId,
    args: anyJson.meta({ description: "Other args; left out: those of the run" }).optional(),
    with_followers: z.boolean().meta({
      description: "Run again what comes `after` it in its group as well; default false",
    }).optional(),
    idempotency_key: text(500).meta({ description: "Asking again with the same key makes nothing more" }).optional(),
    unknown: noted,
  }),
  audit: ["run.retry"],
  run: ({ sql, by }, { id, args, idempotency_key, unknown, with_followers }) =>
    retryRun(sql, id, { ...by, args, unknown, withFollowers: with_followers, idempotencyKey: idempotency_key }),
});
