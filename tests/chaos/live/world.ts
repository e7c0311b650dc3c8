/**
 * All that a chaos run runs on: a Postgres and a Redis of its own, workers on two nodes behind links that can fail, the
 * jobs, and what is written down: the facts of every process, the marks of every body, and the line of faults.
 */
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { monotonicMs, within } from "../../../src/platform/timers.ts";
import { problemText } from "../../../src/sync/problem.ts";
import { sync } from "../../../src/sync/sync.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { ProcessPool } from "../../../src/sandbox/process_pool.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { applySchema } from "../../../src/postgres/schema.ts";
import { changeSettings, type Settings } from "../../../src/settings/settings.ts";
import { noneLeft } from "../../support/processes.ts";
import { Certificates } from "./certs.ts";
import type { Chance } from "../stress/chance.ts";
import { installHistory } from "../history.ts";
import { type HeardFact, type Links, Lock } from "./seat.ts";
import { Servers } from "./servers.ts";

/** Short leases, so that many faults fit: but a frozen worker's guard needs 3 s, and the lease must outlast that. */
export const CHAOS_SETTINGS = {
  leader_tick_seconds: 0.1,
  leader_lease_seconds: 1,
  leader_stale_seconds: 1,
  heartbeat_interval_seconds: 0.2,
  heartbeat_ttl_seconds: 1,
  worker_lease_seconds: 7,
  worker_renew_seconds: 0.5,
  node_retry_seconds: 0.5,
  node_recheck_seconds: 0.5,
  worker_margin_seconds: 4,
  reassign_after_seconds: 1,
  suspect_seconds: 0.5,
  spare_processes: 1,
  drain_grace_seconds: 2,
  worker_detach_grace_seconds: 2,
} satisfies Partial<Settings>;

/** Where the workers sit: two nodes, and both have a worker that could take over for another of the same node. */
const NODES = ["node-a", "node-a", "node-b", "node-b", "node-b"];
const SLOTS = "4";
/** For processes to start, where everything else is busy too. */
export const READY_WITHIN_MS = 60_000;
const JOBS = new URL("./jobs/", import.meta.url);

/** Something that happened, for the story of a failure. */
export interface Moment {
  at: Date;
  text: string;
}

export interface WorldOptions {
  dir: string;
  chance: Chance;
  workers: number;
  /** Each fact that a worker prints. */
  heard(fact: HeardFact, at_ms: number): void;
}

export class World {
  readonly dir: string;
  readonly seats: Lock[] = [];
  /** What went wrong beside what the history tells. */
  readonly mishaps: string[] = [];
  readonly moments: Moment[] = [];
  /** Straight to Postgres. */
  readonly sql: Sql;
  readonly servers: Servers;
  readonly certificates: Certificates;
  /** Path of the library that gives processes another clock; undefined: none is installed. */
  readonly clock_library = findFaketime();
  readonly #options: WorldOptions;
  readonly #stop = new AbortController();
  #kept: Promise<unknown> = Promise.resolve();

  private constructor(options: WorldOptions, servers: Servers) {
    this.#options = options;
    this.dir = options.dir;
    this.servers = servers;
    this.sql = connectDb(servers.database_url, { name: "chaos", max: 4 });
    this.certificates = new Certificates(`${options.dir}/certs`);
  }

