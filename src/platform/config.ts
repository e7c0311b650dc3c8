/**
 * Boot settings: what a process must know before it can reach Postgres. Everything else is a live setting in
 * `scheduler_settings` (settings/settings.ts). The only reader of the environment.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | DATABASE_URL | the running `dev`'s | Postgres, the truth: `postgres://user:password@host:5432/database`, with several hosts or a socket (postgres/database_url.ts) |
 * | REDIS_URL | the running `dev`'s | Redis: `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://` |
 * | SCHEDULER_REDIS_PREFIX | `scheduler:`, on Cluster `{scheduler}:` | before every Redis key; Redis Cluster needs a `{hash tag}` in it |
 * | SCHEDULER_NODE_ID | the host's name | the host or pod this process is on |
 * | SCHEDULER_GRPC_HOST | 127.0.0.1 | address that this worker listens on and tells its peers |
 * | SCHEDULER_GRPC_PORT | 0 (any free one) | port of the same |
 * | SCHEDULER_GRPC_ADVERTISE | where it listens | `host:port` or `[fd00::7]:port` that peers are told, when something stands in between |
 * | SCHEDULER_SLOTS | `max_jobs_per_worker` setting | bodies that this worker runs at once |
 * | SCHEDULER_STATE_DIR | .dandori | outcomes that wait for Postgres, temp folders of bodies, what `dev` keeps |
 * | SCHEDULER_JOBS_DIR | jobs | folder of job files |
 * | SCHEDULER_TLS | mtls | `mtls`, or `mesh`: plain text, for a service mesh that encrypts and identifies (docs/tls.md) |
 * | SCHEDULER_CHECKS_DIR | none | folder of an operator's executables that must succeed for this node to be available |
 * | SCHEDULER_TLS_CERT_FILE, _KEY_FILE | /etc/scheduler/tls/tls.crt, tls.key | this node's certificate and key, PEM |
 * | SCHEDULER_TLS_PINS_FILE | /etc/scheduler/tls/pins.pem, unless there is a CA | certificates (PEM) of the peers that may connect |
 * | SCHEDULER_TLS_CA_FILE | none | authorities (PEM): a certificate of theirs that names its node need not be pinned |
 * | SCHEDULER_TLS_POLL_MS | 5000 | how often these files are looked at; at least each 5 s |
 * | SCHEDULER_ADMIN_HOST, _PORT | 127.0.0.1, 8420 | where the admin page listens; port 0: any free one |
 * | SCHEDULER_ADMIN_URL | http://HOST:PORT | how browsers reach it through a proxy, with a path if there is one |
 * | SCHEDULER_ADMIN_HOSTS | none | further names under which it is asked, with commas: any other is refused |
 * | SCHEDULER_ADMIN_PROXIES | 0 | trusted proxies in front of it: so many addresses of X-Forwarded-For are believed |
 * | SCHEDULER_METRICS_PORT | none | port of this worker's own `/metrics`, `/healthz` and `/readyz` (docs/monitoring.md) |
 * | SCHEDULER_METRICS_HOST | 127.0.0.1 | address of the same |
 * | SCHEDULER_METRICS_TOKEN | none | bearer token that `/metrics` asks for, of workers and of the admin server; without it only the same machine may read |
 * | SCHEDULER_CALLBACK_SECRET | none | of workers and the admin server: key of callback addresses; make one: `deno task secret` |
 * | SCHEDULER_ALERT_WEBHOOK_URL | none | where alerts are told, https; a secret: only its host is ever shown |
 * | SCHEDULER_ALERT_WEBHOOK_SECRET | none | key of the HMAC that signs them |
 * | SCHEDULER_ALERT_WEBHOOK_HTTP | none | `allow`: the address may be plain http |
 * | SCHEDULER_ARCHIVE | none | where old logs go: `file:///folder` that all machines share, or `s3://bucket/prefix` (docs/retention.md) |
 * | SCHEDULER_ARCHIVE_ENDPOINT | https://s3.REGION.amazonaws.com | of another S3-compatible store |
 * | SCHEDULER_ARCHIVE_REGION | AWS_REGION, else us-east-1 | region of the bucket |
 * | SCHEDULER_ARCHIVE_KEY_ID, _SECRET, _SESSION_TOKEN | AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN | keys of the bucket; secrets |
 * | SCHEDULER_ARCHIVE_HTTP | none | `allow`: the endpoint may be plain http |
 * | SCHEDULER_FAILPOINT | none | for tests alone: where a worker stops, dies or fails on purpose (failpoint.ts) |
 */
