/**
 * What DATABASE_URL may look like, beyond what the driver reads by itself:
 *
 *   postgres://user:password@host:5432/database
 *   postgres://user:password@a:5432,b:5432/database?target_session_attrs=read-write        a primary and its standbys, one after the other
 *   postgres://user:password@/database?host=/var/run/postgresql                            a socket of this machine, as psql takes it
 *   postgres://user:password@host/database?sslmode=verify-full&sslrootcert=/etc/ca.pem     TLS, with an authority of one's own
 *
 * Of sslmode only `verify-full` looks whose certificate it is, by the authorities that Deno knows where sslrootcert names none; `require`
 * encrypts, for whoever answers. With sslrootcert each but `disable` is verify-full.
 */
import { messageOf } from "../platform/text.ts";

const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?]*@)?)([^/?]*)([^?]*)(?:\?(.*))?$/s;

export function isPostgresUrl(text: string): boolean {
  const [, before, hosts = "", after] = PARTS.exec(text) ?? [];
  return before !== undefined &&
    hosts.split(",").every((host) => URL.canParse(`${before}${host || "localhost"}${after}`));
}

/** What the driver takes as options alone. */
interface DriverOptions {
  host?: string;
  port?: number;
  user?: string;
  ssl?: { ca: string; rejectUnauthorized: true; host?: string };
}

/** @throws Error when the file of sslrootcert cannot be read */
export function driverAddress(text: string): { url: string; options: DriverOptions } {
  const [, before = "", hosts = "", after = "", query = ""] = PARTS.exec(text) ?? [];
  const given = new URLSearchParams(query);
  const { size } = given;
  const options = { ...socketOf(given, hosts), ...authorityOf(given, hosts) };
  if (given.size === size) return { url: text, options };
  // What they have left is the driver's, or settings of the session.
  return { url: `${before}${hosts || "localhost"}${after}${given.size > 0 ? `?${given}` : ""}`, options };
}

function socketOf(given: URLSearchParams, hosts: string): DriverOptions {
  const folder = given.get("host");
  if (!folder?.startsWith("/")) return {};
  const [port, user] = ["port", "user"].map((name) => given.get(name));
  for (const name of ["host", "port", "user"]) given.delete(name);
  return { host: folder, port: Number(port ?? (/:(\d+)$/.exec(hosts)?.[1] ?? 5432)), ...user ? { user } : {} };
}

function authorityOf(given: URLSearchParams, hosts: string): DriverOptions {
  const file = given.get("sslrootcert");
  if (!file || file === "system") return {};
  given.delete("sslrootcert");
  if (given.get("sslmode") === "disable") return {};
  // An address is looked for in the certificate as it is; by itself the driver would look for "localhost".
  const [, v6, v4] = /^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/.exec(hosts) ?? [];
  const ip = v6 ?? v4;
  try {
    return { ssl: { ca: Deno.readTextFileSync(file), rejectUnauthorized: true, ...ip ? { host: ip } : {} } };
  } catch (error) {
    throw new Error(`Cannot read the sslrootcert of DATABASE_URL, ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Codes of a Postgres whose certificate is not taken: of another host or authority, or over. */
export function isBadCertificate(code: string): boolean {
  return /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|ERR_TLS_CERT_)/.test(code);
}
