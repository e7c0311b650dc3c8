/**
 * `deno task dev`: everything on one machine, with every part real.
 *
 *   lock -> Postgres, Redis -> schema -> certificates -> note for other commands -> sync -> workers -> ready
 *
 * What lasts is in `.dandori/`: data, ports, passwords, certificates. It stops in the opposite order and leaves no
 * process behind; when it is killed, pipes to its servers and workers close, and they end by themselves.
 * Where DATABASE_URL or REDIS_URL is set, that server is used and left alone.
 */
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { type Config, type DevNote, environment, PROJECT_DIR, readConfig } from "../platform/config.ts";
import { type FactName, hear, observe } from "../platform/facts.ts";
import { every } from "../platform/timers.ts";
import { counted, harmless, messageOf, withoutPassword } from "../platform/text.ts";
import { toFileUrl } from "../platform/paths.ts";
import { processStarted } from "../platform/process_stat.ts";
import { ensureDevCerts, type PinnedFiles } from "../rpc/certificates.ts";
import { ProcessPool } from "../sandbox/process_pool.ts";
import { watchFromNow } from "../alerts/alerts.ts";
import { connectDb, type Sql } from "../postgres/connection.ts";
import { applySchema } from "../postgres/schema.ts";
import { readSchema } from "../postgres/schema_files.ts";
import { readDefinitions } from "../definitions/definition_rows.ts";
import { currentLeader } from "../nodes/leadership.ts";
import { makeCallbackSecret } from "../steps/callback_address.ts";
import { superviseWorker } from "./worker_supervisor.ts";
import { syncJobs, watchJobs } from "./jobs.ts";
import { Supervisor } from "./supervisor.ts";
import { watchParents } from "./parent_watch.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import type { Service } from "./service.ts";
import { printFact, printLine } from "./console_log.ts";

export interface DevOptions {
  workers: number;
  /** End in good order. */
  stop: AbortSignal;
  /** End now. */
  hurry: AbortSignal;
  /** Takes each line for the person who watches. */
  print?: (line: string) => void;
  /** Serves the admin page until `stop`; given by whoever may import it. */
  servePage?(on: DevPage): Promise<void>;
}

export interface DevPage {
  database_url: string;
  /** It was made here, and nobody else uses it. */
  own_database: boolean;
  state_dir: string;
  stop: AbortSignal;
  say(text: string): void;
}

const HURRIED_STOP_MS = 2_000;
/** Of the facts of this process itself. */
const TOLD = new Set<FactName>(["dev.service", "loop.failed", "admin.exposed", "admin.proxied", "admin.failed"]);

type Say = (who: string, text: string) => void;

/** Runs until `stop`. Resolves when nothing that it started is left. */
export async function runDev(options: DevOptions): Promise<void> {
  const say = sayWith(options.print ?? tellTerminal);
  const env = environment();
  // The stores may not run yet; everything else in the environment is checked before anything is started.
  const { state_dir } = readConfig({ ...env, DATABASE_URL: env.DATABASE_URL || "-", REDIS_URL: env.REDIS_URL || "-" });
  using _lock = await takeLock(state_dir);
  const ending = new AbortController();
  let failure: Error | undefined;
  const end = () => ending.abort();
  const fail = (why: Error) => {
    say("dev", why.message);
    failure ??= why;
    end();
  };
  const dev: DevRun = {
    ...options,
    stop: AbortSignal.any([options.stop, ending.signal]),
    end,
    fail,
    say,
    state_dir,
    kept: [],
  };
  const silence = hear((name, fact) => {
    if (TOLD.has(name)) say("dev", printFact(name, fact));
  });
  try {
    await startAndWatch(dev);
  } finally {
    end();
    await Promise.all(dev.kept.map((keeper) => keeper.end(dev.hurry.aborted ? HURRIED_STOP_MS : undefined)));
    silence();
  }
  if (failure) throw failure;
  say("dev", "stopped; the next start goes on from here");
}

interface DevRun {
  workers: number;
  stop: AbortSignal;
  hurry: AbortSignal;
  say: Say;
  state_dir: string;
  servePage?(on: DevPage): Promise<void>;
  /** The servers that run because of us. */
  kept: Supervisor[];
  /** Stops all, as `stop` does. */
  end(): void;
  /** Stops all, since it cannot go on. */
  fail(why: Error): void;
}

