/**
 * How this server is reached: under which origin and path, and from where. Nothing that a client can write is believed
 * unless the configuration says that a proxy of ours wrote it.
 */
import { type AdminConfig, isLoopback } from "../platform/config.ts";
import { addressIn, isLoopbackPeer, type OwnHosts, ownHosts, plainName } from "../platform/http_hosts.ts";

export interface BaseUrl extends OwnHosts {
  /** Before every path, "" or such as "/jobs". */
  base: string;
  https: boolean;
  /** That a form of ours comes from; undefined: http and the Host that was asked. */
  origin: string | undefined;
  proxies: number;
}

export function placeOf(
  { public_url, proxies, host, hosts = [] }:
    & Pick<AdminConfig, "public_url" | "proxies">
    & Partial<Pick<AdminConfig, "host" | "hosts">>,
): BaseUrl {
  return {
    base: public_url?.pathname.replace(/\/+$/, "") ?? "",
    https: public_url?.protocol === "https:",
    origin: public_url?.origin,
    proxies,
    ...ownHosts(host, [...hosts, ...public_url ? [public_url.hostname] : []]),
  };
}

/**
 * The path from the base on, also where the proxy has taken the base away itself. Of a base that is named like a page, such as
 * "/jobs", what follows tells: one of our `pages` (their first parts) follows a base, anything else a page.
 */
export function pathWithin({ base }: BaseUrl, pathname: string, pages: ReadonlySet<string>): string {
  if (!base || (pathname !== base && !pathname.startsWith(`${base}/`))) return pathname;
  const rest = pathname.slice(base.length);
  const isPage = rest !== "/" && pages.has(firstPart(pathname)) && !pages.has(firstPart(rest));
  return isPage ? pathname : rest || "/";
}

/** "jobs" of "/jobs/greet". */
export function firstPart(path: string): string {
  return path.split("/", 2)[1] ?? "";
}

/** Browsers send Origin with every form; what sends none is no form of ours. */
export function isOwnOrigin({ origin }: BaseUrl, headers: Headers): boolean {
  return headers.get("origin") === (origin ?? `http://${headers.get("host")}`);
}

/** Whether somebody on this machine asks without a proxy in between. Behind a proxy of this machine everybody would seem to. */
export function isFromHere({ origin, proxies }: BaseUrl, headers: Headers, peer: string): boolean {
  const proxied = proxies > 0 || (origin !== undefined && !isLoopback(plainName(new URL(origin).hostname)));
  return !proxied && isLoopbackPeer(headers, peer);
}

/** Of the client: what the outermost proxy of ours saw. Of IPv6 the network, since one client has all of it. */
export function addressOf({ proxies }: BaseUrl, headers: Headers, peer: string): string {
  const told = (headers.get("x-forwarded-for") ?? "").split(",").map((one) => one.trim()).filter(Boolean);
  const said = proxies > 0 ? told.at(-proxies) ?? told[0] : undefined;
  // What is no address, such as "unknown", is not taken: whoever could choose it would be another client each time.
  const address = (said === undefined ? undefined : addressIn(said)) ?? addressIn(peer) ?? peer.slice(0, 64);
  if (!address.includes(":")) return address;
  const [head = ""] = address.split("::");
  return `${head.split(":").slice(0, 4).join(":")}::/64`;
}
