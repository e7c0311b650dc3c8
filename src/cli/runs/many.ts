/** Acts on many runs at once: by their ids, or by a filter. A filter says first how many it means, and acts with --yes. */
import {
  cancelMany,
  COUNT_UP_TO,
  countMeant,
  type ManyAct,
  meantBy,
  type MeantRuns,
  reprioritize,
  reprioritizeMany,
  retryMany,
} from "../../actions/many_runs.ts";
import type { Sql } from "../../postgres/connection.ts";
import { counted } from "../../platform/text.ts";
import { priorityNumber } from "../../job.ts";
import type { RunFilter } from "../../runs/run_filter.ts";
import { act, performOn, type Reasoned, withDb } from "../operator.ts";
import { filterFrom, idFrom, priorityFrom } from "../inputs.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";

export interface ManyOptions extends Reasoned {
  where?: string[];
  yes?: boolean;
}

export async function cancelManyCommand(options: ManyOptions): Promise<void> {
  const filter = filterFrom(options.where ?? []);
  await withMany(filter, "cancel", options, {
    does: (sql, filter) => performOn(sql, cancelMany, { filter }, options),
    said: (n) => `cancel requested for ${counted(n, "run")}`,
  });
}

export async function retryManyCommand(options: ManyOptions): Promise<void> {
  const wish = crypto.randomUUID();
  await withMany(filterFrom(options.where ?? []), "retry", options, {
    does: (sql, filter) => performOn(sql, retryMany, { filter, wish }, options),
    said: (n) => `${counted(n, "run")} created, each with the args of an ended run`,
  });
}

export async function reprioritizeManyCommand(options: ManyOptions & { priority: string }): Promise<void> {
  const priority = priorityNumber(priorityFrom(options.priority));
  await withMany(filterFrom(options.where ?? []), "reprioritize", options, {
    does: (sql, filter) => performOn(sql, reprioritizeMany, { filter, priority }, options),
    said: (n) => `${counted(n, "waiting run")} changed to priority ${priority}`,
  });
}

export async function reprioritizeOneCommand(
  text: string,
  options: Omit<ManyOptions, "where"> & { priority: string },
): Promise<void> {
  const [id, priority] = [idFrom(text), priorityNumber(priorityFrom(options.priority))];
  await act(reprioritize, { id, priority }, options);
  if (options.json) return printJson({ ids: [id] });
  say(`run ${id} now has priority ${priority}`);
}

async function withMany(
  filter: RunFilter,
  verb: ManyAct["verb"],
  options: ManyOptions,
  { does, said }: { does: (sql: Sql, filter: MeantRuns) => Promise<number[]>; said: (runs: number) => string },
): Promise<void> {
  if (meantBy(filter, verb).states?.length === 0) {
    throw new CommandError(`Cannot ${verb} runs that are ${filter.states?.join(", ")}`, EXIT.usage);
  }
  await withDb(async (sql) => {
    const count = await countMeant(sql, filter, verb);
    if (count === 0) {
      throw new CommandError(`Cannot ${verb} runs: none that could be matches this filter; change --where`);
    }
    if (!options.yes) {
      const many = counted(count, "run") + (count === COUNT_UP_TO ? " or more" : "");
      throw new CommandError(`This would ${verb} ${many}; add --yes to do it`, EXIT.usage);
    }
    const ids = await does(sql, {
      ...filter,
      states: filter.states && [...filter.states],
      ids: filter.ids && [...filter.ids],
    });
    if (options.json) return printJson({ ids });
    say(said(ids.length));
  });
}
