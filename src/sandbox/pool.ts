/**
 * Bodies and the processes they run in.
 *
 * A body gets a process of its own. So that it need not wait for one to load, a spare is kept: once a run of a job has
 * started, another process loads the same file with the same rights and waits; the next run of that job begins in it
 * within a millisecond. A spare is bound to job file, digest, permissions and memory, and never used for anything else.
 * There are at most `spares` of them; the least recently used goes first, and each goes after five minutes without
 * use. A file's top level therefore runs before there is a run; what it prints then goes to the log of the first run.
 *
 * A job with `isolation: { reuse: n }` goes back among the spares after its run, up to n runs, and for 15 s also beyond
 * their number, unless anything but its result or a thrown error came of it, it printed after its end, or it can start
 * processes of its own. Timers that it left open go on and may disturb the next run: that is what its owner chose.
 *
 * Bodies may run only while `hold`'s function says so: without the beat that depends on it their guard kills them.
 */
import { observe } from "../base/facts.ts";
import { after, Bell, every, monotonicMs } from "../base/loop.ts";
import { resolvePath } from "../base/paths.ts";
import { type Body, type BodyEars, type BodyOrder, RunningBody } from "./body.ts";
import { type Described, descriptionFrom } from "./describe.ts";
import { notStarted } from "./outcome.ts";
import { isUnsafe, permissionsKey } from "./permissions.ts";
import { Child } from "./process.ts";
import { GUARD_MARK } from "./remains.ts";
import { makeTempRoot } from "./temp_folders.ts";
import { BEAT_MS, MayRunNothing, Warden } from "./warden.ts";

export type { Body, BodyEars, BodyOrder } from "./body.ts";
export type { Described, Description } from "./describe.ts";
export type { Outcome } from "./outcome.ts";
export type { LogLine } from "./output.ts";

export interface SandboxOptions {
  /** The folder of deno.json, whose import map job files use. Relative paths in permissions are below it. */
  project_dir: string;
  /** Where the bodies' temp folders are made. */
  state_dir: string;
  /** Processes kept loaded ahead, at most. */
  spares: number;
  /** The worker's environment; a body sees what its permissions name, and nothing else. */
  env: Record<string, string>;
  /** Files and folders that no body may open, whatever it was granted, e.g. the TLS key. Not above `state_dir`. */
  secret_paths?: readonly string[];
  /** The worker's id, when it is one: what it leaves behind at its death is found by that; remains.ts. */
  owner?: string;
}

/** What a process is bound to, from its start. */
type ProcessKind = Pick<BodyOrder, "job_file" | "digest" | "permissions" | "memory_mb">;

interface Spare {
  key: string;
  child: Child;
  served: number;
  idle_since_ms: number;
}

const SPARE_DELAY_MS = 10;
const SPARE_LIFE_MS = 5 * 60_000;
/** Of processes that go back among the spares and are more than `spares`: as many as runs went on at a time. */
const SURPLUS_LIFE_MS = 15_000;
const DESCRIBE_MEMORY_MB = 512;

export class Sandbox {
  readonly #options: SandboxOptions;
  readonly #warden: Warden;
  readonly #children = new Set<Child>();
  readonly #bodies = new Set<RunningBody>();
  readonly #running = new Map<string, number>();
  readonly #bell = new Bell();
  readonly #stop = new AbortController();
  #spares: Spare[] = [];
  #mayRun = () => true;
  #beating: Promise<void> | undefined;
  #temp_root: string | undefined;
  #folders = 0;

