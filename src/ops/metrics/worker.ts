/**
 * A worker's own small HTTP server: what only this process knows (`/metrics`), and two questions for Kubernetes. Off unless
 * SCHEDULER_METRICS_PORT is set. What is known of the whole cluster is given by the admin server (cluster.ts).
 *
 *   /healthz  200 while this process answers: restart it otherwise
 *   /readyz   200 while it takes work: its lease holds, and it neither drains nor is detached
 *
 * The numbers are facts that were heard (platform/facts.ts), counted.
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Config } from "../../platform/config.ts";
import { type FactName, hear, observe } from "../../platform/facts.ts";
import { serveHttp } from "../../platform/http.ts";
import { isLoopbackPeer, isOwnHost, ownHosts } from "../../platform/http_hosts.ts";
import { every, monotonicMs } from "../../platform/timers.ts";
import { addressText, messageOf } from "../../platform/text.ts";

/** What the process says of itself when it is asked. A worker that comes back under a new id is another one. */
export interface MetricsSubject {
  role: string;
  slots: number;
  draining: boolean;
  detached: boolean;
  may_run: boolean;
  /** Until then the lease lets bodies run. */
  lease_seconds: number;
  bodies: number;
  spares: number;
}

const LAG_MS = 500;

/** Facts of which it is enough to know how often they were stated. */
const COUNTED: Partial<Record<FactName, string>> = {
  "rpc.failed": "Calls of others that failed here",
  "peer.failed": "Calls to others that failed",
  "peer.refused": "Peers that were not let in",
  "redis.away": "Times Redis went away",
  "loop.failed": "Rounds of any loop that failed and were tried again",
  "run.start_lost": "Starts that another worker had meanwhile",
  "run.late_result": "Outcomes that came too late to count",
  "body.killed": "Bodies that were killed",
  "alert.undelivered": "Tries to tell the webhook that failed",
};

export class WorkerMetrics {
  readonly #registry = new Registry();
  readonly #unhear: () => void;
  readonly #stop = new AbortController();
  #lag_ms = 0;
  #worst_lag_ms = 0;

  constructor(subject: () => MetricsSubject | undefined) {
    this.#gauges(subject);
    const counters = new Map(Object.entries(COUNTED).map(([fact, help]) => [fact, this.#counter(nameOf(fact), help)]));
    const finished = new Counter({
      name: "dandori_worker_runs_total",
      help: "Attempts that ended here, by outcome",
      labelNames: ["outcome"],
      registers: [this.#registry],
    });
    const moved = this.#counter(
      "dandori_worker_old_log_lines_total",
      "Log lines that this process, leading, moved out of Postgres: to the archive, or away",
    );
    const deleted = this.#counter(
      "dandori_worker_old_runs_deleted_total",
      "Runs that this process, leading, deleted when they had been kept long enough",
    );
    const spawned = new Histogram({
      name: "dandori_worker_spawn_seconds",
      help: "Time to give a run its process, by whether a spare was ready",
      labelNames: ["spare"],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
      registers: [this.#registry],
    });
    this.#unhear = hear((name, fact) => {
      counters.get(name)?.inc();
      if (name === "logs.archived" || name === "logs.deleted") moved.inc((fact as { lines: number }).lines);
      if (name === "history.deleted") deleted.inc((fact as { runs: number }).runs);
      if (name === "run.finished") finished.inc({ outcome: (fact as { outcome: string }).outcome });
      if (name === "body.spawned") {
        const { spare, spawn_ms } = fact as { spare: boolean; spawn_ms: number };
        spawned.observe({ spare: String(spare) }, spawn_ms / 1000);
      }
    });
    this.#measureLag();
  }

  async text(): Promise<string> {
    const text = await this.#registry.metrics();
    this.#worst_lag_ms = this.#lag_ms;
    return text;
  }

  close(): void {
    this.#stop.abort();
    this.#unhear();
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: [this.#registry] });
  }

  #gauges(subject: () => MetricsSubject | undefined): void {
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.set(read());
        },
      });
    gauge("dandori_worker_bodies", "Bodies that run here", () => subject()?.bodies ?? 0);
    gauge("dandori_worker_slots", "Bodies that may run here at once", () => subject()?.slots ?? 0);
    gauge("dandori_worker_spares", "Processes that are loaded and wait for a run", () => subject()?.spares ?? 0);
    gauge("dandori_worker_ready", "1 while it takes work", () => Number(whyNotReady(subject()) === undefined));
    gauge("dandori_worker_leader", "1 while it leads", () => Number(subject()?.role === "leader"));
    gauge(
      "dandori_worker_lease_seconds",
      "Until its bodies must end unless its lease is renewed",
      () => subject()?.lease_seconds ?? 0,
    );
    gauge(
      "dandori_worker_loop_lag_seconds",
      "The longest time for which this process was too busy to do what was due, since the last scrape",
      () => this.#worst_lag_ms / 1000,
    );
    gauge("process_resident_memory_bytes", "Memory of this process, without its bodies", () => Deno.memoryUsage().rss);
    gauge("process_heap_bytes", "Of that, what the program's values take", () => Deno.memoryUsage().heapUsed);
    const started_seconds = (performance.timeOrigin) / 1000;
    gauge("process_start_time_seconds", "When this process started, since 1970", () => started_seconds);
  }

  #measureLag(): void {
    let due_ms = monotonicMs();
    every(LAG_MS, () => {
      this.#lag_ms = Math.max(0, monotonicMs() - due_ms);
      this.#worst_lag_ms = Math.max(this.#worst_lag_ms, this.#lag_ms);
      due_ms = monotonicMs() + LAG_MS;
      return Promise.resolve();
    }, { name: "loop lag", stop: this.#stop.signal });
  }
}