  /** Everything is up and the workers are ready; nothing is asked of them yet. */
  static async make(options: WorldOptions): Promise<World> {
    for (const folder of ["jobs", "facts", "marks/locks", "clocks"]) {
      Deno.mkdirSync(`${options.dir}/${folder}`, { recursive: true });
    }
    Deno.chmodSync(options.dir, 0o755); // Postgres runs as another user where we are root
    const world = new World(options, await Servers.start(options.dir));
    try {
      await world.#prepare();
      for (let place = 0; place < options.workers; place++) world.seats.push(await world.#lock(place));
      world.#kept = Promise.all(world.seats.map((lock) => lock.keep(world.#stop.signal)));
      await within(READY_WITHIN_MS, "the start of the workers", Promise.all(world.seats.map((lock) => lock.ready)));
      return world;
    } catch (error) {
      await world.close();
      throw error;
    }
  }

  get marks_file(): string {
    return `${this.dir}/marks/marks.jsonl`;
  }

  /** Which lock leads, as far as can be heard. */
  get leader(): Lock | undefined {
    const leaders = this.seats.filter((lock) => lock.epoch > 0 && lock.pid !== undefined);
    return leaders.sort((a, b) => b.epoch - a.epoch)[0];
  }

  /** Writes down what was done to the world, or seen of it. */
  note(text: string): void {
    this.moments.push({ at: new Date(), text });
  }

  /** Asks all workers to end in good order; none may leave a process behind. */
  async stopWorkers(): Promise<void> {
    this.#stop.abort();
    await this.#kept;
  }

  /** Ends everything, by force where needed; `dir` stays. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const lock of this.seats) {
      lock.signal("SIGCONT");
      lock.signal("SIGKILL");
    }
    await this.#kept;
    await noneLeft(`${this.dir}/state`, 1_000).catch(() => {}); // whoever minded has told by now
    await this.sql.end({ timeout: 2 });
    await this.servers.stop();
    await Promise.all(this.seats.flatMap((lock) => Object.values(lock.links).map((link) => link.close())));
  }

  async #prepare(): Promise<void> {
    await applySchema(this.sql);
    await installHistory(this.sql);
    await changeSettings(this.sql, CHAOS_SETTINGS, { actor: "chaos" });
    await this.#syncJobs();
    for (const node of new Set(NODES)) await this.certificates.add(node);
  }

  async #syncJobs(): Promise<void> {
    const jobs_dir = `${this.dir}/jobs`;
    for (const { name } of Deno.readDirSync(JOBS)) Deno.copyFileSync(new URL(name, JOBS), `${jobs_dir}/${name}`);
    const folder = JSON.stringify(`${this.dir}/marks`);
    Deno.writeTextFileSync(`${jobs_dir}/_place.ts`, `export const FOLDER = ${folder};\n`);
    const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir: `${this.dir}/sync`, spares: 0, env: {} });
    try {
      const by = { actor: "chaos", reason: "its jobs" };
      const parts = { sql: this.sql, sandbox, jobs_dir, project_dir: PROJECT_DIR, by };
      const { problems } = await sync(parts, { mode: "apply" });
      if (problems.length > 0) throw new Error(problems.map((problem) => problemText(problem)).join("\n"));
    } finally {
      await sandbox.close();
    }
    await this.sql`update job_schedule set enabled = false`; // until the load begins
    // What the faults do to ordinary runs must not put them away; those that kill their workers must be.
    await this.sql`update job_definition set max_interruptions = 1000 where name <> 'killer'`;
  }

  async #lock(place: number): Promise<Lock> {
    const node_id = NODES[place] as string;
    const name = `${node_id.at(-1)}${place + 1}`;
    const grpc_port = freePort();
    const links = await this.#links(grpc_port);
    const clock_file = this.clock_library && `${this.dir}/clocks/${name}`;
    const chance = this.#options.chance.fork(`seat ${name}`);
    const lock = new Lock({
      name,
      node_id,
      grpc_port,
      links,
      clock_file,
      env: this.#environment({ name, node_id, links, clock_file }),
      log_file: `${this.dir}/facts/${name}.log`,
      pause_ms: () => chance.whole(100, 1_000),
      heard: (of, fact) => this.#heard(of, fact),
      died: (of, how) => {
        this.note(`${of.name} ended by itself: ${how}`);
        this.mishaps.push(`The worker of ${of.name} ended by itself: ${how}; see facts/${of.name}.log`);
      },
    });
    lock.setClock(0);
    return lock;
  }

  #heard({ name }: Lock, fact: HeardFact): void {
    this.#options.heard(fact, monotonicMs());
    if (fact.fact === "worker.ready") this.note(`${name} is ready as ${fact.worker_id}`);
    if (fact.fact === "worker.lost") this.note(`${name} lost its id ${fact.worker_id}: ${fact.reason}`);
    if (fact.fact === "worker.buried") this.note(`${name} buried ${fact.worker_id} under epoch ${fact.epoch}`);
    if (fact.fact === "leader.elected") this.note(`${name} leads as ${fact.worker_id}, epoch ${fact.epoch}`);
    if (fact.fact === "leader.ended") this.note(`${name} leads no more, epoch ${fact.epoch}: ${fact.reason}`);
  }

  async #links(grpc_port: number): Promise<Links> {
    const to = (url: string) => FaultyLink.to(Number(new URL(url).port));
    return {
      postgres: await to(this.servers.database_url),
      redis: await to(this.servers.redis_url),
      grpc: await FaultyLink.to(grpc_port),
    };
  }

  #environment(
    lock: { name: string; node_id: string; links: Links; clock_file: string | undefined },
  ): Record<string, string> {
    const files = this.certificates.filesOf(lock.node_id);
    return {
      DATABASE_URL: through(this.servers.database_url, lock.links.postgres),
      REDIS_URL: through(this.servers.redis_url, lock.links.redis),
      SCHEDULER_GRPC_ADVERTISE: `127.0.0.1:${lock.links.grpc.port}`,
      SCHEDULER_NODE_ID: lock.node_id,
      SCHEDULER_JOBS_DIR: `${this.dir}/jobs`,
      SCHEDULER_SLOTS: SLOTS,
      SCHEDULER_TLS_CERT_FILE: files.cert_file,
      SCHEDULER_TLS_KEY_FILE: files.key_file,
      SCHEDULER_TLS_PINS_FILE: files.pins_file,
      SCHEDULER_STATE_DIR: `${this.dir}/state/${lock.node_id}`, // siblings settle what a dead one leaves there
      ...(lock.clock_file && this.clock_library
        ? {
          LD_PRELOAD: this.clock_library,
          FAKETIME_TIMESTAMP_FILE: lock.clock_file,
          FAKETIME_CACHE_DURATION: "1",
          FAKETIME_DONT_FAKE_MONOTONIC: "1",
        }
        : {}),
    };
  }
}

/** The same address, by way of a link. */
export function through(address: string, link: FaultyLink): string {
  const url = new URL(address);
  url.port = String(link.port);
  return url.href;
}

/** Where Debian and its like keep it. */
function findFaketime(): string | undefined {
  for (const folder of foldersIn("/usr/lib").concat("/usr/lib64", "/usr/lib")) {
    const file = `${folder}/faketime/libfaketimeMT.so.1`;
    try {
      if (Deno.statSync(file).isFile) return file;
    } catch {
      // not there
    }
  }
}

function foldersIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].filter((entry) => entry.isDirectory).map(({ name }) => `${folder}/${name}`);
}