  constructor(options: SandboxOptions) {
    this.#options = options;
    const { env, owner } = options;
    this.#warden = new Warden(owner === undefined ? env : { ...env, [GUARD_MARK]: owner }, {
      mayRun: () => this.#mayRun(),
    });
  }

  /** Processes that are loaded and wait for a run. */
  get spares(): number {
    return this.#spares.length;
  }

  /** Bodies live only while this says true; asked each second. */
  hold(mayRun: () => boolean): void {
    this.#mayRun = mayRun;
    this.#bell.ring();
  }

  /** Starts a body. Never throws: what prevents a start is an outcome too. */
  start(order: BodyOrder, ears: BodyEars): Body {
    if (this.#stop.signal.aborted) return neverStarted(new MayRunNothing("this worker is stopping"));
    if (!this.#mayRun()) return neverStarted(new MayRunNothing("this worker may run nothing now"));
    const began_ms = monotonicMs();
    const key = keyOf(order);
    const spare = this.#takeSpare(key);
    try {
      const child = spare?.child ?? this.#spawn(order);
      const body = this.#run(child, order, { ears, key, served: spare?.served });
      observe("body.spawned", {
        job_name: order.job_name,
        pid: child.pid,
        spare: spare !== undefined,
        spawn_ms: Math.round((monotonicMs() - began_ms) * 1000) / 1000,
      });
      return body;
    } catch (error) {
      return neverStarted(
        new Error(`its process could not be started: ${error instanceof Error ? error.message : String(error)}`),
      );
    }
  }

  /** A body of this kind is about to come, or `wanted` of them: one more process is loaded, unless there are as many. */
  expect(order: ProcessKind, wanted: number): void {
    this.#makeSpare(keyOf(order), order, wanted);
  }

  /** Reads what a job file declares, in a process without any permission. */
  async describe(job_file: string, deadline_ms: number): Promise<Described> {
    try {
      const child = this.#adopt(
        new Child({
          ...this.#plan({ job_file, permissions: {}, memory_mb: DESCRIBE_MEMORY_MB }),
          mode: "describe",
          temp_dir: undefined,
        }, this.#warden),
      );
      return await descriptionFrom(child, { job_file, deadline_ms, project_dir: this.#options.project_dir });
    } catch (error) {
      const reason = `the file could not be loaded: ${error instanceof Error ? error.message : String(error)}`;
      return { ok: false, kind: "crashed", reason };
    }
  }

  /** Kills everything and returns when it is proven gone. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const body of this.#bodies) body.abandon("its worker is stopping");
    for (const child of this.#children) child.kill();
    await Promise.all([...this.#children].map((child) => child.ended));
    await Promise.all([this.#beating, this.#warden.close()]);
    if (this.#temp_root) await Deno.remove(this.#temp_root, { recursive: true }).catch(() => {});
  }

  #run(child: Child, order: BodyOrder, on: { ears: BodyEars; key: string; served: number | undefined }): RunningBody {
    const { key } = on;
    const served = (on.served ?? 0) + 1;
    const may_reuse = this.#options.spares > 0 && !isUnsafe(order.permissions);
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
    const last = !may_reuse || served >= order.isolation_reuse;
    const body = new RunningBody(child, order, {
      ears: on.ears,
      setting: {
        project_dir: this.#options.project_dir,
        last,
        replace: on.served === undefined ? undefined : () => this.#spawn(order),
        onStarted: () => last && this.#makeSpareSoon(key, order),
        lapses: () => this.#warden.lapses,
      },
    });
    this.#bodies.add(body);
    body.outcome.then(() => {
      this.#bodies.delete(body);
      this.#running.set(key, (this.#running.get(key) as number) - 1);
      if (this.#running.get(key) === 0) this.#running.delete(key);
      if (body.reusable) this.#takeBack({ key, child: body.child, served, idle_since_ms: monotonicMs() });
    });
    return body;
  }

  #takeSpare(key: string): Spare | undefined {
    const spare = this.#spares.findLast((one) => one.key === key && one.child.fit);
    if (!spare) return undefined;
    this.#spares = this.#spares.filter((one) => one !== spare);
    return spare;
  }

  /** Not at once: a start of a process takes time from the event loop, and this body is just beginning to talk. */
  #makeSpareSoon(key: string, order: BodyOrder): void {
    const cancel = after(SPARE_DELAY_MS, () => {
      this.#stop.signal.removeEventListener("abort", cancel);
      this.#makeSpare(key, order);
    });
    this.#stop.signal.addEventListener("abort", cancel, { once: true });
  }

  /** One more process for this key, if there is room: beyond the first only as many as runs of it go on at a time. */
  #makeSpare(key: string, order: ProcessKind, wanted = this.#running.get(key) ?? 0): void {
    const own = this.#spares.filter((one) => one.key === key).length;
    if (this.#stop.signal.aborted || this.#options.spares < 1 || own >= Math.max(1, wanted)) return;
    if (this.#spares.length >= this.#options.spares) {
      if (own > 0) return;
      this.#drop(this.#spares[0] as Spare);
    }
    try {
      this.#keep({ key, child: this.#spawn(order), served: 0, idle_since_ms: monotonicMs() });
    } catch {
      // without a spare the next run starts its own process, and tells what is wrong
    }
  }

  /** A process that served and may serve again. It is loaded already, so it stays for a while also beyond `spares`. */
  #takeBack(spare: Spare): void {
    if (this.#stop.signal.aborted || !spare.child.fit) return spare.child.kill();
    this.#keep(spare);
  }

  #keep(spare: Spare): void {
    if (spare.child.fit) this.#spares.push(spare);
  }

  #drop(spare: Spare): void {
    this.#spares = this.#spares.filter((one) => one !== spare);
    spare.child.kill();
  }

  #spawn(order: ProcessKind): Child {
    this.#temp_root ??= makeTempRoot(this.#options.state_dir);
    const temp_dir = resolvePath(this.#temp_root, String(++this.#folders));
    Deno.mkdirSync(temp_dir, { mode: 0o700 });
    try {
      return this.#adopt(new Child({ ...this.#plan(order), mode: "run", temp_dir }, this.#warden));
    } catch (error) {
      Deno.removeSync(temp_dir);
      throw error;
    }
  }

  #plan(order: Omit<ProcessKind, "digest">) {
    const { project_dir, env, secret_paths = [], owner } = this.#options;
    const { job_file, permissions, memory_mb } = order;
    return { job_file, permissions, memory_mb, project_dir, env, secret_paths, owner };
  }

  #adopt(child: Child): Child {
    this.#children.add(child);
    child.ended.then(() => {
      this.#children.delete(child);
      this.#spares = this.#spares.filter((one) => one.child !== child);
    });
    this.#beating ??= every(BEAT_MS, () => this.#beat(), {
      name: "sandbox beat",
      stop: this.#stop.signal,
      bell: this.#bell,
    });
    return child;
  }

  #beat(): Promise<void> {
    this.#warden.beat();
    const now_ms = monotonicMs();
    const beyond = this.#spares.length - this.#options.spares;
    const stale = this.#spares.filter(({ idle_since_ms }, place) =>
      now_ms - idle_since_ms > (place < beyond ? SURPLUS_LIFE_MS : SPARE_LIFE_MS)
    );
    for (const spare of stale) this.#drop(spare);
    return Promise.resolve();
  }
}

function keyOf(order: ProcessKind): string {
  return JSON.stringify([order.job_file, order.digest, permissionsKey(order.permissions), order.memory_mb]);
}

function neverStarted(why: Error): Body {
  return { pid: 0, outcome: Promise.resolve(notStarted(why)), cancel() {}, abandon() {} };
}
