/** Nodes and the workers on them: looking, changing, checking, draining and detaching. */
import {
  degradeLeader,
  detachWorkers,
  existingNode,
  forgetNode,
  setDrained,
  setNode,
  testNode,
} from "../../actions/node_actions.ts";
import { listNodes } from "../../nodes/node_health.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { listWorkers } from "../../nodes/workers.ts";
import { Leader, Moved, Node, Worker } from "./shapes/node.ts";
import { ApiProblem } from "./problem.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byNode = z.object({ node_id: w.text(200).openapi({ example: "gpu-1" }) });

export function addNodes(api: Api): void {
  addReads(api);
  addChanges(api);
  addLeaderAct(api);
  for (const [place, key] of [["nodes", "node_id"], ["workers", "worker_id"]] as const) {
    addWorkerActions(api, place, key);
  }
}

function addReads(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /nodes",
    summary: "All nodes that were ever there, and what their last checks found",
    answers: { 200: { description: "All of them", schema: z.object({ items: z.array(Node) }) } },
  }, async ({ sql }) => [200, { items: await listNodes(sql) }]);
  api.route({
    needs: "read",
    route: "GET /nodes/{node_id}",
    summary: "One node",
    params: byNode,
    answers: { 200: { description: "The node", schema: Node } },
    problems: ["not_found"],
  }, async ({ sql, params }) => [200, await existingNode(sql, params.node_id)]);
  api.route({
    needs: "read",
    route: "GET /workers",
    summary: "All workers that are alive, their roles and loads",
    answers: { 200: { description: "All of them", schema: z.object({ items: z.array(Worker) }) } },
  }, async ({ sql }) => [200, { items: await listWorkers(sql) }]);
  api.route({
    needs: "read",
    route: "GET /leader",
    summary: "Who leads, in which epoch",
    answers: { 200: { description: "The leader; `worker_id` null: nobody leads now", schema: Leader } },
  }, async ({ sql }) => {
    const { epoch, worker_id = null, node_id, acquired_at } = await currentLeader(sql);
    return [200, { epoch, worker_id, node_id: worker_id && node_id, acquired_at: worker_id && acquired_at }];
  });
}

function addLeaderAct(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /leader/degrade",
    summary: "Let the leader step down, and another worker lead",
    description: "If there is no other worker, it leads again after its lease ends. Runs go on.",
    body: z.strictObject({
      epoch: z.int().optional().openapi({ description: "Only the leader of this epoch; without it whoever leads" }),
      reason: w.reason,
    }),
    body_optional: true,
    answers: {
      200: { description: "Who steps down", schema: z.object({ epoch: z.int(), worker_id: z.string() }) },
    },
    problems: ["conflict"],
  }, async ({ sql, actor, body: { reason = w.NO_REASON, epoch } }) => {
    return [200, await degradeLeader(sql, { actor, reason, epoch })];
  });
}

/** What a selector such as "gpu=a100,zone=tokyo" can name. */
const labelName = z.string().regex(/^[^=,\s\p{Cc}\p{Cs}]{1,100}$/u, "must have no blank, comma or =");
const labelValue = z.string().regex(/^[^=,\s\p{Cc}\p{Cs}]{0,200}$/u, "must have no blank, comma or =");

