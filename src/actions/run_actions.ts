/** What people do with single runs and events, from the command line and the API: checked, and in the audit under their name. */
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
import { checkArgs } from "./job_args.ts";
import { checkFeasible, requirementsOf } from "./requirements.ts";

/** Enqueues one run; a key that was used before is no act. @throws EnqueueError */
export async function enqueueRun(
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
export async function emitAs(sql: Db, type: string, given: EventGiven, by: Actor): Promise<Enqueued> {
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
