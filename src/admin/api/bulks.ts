/** Bulks: many runs of one job, looked at, made and changed while they run. */
import { applyChanges, startBulk } from "../../actions/bulk.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { argsCheck } from "../../actions/job_args.ts";
import { type BulkView, forecastBulk, listBulks, readBulk } from "../../bulks/bulk_view.ts";
import { retryBulk } from "../../bulks/bulks.ts";
import type { Sql } from "../../postgres/connection.ts";
import { Bulk, BulkMade, BulkPage, FIXED, PACE, STATE_OF, WhatIf } from "./shapes/bulk.ts";
import { ApiProblem } from "./problem.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byId = z.object({ id: w.idText });
const MOST_ITEMS = 100_000;
const LARGEST_BODY = 20_000_000;

export function addBulks(api: Api): void {
  addReads(api);
  addStart(api);
  addChanges(api);
  addRetry(api);
}

function addReads(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /bulks",
    summary: "The newest bulks, with how far and how fast they are",
    query: z.strictObject({
      open: z.enum(["true", "false"]).optional().openapi({ description: "true: only those that have not ended" }),
      limit: w.limit,
      after: w.idText.optional(),
    }),
    answers: { 200: { description: "A page of bulks", schema: BulkPage } },
  }, async ({ sql, query: { open, limit, after } }) => {
    const bulks = await listBulks(sql, { open: open === "true", before_id: after, most: limit + 1 });
    return [200, w.pageOf(bulks, limit, (bulk) => bulk.id)];
  });
  api.route({
    needs: "read",
    route: "GET /bulks/{id}",
    summary: "One bulk; its failed runs are GET /runs?bulk_id=ID&state=FAILED,TIMED_OUT",
    params: byId,
    answers: { 200: { description: "The bulk", schema: Bulk } },
    problems: ["not_found"],
  }, async ({ sql, params }) => [200, await existingBulk(sql, params.id)]);
  api.route({
    needs: "read",
    route: "GET /bulks/{id}/whatif",
    summary: "When it would be done with another `parallel`",
    params: byId,
    query: z.strictObject({
      parallel: z.string().regex(/^\d{1,7}$/).transform(Number).pipe(z.int().min(1).max(1_000_000))
        .openapi({ type: "integer", minimum: 1, maximum: 1_000_000, example: 20 }),
    }),
    answers: { 200: { description: "As it is, and as it would be", schema: WhatIf } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, params: { id }, query }) => {
    const found = await forecastBulk(sql, id, query.parallel);
    if (!found) throw noSuchBulk(id);
    const { bulk, at } = found;
    if (bulk.finished_at) throw new ApiProblem("conflict", `Cannot forecast bulk "${id}": it has ended`);
    const now = {
      parallel: bulk.parallel,
      at_once: bulk.running_limit,
      done_from: bulk.done_from,
      done_to: bulk.done_to,
    };
    return [200, { id, now, at }];
  });
}

function addStart(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /bulks",
    summary: "Make a bulk: its items become runs of one job, a few at a time",
    description:
      `Up to ${MOST_ITEMS} items at once; all are stored or none. Items from a query of the database are for those who can ` +
      "reach it: deno task bulk start --sql, or dandori/client.",
    headers: w.idempotencyKey,
    largest_body: LARGEST_BODY,
    body: z.strictObject({
      job_name: w.jobName,
      items: z.array(w.json).min(1).max(MOST_ITEMS).openapi({
        description: "The args of each, checked against the job's args_schema",
        example: [{ device: 7 }, { device: 8 }],
      }),
      ...FIXED,
      ...PACE,
    }),
    answers: {
      201: { description: "Made", schema: BulkMade },
      200: { description: "The idempotency key was used before: the bulk of that time", schema: BulkMade },
    },
    problems: ["not_found"],
  }, async ({ sql, actor, body, header }) => {
    const { job_name, items, name, serial_key, on_finish, on_failure, max_failures, throttle_above, ...pace } = body;
    const check = await argsCheck(sql, job_name, "start a bulk of");
    items.forEach((args, place) => check(args, { which: `items.${place}`, item: place + 1 }));
    const options = {
      ...optionsFrom(pace),
      maxFailures: max_failures ?? undefined,
      throttleAbove: throttle_above ?? undefined,
      name,
      serialKey: serial_key,
      onFinish: on_finish,
      onFailure: on_failure,
      idempotencyKey: header("idempotency-key"),
    };
    const unknown = new UnknownKeys();
    const made = await startBulk(sql, { job: job_name, items, options, actor, unknown });
    const told = { id: made.id, is_new: made.isNew, items: made.items, ...w.warned(unknown.texts()) };
    return [made.isNew ? 201 : 200, told];
  });
}

function addChanges(api: Api): void {
  api.route({
    needs: "operate",
    route: "PATCH /bulks/{id}",
    summary: "Change a bulk while it runs; the leader acts on it within a tick",
    params: byId,
    body: z.strictObject({ ...PACE, reason: w.reason }).refine(
      ({ reason: _, ...given }) => Object.values(given).some((value) => value !== undefined),
      "must change something: parallel, interval_seconds, priority, max_failures or throttle_above",
    ),
    answers: { 200: { description: "The bulk as it is now", schema: Bulk } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, actor, params: { id }, body: { reason = w.NO_REASON, max_failures, throttle_above, ...pace } }) => {
    const changes = { ...optionsFrom(pace), maxFailures: max_failures, throttleAbove: throttle_above };
    await applyChanges(sql, id, { ...changes, actor, reason });
    return [200, await existingBulk(sql, id)];
  });
  for (const [verb, { state, summary }] of Object.entries(STATE_OF)) {
    api.route({
      needs: "operate",
      route: `POST /bulks/{id}/${verb}`,
      summary,
      params: byId,
      body: z.strictObject({ reason: w.reason }),
      body_optional: true,
      answers: { 200: { description: "The bulk as it is now", schema: Bulk } },
      problems: ["not_found", "conflict"],
    }, async ({ sql, actor, params: { id }, body: { reason = w.NO_REASON } }) => {
      await applyChanges(sql, id, { state, actor, reason });
      return [200, await existingBulk(sql, id)];
    });
  }
}

function addRetry(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /bulks/{id}/retry",
    summary: "A new bulk of the items whose runs have failed and that were not repeated yet",
    params: byId,
    answers: { 201: { description: "Made", schema: BulkMade.extend({ retry_of: w.id }) } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, actor, params: { id } }) => {
    const made = await retryBulk(sql, id, { actor });
    if (!made) throw noSuchBulk(id);
    if (made.bulk_id === null) {
      throw new ApiProblem(
        "conflict",
        `Cannot retry bulk "${id}": none of its runs has failed, or they were repeated before`,
      );
    }
    return [201, { id: made.bulk_id, is_new: true, items: made.items, retry_of: id }];
  });
}

function optionsFrom({ parallel, interval_seconds, priority }: {
  parallel?: number;
  interval_seconds?: number;
  priority?: number;
}) {
  return { parallel, intervalSeconds: interval_seconds, priority };
}

async function existingBulk(sql: Sql, id: number): Promise<BulkView> {
  const bulk = await readBulk(sql, id);
  if (!bulk) throw noSuchBulk(id);
  return bulk;
}

function noSuchBulk(id: number): ApiProblem {
  return new ApiProblem("not_found", `Cannot find bulk "${id}": there is none`);
}
