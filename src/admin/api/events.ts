/** Events: emitting them, and what became of them. */
import { unfitText } from "../../actions/event_fit.ts";
import { emit } from "../../actions/run_actions.ts";
import { listEvents } from "../../events/events.ts";
import { ApiProblem } from "./problem.ts";
import { type Api, bodyOf } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const eventType = w.text(200).openapi({ description: "Jobs whose `on` names it get a run", example: "order.placed" });

const Event = z.object({
  id: w.id,
  event_type: z.string(),
  payload: w.json,
  dedupe_key: z.string().nullable(),
  created_at: w.time,
  processed_at: w.time.nullable().openapi({ description: "Null: it has not been made into runs yet" }),
  outcomes: z.array(z.object({
    job_name: w.jobName,
    outcome: z.enum(["run", "debounced", "throttled"]),
    job_run_id: w.id.nullable(),
    state: w.State.nullable(),
  })).openapi({ description: "What came of it: a run of its own, or of another event in its place by the job's rule" }),
}).openapi("Event");

const Emitted = z.object({ id: w.id, is_new: z.boolean(), warnings: w.warnings }).openapi("EmittedEvent");

export function addEvents(api: Api): void {
  api.route({
    does: emit,
    route: "POST /events",
    problems: ["conflict"],
    body: bodyOf(emit, { instead: { event_type: eventType } }),
    answers: {
      201: { description: "Emitted", schema: Emitted },
      200: { description: "The dedupe key was used before: the event of that time", schema: Emitted },
    },
  }, async ({ perform, body }) => {
    const { id, isNew, fit } = await perform(emit, body);
    const unfit = fit && unfitText(fit);
    return [isNew ? 201 : 200, { id, is_new: isNew, ...w.warned(unfit === undefined ? [] : [unfit]) }];
  });
  api.route({
    needs: "read",
    route: "GET /events",
    summary: "The newest events",
    query: z.strictObject({ event_type: eventType.optional(), limit: w.limit, after: w.idText.optional() }),
    answers: { 200: { description: "A page of events", schema: w.page(Event) } },
  }, async ({ sql, query: { event_type, limit, after } }) => {
    const events = await listEvents(sql, { event_type, before: after, most: limit + 1 });
    return [200, w.pageOf(events, limit, (event) => event.id)];
  });
  api.route({
    needs: "read",
    route: "GET /events/{id}",
    summary: "One event",
    params: z.object({ id: w.idText }),
    answers: { 200: { description: "The event", schema: Event } },
    problems: ["not_found"],
  }, async ({ sql, params: { id } }) => {
    const [event] = await listEvents(sql, { id, most: 1 });
    if (!event) throw new ApiProblem("not_found", `Cannot find event "${id}": there is none`);
    return [200, event];
  });
}
