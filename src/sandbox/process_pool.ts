/**
 * Bodies and the processes they run in.
 *
 * A body gets a process of its own. So that it need not wait for one to load, a spare is kept: once a run of a job has
 * started, another process loads the same file with the same rights and waits; the next run of that job begins in it
 * within a millisecond (spare_processes.ts). A file's top level therefore runs before there is a run; what it prints then goes to the log of
 * the first run.
 *
 * A job with `isolation: { reuse: n }` goes back among the spares after its run, up to n runs, unless anything but its
 * result or a thrown error came of it, it printed after its end, or it can start processes of its own. Timers that it left open go on and may
 * disturb the next run once that has begun: that is what its owner chose.
 * While its runs take a few milliseconds each, those that come at once wait behind one another in one process (process_queue.ts)
 * rather than each in a process of its own. While as many processes serve as there are slots all do, if they may wait at all; else
 * those that wait since no process is loaded have one more loaded for whoever comes after them.
 *
 * Bodies may run only while `hold`'s function says so: without the beat that depends on it their guard kills them.
 */
import { observe } from "../platform/facts.ts";
import { ChurnMap } from "../platform/churn_map.ts";
import { after, every, monotonicMs, Wakeup } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import { messageOf } from "../platform/text.ts";
import { type BodySetting, RunningBody } from "./body.ts";
import { alarms } from "./endable_body.ts";
import { type Described, descriptionFrom } from "./describe.ts";
import type { Body, BodyListener, BodyOrder } from "./body_order.ts";
import { notStarted } from "./outcome.ts";
import { isUnsafe, permissionsKey } from "./permissions.ts";
import { ProcessQueue } from "./process_queue.ts";
import { type CodeDuration, DurationEstimates, START_MS } from "./duration_estimate.ts";
import { Child } from "./process.ts";
import { SpareProcesses } from "./spare_processes.ts";
import { GUARD_MARK } from "./orphan_processes.ts";
import { makeTempRoot } from "./temp_folders.ts";
import { BEAT_MS, MayRunNothing, Watchdog } from "./watchdog.ts";
import { stored } from "../locale/message.ts";

export type { Body, BodyListener, BodyOrder, StepBody, StepsFrame } from "./body_order.ts";
export type { Described, Description } from "./describe.ts";
export type { Outcome } from "./outcome.ts";
export type { LogLine } from "./output.ts";

export interface ProcessPoolOptions {
  /** The folder of deno.json, whose import map job files use. Relative paths in permissions are below it. */
  project_dir: string;
  /** Where the bodies' temp folders are made. */
  state_dir: string;
  /** Processes kept loaded ahead, at most. */
  spares: number;
  /** Bodies that are to run at once, at most; default: any number. Nothing here refuses one more: it waits behind others, if it may. */
  slots?: () => number;
  /** The worker's environment; a body sees what its permissions name, and nothing else. */
  env: Record<string, string>;
  /** Files and folders that no body may open, whatever it was granted, e.g. the TLS key. Not above `state_dir`. */
  secret_paths?: readonly string[];
  /** The worker's id, when it is one: what it leaves behind at its death is found by that; orphan_processes.ts. */
  owner?: string;
  /** How many runs of a job may wait in one process; by default as it was measured here. */
  pace?: DurationEstimates;
  /** How long their guard waits for a sign of life; by default as is right for a worker's lease. */
  guard_window_seconds?: number;
}

/** What a process is bound to, from its start. */
type ProcessKind = Pick<BodyOrder, "job_file" | "digest" | "permissions" | "memory_mb">;

const SPARE_DELAY_MS = 10;
const DESCRIBE_MEMORY_MB = 512;

export class ProcessPool {
  readonly #options: ProcessPoolOptions;
  readonly #watchdog: Watchdog;
  readonly #children = new Set<Child>();
  readonly #bodies = new ChurnMap<RunningBody, RunningBody>();
  readonly #setting: BodySetting;
  readonly #running = new Map<string, number>();
  /** Of jobs whose processes serve several runs: the processes that serve, by key. */
  readonly #lines = new Map<string, Set<ProcessQueue>>();
  readonly #served = new WeakMap<ProcessQueue, number>();
  /** Those in which a body runs. */
  readonly #serving = new Set<ProcessQueue>();
  readonly #pace: DurationEstimates;
  readonly #wakeup = new Wakeup();
  readonly #stop = new AbortController();
  readonly #spares: SpareProcesses;
  #mayRun = () => true;
  #beating: Promise<void> | undefined;
  #temp_root: string | undefined;
  #folders = 0;

