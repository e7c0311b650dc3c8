/** Bulks: many runs of one job, looked at, made and changed while they run. */
import {
  cancelBulk,
  changeOneBulk,
  pauseBulk,
  resumeBulk,
  retryFailedItems,
  startOneBulk,
} from "../../actions/bulk_actions.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { argsCheck } from "../../actions/job_args.ts";
import { type BulkView, forecastBulk, listBulks, readBulk } from "../../bulks/bulk_view.ts";
import type { Sql } from "../../postgres/connection.ts";
import { Bulk, BulkMade, BulkPage, FIXED, WhatIf } from "./shapes/bulk.ts";
import { ApiProblem } from "./problem.ts";
import { type Api, bodyOf } from "./route.ts";
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
    costly: true,
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
    does: startOneBulk,
    route: "POST /bulks",
    description:
      `Up to ${MOST_ITEMS} items at once; all are stored or none. Items from a query of the database are for those who can ` +
      "reach it: deno task bulk start --sql, or dandori/client.",
    headers: w.idempotencyKey,
    largest_body: LARGEST_BODY,
    body: bodyOf(startOneBulk, {
      without: ["unknown", "idempotency_key"],
      instead: {
        job_name: w.jobName,
        items: z.array(w.json).min(1).max(MOST_ITEMS).openapi({
          description: "The args of each, checked against the job's args_schema",
          example: [{ device: 7 }, { device: 8 }],
        }),
        ...FIXED,
        priority: w.priorityIn.optional(),
      },
    }),
    answers: {
      201: { description: "Made", schema: BulkMade },
      200: { description: "The idempotency key was used before: the bulk of that time", schema: BulkMade },
    },
    problems: ["not_found"],
  }, async ({ sql, perform, body, header }) => {
    const check = await argsCheck(sql, body.job_name, "start a bulk of");
    body.items.forEach((args, place) => check(args, { which: `items.${place}`, item: place + 1 }));
    const unknown = new UnknownKeys();
    const idempotency_key = header("idempotency-key");
    const made = await perform(startOneBulk, { ...body, idempotency_key, unknown });
    const told = { id: made.id, is_new: made.isNew, items: made.items, ...w.warned(unknown.texts()) };
    return [made.isNew ? 201 : 200, told];
  });
}

const STATE_OF = { pause: pauseBulk, resume: resumeBulk, cancel: cancelBulk };

function addChanges(api: Api): void {
  api.route({
    does: changeOneBulk,
    route: "PATCH /bulks/{id}",
    params: byId,
    body: bodyOf(changeOneBulk, { without: ["id"], instead: { priority: w.priorityIn.optional() } }),
    answers: { 200: { description: "The bulk as it is now", schema: Bulk } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, perform, params: { id }, body }) => {
    await perform(changeOneBulk, { id, ...body });
    return [200, await existingBulk(sql, id)];
  });
  for (const [verb, does] of Object.entries(STATE_OF)) {
    api.route({
      does,
      route: `POST /bulks/{id}/${verb}`,
      params: byId,
      body: bodyOf(does, { without: ["id"] }),
      body_optional: true,
      answers: { 200: { description: "The bulk as it is now", schema: Bulk } },
      problems: ["not_found", "conflict"],
    }, async ({ sql, perform, params: { id } }) => {
      await perform(does, { id });
      return [200, await existingBulk(sql, id)];
    });
  }
}

function addRetry(api: Api): void {
  api.route({
    does: retryFailedItems,
    route: "POST /bulks/{id}/retry",
    params: byId,
    body: bodyOf(retryFailedItems, { without: ["id"] }),
    body_optional: true,
    answers: { 201: { description: "Made", schema: BulkMade.extend({ retry_of: w.id }) } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params: { id } }) => {
    const made = await perform(retryFailedItems, { id });
    return [201, { id: made.bulk_id, is_new: true, items: made.items, retry_of: id }];
  });
}

async function existingBulk(sql: Sql, id: number): Promise<BulkView> {
  const bulk = await readBulk(sql, id);
  if (!bulk) throw noSuchBulk(id);
  return bulk;
}

function noSuchBulk(id: number): ApiProblem {
  return new ApiProblem("not_found", `Cannot find bulk "${id}": there is none`);
}
