/** By which names an HTTP server of ours is asked, and from where. Nothing that a client can write is believed. */
import { isIP, SocketAddress } from "node:net";
import { isLoopback } from "./config.ts";

export interface OwnHosts {
  /** Host names that are answered, besides those of the loopback. */
  names: ReadonlySet<string>;
  /** It listens on every address of the machine: a request that names an address is answered, whichever it is. */
  any_address: boolean;
}

export function ownHosts(host: string | undefined, further: readonly string[] = []): OwnHosts {
  return {
    names: new Set([...further, ...host ? [host] : []].map(plainName)),
    any_address: host === "0.0.0.0" || host === "::",
  };
}

/**
 * Whether a request for this host is meant for this server. A page of another site can let its own name lead to this address (DNS rebinding),
 * and would read what is here as if it were its own. An address is no name: nobody can let one lead elsewhere.
 */
export function isOwnHost({ names, any_address }: OwnHosts, authority: string): boolean {
  const host = URL.parse(`http://${authority}`)?.hostname;
  if (host === undefined) return false;
  const name = plainName(host);
  return isLoopback(name) || names.has(name) || (any_address && isIP(name) > 0);
}

/** As names are compared: without brackets, the last dot, and capitals. */
export function plainName(host: string): string {
  return host.toLowerCase().replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}

/** Headers by which proxies say for whom they ask. */
const FORWARDED = ["x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "via"];

/** The first header by which a proxy made itself known; undefined: none. */
export function forwardedBy(headers: Headers): string | undefined {
  return FORWARDED.find((name) => headers.has(name));
}

/** Whether somebody on this machine asks, and no proxy on it for somebody else. */
export function isLoopbackPeer(headers: Headers, peer: string): boolean {
  return forwardedBy(headers) === undefined && isLoopback(addressIn(peer) ?? "");
}

/** The one way to write an address, whether or not a port or brackets stand with it; one of IPv4 in the clothes of IPv6 is of IPv4. */
export function addressIn(text: string): string | undefined {
  const address = SocketAddress.parse(isIP(text) === 6 ? `[${text}]` : text)?.address;
  const mapped = address?.replace(/^::ffff:/, "") ?? "";
  return isIP(mapped) === 4 ? mapped : address;
}