import { isIPv6 } from "node:net";
import { hostname } from "node:os";
import { type ArchivePlace, readArchivePlace } from "./archive_location.ts";
import { type Failpoint, failpointsIn } from "./failpoint.ts";
import { fromFileUrl, resolvePath } from "./paths.ts";
import { processStarted } from "./process_stat.ts";

export interface Config {
  database_url: string;
  redis_url: string;
  redis_prefix: string;
  node_id: string;
  grpc_host: string;
  grpc_port: number;
  /** What peers are told; undefined: where this worker listens. */
  grpc_advertise: { host: string; port: number } | undefined;
  slots: number | undefined;
  jobs_dir: string;
  tls: TlsFiles | "mesh";
  /** Of executables that say whether this node can work. */
  checks_dir: string | undefined;
  /** Where workers keep outcomes and bodies' folders, and `dev` its databases, certificates and the note by which other commands find it. */
  state_dir: string;
  failpoints: Failpoint[];
  /** Of the worker's own small HTTP server; undefined: there is none. */
  metrics: { host: string; port: number; token: string | undefined } | undefined;
  /** Whether Deno's own exporter for OpenTelemetry is on (OTEL_DENO). */
  tracing: boolean;
  /** Undefined: this process tells alerts to nobody. */
  alert_webhook: Webhook | undefined;
  /** Of the addresses at which messages to runs are taken; undefined: none can be made. */
  callback: CallbackConfig | undefined;
  /** Of old logs; undefined: they stay in Postgres. Its keys are secrets. */
  archive: ArchivePlace | undefined;
}

export type { ArchivePlace };

/** How callback addresses are made (steps/callback_address.ts). */
export interface CallbackConfig {
  /** A secret. */
  secret: string;
  /** Where the admin server is reached. */
  base: URL;
}

/** Whose address and key are secrets. */
export interface Webhook {
  url: string;
  secret: string | undefined;
}

/**
 * By which this process is known and knows its peers. With pins and authorities both, either is enough: so a cluster goes
 * over from one to the other without a stop. Without both, nobody is let in, and it is refused.
 */
export interface TlsFiles {
  cert_file: string;
  key_file: string;
  pins_file?: string;
  ca_file?: string;
  /** What its certificate must name when an authority vouches for it. */
  node_id?: string;
  /** How often the files are looked at; undefined: every 5 s. */
  poll_ms?: number;
}

/** What a running `dev` leaves in `.dandori/dev.json` so that other commands in the same checkout find it. */
export interface DevNote {
  pid: number;
  /** The kernel's start time of the pid: once dev was killed, another process may have that number. */
  process_started: string;
  database_url: string;
  redis_url: string;
  redis_prefix: string;
  tls_dir: string;
  jobs_dir: string;
  /** The folder of its own archive, as a URL; undefined: it was given another. */
  archive?: string;
  /** Of callback addresses. */
  callback_secret: string;
  /** Of its workers, one each. */
  node_ids: string[];
}

/** The folder that holds main.ts, deno.json and schema.sql. */
export const PROJECT_DIR = fromFileUrl(new URL("../../", import.meta.url));

export class ConfigError extends Error {
  override name = "ConfigError";
  /** `no_address`: nothing is wrong but that it is not said where Postgres or Redis is. */
  constructor(message: string, readonly why: "wrong" | "no_address" = "wrong") {
    super(message);
  }
}

