/**
 * Looks at everything that a worker needs and says how to mend what is missing. Reads only. One broken thing does not
 * hide the next, except what cannot be looked at without it: nothing in Postgres without Postgres or the schema.
 */
import { readdirSync } from "node:fs";
import { openArchive } from "../archive/open_archive.ts";
import {
  type Config,
  ConfigError,
  isLoopback,
  PROJECT_DIR,
  readConfig,
  readConfigForFiles,
} from "../platform/config.ts";
import { wallClock, within } from "../platform/timers.ts";
import { connectRedis } from "../redis/connection.ts";
import { daysLeft, EXPIRY_WARNING_DAYS } from "../rpc/tls.ts";
import { readTlsFiles } from "../rpc/tls_files.ts";
import { connectDb, type Sql } from "../postgres/connection.ts";
import { readDefinitions } from "../definitions/definition_rows.ts";
import { listJobs } from "../runs/job_view.ts";
import { longestLockHolder } from "../postgres/row_locks.ts";
import { currentLeader } from "../nodes/leadership.ts";
import { countOverdueLogs } from "../runs/retention/log_retention.ts";
import { listWorkers } from "../nodes/workers.ts";
import { freeMb } from "../worker/node_probe.ts";
import { checkSchema } from "../postgres/schema.ts";
import { DEFAULT_SETTINGS, readSettings } from "../settings/settings.ts";
import { listStoppedKeys } from "../dispatch/pauses.ts";
import { explain } from "./explain.ts";
import { compareJobFiles } from "./job_files_check.ts";
import { english } from "../locale/english.ts";

export interface Finding {
  check: string;
  state: "ok" | "warning" | "problem";
  detail: string;
  /** What to do; empty when all is well. */
  fix: string;
}

type Answer = Omit<Finding, "check">;

const OLDEST_POSTGRES = 15;
const MOST_SKEW_MS = 2_000;

/** All findings, in the order in which they are worth mending. */
export async function examine(): Promise<Finding[]> {
  const findings: Finding[] = [];
  const look = async (check: string, ask: () => Promise<Answer> | Answer) => {
    const answer = await within(6_000, check, Promise.resolve().then(ask)).catch((error) => {
      const { message, fix } = explain(error) ??
        { message: String(error?.message ?? error), fix: error?.fix ?? FIXES[check] ?? "" };
      return problem(message, fix);
    });
    findings.push({ check, ...answer });
    return answer.state !== "problem";
  };
  await look("programs", programs);
  await look("jobs", jobsDir);
  await look("disk", disk);
  const config = configOrFinding(findings);
  if (!config) return findings;
  await look("postgres", () => withDb(config, postgres)) &&
    await look("clock", () => withDb(config, clock)) &&
    await look("schema", () => withDb(config, schema)) &&
    await look("settings", () => withDb(config, settings)) &&
    await look("workers", () => withDb(config, workers)) &&
    await look("job files", () => withDb(config, jobFiles)) &&
    await look("stopped", () => withDb(config, stopped)) &&
    await look("transactions", () => withDb(config, transactions)) &&
    await look("old logs", () => withDb(config, (sql) => oldLogs(sql, config)));
  await look("redis", () => redis(config));
  await look("tls", () => tls(config));
  return findings;
}

