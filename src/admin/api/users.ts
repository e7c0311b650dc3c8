/** Users of the page: who there is; and shutting one out at once, as when somebody leaves. Passwords are made on the page and the command line alone. */
import { disable, enable, unlockOne } from "../../actions/user_actions.ts";
import { listUsers, ROLES } from "../../access/users.ts";
import { type Api, bodyOf } from "./route.ts";
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

export function addUsers(api: Api): void {
  api.route({
    needs: "admin",
    route: "GET /users",
    summary: "All users of the page",
    answers: { 200: { description: "By name", schema: z.object({ items: z.array(User) }) } },
  }, async ({ sql }) => [200, { items: (await listUsers(sql)).map(({ id: _, ...user }) => user) }]);
  const byUser = { params: byName, body_optional: true } as const;
  api.route({
    ...byUser,
    does: disable,
    route: "POST /users/{name}/disable",
    description: "The last admin cannot be. To enable it again brings no session and no token back.",
    body: bodyOf(disable, { without: ["name"] }),
    answers: {
      200: { description: "Shut out; so many ended", schema: z.object({ sessions: w.count, tokens: w.count }) },
    },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params }) => [200, await perform(disable, params)]);
  api.route({
    ...byUser,
    does: enable,
    route: "POST /users/{name}/enable",
    body: bodyOf(enable, { without: ["name"] }),
    answers: { 204: { description: "It may log in" } },
    problems: ["not_found", "conflict"],
  }, async ({ perform, params }) => {
    await perform(enable, params);
    return [204];
  });
  api.route({
    ...byUser,
    does: unlockOne,
    route: "POST /users/{name}/unlock",
    body: bodyOf(unlockOne, { without: ["name"] }),
    answers: { 200: { description: "So many were forgotten", schema: z.object({ tries: w.count }) } },
    problems: ["not_found"],
  }, async ({ perform, params }) => [200, await perform(unlockOne, params)]);
}
