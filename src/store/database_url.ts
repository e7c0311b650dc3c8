/**
 * What DATABASE_URL may look like, beyond what the driver reads by itself:
 *
 *   postgres://user:password@host:5432/database
 *   postgres://user:password@a:5432,b:5432/database?target_session_attrs=read-write    a primary and its standbys, one after the other
 *   postgres://user:password@/database?host=/var/run/postgresql                        a socket of this machine, as psql takes it
 */

const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s;

export function isPostgresUrl(text: string): boolean {
  const [, before, hosts = "", after] = PARTS.exec(text) ?? [];
  return before !== undefined &&
    hosts.split(",").every((host) => URL.canParse(`${before}${host || "localhost"}${after}`));
}

/** For the driver, which takes a socket as options alone; what is no socket stays as it is. */
export function driverAddress(text: string): { url: string; socket: { host?: string; port?: number; user?: string } } {
  const [, before, host, after] = PARTS.exec(text) ?? [];
  const url = URL.parse(`${before}${host || "localhost"}${after}`);
  const folder = url?.searchParams.get("host");
  if (!url || !folder?.startsWith("/")) return { url: text, socket: {} };
  const [port, user] = ["port", "user"].map((name) => url.searchParams.get(name));
  for (const name of ["host", "port", "user"]) url.searchParams.delete(name); // the rest are settings of the session
  return {
    url: url.href,
    socket: { host: folder, port: Number(port ?? (url.port || 5432)), ...user ? { user } : {} },
  };
}
