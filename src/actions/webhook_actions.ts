/** Making and removing webhooks, from the command line and the API. */
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { addWebhook, removeWebhook, type Signature, SIGNATURES } from "../events/webhooks.ts";
import { Refused } from "./args.ts";
import { z } from "zod";
import { action } from "./action.ts";

export const DEFAULT_RATE = 60;

/** Gives the secret, which is shown once: here. @throws Refused when the name is taken, or something does not fit. */
async function makeHook(
  sql: Sql,
  hook: { name: string; event_type: string; signature: Signature; rate_per_minute?: number },
  by: Actor,
): Promise<{ secret: string }> {
  const { name, event_type, signature, rate_per_minute = DEFAULT_RATE } = hook;
  const what = `make hook "${name}"`;
  if (!/^[a-z0-9][a-z0-9_.-]{0,63}$/.test(name)) {
    throw new Refused(`Cannot ${what}: its name has lower case letters, digits and _ . -, at most 64`, {
      says: { code: "hook_name" },
    });
  }
  if (event_type.length < 1 || event_type.length > 200) {
    throw new Refused(`Cannot ${what}: the event's type has 1 to 200 characters`, {
      says: { code: "length", option: "event_type", least: 1, most: 200 },
    });
  }
  if (!Number.isInteger(rate_per_minute) || rate_per_minute < 1 || rate_per_minute > MOST_PER_MINUTE) {
    throw new Refused(`Cannot ${what}: rate_per_minute is a whole number from 1 to ${MOST_PER_MINUTE}`, {
      says: { code: "whole_number", option: "rate_per_minute", least: 1, most: MOST_PER_MINUTE },
    });
  }
  const secret = Buffer.from(randomBytes(32)).toString("base64url");
  const added = await addWebhook(sql, { name, event_type, signature, rate_per_minute, secret }, by);
  if (!added) {
    throw new Refused(`Cannot ${what}: there is one of that name; remove it first`, {
      why: "conflict",
      says: { code: "taken", name },
    });
  }
  return { secret };
}

export const MOST_PER_MINUTE = 100_000;

/** From then on its deliveries are refused. @throws Refused when there is none. */
async function dropHook(sql: Sql, name: string, by: Actor): Promise<void> {
  if (await removeWebhook(sql, name, by)) return;
  throw new Refused(`Cannot remove hook "${name}": there is none of that name`, {
    why: "not_found",
    says: { code: "none", what: name },
  });
}

/** Their bounds are said by `makeHook`, in words of their own. */
export const addHook = action({
  name: "hook.add",
  does: "make a webhook: where another program delivers events",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({
    name: z.string().meta({ description: "lower case letters, digits and _ . -, at most 64" }),
    event_type: z.string().meta({ description: "the type of the events that it emits", example: "order.placed" }),
    signature: z.enum(SIGNATURES).meta({ description: "how deliveries are signed" }),
    rate_per_minute: z.number().meta({ description: "more deliveries than these are refused" }).optional(),
  }),
  audit: ["hook.add"],
  run: ({ sql, by }, hook) => makeHook(sql, hook, by),
});

export const removeHook = action({
  name: "hook.remove",
  does: "remove a webhook; its deliveries are refused from then on",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({ name: z.string().meta({ description: "the webhook" }) }),
  audit: ["hook.remove"],
  run: ({ sql, by }, { name }) => dropHook(sql, name, by),
});