/** Reads and checks all boot settings; every problem is named at once. */
export function readConfig(env: Env = environment()): Config {
  const [problems, addresses]: [string[], string[]] = [dangers(env), []];
  const { jobs_dir, state_dir } = readConfigForFiles(env);
  const dev = readDevNote(state_dir);
  const database_url = env.DATABASE_URL || dev?.database_url || "";
  const redis_url = env.REDIS_URL || dev?.redis_url || "";
  if (!database_url) addresses.push("DATABASE_URL is not set, and no `deno task dev` is running in this checkout");
  if (!redis_url) addresses.push("REDIS_URL is not set, and no `deno task dev` is running in this checkout");
  const node_id = env.SCHEDULER_NODE_ID || hostname();
  const tls = readTls(env, { tls_dir: dev?.tls_dir ?? "/etc/scheduler/tls", node_id, problems });
  const config: Config = {
    database_url,
    redis_url,
    redis_prefix: env.SCHEDULER_REDIS_PREFIX || (/^rediss?\+cluster:/.test(redis_url) ? "{scheduler}:" : "scheduler:"),
    node_id,
    grpc_host: hostIn(env.SCHEDULER_GRPC_HOST),
    grpc_port: wholeNumber(env, "SCHEDULER_GRPC_PORT", { least: 0, most: 65535 }, problems) ?? 0,
    grpc_advertise: advertised(env, problems),
    slots: wholeNumber(env, "SCHEDULER_SLOTS", { least: 1, most: 1000 }, problems),
    jobs_dir,
    tls,
    checks_dir: env.SCHEDULER_CHECKS_DIR ? resolvePath(PROJECT_DIR, env.SCHEDULER_CHECKS_DIR) : undefined,
    state_dir,
    failpoints: failpointsIn(env.SCHEDULER_FAILPOINT ?? "", problems),
    metrics: readMetrics(env, problems),
    tracing: Boolean(env.OTEL_DENO),
    alert_webhook: readWebhook(env, problems),
    callback: readCallbackConfig(env, problems, dev?.callback_secret),
    archive: readArchivePlace(env, problems, dev?.archive),
  };
  const all = [...addresses, ...problems];
  const why = problems.length > 0 ? "wrong" : "no_address";
  if (all.length > 0) throw new ConfigError(`Cannot start: ${all.join("; ")}`, why);
  return config;
}

type Env = Record<string, string | undefined>;

function readTls(env: Env, on: { tls_dir: string; node_id: string; problems: string[] }): TlsFiles | "mesh" {
  const { tls_dir, node_id, problems } = on;
  const kind = env.SCHEDULER_TLS || "mtls";
  if (kind !== "mtls" && kind !== "mesh") {
    problems.push(`SCHEDULER_TLS must be mtls or mesh: current value is "${kind}"`);
  }
  if (kind === "mesh") {
    for (const name of ["CERT", "KEY", "PINS", "CA"].map((file) => `SCHEDULER_TLS_${file}_FILE`)) {
      if (env[name]) problems.push(`SCHEDULER_TLS=mesh uses no certificate, but ${name} is set: unset one of the two`);
    }
    return "mesh";
  }
  const ca_file = env.SCHEDULER_TLS_CA_FILE || undefined;
  const poll_ms = wholeNumber(env, "SCHEDULER_TLS_POLL_MS", { least: 100, most: 5_000 }, problems);
  return {
    cert_file: env.SCHEDULER_TLS_CERT_FILE || `${tls_dir}/tls.crt`,
    key_file: env.SCHEDULER_TLS_KEY_FILE || `${tls_dir}/tls.key`,
    pins_file: env.SCHEDULER_TLS_PINS_FILE || (ca_file ? undefined : `${tls_dir}/pins.pem`),
    ca_file,
    node_id,
    ...(poll_ms && { poll_ms }),
  };
}

function readMetrics(env: Env, problems: string[]): Config["metrics"] {
  const port = wholeNumber(env, "SCHEDULER_METRICS_PORT", { least: 0, most: 65535 }, problems);
  if (port === undefined) return undefined;
  return { host: hostIn(env.SCHEDULER_METRICS_HOST), port, token: env.SCHEDULER_METRICS_TOKEN || undefined };
}

const ADMIN_PORT = 8420;
const SHORTEST_SECRET = 32;

