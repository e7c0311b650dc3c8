/**
 * One place for a worker process in a chaos run: the process itself, started again whenever it ends, and the links that
 * carry all that it says and hears: to Postgres, to Redis, and from its peers. One fault at a time strikes a lock
 * (`busy`), so that a fault does what its name says.
 */
import { rmSync } from "node:fs";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import type { FactName, Facts } from "../../../src/platform/facts.ts";
import { monotonicMs, rest } from "../../../src/platform/timers.ts";
import { eachLine, WORKER_ARGS } from "../../../src/dev/worker_supervisor.ts";
import type { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { signalProcess } from "../../../src/sandbox/process_table.ts";

export interface LockOptions {
  name: string;
  node_id: string;
  /** The port that its worker listens on; peers are told the link's. */
  grpc_port: number;
  links: Links;
  env: Record<string, string>;
  /** Its clock, when there is a way to set it. */
  clock_file: string | undefined;
  log_file: string;
  /** Before the process that ended is started again. */
  pause_ms(): number;
  heard(lock: Lock, fact: HeardFact): void;
  /** A process ended in a way that nobody asked for. */
  died(lock: Lock, how: string): void;
}

export interface Links {
  postgres: FaultyLink;
  redis: FaultyLink;
  grpc: FaultyLink;
}

export type HeardFact = { [K in FactName]: { fact: K } & Facts[K] }[FactName];

/** Its own grace for bodies is 2 s, and giving up on a Postgres that is away takes a lease. */
const STOPS_WITHIN_MS = 30_000;

export class Lock {
  readonly name: string;
  readonly node_id: string;
  readonly links: Links;
  /** A fault has it. */
  busy = false;
  /** Of the process of now, once it was ready. */
  worker_id = "";
  /** It leads, by its own word; 0: it does not. */
  epoch = 0;
  readonly #options: LockOptions;
  readonly #log: Deno.FsFile;
  #child: Deno.ChildProcess | undefined;
  #asked_to_end = false;
  #ready = Promise.withResolvers<void>();

  constructor(options: LockOptions) {
    this.#options = options;
    this.name = options.name;
    this.node_id = options.node_id;
    this.links = options.links;
    this.#log = Deno.openSync(options.log_file, { append: true, create: true });
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when the process of now is ready; once it was asked to end, when the next one is. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get has_clock(): boolean {
    return this.#options.clock_file !== undefined;
  }

  /** Starts the process, and again whenever it ends, until `stop`; then asks it to end, and resolves when it has. */
  async keep(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      await this.#live(stop);
      this.worker_id = "";
      this.epoch = 0;
      if (!this.#asked_to_end) this.#ready = Promise.withResolvers();
      await this.links.grpc.refuse();
      if (!stop.aborted) await rest(this.#options.pause_ms(), stop);
    }
    this.#log.close();
  }

  async #live(stop: AbortSignal): Promise<void> {
    await this.links.grpc.heal();
    this.#asked_to_end = false;
    const child = this.#child = this.#spawn();
    const ask = () => void this.stop();
    stop.addEventListener("abort", ask);
    if (stop.aborted) ask();
    const hear = (line: string) => this.#hear(line);
    const [status] = await Promise.all([child.status, eachLine(child.stdout, hear), eachLine(child.stderr, hear)]);
    stop.removeEventListener("abort", ask);
    await child.stdin.close().catch(() => {}); // closed with the process
    this.#child = undefined;
    forgetClock(child.pid);
    this.#write("harness", `the process ended: ${status.signal ?? `exit code ${status.code}`}`);
    const in_order = this.#asked_to_end && status.code === 0;
    if (!in_order && status.signal !== "SIGKILL") {
      this.#options.died(this, status.signal ? `signal ${status.signal}` : `exit code ${status.code}`);
    }
  }

  /** Signals the process itself, not its bodies. */
  signal(signal: Deno.Signal): void {
    if (!this.pid) return;
    this.#write("harness", signal);
    signalProcess(this.pid, signal);
  }

  /** Asks it to end in good order, and resolves when it has; kills it, and says so, when it does not. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#asked_to_end = true;
    this.#ready = Promise.withResolvers();
    this.signal("SIGTERM");
    const late = new AbortController();
    rest(STOPS_WITHIN_MS, late.signal).then(() => {
      if (late.signal.aborted) return;
      this.#options.died(this, `no end within ${STOPS_WITHIN_MS / 1000} s after SIGTERM`);
      this.signal("SIGKILL");
    });
    await child.status;
    late.abort();
  }

  /** Its wall clock, and that of all it starts with its own environment, is off by this much from now on. */
  setClock(off_seconds: number): void {
    if (!this.#options.clock_file) return;
    const sign = off_seconds < 0 ? "-" : "+";
    Deno.writeTextFileSync(this.#options.clock_file, `${sign}${Math.abs(off_seconds)}s\n`);
  }

  /** Its links carry again. */
  async heal(): Promise<void> {
    await Promise.all(Object.values(this.links).map((link) => link.heal()));
    if (!this.#child) await this.links.grpc.refuse();
  }

  #spawn(): Deno.ChildProcess {
    return new Deno.Command(Deno.execPath(), {
      args: WORKER_ARGS,
      cwd: PROJECT_DIR,
      env: { ...this.#options.env, SCHEDULER_GRPC_PORT: String(this.#options.grpc_port) },
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  #hear(line: string): void {
    this.#write("worker", line);
    if (!line.startsWith('{"fact":')) return;
    const fact = JSON.parse(line) as HeardFact;
    if (fact.fact === "worker.ready") {
      this.worker_id = fact.worker_id;
      this.#ready.resolve();
    }
    if (fact.fact === "leader.elected") this.epoch = fact.epoch;
    if (fact.fact === "leader.ended") this.epoch = 0;
    this.#options.heard(this, fact);
  }

  /** Its own clock may be wrong; ours is not. */
  #write(who: string, text: string): void {
    const line = `${new Date().toISOString()} ${Math.round(monotonicMs())} ${who} ${text}\n`;
    this.#log.writeSync(new TextEncoder().encode(line));
  }
}

/** libfaketime leaves these behind when its process is killed. */
function forgetClock(pid: number): void {
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) rmSync(`/dev/shm/${name}`, { force: true });
}
