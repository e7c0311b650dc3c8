/** Webhooks: made and removed by an admin; and the door at which signed deliveries become events. */
import { Batcher } from "../../platform/timers.ts";
import { storable } from "../../actions/args.ts";
import { addHook, DEFAULT_RATE, MOST_PER_MINUTE, removeHook } from "../../actions/webhook_actions.ts";
import { isUniqueViolation } from "../../postgres/connection.ts";
import { listWebhooks, readForCheck, SIGNATURES, takeDelivery } from "../../events/webhooks.ts";
import { ApiProblem } from "./problem.ts";
import { type Api, bodyOf } from "./route.ts";
import { checkSignature } from "./signature.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const LARGEST_DELIVERY = 256 * 1024;

const HOOK = {
  name: z.string().openapi({ example: "shop" }),
  event_type: z.string().openapi({ example: "order.placed" }),
  signature: z.enum(SIGNATURES).openapi({ description: "How its deliveries are signed" }),
  rate_per_minute: w.count,
};
const Hook = z.object({
  ...HOOK,
  created_at: w.time,
  created_by: z.string(),
  delivered_at: w.time.nullable().openapi({ description: "When the last one was taken" }),
}).openapi("Hook");

const byName = z.object({ name: w.text(64).openapi({ example: "shop" }) });

export function addHooks(api: Api): void {
  addManagement(api);
  addDoor(api);
}

function addManagement(api: Api): void {
  api.route({
    needs: "admin",
    route: "GET /hooks",
    summary: "All webhooks; their secrets are never shown again",
    answers: { 200: { description: "All of them", schema: z.object({ items: z.array(Hook) }) } },
  }, async ({ sql }) => [200, { items: await listWebhooks(sql) }]);
  api.route({
    does: addHook,
    route: "POST /hooks",
    summary: "Make a webhook; its secret is in this answer and nowhere else",
    body: bodyOf(addHook, {
      instead: {
        name: w.jobName.openapi({ description: "The last part of its address", example: "shop" }),
        event_type: w.text(200).openapi({
          description: "Of the events that its deliveries become",
          example: "order.placed",
        }),
        signature: z.enum(SIGNATURES).default("dandori").openapi({
          description: "dandori: over time, id and body. github: over the body, as GitHub and those like it sign",
        }),
        rate_per_minute: z.int().min(1).max(MOST_PER_MINUTE).default(DEFAULT_RATE),
      },
    }),
    answers: {
      201: {
        description: "Made",
        schema: z.object({ ...HOOK, secret: z.string().openapi({ description: "Keep it: it is not shown again" }) }),
      },
    },
    problems: ["conflict"],
  }, async ({ perform, body }) => [201, { ...body, ...await perform(addHook, body) }]);
  api.route({
    does: removeHook,
    route: "DELETE /hooks/{name}",
    params: byName,
    query: bodyOf(removeHook, { without: ["name"] }),
    answers: { 204: { description: "Removed" } },
    problems: ["not_found"],
  }, async ({ perform, params }) => {
    await perform(removeHook, params);
    return [204];
  });
}

/**
 * Deliveries of a hook change its row one after the other. All at once they would wait for that with a connection each, and leave none to
 * the page where somebody's transaction keeps the row.
 */
const DELIVERIES_AT_ONCE = 2;

type Delivery = Parameters<typeof takeDelivery>;
type Door = Batcher<Delivery, Awaited<ReturnType<typeof takeDelivery>>>;

function doorOf(doors: Map<string, Door>, name: string): Door {
  const take = async (deliveries: Delivery[]) => [await takeDelivery(...deliveries[0] as Delivery)];
  const door = doors.get(name) ?? new Batcher(take, { most: 1, at_once: DELIVERIES_AT_ONCE });
  doors.set(name, door);
  return door;
}

function addDoor(api: Api): void {
  const doors = new Map<string, Door>();
  api.route({
    needs: "nothing",
    route: "POST /hooks/{name}",
    summary: "Deliver an event",
    description:
      "Needs no token but a signature with the hook's secret: `X-Dandori-Signature: t=SECONDS,v1=HEX` and `X-Dandori-Delivery: ID`, " +
      "where HEX is the HMAC-SHA256 of `SECONDS.ID.BODY`; or `X-Hub-Signature-256: sha256=HEX` of the body and `X-GitHub-Delivery: ID`. " +
      "The body becomes the event's payload. A second delivery with the same id gives the same event.",
    params: byName,
    body_as_it_comes: true,
    largest_body: LARGEST_DELIVERY,
    answers: { 202: { description: "Taken", schema: z.object({ event_id: w.id }) } },
    problems: ["unauthenticated", "conflict", "too_many"],
  }, async ({ sql, params: { name }, header, bytes }) => {
    const body = await bytes();
    const checked = checkSignature(await readForCheck(sql, name), { header, body });
    if (checked.bad) {
      throw new ApiProblem(
        "unauthenticated",
        "Cannot take this delivery: there is no such hook, or the signature is not of its secret",
        {
          fix:
            "check the hook's name, its kind of signature and its secret; the signature is made over the body's bytes as sent",
        },
      );
    }
    if ("reason" in checked) throw new ApiProblem("invalid", `Cannot take this delivery: ${checked.reason}`);
    const payload = storable(`a delivery of hook "${name}"`, jsonOf(body));
    const taken = await doorOf(doors, name).add([sql, name, { id: checked.id, payload }]).catch((error) => {
      if (!isUniqueViolation(error)) throw error;
      throw new ApiProblem(
        "conflict",
        `Cannot take delivery "${checked.id}": a hook "${name}" that was here before made an event of another type of it`,
        { fix: "deliver it under another id, or make the hook under another name" },
      );
    });
    if (!taken) {
      throw new ApiProblem(
        "too_many",
        `Cannot take more of hook "${name}" now: it has had its deliveries of this minute`,
        {
          fix: "deliver it again later, or have an admin make the hook with a higher rate_per_minute",
        },
      );
    }
    return [202, taken];
  });
}

function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new ApiProblem("malformed", "Cannot read the body: it is not JSON in UTF-8");
  }
}