async function withDb(config: Config, ask: (sql: Sql) => Promise<Answer>): Promise<Answer> {
  const sql = connectDb(config.database_url, { name: "doctor", max: 1 });
  try {
    return await ask(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

const FIXES: Record<string, string> = {
  postgres: "start Postgres or `deno task dev`, and check DATABASE_URL",
  jobs: "make the folder, or set SCHEDULER_JOBS_DIR to that of your job files",
  redis: "start Redis or `deno task dev`, and check REDIS_URL",
  tls: "make certificates with `deno task certs make DIR --node ID`, and check SCHEDULER_TLS_*_FILE",
  settings: "mend them in the table scheduler_settings",
};

function ok(detail: string): Answer {
  return { state: "ok", detail, fix: "" };
}

function warning(detail: string, fix: string): Answer {
  return { state: "warning", detail, fix };
}

function problem(detail: string, fix: string): Answer {
  return { state: "problem", detail, fix };
}

function configOrFinding(findings: Finding[]): Config | undefined {
  try {
    const config = readConfig();
    findings.push({ check: "environment", ...ok(`node ${config.node_id}, Redis prefix ${config.redis_prefix}`) });
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const fix = "set the variables, or start `deno task dev` in this checkout";
    findings.push({ check: "environment", ...problem(error.message, fix) });
  }
}

async function programs(): Promise<Answer> {
  const missing = [];
  for (const name of ["sh", "timeout", "dd", "prlimit"]) {
    const found = await new Deno.Command("/bin/sh", {
      args: ["-c", `command -v ${name}`],
      stdout: "null",
      stderr: "null",
    })
      .output().then((output) => output.success, () => false);
    if (!found) missing.push(name);
  }
  const detail = `Deno ${Deno.version.deno} on ${Deno.build.os}`;
  if (missing.length === 0) return ok(detail);
  return warning(
    `${detail}; missing: ${missing.join(", ")}`,
    "install coreutils and util-linux: bodies are then guarded and capped in the strongest way",
  );
}

function jobsDir(): Answer {
  const { jobs_dir } = readConfigForFiles();
  let files = 0;
  for (const entry of readdirSync(jobs_dir, { recursive: true })) if (String(entry).endsWith(".ts")) files++;
  return ok(`${files} TypeScript files in ${jobs_dir}`);
}

/** Where workers keep outcomes and bodies' folders. Whether a file fits is for them to try: nothing is written here. */
async function disk(): Promise<Answer> {
  const { state_dir } = readConfigForFiles();
  const [free_mb, least_mb] = [await freeMb(state_dir), DEFAULT_SETTINGS.node_min_free_disk_mb];
  if (free_mb < 0) {
    return problem(`${state_dir} cannot be looked at`, "set SCHEDULER_STATE_DIR to a folder that can be written to");
  }
  const detail = `${free_mb} MB free for ${state_dir}`;
  if (free_mb >= least_mb) return ok(detail);
  return problem(
    `${detail}, less than ${least_mb}`,
    "make room, or set SCHEDULER_STATE_DIR to a folder on another disk",
  );
}

async function postgres(sql: Sql): Promise<Answer> {
  const [row] = await sql<{ version: number; text: string }[]>`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('server_version') as text`;
  const version = row?.version ?? 0;
  if (version >= OLDEST_POSTGRES) return ok(`Postgres ${row?.text}`);
  return problem(`Postgres ${row?.text} is older than ${OLDEST_POSTGRES}`, `upgrade to ${OLDEST_POSTGRES} or newer`);
}

async function schema(sql: Sql): Promise<Answer> {
  const { fits, what, fix } = await checkSchema(sql);
  if (!fits) return problem(what, fix);
  const synced = (await readDefinitions(sql)).filter((job) => !job.removed_at);
  const jobs = `${synced.length} jobs are synced`;
  return fix ? warning(`${what}; ${jobs}`, fix) : ok(`${what}; ${jobs}`);
}

async function settings(sql: Sql): Promise<Answer> {
  return ok(`${Object.keys(await readSettings(sql)).length} settings are in order`);
}

/** A worker runs nothing of a job of which it has other files than were synced. */
async function jobFiles(sql: Sql): Promise<Answer> {
  const { jobs_dir } = readConfigForFiles();
  const { differ, workers, jobs } = await compareJobFiles(sql, { jobs_dir, project_dir: PROJECT_DIR });
  if (differ.length === 0) return ok(`the ${jobs} that are synced are the same here and at ${workers} workers`);
  return warning(
    `not what was synced: ${differ.join(" | ")}`,
    "bring the same job files to every machine, or sync where the right ones are: deno task sync",
  );
}

/** What people, or failures, have stopped: nothing is broken, and yet something does not run. */
async function stopped(sql: Sql): Promise<Answer> {
  const [{ dispatch }, jobs, keys] = [await readSettings(sql), await listJobs(sql), await listStoppedKeys(sql)];
  const known = jobs.filter((job) => job.removed_at === null);
  const found = [
    ...(dispatch === "paused" ? [["all dispatch is paused", "deno task queue resume --all"]] : []),
    ...known.filter((job) => job.paused_at).map((
      { name, paused_by, paused_reason, waiting },
    ) => [
      `job "${name}" is paused by ${paused_by}${
        paused_reason === null ? "" : ` (${english(paused_reason)})`
      }, ${waiting} runs wait`,
      `deno task queue resume --job ${name}`,
    ]),
    ...known.filter((job) => !job.enabled).map((
      { name },
    ) => [`job "${name}" is off: no slots, no events`, `deno task jobs set ${name} enabled=true`]),
    ...keys.map(({ serial_key, stopped_by, waiting }) => [
      `serial key "${serial_key}" is stopped by ${stopped_by}, ${waiting} runs wait`,
      `deno task queue unblock "${serial_key}"`,
    ]),
  ];
  if (found.length === 0) return ok("nothing: no job, no serial key, not the queue");
  const [shown, more] = [found.slice(0, MOST_SHOWN), found.length - MOST_SHOWN];
  return warning(
    shown.map(([what]) => what).join("; ") + (more > 0 ? `; and ${more} more` : ""),
    shown.map(([, how]) => how).join("; "),
  );
}

const MOST_SHOWN = 5;

/** Whether somebody keeps rows that are to be moved: a run whose row is kept neither starts nor ends. */
async function transactions(sql: Sql): Promise<Answer> {
  const keeper = await longestLockHolder(sql, ["job_run", "job_definition", "bulk", "event", "worker"], {
    to_write: true,
  });
  if (!keeper || keeper.seconds < MOST_OPEN_SECONDS) {
    return ok("none that keeps rows of Dandori's has been open for long");
  }
  const { table, pid, who, seconds } = keeper;
  return warning(
    `"${who}" (pid ${pid}) has a transaction open for ${seconds} s and may keep rows of ${table}: those runs wait`,
    `let it end, or end it: select pg_terminate_backend(${pid})`,
  );
}

const MOST_OPEN_SECONDS = 60;

/** Whether lines can go where they should; whoever reads them later needs the same archive. */
async function oldLogs(sql: Sql, config: Config): Promise<Answer> {
  const { log_retention_days_db: days, old_logs } = await readSettings(sql);
  if (days === 0) return ok("log lines stay in Postgres for ever: log_retention_days_db is 0");
  const after = `${days} days after the end of their run`;
  const archive = openArchive(config.archive);
  const late = await countOverdueLogs(sql, days + LATE_DAYS);
  const many = `${late.runs}${late.more ? " or more" : ""} runs`;
  if (old_logs === "archive" && !archive) {
    const detail = `log lines are to be archived ${after}, and no archive is configured, so they stay in Postgres`;
    if (late.runs === 0) return ok(`${detail}; there are none so old yet`);
    const fix =
      "set SCHEDULER_ARCHIVE for all workers and the admin server (docs/retention.md); to delete old lines: deno task settings set old_logs=delete; to keep them: log_retention_days_db=0";
    return warning(`${detail}: those of ${many}`, fix);
  }
  const where = archive ? `; ${await archive.probe()}` : "";
  const what = old_logs === "archive" ? `log lines are archived ${after}` : `log lines are deleted ${after}`;
  if (late.runs === 0) return ok(what + where);
  const fix =
    "see whether there is a leader, and read its log for logs.kept and loop.failed; every worker needs the same SCHEDULER_ARCHIVE";
  return warning(`${what}${where}; those of ${many} should have gone more than a day ago`, fix);
}

const LATE_DAYS = 1;

async function clock(sql: Sql): Promise<Answer> {
  const before = wallClock().getTime();
  const [row] = await sql<{ now: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  const skew_ms = Math.round((row?.now ?? 0) - (before + wallClock().getTime()) / 2);
  const detail = `this machine differs from Postgres by ${Math.abs(skew_ms)} ms`;
  if (Math.abs(skew_ms) <= MOST_SKEW_MS) return ok(detail);
  return warning(detail, "run a time service (chrony); nothing is decided by this clock, but logs will confuse");
}

async function redis(config: Config): Promise<Answer> {
  const connection = connectRedis(config.redis_url, { prefix: config.redis_prefix });
  try {
    await connection.ready();
    return ok(connection.server);
  } finally {
    await connection.close();
  }
}

function tls({ tls, grpc_host }: Config): Answer {
  if (tls === "mesh") {
    const detail = `SCHEDULER_TLS=mesh: plain text on ${grpc_host}, and a service mesh must say who may connect`;
    if (isLoopback(grpc_host)) return ok(detail);
    return warning(
      `${detail}; that is no loopback address`,
      "set SCHEDULER_GRPC_HOST=127.0.0.1 and SCHEDULER_GRPC_ADVERTISE, or let nothing but the sidecar reach that address",
    );
  }
  const { certificate, trust } = readTlsFiles(tls);
  const days = daysLeft(certificate.not_after);
  const detail = `certificate ${certificate.fingerprint.slice(0, 23)}... for ${days} days, ${trust.pins.size} pinned` +
    (trust.authorities.length > 0 ? `, ${trust.authorities.length} in the CA file` : "");
  const authority = trust.authorities.find((one) => daysLeft(one.not_after) < WARN_DAYS);
  if (authority) {
    const left = `the authority "${authority.subject}" ends in ${daysLeft(authority.not_after)} days`;
    return worn(
      daysLeft(authority.not_after),
      `${detail}; ${left}`,
      "give every node its successor's certificate as well",
    );
  }
  if (days >= WARN_DAYS) return ok(detail);
  return worn(days, detail, "make the next one before it ends: deno task certs rotate DIR, or by whatever makes yours");
}

const [WARN_DAYS = 0, , ALARM_DAYS = 0] = EXPIRY_WARNING_DAYS;

function worn(days: number, detail: string, fix: string): Answer {
  return days < ALARM_DAYS ? problem(detail, fix) : warning(detail, fix);
}

async function workers(sql: Sql): Promise<Answer> {
  const [alive, leader] = [await listWorkers(sql), await currentLeader(sql)];
  if (alive.length === 0) {
    return warning("no worker is alive", "start one: deno task worker, or deno task dev");
  }
  if (!leader.worker_id) {
    return warning(`${alive.length} workers and no leader`, "wait a few seconds; then read their logs");
  }
  const trusts = new Set(alive.map((one) => one.tls_trust_digest).filter((one) => one !== null));
  const detail = `${alive.length} workers, led by ${leader.worker_id} in epoch ${leader.epoch}`;
  if (trusts.size <= 1) return ok(detail);
  return warning(
    `${detail}; they let in different peers: ${trusts.size} sets of pins or authorities`,
    "bring the same pins.pem (or CA file) to every node; a rotation must wait until then",
  );
}
