/** The audit: who did what to what, and why. */
import { listAudit } from "../../access/audit.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const Act = z.object({
  id: w.id,
  at: w.time,
  actor: z.string().openapi({
    description: "user:NAME, token:NAME, cli:NAME, client or system",
    example: "token:deploy",
  }),
  action: z.string().openapi({ example: "run.cancel" }),
  target_type: z.string().openapi({ example: "run" }),
  target_id: z.string().openapi({ example: "812" }),
  before: w.json,
  after: w.json,
  ...w.said("reason"),
}).openapi("Act");

export function addAudit(api: Api): void {
  api.route({
    needs: "read",
    costly: true,
    route: "GET /audit",
    summary: "The newest acts, or those that a filter means",
    query: z.strictObject({
      actor: w.text(200).optional(),
      action: w.text(100).optional().openapi({ description: "Whole, such as run.cancel, or its first part: run" }),
      target_type: w.text(100).optional(),
      target_id: w.text(500).optional(),
      since: w.timeIn.optional().openapi({ description: "Then or later, RFC 3339" }),
      until: w.timeIn.optional().openapi({ description: "Before, RFC 3339" }),
      limit: w.limit,
      after: w.idText.optional(),
    }),
    answers: { 200: { description: "A page of acts", schema: w.page(Act) } },
  }, async ({ sql, query: { limit, after, ...filter } }) => {
    const actions = await listAudit(sql, { ...filter, before_id: after, most: limit + 1 });
    return [200, w.pageOf(actions, limit, (act) => act.id)];
  });
}
