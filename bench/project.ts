/**
 * The project as its users run it, for a workload: worker processes with certificates of their own, default settings, one
 * of them the leader, which runs no bodies; their log goes to files. What it costs is counted by part.
 */
import { PROJECT_DIR } from "../src/platform/config.ts";
import type { FactName } from "../src/platform/facts.ts";
import { rest } from "../src/platform/timers.ts";
import { problemText } from "../src/sync/problem.ts";
import { sync } from "../src/sync/sync.ts";
import { type Client, createClient } from "../src/client.ts";
import { ensureDevCerts, type PinnedFiles } from "../src/rpc/certificates.ts";
import { WORKER_ARGS } from "../src/dev/worker_supervisor.ts";
import { ProcessPool } from "../src/sandbox/process_pool.ts";
import { connectDb, type Sql } from "../src/postgres/connection.ts";
import { applySchema } from "../src/postgres/schema.ts";
import { changeSettings, type Settings } from "../src/settings/settings.ts";
import { pauseJob } from "../src/dispatch/pauses.ts";
import { cpuOf, treeOf } from "./processes.ts";
import type { Bench } from "./workload.ts";

export interface ProjectOptions {
  /** Job files, by name without extension. */
  jobs: Record<string, string>;
  /** Workers that run bodies, beside the one that leads; default 2. */
  workers?: number;
  /** Of each; default 10. */
  slots?: number;
  /** Workers that share a node; default 1. The leader's node is its own. */
  each_node?: number;
  settings?: Partial<Settings>;
}

/** CPU seconds so far. */
export interface Cpu {
  postgres: number;
  redis: number;
  leader: number;
  workers: number;
  bodies: number;
}

export const CPU_PARTS: readonly (keyof Cpu)[] = ["postgres", "redis", "leader", "workers", "bodies"];

const READY_WITHIN_MS = 120_000;
/** Workers that start together: a whole crowd would starve itself on a few cores. */
const AT_ONCE = 4;
const LOOK_MS = 50;
const END_WITHIN_MS = 5_000;
const BY = { actor: "bench", reason: "a measurement begins" };

/** Starts workers on an empty database, gives them to `act`, and ends them. */
export async function withProject<T>(
  bench: Bench,
  options: ProjectOptions,
  act: (project: Project) => Promise<T>,
): Promise<T> {
  const database_url = await bench.servers.empty();
  const dir = Deno.makeTempDirSync({ prefix: "dandori-bench-" });
  const project = new Project(bench, { dir, database_url, options });
  try {
    await project.start();
    return await act(project);
  } finally {
    await project.stop();
    await bench.servers.drop(database_url);
    await Deno.remove(dir, { recursive: true });
  }
}

export class Project {
  readonly sql: Sql;
  readonly client: Client;
  readonly database_url: string;
  /** Of all workers, the leader's first once it is known. */
  pids: number[] = [];
  /** One session that uses indexes and their order whatever the statistics say, so that looking costs nothing. */
  readonly #looking: Sql;
  readonly #bench: Bench;
  readonly #dir: string;
  readonly #options: ProjectOptions;
  readonly #children: Deno.ChildProcess[] = [];

  constructor(bench: Bench, parts: { dir: string; database_url: string; options: ProjectOptions }) {
    this.#bench = bench;
    this.#dir = parts.dir;
    this.#options = parts.options;
    this.database_url = parts.database_url;
    this.sql = connectDb(parts.database_url, { name: "bench", max: 4, statement_timeout_ms: 0 });
    this.#looking = connectDb(parts.database_url, { name: "bench looking", max: 1 });
    this.client = createClient({ databaseUrl: parts.database_url });
  }

