/** The queue: what waits and why; pausing and resuming everything, a job, a serial key; resources. */
import { dropResource, pauseQueue, resumeQueue, saveResource } from "../../actions/queue_actions.ts";
import { readSettings } from "../../settings/settings.ts";
import { listStoppedKeys, readQueue } from "../../dispatch/pauses.ts";
import { readResources } from "../../dispatch/dispatch_queues.ts";
import { type Api, bodyOf } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const Queue = z.object({
  dispatch: z.enum(["running", "paused"]).openapi({ description: "paused: nothing that waits is given to a worker" }),
  jobs: z.array(z.object({
    job_name: w.jobName,
    priority: w.priority,
    waiting: w.count,
    running: w.count,
    oldest_due_at: w.time.nullable(),
    paused_by: z.string().nullable(),
    ...w.said("paused_reason", z.string().nullable().openapi({ description: "Why, as they said it" })),
    reasons: z.array(z.string()).openapi({ description: "Why nothing of it starts now; empty: nothing keeps it" }),
    waits: z.array(w.Waits.unwrap()),
    held: w.count.openapi({ description: "Of those that wait: behind their serial key, or beyond their job's limit" }),
    later: w.count.openapi({ description: "Of those that wait: not due yet, or not yet to be tried again" }),
    suspended: w.count.openapi({
      description: "Begun, and waiting for a time, a message or another run; not among those that wait",
    }),
  })),
  stopped_serial_keys: z.array(z.object({
    serial_key: z.string(),
    job_run_id: w.id.nullable().openapi({ description: "The run whose failure stopped it; null: somebody did" }),
    stopped_at: w.time,
    stopped_by: z.string(),
    ...w.said("reason"),
    waiting: w.count,
  })),
}).openapi("Queue");

const Changed = z.object({ changed: z.boolean().openapi({ description: "False: it was so already" }) });
const serialKey = w.text(500).openapi({ example: "device:7" });

export function addQueue(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /queue",
    summary: "What waits and why, job by job, and serial keys that are stopped",
    answers: { 200: { description: "The queue", schema: Queue } },
  }, async ({ sql }) => {
    const [{ dispatch }, jobs, keys] = await Promise.all([readSettings(sql), readQueue(sql), listStoppedKeys(sql)]);
    return [200, { dispatch, jobs, stopped_serial_keys: keys }];
  });
  for (const [verb, does] of [["pause", pauseQueue], ["resume", resumeQueue]] as const) {
    api.route({
      does,
      route: `POST /queue/${verb}`,
      body: bodyOf(does),
      answers: { 200: { description: "Done, or it was so already", schema: Changed } },
      problems: ["not_found"],
    }, async ({ perform, body }) => [200, { changed: await perform(does, body) }]);
  }
  api.route({
    does: resumeQueue,
    route: "POST /queue/unblock",
    summary: "Let a serial key go on that a failure, or somebody, has stopped",
    body: z.strictObject({ serial_key: serialKey, reason: w.reason }),
    answers: { 200: { description: "Done, or it was not stopped", schema: Changed } },
  }, async ({ perform, body: { serial_key } }) => [200, { changed: await perform(resumeQueue, { serial_key }) }]);
  addResources(api);
}

const Resource = z.object({ name: z.string(), capacity: w.count, taken: w.count }).openapi("Resource");
const byName = z.object({ name: w.text(200).openapi({ example: "license" }) });

function addResources(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /resources",
    summary: "Things of which there is only so much, and how much of them is taken",
    answers: { 200: { description: "All of them", schema: z.object({ items: z.array(Resource) }) } },
  }, async ({ sql }) => [200, { items: await readResources(sql) }]);
  api.route({
    does: saveResource,
    route: "PUT /resources/{name}",
    params: byName,
    body: bodyOf(saveResource, { without: ["name"], instead: { capacity: z.int().min(1).max(1_000_000_000) } }),
    answers: { 200: { description: "Done, or it was so already", schema: Changed } },
  }, async ({ perform, params, body }) => [200, { changed: await perform(saveResource, { ...params, ...body }) }]);
  api.route({
    does: dropResource,
    route: "DELETE /resources/{name}",
    params: byName,
    query: bodyOf(dropResource, { without: ["name"] }),
    answers: { 204: { description: "Gone" } },
    problems: ["not_found"],
  }, async ({ perform, params }) => {
    await perform(dropResource, params);
    return [204];
  });
}
