/** The server of the admin page: listens until it is told to stop, and ends the streams of browsers then. */
import { type AdminConfig, isLoopback } from "../platform/config.ts";
import { observe } from "../platform/facts.ts";
import { serveHttp } from "../platform/http.ts";
import { DeadlineExceeded, within } from "../platform/timers.ts";
import { addressText } from "../platform/text.ts";
import type { Sql } from "../postgres/connection.ts";
import { buildAdmin } from "./app.ts";
import type { AdminParts } from "./auth/authentication.ts";
import { Live } from "./live.ts";
import { placeOf } from "./base_url.ts";

/** Answers under way may take so long; then connections are cut. */
const STOP_WITHIN_MS = 3_000;

/** Resolves once it has stopped. `ready` is given the URL for a browser. @throws Deno.errors.AddrInUse */
export async function serveAdmin(
  config: AdminConfig,
  on: {
    sql: Sql;
    stop: AbortSignal;
    redis?: AdminParts["redis"];
    archive?: AdminParts["archive"];
    ready?: (url: string) => void;
  },
): Promise<void> {
  const { sql, stop, redis, archive } = on;
  const place = placeOf(config);
  const live = new Live(sql);
  const { host: hostname, port, metrics_token, callback_secret } = config;
  const app = buildAdmin({ sql, place, live, stop, redis, archive, metrics_token, callback_secret });
  const cut = new AbortController();
  const server = serveHttp({
    name: "admin",
    hostname,
    port,
    automaticCompression: true,
    signal: cut.signal,
    onListen: (at) => {
      const url = config.public_url?.href ?? `http://${addressText(shownHost(at.hostname), at.port)}/`;
      observe("admin.ready", { url });
      on.ready?.(url);
    },
  }, (request, info) => {
    if (!URL.canParse(request.url)) return new Response("no such host\n", { status: 400 }); // it is made of the Host header
    return app.fetch(request, { address: info.remoteAddr.hostname });
  });
  if (!isLoopback(hostname) && !place.https) {
    const meaning =
      "passwords and cookies travel as plain text: put a proxy with TLS in front, and set SCHEDULER_ADMIN_URL";
    observe("admin.exposed", { host: hostname, meaning });
  }
  const looking = live.run(stop);
  await aborted(stop);
  await within(STOP_WITHIN_MS, "the admin page", server.shutdown()).catch((error) => {
    if (!(error instanceof DeadlineExceeded)) throw error;
    cut.abort();
  });
  await looking;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** As a browser on this machine names it. */
function shownHost(hostname: string): string {
  return hostname === "0.0.0.0" || hostname === "::" ? "127.0.0.1" : hostname;
}
