/**
 * How this server is reached: under which origin and path, and from where. Nothing that a client can write is believed
 * unless the configuration says that a proxy of ours wrote it.
 */
import { isIP, SocketAddress } from "node:net";
import { type AdminConfig, isLoopback } from "../platform/config.ts";

export interface BaseUrl {
  /** Before every path, "" or such as "/jobs". */
  base: string;
  https: boolean;
  /** That a form of ours comes from; undefined: http and the Host that was asked. */
  origin: string | undefined;
  proxies: number;
  /** Host names that are answered, besides those of the loopback. */
  names: ReadonlySet<string>;
  /** It listens on every address of the machine: a request that names an address is answered, whichever it is. */
  any_address: boolean;
}

export function placeOf(
  { public_url, proxies, host, hosts = [] }:
    & Pick<AdminConfig, "public_url" | "proxies">
    & Partial<Pick<AdminConfig, "host" | "hosts">>,
): BaseUrl {
  const names = [...hosts, ...public_url ? [public_url.hostname] : [], ...host ? [host] : []];
  return {
    base: public_url?.pathname.replace(/\/+$/, "") ?? "",
    https: public_url?.protocol === "https:",
    origin: public_url?.origin,
    proxies,
    names: new Set(names.map(plainName)),
    any_address: host === "0.0.0.0" || host === "::",
  };
}

/**
 * Whether a request for this host is meant for this server. A page of another site can let its own name lead to this address (DNS rebinding),
 * and would read what is here as if it were its own. An address is no name: nobody can let one lead elsewhere.
 */
export function isOwnHost({ names, any_address }: BaseUrl, authority: string): boolean {
  const host = URL.parse(`http://${authority}`)?.hostname;
  if (host === undefined) return false;
  const name = plainName(host);
  return isLoopback(name) || names.has(name) || (any_address && isIP(name) > 0);
}

/** As names are compared: without brackets, the last dot, and capitals. */
function plainName(host: string): string {
  return host.toLowerCase().replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
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

/** Headers by which proxies say for whom they ask. */
const FORWARDED = ["x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "via"];

/** The first header by which a proxy made itself known; undefined: none. */
export function forwardedBy(headers: Headers): string | undefined {
  return FORWARDED.find((name) => headers.has(name));
}

/** Whether somebody on this machine asks without a proxy in between. Behind a proxy of this machine everybody would seem to. */
export function isFromHere({ origin, proxies }: BaseUrl, headers: Headers, peer: string): boolean {
  const proxied = proxies > 0 || (origin !== undefined && !isLoopback(plainName(new URL(origin).hostname)));
  return !proxied && forwardedBy(headers) === undefined && isLoopback(addressIn(peer) ?? "");
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

/** The one way to write an address, whether or not a port or brackets stand with it; one of IPv4 in the clothes of IPv6 is of IPv4. */
function addressIn(text: string): string | undefined {
  const address = SocketAddress.parse(isIP(text) === 6 ? `[${text}]` : text)?.address;
  const mapped = address?.replace(/^::ffff:/, "") ?? "";
  return isIP(mapped) === 4 ? mapped : address;
}
