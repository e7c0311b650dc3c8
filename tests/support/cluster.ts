/**
 * Worker processes for a test: the same program as in production, each on a node and with a certificate of its own,
 * on stores of their own. The test hears the facts that they print. At the end they are killed, and nothing of them
 * may be left; so each such test also tests that bodies die with their worker.
 */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import type { FactName, Facts } from "../../src/platform/facts.ts";
import { rest } from "../../src/platform/timers.ts";
import { problemText } from "../../src/sync/problem.ts";
import { sync } from "../../src/sync/sync.ts";
import { type Client, createClient } from "../../src/client.ts";
import { ensureDevCerts, type PinnedFiles } from "../../src/rpc/certificates.ts";
import { WORKER_ARGS } from "../../src/dev/worker_supervisor.ts";
import { ProcessPool } from "../../src/sandbox/process_pool.ts";
import { changeSettings, type Settings } from "../../src/settings/settings.ts";
import { Hearing } from "./hearing.ts";
import { noneLeft } from "./processes.ts";
import { type Stores, withStores } from "./stores.ts";
import { PATIENCE_MS } from "./waiting.ts";

export interface ClusterOptions {
  /** Job files: name, with its extension, and source. Default: `append_one_row` alone, see `effects`. */
  jobs?: Record<string, string> | ((effects_dir: string) => Record<string, string>);
  /** A folder of job files that is there already, instead of `jobs`. */
  jobs_dir?: string;
  /** Live settings beside those of `TEST_SETTINGS`. */
  settings?: Partial<Settings>;
  /** More of the workers' environment. */
  env?: Record<string, string>;
  /** Workers on nodes of their own that the test may start later; default 3. */
  more_workers?: number;
}

/** About ten times as fast as the defaults. Lease, margin and the guard's window of 3 s still fit each other. */
export const TEST_SETTINGS: Partial<Settings> = {
  leader_tick_seconds: 0.1,
  leader_lease_seconds: 1,
  leader_stale_seconds: 1,
  heartbeat_interval_seconds: 0.1,
  heartbeat_ttl_seconds: 1,
  worker_lease_seconds: 7,
  worker_renew_seconds: 0.5,
  worker_margin_seconds: 4,
  reassign_after_seconds: 1,
  suspect_seconds: 0.5,
  spare_processes: 1,
  drain_grace_seconds: 2,
  node_retry_seconds: 0.5,
  node_recheck_seconds: 0.5,
};

/** Leases that a busy machine keeps as well: for tests in which none is to end. */
export const CALM: Partial<Settings> = {
  worker_lease_seconds: 10,
  leader_lease_seconds: 8,
  leader_stale_seconds: 8,
  heartbeat_ttl_seconds: 8,
};

export type Heard<K extends FactName> = Facts[K] & { worker: WorkerProcess; place: number };

export interface EndedRun {
  id: number;
  state: string;
  attempt: number;
  result: unknown;
  exit_code: number | null;
  error_name: string | null;
  error_summary: string | null;
}

/** Hundreds are started, and none of them lives long: with the cache of compiled code a start takes 0.6 s of the processor instead of 0.85. */
const CHEAP_ARGS = WORKER_ARGS.filter((arg) => arg !== "--no-code-cache");

const NONE_LEFT_WITHIN_MS = 10_000;
const TERMINAL = ["SUCCEEDED", "FAILED", "CANCELED", "TIMED_OUT", "SKIPPED"];

/** Starts `workers` processes, waits until they are ready, and gives them to `test`. */
export function withProcesses(
  workers: number,
  test: (cluster: Cluster) => Promise<void>,
  options: ClusterOptions = {},
): Promise<void> {
  return withStores(async (stores) => {
    const dir = Deno.makeTempDirSync({ prefix: "dandori-cluster-" });
    const cluster = new Cluster(dir, stores, options);
    try {
      await cluster.prepare(workers);
      await Promise.all(Array.from({ length: workers }, () => cluster.startWorker()));
      await test(cluster);
    } finally {
      await cluster.close();
      await noneLeft(dir, NONE_LEFT_WITHIN_MS);
      Deno.removeSync(dir, { recursive: true });
    }
  });
}

export class WorkerProcess {
  readonly node_id: string;
  /** Of its latest `worker.ready`. */
  worker_id = "";
  readonly pid: number;
  /** Resolves when the process is gone and all that it printed was heard. */
  readonly ended: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;

  constructor(node_id: string, child: Deno.ChildProcess, hearing: Hearing) {
    this.node_id = node_id;
    this.pid = child.pid;
    this.#child = child;
    const streams = [hearing.listen(node_id, child.stdout), hearing.listen(`${node_id}!`, child.stderr)];
    this.ended = Promise.all([child.status, ...streams]).then(async ([status]) => {
      await child.stdin.close().catch(() => {}); // closed by a test, or with the process
      return status;
    });
  }

  /** Signals the process itself, not its bodies. It may be gone already. */
  kill(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }

