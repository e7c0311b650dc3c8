/** Acts on all runs that a filter means: cancel, retry, another priority. They say first how many that would be. */
import { z } from "zod";
import type { Actor } from "../access/audit.ts";
import { needsOfRepeats, rerunWhere } from "../runs/create_runs.ts";
import type { Sql } from "../postgres/connection.ts";
import { reprioritizeWhere, requestCancelWhere } from "../runs/requests.ts";
import type { RunFilter } from "../runs/run_filter.ts";
import { countRuns, searchRuns } from "../runs/run_search.ts";
import { MAY_START } from "../runs/run_states.ts";
import { type RunState, STATES, TERMINAL } from "../runs/run_states.ts";
import { priorityNumber } from "../job.ts";
import { action, instant, priority, rowId, text } from "./action.ts";
import { Refused } from "./args.ts";
import { checkFeasible } from "./requirements.ts";
import { existingRun } from "./run_actions.ts";

/** What to do; `wish` names a retry, so that asking again with it adds nothing. */
export type ManyAct =
  | { verb: "cancel" }
  | { verb: "retry"; wish: string }
  | { verb: "reprioritize"; priority: number };

/** So many rows are changed by one statement; a long list is a series of them. */
const AT_ONCE = 2_000;
/** Counted up to here, and at once looked through up to here. */
export const COUNT_UP_TO = 1_000_000;
const LOOK = 200_000;

/** Runs in these states can be meant. */
const CAN_BE: Record<ManyAct["verb"], readonly RunState[]> = {
  cancel: STATES.filter((state) => !TERMINAL.includes(state)),
  retry: TERMINAL,
  reprioritize: MAY_START,
};

/** The filter without the states in which this cannot be done; perhaps none is left. */
export function meantBy(filter: RunFilter, verb: ManyAct["verb"]): RunFilter {
  return { ...filter, states: filter.states?.filter((state) => CAN_BE[verb].includes(state)) ?? CAN_BE[verb] };
}

/** How many runs an act would change, counted up to a million. */
export async function countMeant(sql: Sql, filter: RunFilter, verb: ManyAct["verb"]): Promise<number> {
  return (await countRuns(sql, meantBy(filter, verb), { most: COUNT_UP_TO, look: COUNT_UP_TO })).runs;
}

/** Does it, a statement for each few thousand; gives the ids, those of the new runs for a retry. */
export async function actOnMany(sql: Sql, filter: RunFilter, act: ManyAct, by: Actor): Promise<number[]> {
  const meant = meantBy(filter, act.verb);
  const done: number[] = [];
  for (let after_id = meant.after_id ?? 0;;) {
    const { ids, looked_to } = await searchRuns(sql, { ...meant, after_id }, { most: AT_ONCE, look: LOOK });
    if (ids.length > 0) done.push(...await actOnSome(sql, { ...meant, ids }, act, { ...by, most: AT_ONCE }));
    const last = looked_to ?? (ids.length === AT_ONCE ? ids.at(-1) : undefined);
    if (last === undefined) return done;
    after_id = last;
  }
}

/** Another priority for one run that waits. @throws Refused when there is none, or it does not wait. */
async function reprioritizeRun(sql: Sql, id: number, priority: number, by: Actor): Promise<void> {
  const moved = await actOnMany(sql, { id }, { verb: "reprioritize", priority }, by);
  const run = await existingRun(sql, id);
  if (moved.length > 0 || run.priority === priority) return;
  throw new Refused(`Cannot reprioritize run "${id}": it is ${run.state}, only what waits can be moved`, {
    why: "conflict",
    says: { code: "waits_not", state: run.state },
  });
}

/** What no node and no resource could ever meet is refused, as it is for one; runs of statements before this one are made. */
async function checkRepeatable(sql: Sql, ids: readonly number[]): Promise<void> {
  for (const { job_name, ...needs } of await needsOfRepeats(sql, ids)) {
    await checkFeasible(sql, `retry runs of "${job_name}"`, needs);
  }
}

async function actOnSome(sql: Sql, filter: RunFilter, act: ManyAct, by: Actor & { most: number }): Promise<number[]> {
  switch (act.verb) {
    case "cancel":
      return await requestCancelWhere(sql, filter, by);
    case "retry":
      await checkRepeatable(sql, filter.ids ?? []);
      return (await rerunWhere(sql, filter, { ...by, wish: act.wish })).map((run) => run.id);
    case "reprioritize":
      return await reprioritizeWhere(sql, filter, { ...by, priority: act.priority });
  }
}

export const reprioritize = action({
  name: "run.reprioritize",
  does: "give a run that waits another priority",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ id: rowId, priority: priority.meta({ description: "0 to 999, lower first, or a name" }) }),
  audit: ["run.reprioritize"],
  run: ({ sql, by }, { id, priority }) => reprioritizeRun(sql, id, priorityNumber(priority), by),
});

const FILTER = z.strictObject({
  id: rowId,
  ids: z.array(rowId),
  job_name: text(500),
  states: z.array(z.enum(STATES)),
  serial_key: text(500),
  node: text(500),
  ran_on: text(500),
  worker_id: text(500),
  error_name: text(500),
  bulk_id: rowId,
  since: instant,
  until: instant,
  after_id: z.int().min(0),
  before_id: rowId,
}).partial().meta({ description: "All of its parts must hold" });

export type MeantRuns = z.input<typeof FILTER>;

/** Gives the ids: of the runs that are to end. */
export const cancelMany = action({
  name: "runs.cancel",
  does: "end all runs that a filter means and that have not ended",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ filter: FILTER }),
  audit: ["run.cancel"],
  confirm: true,
  run: ({ sql, by }, { filter }) => actOnMany(sql, filter, { verb: "cancel" }, by),
});

/** Gives the ids: of the new runs. */
export const retryMany = action({
  name: "runs.retry",
  does: "make a new run of each that a filter means and that has ended, with its args",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    filter: FILTER,
    wish: text(500).meta({ description: "Asking again with it makes only what the first time did not reach" }),
  }),
  audit: ["run.retry"],
  confirm: true,
  run: ({ sql, by }, { filter, wish }) => actOnMany(sql, filter, { verb: "retry", wish }, by),
});

/** Gives the ids: of the runs that moved. */
export const reprioritizeMany = action({
  name: "runs.reprioritize",
  does: "give all runs that a filter means and that wait another priority",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ filter: FILTER, priority }),
  audit: ["run.reprioritize"],
  confirm: true,
  run: ({ sql, by }, { filter, priority }) =>
    actOnMany(sql, filter, { verb: "reprioritize", priority: priorityNumber(priority) }, by),
});
