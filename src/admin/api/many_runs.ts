/** Acts on all runs that a filter means; with `dry_run` only how many that would be. */
import {
  cancelMany,
  countMeant,
  type ManyAct,
  type MeantRuns,
  reprioritizeMany,
  retryMany,
} from "../../actions/many_runs.ts";
import type { Sql } from "../../postgres/connection.ts";
import type { RunState } from "../../runs/run_states.ts";
import { type Api, bodyOf, type RouteResult } from "./route.ts";
import { ManyDone } from "./shapes/run.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const COMMON = {
  filter: w.FilterInBody,
  dry_run: z.boolean().default(false).openapi({ description: "Change nothing, only say how many runs it would be" }),
};

const answers = { 200: { description: "How many runs were changed, or would be", schema: ManyDone } };

export function addManyRuns(api: Api): void {
  api.route({
    does: cancelMany,
    costly: true,
    route: "POST /runs/cancel",
    body: bodyOf(cancelMany, { instead: COMMON }),
    answers,
  }, (ask) => act(ask, "cancel", (filter) => ask.perform(cancelMany, { filter })));
  api.route({
    does: retryMany,
    costly: true,
    route: "POST /runs/retry",
    description: "With an Idempotency-Key, asking again enqueues only what the first time did not reach.",
    headers: w.idempotencyKey,
    body: bodyOf(retryMany, { without: ["wish"], instead: COMMON }),
    answers,
  }, (ask) => {
    const wish = ask.header("idempotency-key") ?? crypto.randomUUID();
    return act(ask, "retry", (filter) => ask.perform(retryMany, { filter, wish }));
  });
  api.route({
    does: reprioritizeMany,
    costly: true,
    route: "POST /runs/reprioritize",
    body: bodyOf(reprioritizeMany, { instead: { ...COMMON, priority: w.priorityIn } }),
    answers,
  }, (ask) => {
    const { priority } = ask.body;
    return act(ask, "reprioritize", (filter) => ask.perform(reprioritizeMany, { filter, priority }));
  });
}

interface Common {
  filter: { state?: RunState[] } & Omit<MeantRuns, "states">;
  dry_run: boolean;
}

async function act(
  { sql, body: { filter: { state, ...rest }, dry_run } }: { sql: Sql; body: Common },
  verb: ManyAct["verb"],
  perform: (filter: MeantRuns) => Promise<number[]>,
): Promise<RouteResult> {
  const filter = { ...rest, states: state };
  if (dry_run) return [200, { dry_run: true, runs: await countMeant(sql, filter, verb) }];
  return [200, { dry_run: false, runs: (await perform(filter)).length }];
}