  /** Closes its standard input, as the death of its parent does. */
  async orphan(): Promise<void> {
    await this.#child.stdin.close();
  }
}

export class Cluster {
  readonly stores: Stores;
  readonly sql: Stores["sql"];
  readonly client: Client;
  readonly workers: WorkerProcess[] = [];
  readonly hearing = new Hearing();
  readonly jobs_dir: string;
  /** The only place that `append_one_row` may write to. */
  readonly effects_dir: string;
  readonly #dir: string;
  #nodes = 0;
  #certs: Promise<Record<string, PinnedFiles>> = Promise.resolve({});
  readonly #options: ClusterOptions;

  constructor(dir: string, stores: Stores, options: ClusterOptions) {
    this.#dir = dir;
    this.#options = options;
    this.stores = stores;
    this.sql = stores.sql;
    this.client = createClient({ databaseUrl: stores.database_url, maxConnections: 2 });
    this.jobs_dir = options.jobs_dir ?? `${dir}/jobs`;
    this.effects_dir = `${dir}/effects`;
  }

  async prepare(workers: number): Promise<void> {
    // Known to all from their start, those that a test may add later as well.
    await this.#certify(
      Array.from({ length: workers + (this.#options.more_workers ?? 3) }, (_, place) => `node-${place + 1}`),
    );
    if (!this.#options.jobs_dir) Deno.mkdirSync(this.jobs_dir);
    Deno.mkdirSync(this.effects_dir);
    await changeSettings(this.sql, { ...TEST_SETTINGS, ...this.#options.settings }, { actor: "test" });
    const { jobs_dir, jobs = jobs_dir ? {} : { "append_one_row.ts": appendOneRow(this.effects_dir) } } = this.#options;
    await this.sync(typeof jobs === "function" ? jobs(this.effects_dir) : jobs);
  }

  /** Writes job files and syncs all that are there. Throws when one is broken. */
  async sync(jobs: Record<string, string> = {}): Promise<void> {
    for (const [name, source] of Object.entries(jobs)) Deno.writeTextFileSync(`${this.jobs_dir}/${name}`, source);
    const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir: `${this.#dir}/sync`, spares: 0, env: {} });
    try {
      const by = { actor: "test", reason: "its jobs" };
      const parts = { sql: this.sql, sandbox, jobs_dir: this.jobs_dir, project_dir: PROJECT_DIR, by };
      const { problems } = await sync(parts, { mode: "apply" });
      if (problems.length > 0) throw new Error(problems.map((problem) => problemText(problem)).join("\n"));
    } finally {
      await sandbox.close();
    }
  }

  /** Starts one more worker, on a node of its own unless `node_id` names one, and waits until it is ready. */
  async startWorker(options: { node_id?: string; env?: Record<string, string> } = {}): Promise<WorkerProcess> {
    const node_id = options.node_id ?? `node-${++this.#nodes}`;
    const worker = new WorkerProcess(node_id, await this.#spawn(node_id, options.env ?? {}), this.hearing);
    this.workers.push(worker);
    const before = this.hearing.lines.length - 1;
    const ready = this.hearing.waitFor(`worker.ready of ${node_id}`, ({ who, text }) => {
      return who === node_id ? factIn(text, "worker.ready") : undefined;
    }, before);
    const ended = worker.ended.then(({ code }) => {
      throw new Error(
        `Worker on ${node_id} ended with exit code ${code} before it was ready:\n${this.printed(node_id)}`,
      );
    });
    const { worker_id } = await Promise.race([ready, ended]);
    ended.catch(() => {}); // from here on it may end
    worker.worker_id = worker_id;
    return worker;
  }

  /**
   * The first such fact that a worker printed, or will print; `match` holds some of its fields. `after`: only what came
   * after that one. `by`: only what this process said.
   */
  hears<K extends FactName>(
    fact: K,
    match: Partial<Facts[K]> = {},
    on: { after?: { place: number }; by?: WorkerProcess } = {},
  ): Promise<Heard<K>> {
    return this.hearing.waitFor(`${fact} ${JSON.stringify(match)}`, ({ who, text, place }) => {
      const said = factIn(text, fact);
      if (!said || !Object.entries(match).every(([name, value]) => said[name as keyof Facts[K]] === value)) return;
      const worker = this.workers.find(({ node_id }) => node_id === who);
      if (on.by && on.by !== worker) return;
      return worker ? { ...said, worker, place } : undefined;
    }, on.after?.place);
  }

  /** Enqueues a run by the job's name and gives its id. */
  async enqueue(job_name: string, args: unknown = {}): Promise<number> {
    return (await this.client.enqueue(job_name, args)).id;
  }

  /** The run once it has ended, as Postgres has it. */
  async ends(job_run_id: number): Promise<EndedRun> {
    const late = AbortSignal.timeout(PATIENCE_MS);
    for (;;) {
      const [run] = await this.sql<EndedRun[]>`
        select id, state, attempt, result, exit_code, error_name, error_summary from job_run where id = ${job_run_id}`;
      if (run && TERMINAL.includes(run.state)) return run;
      if (late.aborted) {
        throw new Error(`Run ${job_run_id} has not ended within ${PATIENCE_MS} ms: ${JSON.stringify(run)}`);
      }
      await rest(50);
    }
  }

  /** How often the body of `append_one_row` has done its work for this run. */
  effects(job_run_id: number): number {
    try {
      return Deno.readTextFileSync(`${this.effects_dir}/${job_run_id}`).trim().split("\n").length;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return 0;
      throw error;
    }
  }

  /** The state folder of a node's workers. */
  stateOf(node_id: string): string {
    return `${this.#dir}/${node_id}`;
  }

  /** Bytes of outcomes that wait in a worker's file; -1: it has none, or it has just gone. */
  spooled({ worker_id, node_id }: WorkerProcess): number {
    const folder = `${this.stateOf(node_id)}/estates`;
    try {
      const file = [...Deno.readDirSync(folder)].find(({ name }) => name.startsWith(`${worker_id}_`));
      return file ? Deno.statSync(`${folder}/${file.name}`).size : -1;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return -1;
      throw error;
    }
  }

  /** How often any worker printed this fact. */
  times(fact: FactName): number {
    return this.hearing.lines.filter(({ text }) => text.startsWith(`{"fact":"${fact}"`)).length;
  }

  /** All that the worker of a node printed; its standard error too. */
  printed(node_id: string): string {
    const lines = this.hearing.lines.filter(({ who }) => who === node_id || who === `${node_id}!`);
    return lines.map(({ text }) => `  ${text}`).join("\n");
  }

  /** Kills what still runs. */
  async close(): Promise<void> {
    for (const worker of this.workers) {
      worker.kill("SIGCONT");
      worker.kill("SIGKILL");
    }
    await Promise.all(this.workers.map(({ ended }) => ended));
    await this.client.close();
  }

  /** The certificate of a node: whoever has it is let in as that node. All nodes' pins are one file. */
  async tlsOf(node_id: string): Promise<PinnedFiles> {
    return (await this.#certify([node_id]))[node_id] as PinnedFiles;
  }

  /** One after another, since all share one bundle of pins. */
  #certify(node_ids: string[]): Promise<Record<string, PinnedFiles>> {
    this.#certs = this.#certs.then(() => ensureDevCerts(`${this.#dir}/certs`, node_ids));
    return this.#certs;
  }

  async #spawn(node_id: string, env: Record<string, string>): Promise<Deno.ChildProcess> {
    const { cert_file, key_file, pins_file } = await this.tlsOf(node_id);
    return new Deno.Command(Deno.execPath(), {
      args: CHEAP_ARGS,
      cwd: PROJECT_DIR,
      env: {
        DATABASE_URL: this.stores.database_url,
        REDIS_URL: this.stores.redis_url,
        SCHEDULER_REDIS_PREFIX: this.stores.prefix,
        SCHEDULER_NODE_ID: node_id,
        SCHEDULER_JOBS_DIR: this.jobs_dir,
        SCHEDULER_TLS_CERT_FILE: cert_file,
        SCHEDULER_TLS_KEY_FILE: key_file,
        SCHEDULER_TLS_PINS_FILE: pins_file,
        SCHEDULER_STATE_DIR: this.stateOf(node_id),
        ...this.#options.env,
        ...env,
      },
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }
}

/** A worker that lost its id is there again under a new one, and the old one is DEAD. */
export async function comesBack(cluster: Cluster, worker: WorkerProcess, old_id: string): Promise<string> {
  const lost = await cluster.hears("worker.lost", { worker_id: old_id });
  const ready = await cluster.hears("worker.ready", { node_id: worker.node_id }, { after: lost });
  assert.notEqual(ready.worker_id, old_id);
  const [row] = await cluster.sql`select state from worker where worker_id = ${old_id}`;
  assert.equal(row?.state, "DEAD");
  return ready.worker_id;
}

function factIn<K extends FactName>(text: string, fact: K): Facts[K] | undefined {
  if (!text.startsWith(`{"fact":"${fact}"`)) return undefined;
  return JSON.parse(text) as Facts[K];
}

/** A job that leaves a line for each time it ran; `hold_ms` in its args keeps it running after that. */
function appendOneRow(effects_dir: string): string {
  return `
    import { defineJob } from "dandori";
    const folder = ${JSON.stringify(effects_dir)};
    export default defineJob<{ hold_ms?: number }>({
      permissions: { write: [folder] },
      async run({ args, attempt, jobRunId }) {
        await Deno.writeTextFile(folder + "/" + jobRunId, attempt + "\\n", { append: true });
        if (args.hold_ms) await new Promise((resolve) => setTimeout(resolve, args.hold_ms));
        return { attempt };
      },
    });`;
}