/** Its own words are not shown: they are the secret. */
function readCallbackConfig(env: Env, problems: string[], of_dev?: string): CallbackConfig | undefined {
  const secret = env.SCHEDULER_CALLBACK_SECRET || of_dev;
  if (!secret) return undefined;
  if (secret.length < SHORTEST_SECRET) {
    problems.push(
      `SCHEDULER_CALLBACK_SECRET must have at least ${SHORTEST_SECRET} characters: make one with deno task secret`,
    );
  }
  const url = env.SCHEDULER_ADMIN_URL || (of_dev && `http://127.0.0.1:${env.SCHEDULER_ADMIN_PORT || ADMIN_PORT}/`);
  if (url && URL.canParse(url)) return { secret, base: new URL(url) };
  problems.push("SCHEDULER_CALLBACK_SECRET needs SCHEDULER_ADMIN_URL, which callback addresses begin with");
}

/** What is wrong with it is said without the address: it may hold a secret. */
function readWebhook(env: Env, problems: string[]): Webhook | undefined {
  const text = env.SCHEDULER_ALERT_WEBHOOK_URL;
  if (!text) return undefined;
  const url = URL.parse(text);
  const allowed = env.SCHEDULER_ALERT_WEBHOOK_HTTP === "allow" ? ["https:", "http:"] : ["https:"];
  if (!url || !allowed.includes(url.protocol)) {
    problems.push(
      url?.protocol === "http:"
        ? "SCHEDULER_ALERT_WEBHOOK_URL must be https; where plain http is meant, set SCHEDULER_ALERT_WEBHOOK_HTTP=allow"
        : "SCHEDULER_ALERT_WEBHOOK_URL must be the address of a webhook, such as https://alerts.internal/dandori",
    );
    return undefined;
  }
  if (url.username || url.password) {
    problems.push(
      "SCHEDULER_ALERT_WEBHOOK_URL must not hold a user or password: sign with SCHEDULER_ALERT_WEBHOOK_SECRET",
    );
    return undefined;
  }
  return { url: url.href, secret: env.SCHEDULER_ALERT_WEBHOOK_SECRET || undefined };
}

/** Switches that turn the checks of TLS off, for every connection of this process. */
function dangers(env: Env): string[] {
  const problems: string[] = [];
  if (env.NODE_TLS_REJECT_UNAUTHORIZED === "0") {
    problems.push("NODE_TLS_REJECT_UNAUTHORIZED=0 turns the checks of certificates off: unset it");
  }
  const flag = runtimeFlags().find((one) => one.startsWith("--unsafely-ignore-certificate-errors"));
  if (flag) problems.push(`Deno was started with ${flag}, which turns the checks of certificates off: leave it out`);
  return problems;
}

/** How Deno itself was started, up to the program's file. Empty where there is no /proc. */
function runtimeFlags(): string[] {
  try {
    const words = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
    const program = words.findIndex((word, place) => place > 0 && /\.[cm]?[jt]sx?$/.test(word));
    return program < 0 ? words : words.slice(0, program);
  } catch {
    return [];
  }
}

/** Whether only this machine can reach what listens there. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** What commands need that only touch files. */
export function readConfigForFiles(env: Env = environment()): { jobs_dir: string; state_dir: string } {
  return {
    jobs_dir: resolvePath(PROJECT_DIR, env.SCHEDULER_JOBS_DIR || "jobs"),
    state_dir: resolvePath(PROJECT_DIR, env.SCHEDULER_STATE_DIR || ".dandori"),
  };
}

/** Where the admin page listens, and how it is reached. */
export interface AdminConfig {
  host: string;
  port: number;
  /** As browsers name it; undefined: by the address on which it listens. */
  public_url: URL | undefined;
  /** Proxies in front of it whose word about the client's address is taken. */
  proxies: number;
  /** Further names under which it is asked. */
  hosts?: string[];
  /** What `/metrics` asks for; undefined: it is for this machine and for users alone. */
  metrics_token?: string;
  /** Key of callback addresses; undefined: none is answered. */
  callback_secret?: string;
}