  async start(): Promise<void> {
    const count = (this.#options.workers ?? 2) + 1;
    await applySchema(this.sql);
    await this.#looking`set enable_seqscan = off`;
    await this.#looking`set enable_sort = off`;
    const settings = { max_jobs_per_worker: this.#options.slots ?? 10, ...this.#options.settings };
    await changeSettings(this.sql, settings, BY);
    await this.#sync();
    const { each_node = 1 } = this.#options;
    const node_of = (place: number) => `bench-${place === 0 ? 0 : Math.ceil(place / each_node)}`;
    const certs = await ensureDevCerts(
      `${this.#dir}/certs`,
      Array.from({ length: count }, (_, place) => node_of(place)),
    );
    for (let place = 0; place < count; place++) {
      this.#children.push(this.#spawn(place, node_of(place), certs[node_of(place)] as PinnedFiles));
      if (place % AT_ONCE === 0) await this.#ready(place + 1); // the first one leads
    }
    await this.#ready(count);
  }

  /** Runs of a job, until they have ended: processes are loaded and statements prepared. */
  async warm(job: string, runs: number): Promise<void> {
    await this.enqueue(job, runs);
    await this.ended();
    await rest(500); // spares load
  }

  async enqueue(job: string, runs: number): Promise<void> {
    const most = 5_000;
    for (let made = 0; made < runs; made += most) {
      const items = Array.from({ length: Math.min(most, runs - made) }, () => ({ args: {} }));
      await this.client.enqueueMany(job, items);
    }
  }

  /** From now on no run of the job is given to a worker, or they are again; gives the database's time just before. */
  async pause(job: string, paused: boolean): Promise<Date> {
    const [row] = await this.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    await pauseJob(this.sql, job, { ...BY, paused });
    return row?.now as Date;
  }

  /** Waits until a run is in this state. @throws Error when it fails instead */
  async until(id: number, state: string): Promise<{ result: unknown }> {
    for (;;) {
      const [row] = await this.sql<{ state: string; result: unknown; error_summary: string }[]>`
        select state, result, error_summary from job_run where id = ${id}`;
      if (row?.state === state) return row;
      if (row?.state === "FAILED") throw new Error(`Run ${id} has failed: ${row.error_summary}`);
      await rest(LOOK_MS);
    }
  }

  /** Waits until no run is live, looking only at what the partial indexes hold. */
  async ended(): Promise<void> {
    for (;;) {
      const [row] = await this.#looking<{ live: boolean }[]>`
        select exists (select from job_run where state in ('PENDING', 'RETRYING', 'ORPHANED') and not held)
            or exists (select from job_run where state in ('ASSIGNED', 'RUNNING')) as live`;
      if (!row?.live) break;
      await rest(LOOK_MS);
    }
    const [failed] = await this.sql<{ id: number; error_summary: string }[]>`
      select id, error_summary from job_run where state not in ('SUCCEEDED', 'PENDING') limit 1`;
    if (failed) throw new Error(`Run ${failed.id} has not succeeded: ${failed.error_summary}`);
  }

  /** A moment from which ends can be counted. */
  async mark(): Promise<string> {
    const [row] = await this.sql<{ xid: string }[]>`select pg_snapshot_xmin(pg_current_snapshot())::text as xid`;
    return row?.xid as string;
  }

  /** Waits until so many runs have ended since that moment: how long after `began` the last of the first of them did, in seconds. */
  async untilEnded(runs: number, { mark, began }: { mark: string; began: Date }): Promise<number> {
    for (;;) {
      const [row] = await this.#looking<{ ended: number; seconds: number }[]>`
        select count(*)::int as ended, extract(epoch from max(finished_at) - ${began})::float8 as seconds from (
          select finished_at from job_run where ended_xid >= ${mark}::text::xid8 order by ended_xid, id limit ${runs}) first`;
      if (row?.ended === runs) return row.seconds;
      await rest(LOOK_MS);
    }
  }

  /** Waits until no run of the job is under way, which must be paused; gives how many have ended since. */
  async drained(job: string, mark: string): Promise<number> {
    for (;;) {
      const [row] = await this.#looking<{ ended: number; live: boolean }[]>`
        select exists (select from job_run r join job_definition d on d.id = r.job_definition_id
                        where r.state in ('ASSIGNED', 'RUNNING') and d.name = ${job}) as live,
               (select count(*) from (select from job_run where ended_xid >= ${mark}::text::xid8 order by ended_xid, id) e)::int as ended`;
      if (row && !row.live) return row.ended;
      await rest(LOOK_MS);
    }
  }

  /** How long the last `runs` runs took, in seconds by the database's clock, from this moment to the last end. */
  async secondsSince(began: Date, runs: number): Promise<number> {
    const [row] = await this.sql<{ ended: number; seconds: number }[]>`
      select count(*)::int as ended, extract(epoch from max(finished_at) - ${began})::float8 as seconds
        from job_run where finished_at > ${began} and state = 'SUCCEEDED'`;
    if (row?.ended !== runs) {
      throw new Error(`${row?.ended} of ${runs} runs have succeeded since ${began.toISOString()}`);
    }
    return row.seconds;
  }

  cpu(): Cpu {
    const { postgres_pid, redis_pid } = this.#bench.servers;
    const [leader_pid = 0, ...others] = this.pids;
    const [postgres = 0, redis = 0] = cpuOf([postgres_pid, redis_pid]);
    const alone = (pid: number) => ownCpu(pid);
    const leader = alone(leader_pid);
    const workers = others.reduce((sum, pid) => sum + alone(pid), 0);
    const all = cpuOf(this.pids).reduce((sum, seconds) => sum + seconds, 0);
    return { postgres, redis, leader, workers, bodies: all - leader - workers };
  }

  /** What its workers have said under this name so far. */
  facts(name: FactName): Record<string, unknown>[] {
    const sign = `{"fact":"${name}"`;
    const lines = this.#children.flatMap((_, place) =>
      Deno.readTextFileSync(`${this.#dir}/worker-${place}.log`).split("\n")
    );
    return lines.filter((line) => line.startsWith(sign)).map((line) => JSON.parse(line));
  }

  /** The processes below the workers: bodies, spares, guards. */
  bodies(): { pid: number; rss_mib: number }[] {
    return this.pids.flatMap((root) => treeOf(root).filter(({ pid }) => pid !== root));
  }

  async stop(): Promise<void> {
    this.#complain();
    const { profile_dir } = this.#bench;
    for (const child of this.#children) signal(child, profile_dir ? "SIGTERM" : "SIGKILL");
    await Promise.race([Promise.all(this.#children.map(({ status }) => status)), rest(END_WITHIN_MS)]);
    for (const child of this.#children) signal(child, "SIGKILL");
    await Promise.all(this.#children.map(async (child) => {
      await child.status;
      await child.stdin.close().catch(() => {});
    }));
    await this.client.close();
    await this.#looking.end({ timeout: 2 });
    await this.sql.end({ timeout: 2 });
  }

  /** Work that is tried again and again costs what it costs, and no figure says why. */
  #complain(): void {
    const failed = this.facts("loop.failed").map(({ loop, error }) => `${loop}: ${error}`.replaceAll(/[\d.]+/g, "N"));
    for (const [what, times] of Map.groupBy(failed, (one) => one)) {
      console.error(`-- failed ${times.length} times: ${what}`);
    }
  }

  async #sync(): Promise<void> {
    const jobs_dir = `${this.#dir}/jobs`;
    Deno.mkdirSync(jobs_dir);
    for (const [name, source] of Object.entries(this.#options.jobs)) {
      Deno.writeTextFileSync(`${jobs_dir}/${name}.ts`, source);
    }
    const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir: `${this.#dir}/sync`, spares: 0, env: {} });
    try {
      const { problems } = await sync({
        sql: this.sql,
        sandbox,
        jobs_dir,
        project_dir: PROJECT_DIR,
        by: { actor: "bench", reason: "its jobs" },
      }, { mode: "apply" });
      if (problems.length > 0) throw new Error(problems.map((problem) => problemText(problem)).join("\n"));
    } finally {
      await sandbox.close();
    }
  }

  #spawn(place: number, node_id: string, { cert_file, key_file, pins_file }: PinnedFiles): Deno.ChildProcess {
    const { profile_dir } = this.#bench;
    const [run = "run", ...args] = WORKER_ARGS;
    const profiling = profile_dir ? ["--cpu-prof", `--cpu-prof-dir=${profile_dir}`] : [];
    return new Deno.Command("/bin/sh", {
      args: ["-c", 'log=$1; shift; exec "$@" >"$log" 2>&1', "bench", `${this.#dir}/worker-${place}.log`].concat(
        [Deno.execPath(), run, ...profiling, ...args],
      ),
      cwd: PROJECT_DIR,
      env: {
        DATABASE_URL: this.database_url,
        REDIS_URL: this.#bench.servers.redis_url,
        SCHEDULER_REDIS_PREFIX: `${new URL(this.database_url).pathname.slice(1)}:`,
        SCHEDULER_NODE_ID: node_id,
        SCHEDULER_JOBS_DIR: `${this.#dir}/jobs`,
        SCHEDULER_TLS_CERT_FILE: cert_file,
        SCHEDULER_TLS_KEY_FILE: key_file,
        SCHEDULER_TLS_PINS_FILE: pins_file,
        SCHEDULER_STATE_DIR: `${this.#dir}/${node_id}`, // shared by those of a node, which so see each other die,
      },
      detached: true,
      stdin: "piped",
      stdout: "null",
      stderr: "null",
    }).spawn();
  }

  /** All are there, their nodes were found well, and one of them leads. */
  async #ready(count: number): Promise<void> {
    const late = AbortSignal.timeout(READY_WITHIN_MS);
    for (;;) {
      const [row] = await this.sql<{ pids: number[]; leader_pid: number | null }[]>`
        select coalesce(jsonb_agg(w.pid) filter (where w.state = 'ACTIVE' and n.status = 'available'), '[]') as pids,
               max(w.pid) filter (where w.worker_id = l.worker_id) as leader_pid
          from worker w join node n using (node_id) cross join leader_term l`;
      const { pids = [], leader_pid } = row ?? {};
      if (pids.length === count && leader_pid) {
        this.pids = [leader_pid, ...pids.filter((pid) => pid !== leader_pid)];
        return;
      }
      if (late.aborted) throw new Error(`${pids.length} of ${count} workers are ready:\n${this.#logs()}`);
      await rest(100);
    }
  }

  #logs(): string {
    const last = (place: number) =>
      Deno.readTextFileSync(`${this.#dir}/worker-${place}.log`).trimEnd().split("\n").slice(-3);
    return this.#children.slice(-5).flatMap((_, place) => last(this.#children.length - 1 - place)).join("\n");
  }
}

/** Without what is below it, and what was. */
function ownCpu(pid: number): number {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const [utime = 0, stime = 0] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13).map(Number);
    return (utime + stime) / 100;
  } catch {
    return 0;
  }
}

function signal(child: Deno.ChildProcess, name: Deno.Signal): void {
  try {
    child.kill(name);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended
  }
}

/** What was spent between two counts, per 1,000 runs, by part and in all. */
export function cpuPer1000(before: Cpu, after: Cpu, runs: number): Record<string, [value: number, unit: string]> {
  const each = CPU_PARTS.map((part) => [part, (after[part] - before[part]) * 1_000 / runs] as const);
  const all = each.reduce((sum, [, seconds]) => sum + seconds, 0);
  return {
    "cpu all": [all, "s/1000"],
    ...Object.fromEntries(each.map(([part, seconds]) => [`cpu ${part}`, [seconds, "s/1000"]])),
  };
}
