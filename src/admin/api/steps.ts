/** What runs did step by step, and what can be done with that: messages, forks, waits that end; and the runs that belong to one. */
import { existingRun } from "../../actions/run_actions.ts";
import { fork, send, wake } from "../../actions/workflow_actions.ts";
import { listSteps } from "../../steps/run_steps.ts";
import { readTree } from "../../steps/run_tree.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { type Api, bodyOf } from "./route.ts";
import { Step, TreeRun } from "./shapes/step.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byId = z.object({ id: w.idText });

export function addSteps(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /runs/{id}/steps",
    summary: "The steps of a run, in the order in which they began",
    params: byId,
    answers: { 200: { description: "At most 10,000", schema: z.object({ items: z.array(Step) }) } },
    problems: ["not_found"],
  }, async ({ sql, params: { id } }) => {
    const run = await existingRun(sql, id);
    const steps = await listSteps(sql, run.id);
    return [200, {
      items: steps.map(({ seq, began_at, ended_at, ...step }) => ({
        ...step,
        position: seq,
        started_at: began_at,
        finished_at: ended_at,
      })),
    }];
  });
  api.route({
    needs: "read",
    route: "GET /runs/{id}/tree",
    summary: "The runs that it called and was called by, and those of its group",
    params: byId,
    answers: {
      200: {
        description: "At most 1,000 of each",
        schema: z.object({ root_id: w.id, runs: z.array(TreeRun), group: z.array(TreeRun), more: z.boolean() }),
      },
    },
    problems: ["not_found"],
  }, async ({ sql, params: { id } }) => [200, await readTree(sql, (await existingRun(sql, id)).id)]);
  addSend(api);
  api.route(
    {
      does: fork,
      route: "POST /runs/{id}/fork",
      params: byId,
      body: bodyOf(fork, { without: ["id"] }),
      body_optional: true,
      answers: {
        201: {
          description: "Made",
          schema: z.object({
            id: w.id,
            steps: w.count.openapi({ description: "So many were copied" }),
            rerun_of: w.id,
          }),
        },
      },
      problems: ["not_found", "conflict"],
    },
    async ({ perform, params, body }) => [201, { ...await perform(fork, { ...params, ...body }), rerun_of: params.id }],
  );
  api.route({
    does: wake,
    route: "POST /runs/{id}/wake",
    params: byId,
    body: bodyOf(wake, { without: ["id"] }),
    answers: { 202: { description: "It goes on within a tick", schema: z.object({ id: w.id, step: z.string() }) } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params, body }) => {
    const { key } = await perform(wake, { ...params, ...body });
    return [202, { id: params.id, step: key }];
  });
}

function addSend(api: Api): void {
  const Sent = z.object({
    id: w.id.openapi({ description: "Of the message" }),
    is_new: z.boolean(),
    warnings: w.warnings,
  });
  api.route({
    does: send,
    route: "POST /runs/{id}/messages/{name}",
    description:
      'A token of scope emit sends what the job\'s file lets it: `messages: { name: { schema, from: "emit" } }`.',
    params: z.object({ id: w.idText, name: w.text(64).openapi({ example: "approval" }) }),
    headers: w.idempotencyKey,
    body: bodyOf(send, { without: ["id", "name", "dedupe_key", "unknown"] }),
    body_optional: true,
    answers: {
      201: { description: "Sent", schema: Sent },
      200: { description: "The idempotency key was used before: the message of that time", schema: Sent },
    },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params, body, header }) => {
    const unknown = new UnknownKeys();
    const { id, isNew } = await perform(send, { ...params, ...body, dedupe_key: header("idempotency-key"), unknown });
    return [isNew ? 201 : 200, { id, is_new: isNew, ...w.warned(unknown.texts()) }];
  });
}