async function startAndWatch(dev: DevRun): Promise<void> {
  const { stop, say } = dev;
  const given = environment();
  let database_url = "";
  let redis_url = "";
  await together([
    useOrStart(dev, { given: given.DATABASE_URL, name: "postgres", start: startPostgres }).then((url) => {
      database_url = url;
    }),
    useOrStart(dev, { given: given.REDIS_URL, name: "redis", start: startRedis }).then((url) => {
      redis_url = url;
    }),
  ], dev.end);
  if (stop.aborted) return;
  const config = readConfig({ ...given, DATABASE_URL: database_url, REDIS_URL: redis_url });
  const sql = connectDb(database_url, { name: "dev", max: 2, statement_timeout_ms: 60_000 });
  const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir: dev.state_dir, spares: 0, env: {} });
  try {
    await applySchema(sql, readSchema(), { by: "dev" });
    await watchFromNow(sql);
    const certs = await ensureDevCerts(`${dev.state_dir}/certs`, [...nodeIds(dev.workers), config.node_id]);
    using _note = leaveNote(dev, { config, own: certs[config.node_id] as PinnedFiles });
    const by = { actor: "dev", reason: "the jobs folder, as dev follows it" };
    const jobs = { sql, sandbox, jobs_dir: config.jobs_dir, project_dir: PROJECT_DIR, by };
    const memory = { own_database: !given.DATABASE_URL };
    const sayJobs = { stop, memory, say: (text: string) => say("jobs", text) };
    await syncJobs(jobs, { ...sayJobs, always: true });
    const page = { database_url, own_database: !given.DATABASE_URL, state_dir: dev.state_dir, stop };
    await together([
      dev.servePage?.({ ...page, say: (text) => say("admin", text) }) ?? Promise.resolve(),
      superviseWorkers(dev, { config, sql, certs }),
      watchJobs(jobs, { ...sayJobs, changed: () => syncJobs(jobs, sayJobs) }),
      watchParents(stop, () => {
        say("dev", "what started this has ended, so this stops as well");
        dev.end();
      }),
    ], dev.end);
  } finally {
    await sandbox.close();
    await sql.end({ timeout: 2 });
  }
}

/** Waits for all, also when one fails: then the others are told to end first. */
async function together(parts: Promise<void>[], end: () => void): Promise<void> {
  const ends = await Promise.allSettled(parts.map((part) =>
    part.catch((error) => {
      end();
      throw error;
    })
  ));
  const failed = ends.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
}

interface Wanted {
  given: string | undefined;
  name: string;
  start(options: { state_dir: string; stop: AbortSignal }): Promise<Service>;
}

/** The URL that was given, or that of a server that is started and kept alive here. */
async function useOrStart(dev: DevRun, { given, name, start }: Wanted): Promise<string> {
  if (given) {
    observe("dev.service", { service: name, state: "given", detail: withoutPassword(given) });
    return given;
  }
  const first = await start(dev);
  observe("dev.service", { service: name, state: "up", detail: first.detail });
  const say = (text: string) => dev.say("dev", text);
  dev.kept.push(new Supervisor(first, { start: () => start(dev), say, failed: dev.fail }));
  return first.url;
}

/** The note by which other commands of this checkout find what runs here; gone when dev is. */
function leaveNote(dev: DevRun, { config, own }: { config: Config; own: PinnedFiles }): Disposable {
  const { database_url, redis_url, redis_prefix, jobs_dir } = config;
  const note: DevNote = {
    pid: Deno.pid,
    process_started: processStarted(Deno.pid),
    database_url,
    redis_url,
    redis_prefix,
    tls_dir: dirname(own.cert_file),
    jobs_dir,
    archive: ownArchive(dev),
    callback_secret: ownSecret(dev),
    node_ids: nodeIds(dev.workers),
  };
  const file = `${dev.state_dir}/dev.json`;
  Deno.writeTextFileSync(`${file}.new`, JSON.stringify(note) + "\n", { mode: 0o600 });
  Deno.renameSync(`${file}.new`, file);
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) };
}

/** All is on one machine, so a folder of it will do. Undefined: another was given. */
function ownArchive({ state_dir }: DevRun): string | undefined {
  if (environment().SCHEDULER_ARCHIVE) return undefined;
  Deno.mkdirSync(`${state_dir}/archive`, { recursive: true });
  return toFileUrl(`${state_dir}/archive`).href;
}

/** Kept, so that an address that was given out is good after the next start as well. */
function ownSecret({ state_dir }: DevRun): string {
  const file = `${state_dir}/callback_secret`;
  try {
    return Deno.readTextFileSync(file).trim();
  } catch {
    const secret = makeCallbackSecret();
    Deno.writeTextFileSync(file, `${secret}\n`, { mode: 0o600 });
    return secret;
  }
}

