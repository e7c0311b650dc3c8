/** Nodes and the workers on them: looking, changing, checking, draining and detaching. */
import {
  awaitCheck,
  changeOneNode,
  checkNode,
  degrade,
  detachSome,
  drainWorkers,
  existingNode,
  removeOneNode,
  undrainWorkers,
} from "../../actions/node_actions.ts";
import { listNodes } from "../../nodes/node_health.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { listWorkers } from "../../nodes/workers.ts";
import { Leader, Moved, Node, Worker } from "./shapes/node.ts";
import { ApiProblem } from "./problem.ts";
import { type Api, bodyOf } from "./route.ts";
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
    does: degrade,
    route: "POST /leader/degrade",
    description: "If there is no other worker, it leads again after its lease ends. Runs go on.",
    body: bodyOf(degrade),
    body_optional: true,
    answers: {
      200: { description: "Who steps down", schema: z.object({ epoch: z.int(), worker_id: z.string() }) },
    },
    problems: ["conflict"],
  }, async ({ perform, body }) => [200, await perform(degrade, body)]);
}

function addChanges(api: Api): void {
  api.route({
    does: changeOneNode,
    route: "PATCH /nodes/{node_id}",
    params: byNode,
    body: bodyOf(changeOneNode, { without: ["node_id"] }),
    answers: { 200: { description: "The node as it is now", schema: Node } },
    problems: ["not_found"],
  }, async ({ perform, params, body }) => [200, await perform(changeOneNode, { ...params, ...body })]);
  api.route({
    does: removeOneNode,
    route: "DELETE /nodes/{node_id}",
    description: "Only when all its workers are DEAD. A worker that starts there makes it anew.",
    params: byNode,
    query: bodyOf(removeOneNode, { without: ["node_id"] }),
    answers: { 204: { description: "Gone" } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params }) => {
    await perform(removeOneNode, params);
    return [204];
  });
  api.route({
    does: checkNode,
    route: "POST /nodes/{node_id}/test",
    description:
      "Answers when the check is done, which may take as long as its scripts do, or half a minute when no answer comes.",
    params: byNode,
    body: bodyOf(checkNode, { without: ["node_id"] }),
    body_optional: true,
    answers: { 200: { description: "The node, with what was found", schema: Node } },
    problems: ["not_found", "conflict", "late"],
  }, async ({ sql, perform, params }) => {
    return [200, await awaitCheck(sql, params.node_id, await perform(checkNode, params))];
  });
}

function addWorkerActions(api: Api, place: "nodes" | "workers", key: "node_id" | "worker_id"): void {
  const params = z.object({ [key]: w.text(200).openapi({ example: key === "node_id" ? "gpu-1" : "w7-af97c3a0" }) });
  const whom = place === "nodes" ? "all workers of a node" : "a worker";
  const common = { params, body_optional: true, problems: ["not_found", "conflict"] } as const;
  const on = async (sql: Parameters<typeof listWorkers>[0], name: string) => {
    if (place === "nodes") await existingNode(sql, name);
    else if (!(await listWorkers(sql)).some((one) => one.worker_id === name)) {
      throw new ApiProblem("not_found", `Cannot find worker "${name}": none of that id is alive`);
    }
    return { name };
  };
  for (const [verb, does] of [["drain", drainWorkers], ["undrain", undrainWorkers]] as const) {
    api.route({
      ...common,
      does,
      route: `POST /${place}/{${key}}/${verb}`,
      summary: `Let ${whom} ${verb === "drain" ? "take no new runs; those it has go on" : "take runs again"}`,
      body: bodyOf(does, { without: ["name"] }),
      answers: { 200: { description: "The workers that this changed", schema: z.object({ items: z.array(Moved) }) } },
    }, async ({ sql, perform, params }) => {
      return [200, { items: await perform(does, await on(sql, params[key] as string)) }];
    });
  }
  api.route({
    ...common,
    does: detachSome,
    route: `POST /${place}/{${key}}/detach`,
    summary: `Take ${whom} out of the work`,
    description: "It starts nothing more, and its bodies go on only while the leader or a subleader confirms them.",
    body: bodyOf(detachSome, { without: ["name"] }),
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
  }, async ({ sql, perform, params }) => {
    const { detached, told } = await perform(detachSome, await on(sql, params[key] as string));
    return [200, { items: detached, told }];
  });
}