  constructor(options: ProcessPoolOptions) {
    this.#options = options;
    this.#spares = new SpareProcesses(options.spares);
    this.#pace = options.pace ?? new DurationEstimates();
    this.#setting = {
      project_dir: options.project_dir,
      replace: ({ key, order }) => this.#serve(this.#lineOf(key, this.#spawn(order))),
      onLastStarted: ({ key, order }) => this.#makeSpareSoon(key, order),
      onOver: (body) => this.#over(body),
      lapses: () => this.#watchdog.lapses,
    };
    const { env, owner, guard_window_seconds } = options;
    this.#watchdog = new Watchdog(owner === undefined ? env : { ...env, [GUARD_MARK]: owner }, {
      mayRun: () => this.#mayRun(),
      window_seconds: guard_window_seconds,
    });
  }

  /** Processes that are loaded and wait for a run. */
  get spares(): number {
    return this.#spares.size;
  }

  /** Bodies live only while this says true; asked each second. */
  hold(mayRun: () => boolean): void {
    this.#mayRun = mayRun;
    this.#wakeup.signal();
  }

  /** Starts a body. Never throws: what prevents a start is an outcome too. */
  start(order: BodyOrder, listener: BodyListener): Body {
    if (this.#stop.signal.aborted) return neverStarted(new MayRunNothing("this worker is stopping"));
    if (!this.#mayRun()) return neverStarted(new MayRunNothing("this worker may run nothing now"));
    const body = this.#bodyOf(order, listener);
    this.#place(body);
    return body;
  }

  /** How many more runs of this code could begin within milliseconds, in processes that serve such runs already. */
  roomBehind(code: { job_file: string; digest: string }): number {
    const key = this.#pace.keyOf(code);
    if (key === undefined) return 0;
    const most = this.#pace.mostInLine(key);
    let room = 0;
    for (const line of this.#lines.get(key) ?? []) if (line.open) room += Math.max(0, most - line.length);
    return room;
  }

  /** Whether runs of this code rather wait behind one another in a process than wake another one. */
  isQuick(code: { job_file: string; digest: string }): boolean {
    const key = this.#pace.keyOf(code);
    return key !== undefined && this.#pace.mostBeforeAnother(key) > 1;
  }

  /** What a run of each code takes of its slot. */
  codeTimes(): CodeDuration[] {
    return this.#pace.times();
  }

  /** Rises when there is one more of these. */
  get codesKnown(): number {
    return this.#pace.codesKnown;
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
        }, this.#watchdog),
      );
      return await descriptionFrom(child, { job_file, deadline_ms, project_dir: this.#options.project_dir });
    } catch (error) {
      const reason = `the file could not be loaded: ${messageOf(error)}`;
      return { ok: false, kind: "crashed", reason };
    }
  }

  /** Kills everything and returns when it is proven gone. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const body of this.#bodies.values()) body.abandon(stored("runs.cause.worker_stopping"));
    for (const child of this.#children) child.kill();
    await Promise.all([...this.#children].map((child) => child.ended));
    await Promise.all([this.#beating, this.#watchdog.close()]);
    alarms.quit();
    if (this.#temp_root) await Deno.remove(this.#temp_root, { recursive: true }).catch(() => {});
  }

  #bodyOf(order: BodyOrder, listener: BodyListener): RunningBody {
    const key = keyOf(order);
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
    const body = new RunningBody(order, { key, listener, setting: this.#setting });
    this.#bodies.set(body, body);
    return body;
  }

  #over(body: RunningBody): void {
    const { key, order, took_ms } = body;
    this.#bodies.delete(body);
    const others = (this.#running.get(key) as number) - 1;
    if (others > 0) this.#running.set(key, others);
    else this.#running.delete(key);
    if (took_ms === undefined) return;
    this.#pace.note(key, order, this.#mayReuse(order) ? took_ms : START_MS + took_ms);
  }

  /** Gives a body its process: one that waits, one that is quick enough to wait behind, or its own. */
  #place(body: RunningBody): void {
    const { order, key } = body;
    try {
      const full = this.#full;
      const most = full ? this.#pace.mostInLine(key) : this.#pace.mostBeforeAnother(key);
      const behind = this.#lineToWaitIn(order, { key, most });
      const began_ms = behind ? 0 : monotonicMs();
      const spare = behind ? undefined : this.#spares.take(key);
      const wanting = behind || spare
        ? undefined
        : this.#lineToWaitIn(order, { key, most: this.#pace.mostInLine(key) });
      if (wanting && !full) {
        this.#makeSpareSoon(key, order, { unless: () => this.#full || this.#fills(this.#lines.get(key)?.size) });
      }
      const found = behind ?? spare?.line ?? wanting;
      const line = this.#serve(found ?? this.#lineOf(key, this.#spawn(order)));
      const served = (this.#served.get(line) ?? 0) + 1;
      this.#served.set(line, served);
      const waits = line.length > 0;
      body.enter(line, { last: !this.#mayReuse(order) || served >= order.isolation_reuse, own: !found });
      if (waits) return;
      observe("body.spawned", {
        job_name: order.job_name,
        pid: line.child.pid,
        spare: spare !== undefined,
        spawn_ms: Math.round((monotonicMs() - began_ms) * 1000) / 1000,
      });
    } catch (error) {
      const message = messageOf(error);
      body.refuse(new Error(`its process could not be started: ${message}`, { cause: error }));
    }
  }

  /** As many bodies run as there are slots. */
  get #full(): boolean {
    return this.#fills(this.#serving.size);
  }

  #fills(processes = 0): boolean {
    return processes >= (this.#options.slots?.() ?? Infinity);
  }

  #serve(line: ProcessQueue): ProcessQueue {
    this.#serving.add(line);
    return line;
  }

  /** Not begun where it waited: elsewhere, while anything may run. */
  #placeAgain(body: RunningBody): void {
    if (!body.returned()) return;
    if (this.#stop.signal.aborted) return body.refuse(new MayRunNothing("this worker is stopping"));
    if (!this.#mayRun()) return body.refuse(new MayRunNothing("this worker may run nothing now"));
    this.#place(body);
  }

  #mayReuse(order: BodyOrder): boolean {
    return this.#options.spares > 0 && !isUnsafe(order.permissions) && order.isolation_reuse > 1;
  }

  /** The shortest line that moves on within milliseconds. */
  #lineToWaitIn(order: BodyOrder, { key, most }: { key: string; most: number }): ProcessQueue | undefined {
    if (most === 1 || !this.#mayReuse(order)) return undefined;
    let shortest: ProcessQueue | undefined;
    for (const line of this.#lines.get(key) ?? []) {
      if (line.length < Math.min(most, shortest?.length ?? Infinity) && line.open) shortest = line;
    }
    return shortest;
  }

  #lineOf(key: string, child: Child): ProcessQueue {
    const line = new ProcessQueue(child, {
      onReturned: (body) => this.#placeAgain(body),
      onIdle: () => {
        this.#serving.delete(line);
        if (child.fit && !this.#stop.signal.aborted) this.#spares.add(key, line);
        else child.kill();
      },
    }, this.#pace.patience_ms);
    const lines = this.#lines.get(key) ?? new Set();
    this.#lines.set(key, lines.add(line));
    child.ended.then(() => {
      lines.delete(line);
      this.#serving.delete(line);
      if (lines.size === 0) this.#lines.delete(key);
    });
    return line;
  }

  /** Not at once: a start of a process takes time from the event loop, and this body is just beginning to talk. */
  #makeSpareSoon(key: string, order: BodyOrder, { unless = (): boolean => false } = {}): void {
    const cancel = after(SPARE_DELAY_MS, () => {
      this.#stop.signal.removeEventListener("abort", cancel);
      if (!unless()) this.#makeSpare(key, order);
    });
    this.#stop.signal.addEventListener("abort", cancel, { once: true });
  }

  /** One more process for this key, if there is room. */
  #makeSpare(key: string, order: ProcessKind, wanted = this.#running.get(key) ?? 0): void {
    if (this.#stop.signal.aborted || !this.#spares.makeRoom(key, wanted)) return;
    try {
      this.#spares.add(key, this.#lineOf(key, this.#spawn(order)));
    } catch {
      // without a spare the next run starts its own process, and tells what is wrong
    }
  }

  #spawn(order: ProcessKind): Child {
    this.#temp_root ??= makeTempRoot(this.#options.state_dir);
    const temp_dir = resolvePath(this.#temp_root, String(++this.#folders));
    return this.#adopt(new Child({ ...this.#plan(order), mode: "run", temp_dir }, this.#watchdog));
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
      this.#spares.forget(child);
    });
    this.#beating ??= every(BEAT_MS, () => this.#beat(), {
      name: "sandbox beat",
      stop: this.#stop.signal,
      wakeup: this.#wakeup,
    });
    return child;
  }

  #beat(): Promise<void> {
    this.#watchdog.beat();
    this.#spares.dropStale();
    return Promise.resolve();
  }
}

/** Runs of one job that were started together share the object of their permissions. */
function keyOf({ job_file, digest, permissions, memory_mb }: ProcessKind): string {
  const known = keys.get(permissions);
  if (known?.digest === digest && known.job_file === job_file && known.memory_mb === memory_mb) return known.key;
  const key = JSON.stringify([job_file, digest, permissionsKey(permissions), memory_mb]);
  keys.set(permissions, { job_file, digest, memory_mb, key });
  return key;
}

const keys = new WeakMap<object, Omit<ProcessKind, "permissions"> & { key: string }>();

function neverStarted(why: Error): Body {
  return { pid: 0, waits: false, outcome: Promise.resolve(notStarted(why)), cancel() {}, abandon() {} };
}