/** Undefined: it takes work. */
function whyNotReady(subject: MetricsSubject | undefined): string | undefined {
  if (!subject) return "it has not registered yet";
  if (subject.detached) return "it is detached";
  if (subject.draining) return "it drains";
  return subject.may_run ? undefined : "its lease is over";
}

const OTHER_HOST = "Cannot answer for this host: it is no name of this server; ask by its address, or send the token\n";

/**
 * Who shows the token may ask by any name. All others ask by an address or a name of the loopback: the page of another site that lets its
 * own name lead here reads nothing. Where no token is set, `/metrics` is for this machine alone.
 *
 * Serves until the returned function is called.
 */
export function serveWorkerMetrics(
  on: NonNullable<Config["metrics"]>,
  subject: () => MetricsSubject | undefined,
): { port: number; close: () => Promise<void> } {
  const metrics = new WorkerMetrics(subject);
  const own = ownHosts(on.host);
  const answer = async (request: Request, { remoteAddr: peer }: Deno.ServeHandlerInfo<Deno.NetAddr>) => {
    const pathname = URL.parse(request.url)?.pathname;
    if (pathname === undefined) return new Response("no such host\n", { status: 400 }); // it is made of the Host header
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("only GET\n", { status: 405 });
    const has_token = on.token !== undefined && await mayRead(request, on.token);
    if (!has_token && !isOwnHost(own, request.headers.get("host") ?? "")) {
      return new Response(OTHER_HOST, { status: 421 });
    }
    if (pathname === "/healthz") return new Response("ok\n");
    if (pathname === "/readyz") {
      const why_not = whyNotReady(subject());
      return new Response(`${why_not ?? "ok"}\n`, { status: why_not ? 503 : 200 });
    }
    if (pathname !== "/metrics") return new Response("no such page\n", { status: 404 });
    const from_here = on.token === undefined && isLoopbackPeer(request.headers, addressText(peer.hostname, peer.port));
    if (!has_token && !from_here) {
      return new Response("needs the bearer token\n", { status: 401, headers: { "www-authenticate": "Bearer" } });
    }
    return new Response(await metrics.text(), { headers: { "content-type": Registry.PROMETHEUS_CONTENT_TYPE } });
  };
  const server = listen(on, answer);
  observe("metrics.ready", { address: addressText(on.host, server.port) });
  return {
    port: server.port,
    async close() {
      metrics.close();
      await server.shutdown();
    },
  };
}

function listen(
  { host, port }: NonNullable<Config["metrics"]>,
  answer: (request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => Promise<Response>,
) {
  try {
    return serveHttp({ name: "metrics", hostname: host, port, onListen: () => {} }, answer);
  } catch (error) {
    const why = messageOf(error);
    throw new Error(
      `Cannot serve metrics on ${
        addressText(host, port)
      }: ${why}; give each worker of a machine its own SCHEDULER_METRICS_PORT, or 0`,
    );
  }
}

/** Compared by digest, so that the time it takes tells nothing of the token. */
export async function mayRead(request: Request, token: string): Promise<boolean> {
  const given = /^Bearer +(.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
  const [one, other] = await Promise.all(
    [given, token].map(async (text) =>
      new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex()
    ),
  );
  return one === other;
}

function nameOf(fact: string): string {
  return `dandori_worker_${fact.replace(".", "_")}_total`;
}
