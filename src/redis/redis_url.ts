/**
 * Where Redis is, from one line of text:
 *
 *   redis://[[user]:password@]host[:6379][/db]                                   one server; rediss:// with TLS
 *   redis+sentinel://[[user]:password@]host[:26379],host,.../master-name[/db]    Sentinel; ?sentinel_password=... for theirs
 *   redis+cluster://[[user]:password@]host[:6379],host,...                       Cluster
 *
 * rediss+sentinel:// and rediss+cluster:// with TLS.
 */
import { ConfigError } from "../platform/config.ts";

export interface RedisLocation {
  kind: "single" | "sentinel" | "cluster";
  servers: { host: string; port: number }[];
  tls: boolean;
  username?: string;
  password?: string;
  db?: number;
  master?: string;
  sentinel_password?: string;
  /** For people and logs: without passwords. */
  shown: string;
}

const FORMS = "redis://host:6379, rediss://host:6380, redis+sentinel://host:26379,host:26379/master-name or " +
  "redis+cluster://host:6379,host:6379";

/** As of any address at which nothing can be reached. */
function refused(message: string): ConfigError {
  return new ConfigError(message, "no_address");
}

/** Throws with the accepted forms when the text is none of them. Never repeats a password. */
export function parseRedisUrl(text: string): RedisLocation {
  const url = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^/]*)@)?([^/@?]+)((?:\/[^/?]*)*)(?:\?(.*))?$/.exec(text);
  const [, scheme, kind = "single", login, hosts = "", path = "", query] = url ?? [];
  // With an @ that is in no login, nobody can tell what of it is a password.
  const odd = /@/.test(url ? path : text);
  if (odd) throw refused(`Cannot read REDIS_URL: write special characters of its password as %XX, and use ${FORMS}`);
  if (!url) throw refused(`Cannot read REDIS_URL ${JSON.stringify(text)}: use ${FORMS}`);
  if (!isDecodable(login ?? "")) {
    throw refused(`Cannot read REDIS_URL: its password has a % that is no %XX: write it as %25, and use ${FORMS}`);
  }
  const shown = text.replace(/\/\/.*@/, "//").replace(/\?.*/, "");
  const servers = hosts.split(",").map((host) => serverFrom(host, kind === "sentinel" ? 26379 : 6379, shown));
  const parts = path.split("/").slice(1).filter((part) => part !== "");
  const colon = login?.indexOf(":") ?? -1;
  const place: RedisLocation = {
    kind: kind as RedisLocation["kind"],
    servers,
    tls: scheme === "rediss",
    username: login && colon > 0 ? decodeURIComponent(login.slice(0, colon)) : undefined,
    password: login ? decodeURIComponent(login.slice(colon + 1)) : undefined,
    sentinel_password: new URLSearchParams(query ?? "").get("sentinel_password") ?? undefined,
    shown,
  };
  if (kind === "sentinel") {
    place.master = parts.shift();
    if (!place.master) throw refused(`Cannot read REDIS_URL "${shown}": the master's name is missing; use ${FORMS}`);
  }
  if (kind === "cluster" && parts.length > 0) {
    throw refused(`Cannot read REDIS_URL "${shown}": a cluster has no numbered databases; use ${FORMS}`);
  }
  if (kind === "single" && servers.length > 1) {
    throw refused(`Cannot read REDIS_URL "${shown}": redis:// names one server; use ${FORMS}`);
  }
  place.db = databaseFrom(parts, shown);
  return place;
}

function isDecodable(text: string): boolean {
  try {
    return decodeURIComponent(text) !== undefined;
  } catch {
    return false;
  }
}

function serverFrom(text: string, default_port: number, shown: string): { host: string; port: number } {
  const [, v6, name, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const host = v6 ?? name;
  const number = port === undefined ? default_port : Number(port);
  if (!host || number < 1 || number > 65535) {
    throw refused(`Cannot read REDIS_URL "${shown}": "${text}" is no host:port; use ${FORMS}`);
  }
  return { host, port: number };
}

function databaseFrom(parts: string[], shown: string): number | undefined {
  const [db, ...rest] = parts;
  if (db === undefined) return undefined;
  if (rest.length === 0 && /^[0-9]{1,4}$/.test(db)) return Number(db);
  throw refused(`Cannot read REDIS_URL "${shown}": the database must be a number, e.g. /0; use ${FORMS}`);
}
