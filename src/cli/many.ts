/** Acts on many runs at once: by their ids, or by a filter. A filter says first how many it means, and acts with --yes. */
import { priorityNumber } from "../job.ts";
import { rerunWhere } from "../store/births.ts";
import type { Sql } from "../store/db.ts";
import { reprioritizeWhere, requestCancelWhere } from "../store/requests.ts";
import type { RunFilter } from "../store/run_filter.ts";
import { countRuns } from "../store/run_view.ts";
import { type RunState, STATES, TERMINAL } from "../store/runs.ts";
import { filterFrom, idFrom, priorityFrom } from "./inputs.ts";
import { CommandError, EXIT, printJson } from "./output.ts";
import { actor, withDb } from "./runs.ts";

export interface ManyOptions {
  where?: string[];
  yes?: boolean;
  json?: boolean;
  reason: string;
}

/** So many rows are changed by one statement; a long list is a series of them. */
const AT_ONCE = 2_000;
const COUNT_UP_TO = 1_000_000;

const WAITING: RunState[] = ["PENDING", "RETRYING", "ORPHANED"];
const OPEN: RunState[] = STATES.filter((state) => !TERMINAL.includes(state));

export async function cancelManyCommand(options: ManyOptions): Promise<void> {
  await withMany("cancel", { ...filterFrom(options.where ?? []), only: OPEN }, options, async (sql, filter) => {
    const ids: number[] = [];
    for (let some; (some = await requestCancelWhere(sql, filter, { ...by(options), most: AT_ONCE })).length > 0;) {
      ids.push(...some);
    }
    return { ids, said: `cancel requested for ${ids.length} runs` };
  });
}

export async function retryManyCommand(options: ManyOptions): Promise<void> {
  const wish = crypto.randomUUID();
  await withMany("retry", { ...filterFrom(options.where ?? []), only: [...TERMINAL] }, options, async (sql, filter) => {
    const ids: number[] = [];
    for (let some; (some = await rerunWhere(sql, filter, { ...by(options), most: AT_ONCE, wish })).length > 0;) {
      ids.push(...some.map((run) => run.id));
    }
    return { ids, said: `${ids.length} runs enqueued, each with the args of one that had ended` };
  });
}

export async function reprioritizeCommand(
  id: string | undefined,
  options: ManyOptions & { priority: string },
): Promise<void> {
  const priority = priorityNumber(priorityFrom(options.priority));
  if (id === undefined && !options.where) {
    throw new CommandError("Name a run, or runs with --where job=NAME", EXIT.usage);
  }
  const filter: RunFilter = id === undefined ? filterFrom(options.where ?? []) : { id: idFrom(id) };
  const sure = id === undefined ? options : { ...options, yes: true };
  await withMany("reprioritize", { ...filter, only: WAITING }, sure, async (sql, chosen) => {
    const ids: number[] = [];
    const acts = { ...by(options), most: AT_ONCE, priority };
    for (let some; (some = await reprioritizeWhere(sql, chosen, acts)).length > 0;) ids.push(...some);
    return { ids, said: `${ids.length} waiting runs have priority ${priority} now` };
  });
}

async function withMany(
  verb: string,
  { only, ...filter }: RunFilter & { only: RunState[] },
  options: ManyOptions,
  act: (sql: Sql, filter: RunFilter) => Promise<{ ids: number[]; said: string }>,
): Promise<void> {
  const states = filter.states?.filter((state) => only.includes(state)) ?? only;
  if (states.length === 0) {
    throw new CommandError(`Cannot ${verb} runs that are ${filter.states?.join(", ")}`, EXIT.usage);
  }
  await withDb(async (sql) => {
    const meant = { ...filter, states };
    const count = await countRuns(sql, meant, COUNT_UP_TO);
    if (count === 0) throw new CommandError(`Cannot ${verb} anything: no run that could be is meant by this filter`);
    if (!options.yes) {
      const many = count === COUNT_UP_TO ? `${COUNT_UP_TO} runs or more` : count === 1 ? "1 run" : `${count} runs`;
      throw new CommandError(`This would ${verb} ${many}: add --yes to do it`, EXIT.usage);
    }
    const { ids, said } = await act(sql, meant);
    if (options.json) return printJson({ ids });
    console.log(said);
  });
}

function by(options: ManyOptions): { actor: string; reason: string } {
  return { actor: actor(), reason: options.reason };
}
