/** Users of the page: who there is; and shutting one out at once, as when somebody leaves. Passwords are made on the page and the command line alone. */
import { disableUser, enableUser, unlock } from "../../actions/user_actions.ts";
import { listUsers, ROLES } from "../../access/users.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const User = z.object({
  name: z.string().openapi({ example: "taro" }),
  role: z.enum(ROLES),
  created_at: w.time,
  disabled_at: w.time.nullable().openapi({ description: "Since then it is shut out" }),
  seen_at: w.time.nullable().openapi({ description: "When one of its open sessions was last used" }),
  tries: w.count.openapi({ description: "Wrong passwords of the last 15 minutes" }),
}).openapi("User");

const byName = z.object({ name: w.text(64).openapi({ example: "taro" }) });
const why = z.strictObject({ reason: w.reason });

export function addUsers(api: Api): void {
  api.route({
    needs: "admin",
    route: "GET /users",
    summary: "All users of the page",
    answers: { 200: { description: "By name", schema: z.object({ items: z.array(User) }) } },
  }, async ({ sql }) => [200, { items: (await listUsers(sql)).map(({ id: _, ...user }) => user) }]);
  api.route({
    needs: "admin",
    route: "POST /users/{name}/disable",
    summary: "Shut a user out: its sessions, and the API tokens that it made, end at once",
    description: "The last admin cannot be. To enable it again brings no session and no token back.",
    params: byName,
    body: why,
    body_optional: true,
    answers: {
      200: { description: "Shut out; so many ended", schema: z.object({ sessions: w.count, tokens: w.count }) },
    },
    problems: ["not_found", "conflict"],
  }, async ({ sql, actor, params, body }) => {
    return [200, await disableUser(sql, params.name, { actor, reason: body?.reason ?? w.NO_REASON })];
  });
  api.route({
    needs: "admin",
    route: "POST /users/{name}/enable",
    summary: "Let a user in again who was shut out",
    params: byName,
    body: why,
    body_optional: true,
    answers: { 204: { description: "It may log in" } },
    problems: ["not_found", "conflict"],
  }, async ({ sql, actor, params, body }) => {
    await enableUser(sql, params.name, { actor, reason: body?.reason ?? w.NO_REASON });
    return [204];
  });
  api.route({
    needs: "admin",
    route: "POST /users/{name}/unlock",
    summary: "Forget wrong passwords of a user, so that it can be tried from everywhere again",
    params: byName,
    body: why,
    body_optional: true,
    answers: { 200: { description: "So many were forgotten", schema: z.object({ tries: w.count }) } },
    problems: ["not_found"],
  }, async ({ sql, actor, params, body }) => {
    return [200, await unlock(sql, params.name, { actor, reason: body?.reason ?? w.NO_REASON })];
  });
}