/** What is given on the command line wins. @throws ConfigError */
export function readAdminConfig(given: { host?: string; port?: number } = {}, env: Env = environment()): AdminConfig {
  const problems: string[] = [];
  const url = env.SCHEDULER_ADMIN_URL;
  const public_url = url && /^https?:/.test(url) && URL.canParse(url) ? new URL(url) : undefined;
  if (url && (!public_url || public_url.search || public_url.hash || public_url.username)) {
    problems.push(`SCHEDULER_ADMIN_URL must be like https://example.com/dandori: current value is "${url}"`);
  }
  const names = (env.SCHEDULER_ADMIN_HOSTS ?? "").split(",").map((name) => name.trim()).filter(Boolean);
  for (const name of names.filter((name) => URL.parse(`http://${name}`)?.host !== name.toLowerCase())) {
    problems.push(`SCHEDULER_ADMIN_HOSTS holds names without ports, such as admin.internal: one of its is "${name}"`);
  }
  const port = wholeNumber(env, "SCHEDULER_ADMIN_PORT", { least: 0, most: 65535 }, problems);
  const proxies = wholeNumber(env, "SCHEDULER_ADMIN_PROXIES", { least: 0, most: 10 }, problems);
  if (problems.length > 0) throw new ConfigError(`Cannot start: ${problems.join("; ")}`);
  return {
    host: hostIn(given.host ?? env.SCHEDULER_ADMIN_HOST),
    port: given.port ?? port ?? ADMIN_PORT,
    public_url,
    proxies: proxies ?? 0,
    hosts: [...names, hostname()],
    metrics_token: env.SCHEDULER_METRICS_TOKEN || undefined,
    callback_secret: env.SCHEDULER_CALLBACK_SECRET || readDevNote(readConfigForFiles(env).state_dir)?.callback_secret,
  };
}

/** The note of a `dev` that is alive, if there is one. */
export function readDevNote(state_dir: string): DevNote | undefined {
  try {
    const note = JSON.parse(Deno.readTextFileSync(`${state_dir}/dev.json`)) as DevNote;
    return note.process_started && processStarted(note.pid) === note.process_started ? note : undefined;
  } catch {
    return undefined;
  }
}

/** The environment as it was given, for handing named variables to bodies and child processes. */
export function environment(): Record<string, string> {
  return Deno.env.toObject();
}

function wholeNumber(
  env: Env,
  name: string,
  range: { least: number; most: number },
  problems: string[],
): number | undefined {
  const text = env[name];
  if (!text) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return value;
  problems.push(`${name} must be a whole number from ${range.least} to ${range.most}: current value is "${text}"`);
  return undefined;
}

function address(
  env: Record<string, string | undefined>,
  name: string,
  problems: string[],
): { host: string; port: number } | undefined {
  const text = env[name];
  if (!text) return undefined;
  const [, v6, other, port] = /^(?:\[(\S+)\]|(\S+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? other;
  const is_host = host !== undefined && (v6 !== undefined || host.includes(":") ? isIPv6(host) : !/[[\]]/.test(host));
  if (is_host && Number(port) >= 1 && Number(port) <= 65535) return { host, port: Number(port) };
  problems.push(`${name} must be host:port, such as 10.0.0.7:7400 or [fd00::7]:7400: current value is "${text}"`);
}

/** Undefined: peers are told where it listens, which must be an address then. */
function advertised(env: Env, problems: string[]): Config["grpc_advertise"] {
  const told = address(env, "SCHEDULER_GRPC_ADVERTISE", problems);
  const host = hostIn(env.SCHEDULER_GRPC_HOST);
  if (!env.SCHEDULER_GRPC_ADVERTISE && (host === "0.0.0.0" || host === "::")) {
    problems.push(
      `SCHEDULER_GRPC_HOST is ${host}, every address, so nobody could be told where this worker is: name one of this machine's, or set ` +
        "SCHEDULER_GRPC_ADVERTISE to host:port as well",
    );
  }
  return told;
}

/** On which to listen; an address of IPv6 may stand in brackets, as it does before a port. */
function hostIn(text: string | undefined): string {
  return text?.replace(/^\[(.*)\]$/, "$1") || "127.0.0.1";
}
