/** Who asks and what they may. A route says in one word what it needs; without a word it does not compile, and nobody passes. */
import type { Context, MiddlewareHandler } from "hono";
import type { Scope } from "../../access/api_tokens.ts";
import type { ApiCaller } from "../auth/callers.ts";
import { ApiProblem } from "./problem.ts";

/** `nothing`: anybody may, also without a token; such a route looks for itself who asks, if that matters. */
export type RequiredScope = Scope | "nothing";

/** Given by whoever mounts the API, which knows sessions and tokens. Undefined: nobody who is known. */
export type CallerOf = (c: Context) => Promise<ApiCaller | undefined>;

export interface ApiEnv {
  Variables: { actor: string; allows: ApiCaller["allows"] };
}

/** Before the request is looked at: what somebody may not do is not checked for them either. */
export function guard(needs: RequiredScope, callerOf: CallerOf): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const caller = needs === "nothing" ? undefined : await callerOf(c);
    if (needs !== "nothing") {
      if (!caller) {
        throw new ApiProblem("unauthenticated", "Cannot do this for nobody: no valid token or session came along");
      }
      if (!caller.allows(needs)) {
        throw new ApiProblem("forbidden", `Cannot do this as ${caller.actor}: it needs "${needs}"`);
      }
    }
    c.set("actor", caller?.actor ?? "");
    c.set("allows", caller?.allows ?? (() => false));
    await next();
  };
}