function addChanges(api: Api): void {
  api.route({
    needs: "operate",
    route: "PATCH /nodes/{node_id}",
    summary: "Change a node: its limit, its labels, maintenance; what runs goes on",
    params: byNode,
    body: z.strictObject({
      max_concurrent: z.int().min(0).max(999_999).nullable().optional().openapi({
        description: "Bodies on it at once; null: as many as its workers have slots",
      }),
      labels: z.record(labelName, labelValue).optional().openapi({
        description: "These are set, others stay; an empty value takes the label away",
        example: { gpu: "a100" },
      }),
      maintenance: z.boolean().optional().openapi({ description: "true: it gets no new work and is not checked" }),
      reason: w.reason,
    }).refine(
      ({ reason: _, ...given }) => Object.values(given).some((value) => value !== undefined),
      "must change something: max_concurrent, labels or maintenance",
    ),
    answers: { 200: { description: "The node as it is now", schema: Node } },
    problems: ["not_found"],
  }, async ({ sql, actor, params: { node_id }, body: { reason = w.NO_REASON, ...change } }) => {
    return [200, await setNode(sql, node_id, change, { actor, reason })];
  });
  api.route({
    needs: "operate",
    route: "DELETE /nodes/{node_id}",
    summary: "Forget a node that is gone for good; its runs stay",
    description: "Only when all its workers are DEAD. A worker that starts there makes it anew.",
    params: byNode,
    query: z.strictObject({ reason: w.reason }),
    answers: { 204: { description: "Gone" } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, actor, params: { node_id }, query: { reason = w.NO_REASON } }) => {
    await forgetNode(sql, node_id, { actor, reason });
    return [204];
  });
  api.route({
    needs: "operate",
    route: "POST /nodes/{node_id}/test",
    summary: "Have the leader check a node now",
    description:
      "Answers when the check is done, which may take as long as its scripts do, or half a minute when no answer comes.",
    params: byNode,
    body: z.strictObject({ reason: w.reason }),
    body_optional: true,
    answers: { 200: { description: "The node, with what was found", schema: Node } },
    problems: ["not_found", "conflict", "late"],
  }, async ({ sql, actor, params: { node_id }, body: { reason = w.NO_REASON } }) => {
    return [200, await testNode(sql, node_id, { actor, reason })];
  });
}

const ACTIONS = {
  drain: "take no new runs; those it has go on",
  undrain: "take runs again",
};

function addWorkerActions(api: Api, place: "nodes" | "workers", key: "node_id" | "worker_id"): void {
  const params = z.object({ [key]: w.text(200).openapi({ example: key === "node_id" ? "gpu-1" : "w7-af97c3a0" }) });
  const whom = place === "nodes" ? "all workers of a node" : "a worker";
  const common = {
    needs: "operate",
    params,
    body: z.strictObject({ reason: w.reason }),
    body_optional: true,
    problems: ["not_found", "conflict"],
  } as const;
  const on = async (sql: Parameters<typeof listWorkers>[0], name: string) => {
    if (place === "nodes") await existingNode(sql, name);
    else if (!(await listWorkers(sql)).some((one) => one.worker_id === name)) {
      throw new ApiProblem("not_found", `Cannot find worker "${name}": none of that id is alive`);
    }
    return name;
  };
  for (const [verb, what] of Object.entries(ACTIONS)) {
    api.route({
      ...common,
      route: `POST /${place}/{${key}}/${verb}`,
      summary: `Let ${whom} ${what}`,
      answers: { 200: { description: "The workers that this changed", schema: z.object({ items: z.array(Moved) }) } },
    }, async ({ sql, actor, params, body: { reason = w.NO_REASON } }) => {
      const name = await on(sql, params[key] as string);
      return [200, { items: await setDrained(sql, name, { actor, reason, draining: verb === "drain" }) }];
    });
  }
  api.route({
    ...common,
    route: `POST /${place}/{${key}}/detach`,
    summary: `Take ${whom} out of the work`,
    description: "It starts nothing more, and its bodies go on only while the leader or a subleader confirms them.",
    answers: {
      200: {
        description: "Detached",
        schema: z.object({
          items: z.array(Moved),
          told: z.boolean().openapi({
            description: "False: Redis was away, so they learn of it with their next renewal",
          }),
        }),
      },
    },
  }, async ({ sql, deps, actor, params, body: { reason = w.NO_REASON } }) => {
    const name = await on(sql, params[key] as string);
    const { detached, told } = await detachWorkers(sql, name, { actor, reason, redis: deps.redis });
    return [200, { items: detached, told }];
  });
}
