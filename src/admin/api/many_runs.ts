/** Acts on all runs that a filter means; with `dry_run` only how many that would be. */
import { actOnMany, countMeant, type ManyAct } from "../../actions/many_runs.ts";
import type { RunFilter } from "../../runs/run_filter.ts";
import type { Api, Ask, RouteResult } from "./route.ts";
import { ManyDone } from "./shapes/run.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const COMMON = {
  filter: w.FilterInBody,
  dry_run: z.boolean().default(false).openapi({ description: "Change nothing, only say how many runs it would be" }),
  reason: w.reason,
};

const answers = { 200: { description: "How many runs were changed, or would be", schema: ManyDone } };

export function addManyRuns(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /runs/cancel",
    summary: "End all runs that a filter means and that have not ended",
    body: z.strictObject(COMMON),
    answers,
  }, (ask) => act(ask, { verb: "cancel" }));
  api.route({
    needs: "operate",
    route: "POST /runs/retry",
    summary: "A new run for each that a filter means and that has ended, with its args",
    description: "With an Idempotency-Key, asking again enqueues only what the first time did not reach.",
    headers: w.idempotencyKey,
    body: z.strictObject(COMMON),
    answers,
  }, (ask) => act(ask, { verb: "retry", wish: ask.header("idempotency-key") ?? crypto.randomUUID() }));
  api.route({
    needs: "operate",
    route: "POST /runs/reprioritize",
    summary: "Another priority for all runs that a filter means and that wait",
    body: z.strictObject({ ...COMMON, priority: w.priorityIn }),
    answers,
  }, (ask) => act(ask, { verb: "reprioritize", priority: ask.body.priority }));
}

interface Common {
  filter: { state?: RunFilter["states"] } & RunFilter;
  dry_run: boolean;
  reason?: string;
}

async function act({ sql, actor, body }: Ask<unknown, unknown, Common>, what: ManyAct): Promise<RouteResult> {
  const filter = w.filterFrom(body.filter);
  if (body.dry_run) return [200, { dry_run: true, runs: await countMeant(sql, filter, what.verb) }];
  const ids = await actOnMany(sql, filter, what, { actor, reason: body.reason ?? w.NO_REASON });
  return [200, { dry_run: false, runs: ids.length }];
}
