/** Before everything else: whether a request is meant for this server at all, and whether what it says of itself is understood. */
import type { MiddlewareHandler } from "hono";
import { observe } from "../platform/facts.ts";
import { harmless } from "../platform/text.ts";
import type { HonoEnv } from "./auth/authentication.ts";
import { forwardedBy, isOwnHost } from "../platform/http_hosts.ts";
import type { BaseUrl } from "./base_url.ts";

/** 421 for a host of another name. A proxy that nobody told us of is warned of, once. */
export function ownHostsOnly(place: BaseUrl): MiddlewareHandler<HonoEnv> {
  let warned = false;
  return async (c, next) => {
    const asked = c.req.header("host") ?? new URL(c.req.url).host;
    if (!isOwnHost(place, asked)) {
      const host = harmless(asked).slice(0, 100);
      return c.text(`Cannot answer for host "${host}": it is no name of this server; ${FIX}\n`, 421);
    }
    const header = place.proxies === 0 ? forwardedBy(c.req.raw.headers) : undefined;
    if (header !== undefined && !warned) {
      warned = true;
      observe("admin.proxied", { header, meaning: PROXIED });
    }
    await next();
  };
}

const FIX = "put the address that browsers use into SCHEDULER_ADMIN_URL, and further names into SCHEDULER_ADMIN_HOSTS";
const PROXIED =
  "requests come through a proxy that is not believed, so all clients seem to have its address and share its tries to log in: " +
  "set SCHEDULER_ADMIN_PROXIES to the number of your proxies";