function nodeIds(workers: number): string[] {
  return Array.from({ length: workers }, (_, place) => `dev-${place + 1}`);
}

interface CrewParts {
  config: Config;
  sql: Sql;
  certs: Record<string, PinnedFiles>;
}

/** The workers, and the line that says that they are ready. */
async function superviseWorkers(dev: DevRun, on: CrewParts): Promise<void> {
  const { stop, hurry, say } = dev;
  const node_ids = nodeIds(dev.workers);
  const waiting = new Set(node_ids);
  let told: Promise<void> | undefined;
  const heard = (node_id: string, line: string) => {
    const text = printLine(line);
    if (text) say(node_id, text);
    if (line.includes('"worker.ready"')) waiting.delete(node_id);
    if (waiting.size === 0) told ??= tellReady(dev, on);
  };
  await Promise.all(
    node_ids.map((node_id) =>
      superviseWorker({ node_id, env: workerEnv(node_id, dev, on) }, { stop, hurry, heard, say })
    ),
  );
  await told;
}

function workerEnv(node_id: string, dev: DevRun, { config, certs }: CrewParts): Record<string, string> {
  const { cert_file, key_file, pins_file } = certs[node_id] as PinnedFiles;
  return {
    DATABASE_URL: config.database_url,
    REDIS_URL: config.redis_url,
    SCHEDULER_STATE_DIR: dev.state_dir,
    SCHEDULER_NODE_ID: node_id,
    SCHEDULER_GRPC_PORT: "0",
    SCHEDULER_METRICS_PORT: config.metrics ? "0" : "", // they are on one machine: each takes a free one, and tells which
    SCHEDULER_TLS: "mtls",
    SCHEDULER_TLS_CA_FILE: "",
    SCHEDULER_TLS_CERT_FILE: cert_file,
    SCHEDULER_TLS_KEY_FILE: key_file,
    SCHEDULER_TLS_PINS_FILE: pins_file,
  };
}

/** Once a leader is seated, by whom that may be: on a database of many, not one of ours. */
async function tellReady(dev: DevRun, { sql, config }: CrewParts): Promise<void> {
  const seated = new AbortController();
  await every(100, async () => {
    if (!(await currentLeader(sql)).worker_id) return;
    const jobs = (await readDefinitions(sql)).filter((job) => job.enabled).map((job) => job.name);
    const example = jobs.includes("hello") ? "hello" : jobs[0];
    const deno = environment().npm_command === "exec" ? `npx --yes deno@${Deno.version.deno}` : "deno";
    const next = `${deno} task ${example ? `run ${example} --wait` : "new my_job"}`;
    const here = `${counted(dev.workers, "worker")}, ${counted(jobs.length, "job")}`;
    dev.say("ready", `${here}; next, in another terminal: ${next}; Ctrl-C stops it all`);
    observe("dev.ready", { workers: dev.workers, database_url: config.database_url, redis_url: config.redis_url });
    seated.abort();
  }, { name: "waiting for a leader", stop: AbortSignal.any([dev.stop, seated.signal]) });
}

/** Held by the open file, so that it is free again however the holder ends. */
async function takeLock(state_dir: string): Promise<Disposable> {
  const file = openLock(state_dir);
  if (await file.tryLock(true)) {
    file.truncateSync();
    file.writeSync(new TextEncoder().encode(`${Deno.pid}\n`));
    return file;
  }
  file.close();
  const holder = Deno.readTextFileSync(`${state_dir}/dev.lock`).trim();
  throw new Error(
    `Cannot start dev: it is running in this checkout already, as process ${holder}; ` +
      "stop that one, or set SCHEDULER_STATE_DIR to another folder for a second one",
  );
}

function openLock(state_dir: string): Deno.FsFile {
  try {
    Deno.mkdirSync(state_dir, { recursive: true });
    return Deno.openSync(`${state_dir}/dev.lock`, { create: true, read: true, write: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) {
      const why = messageOf(error);
      throw new Error(
        `Cannot write to ${state_dir}: ${why}; set SCHEDULER_STATE_DIR to a folder that can be written to`,
      );
    }
    throw new Error(
      `Cannot write to ${state_dir}: it is another user's, as after a start by root; start dev as that user, or remove it`,
    );
  }
}

function sayWith(print: (line: string) => void): Say {
  return (who, text) => {
    for (const line of text.split("\n")) print(harmless(`${who.padEnd(6)} ${line}`));
  };
}

/** One that was closed takes nothing more, and is no reason to end otherwise than in good order. */
function tellTerminal(line: string): void {
  try {
    console.log(line);
  } catch {
    // nobody is there to be told
  }
}
