/** Runs: looking at them, enqueuing one, and acting on one. Acts on many: many_runs.ts. */
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { cancel, close, enqueue, existingRun, retry } from "../../actions/run_actions.ts";
import { RunLog } from "../../actions/run_log.ts";
import { reprioritize } from "../../actions/many_runs.ts";
import { findRuns, readAttempts } from "../../runs/run_view.ts";
import { type Api, bodyOf } from "./route.ts";
import { Created, LogLine, RunPage, RunWithAttempts } from "./shapes/run.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byId = z.object({ id: w.idText });

export function addRuns(api: Api): void {
  addReads(api);
  addEnqueue(api);
  addCancel(api);
  addClose(api);
  addRetry(api);
  addReprioritize(api);
}

function addReads(api: Api): void {
  api.route({
    needs: "read",
    costly: true,
    route: "GET /runs",
    summary: "The newest runs, or those that a filter means",
    description:
      "What few runs fit is looked for among some tens of thousands at a time: a page may hold less than `limit`, or nothing, and have a `next`.",
    query: z.strictObject({ ...w.filterInQuery, limit: w.limit, after: w.idText.optional() }),
    answers: { 200: { description: "A page of runs", schema: RunPage } },
  }, async ({ sql, query: { limit, after, ...filter } }) => {
    const { runs, looked_to } = await findRuns(sql, { ...w.filterFrom(filter), before_id: after, most: limit + 1 });
    const { items, next } = w.pageOf(runs, limit, (run) => run.id);
    return [200, { items, next: next ?? (looked_to === null ? null : String(looked_to)) }];
  });
  api.route({
    needs: "read",
    route: "GET /runs/{id}",
    summary: "One run with its earlier attempts; `wait_reason` says why it has not started",
    params: byId,
    answers: { 200: { description: "The run", schema: RunWithAttempts } },
    problems: ["not_found"],
  }, async ({ sql, params }) => {
    const run = await existingRun(sql, params.id);
    return [200, { ...run, attempts: await readAttempts(sql, run.id) }];
  });
  api.route({
    needs: "read",
    costly: true,
    route: "GET /runs/{id}/logs",
    summary: "What a run printed and logged, oldest first",
    description:
      "To follow a run, ask again with `after` as the id of the last line that you have. Lines of runs that ended long ago come from the archive.",
    params: byId,
    query: z.strictObject({ limit: w.limit, after: w.idText.optional() }),
    answers: { 200: { description: "A page of lines", schema: w.page(LogLine) } },
    problems: ["not_found", "archive"],
  }, async ({ sql, deps: { archive }, params, query: { limit, after = 0 } }) => {
    const run = await existingRun(sql, params.id);
    const lines = await new RunLog({ sql, archive }, run).read({ after, most: limit + 1 });
    return [200, w.pageOf(lines, limit, (line) => line.id)];
  });
}

function addEnqueue(api: Api): void {
  api.route({
    does: enqueue,
    route: "POST /runs",
    headers: w.idempotencyKey,
    body: bodyOf(enqueue, {
      without: ["unknown", "idempotency_key"],
      instead: {
        job_name: w.jobName,
        priority: w.priorityIn.optional(),
        run_at: w.timeIn.optional().openapi({ description: "Not before this instant, RFC 3339" }),
      },
    }),
    answers: {
      201: { description: "Enqueued", schema: Created },
      200: { description: "The idempotency key was used before: the run of that time", schema: Created },
    },
    problems: ["not_found"],
  }, async ({ perform, body, header }) => {
    const unknown = new UnknownKeys();
    const idempotency_key = header("idempotency-key");
    const { id, isNew } = await perform(enqueue, { ...body, idempotency_key, unknown });
    return [isNew ? 201 : 200, { id, is_new: isNew, ...w.warned(unknown.texts()) }];
  });
}

function addCancel(api: Api): void {
  api.route({
    does: cancel,
    route: "POST /runs/{id}/cancel",
    description:
      "A request: what has no body yet is canceled within a tick, a body is told, then killed, and then the run is CANCELED.",
    params: byId,
    body: bodyOf(cancel, { without: ["id"] }),
    body_optional: true,
    answers: {
      202: {
        description: "Requested",
        schema: z.object({
          id: w.id,
          state: w.State.openapi({ description: "As it is now" }),
          requested: z.boolean().openapi({ description: "False: it had been requested before" }),
        }),
      },
    },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params }) => [202, { id: params.id, ...await perform(cancel, params) }]);
}

function addClose(api: Api): void {
  api.route({
    does: close,
    route: "POST /runs/{id}/close",
    description:
      "The last resort: a body of it that may still go on is not touched, and its outcome will not count. `cancel` ends the body as well.",
    params: byId,
    body: bodyOf(close, { without: ["id"] }),
    answers: { 200: { description: "Closed", schema: z.object({ id: w.id, state: w.State }) } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params }) => {
    await perform(close, params);
    return [200, { id: params.id, state: "FAILED" as const }];
  });
}

function addRetry(api: Api): void {
  api.route({
    does: retry,
    route: "POST /runs/{id}/retry",
    params: byId,
    headers: w.idempotencyKey,
    body: bodyOf(retry, { without: ["id", "unknown", "idempotency_key"] }),
    body_optional: true,
    answers: {
      201: { description: "Enqueued", schema: Created.extend({ rerun_of: w.id }) },
      200: {
        description: "The idempotency key was used before: the run of that time",
        schema: Created.extend({ rerun_of: w.id }),
      },
    },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params, body, header }) => {
    const unknown = new UnknownKeys();
    const idempotency_key = header("idempotency-key");
    const { id, isNew, rerun_of } = await perform(retry, { ...params, ...body, idempotency_key, unknown });
    return [isNew ? 201 : 200, { id, is_new: isNew, rerun_of, ...w.warned(unknown.texts()) }];
  });
}

function addReprioritize(api: Api): void {
  api.route({
    does: reprioritize,
    route: "POST /runs/{id}/reprioritize",
    params: byId,
    body: bodyOf(reprioritize, { without: ["id"], instead: { priority: w.priorityIn } }),
    answers: { 200: { description: "It has this priority now", schema: z.object({ id: w.id, priority: w.priority }) } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params: { id }, body: { priority } }) => {
    await perform(reprioritize, { id, priority });
    return [200, { id, priority }];
  });
}
