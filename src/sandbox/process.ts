/**
 * One body's process, seen from the worker: started with exactly the flags of its permissions, guarded, heard, and at
 * the end proven gone with everything it started.
 *
 * The process leads a session and group of its own, whose number is its pid. It sees no environment but what it was
 * granted and what Deno needs to find its caches, and may make a temp folder of its own. `ended` resolves only when the
 * group is empty.
 *
 * The path of Deno is never an argument of node:child_process, which would insert `-A`; Deno.Command changes nothing,
 * and the host checks besides that it holds no more than it was granted.
 */
import { monotonicMs, rest, within } from "../platform/timers.ts";
import { isFile, resolvePath, toFileUrl } from "../platform/paths.ts";
import type { Permissions } from "../job.ts";
import { FrameReader } from "./frames/frame_reader.ts";
import { type FromBody, REHEARSAL, type ToBody } from "./frames.ts";
import { FLOOD_BYTES, type Stream } from "./output.ts";
import { grantedEnv, permissionFlags, wholeKinds } from "./permissions.ts";
import { emptyGroup, isThere, signalGroup, signalProcess } from "./process_table.ts";
import { BODY_MARK, STARTER } from "./orphan_processes.ts";
import { removeFolder } from "./temp_folders.ts";
import type { Watchdog } from "./watchdog.ts";

export interface ChildPlan {
  mode: "run" | "describe";
  job_file: string;
  permissions: Permissions;
  memory_mb: number;
  project_dir: string;
  /** Of the body's own, which makes it when it is asked for; undefined: it gets none. */
  temp_dir: string | undefined;
  /** The worker's; only what was granted is handed on. */
  env: Record<string, string>;
  secret_paths: readonly string[];
  /** The worker, for the mark by which its heirs find the process and all that it starts. */
  owner: string | undefined;
}

/** What is heard of a process while it works for somebody. */
export interface ChildListener {
  onFrame(frame: FromBody): void;
  onText(stream: Stream, bytes: Uint8Array): void;
  /** Called once, with the last of all that is heard. */
  onEnd(end: ChildEnd): void;
}

/** How a process ended, and what was left of it. */
export interface ChildEnd {
  code: number | null;
  signal: Deno.Signal | null;
  /** It had loaded its file. */
  was_ready: boolean;
  /** The last of what it wrote to stderr. */
  last_words: string;
  /** Something in its group outlived it and had to be killed. */
  left_others: boolean;
  /** All that it said was read. */
  heard: boolean;
  /** Why there is no guard for it; it was killed before it got a byte. */
  unguarded: Error | undefined;
}

/** V8 reserves half a GiB for code that counts as data; threads and Deno itself need the rest. */
const DATA_BEYOND_MEMORY_MB = 704;
/**
 * The space in which V8 makes new objects comes on top of a job's memory, up to three times: with a 32nd a tenth of it. V8 by itself
 * takes 32 MiB for each whatever the memory, and no job gets more. At the default of 512 a no-op body takes 80 MiB instead of
 * 110 after many runs; one that does nothing but make objects takes up to 10 % more CPU.
 */
const YOUNG_PART = 32;
const MOST_YOUNG_MB = 32;
const LAST_WORDS_BYTES = 4 * 1024;
const EARLY_BYTES = 64 * 1024;
/** A grandchild that left the group can hold the pipes open for ever. */
const PIPES_CLOSE_MS = 1_000;
const HEAR_GAP_MS = 2;
/** What the way to a group of its own takes on a machine that has a core free. Each look before that makes an error. */
const LEAD_MS = 2;
/** A read of a pipe holds its buffer until something comes: while little does, not the 64 KiB that Deno would take for each. */
const QUIET_BYTES = 4 * 1024;
const LOUD_BYTES = 64 * 1024;
const encoder = new TextEncoder();
const NEEDED_BY_DENO = ["DENO_DIR", "HOME", "XDG_CACHE_HOME", "PATH"];

export class Child {
  readonly pid: number;
  readonly temp_dir: string | undefined;
  readonly ended: Promise<ChildEnd>;
  /** It has much to say: what it says within HEAR_GAP_MS is heard together, since to wake up for a frame costs more than the frame. */
  talkative = false;
  readonly #process: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #frames: FrameReader;
  readonly #error_frames: FrameReader;
  readonly #readers: ReadableStreamBYOBReader[] = [];
  #listener: ChildListener | undefined;
  #early: [Stream, Uint8Array][] = [];
  #early_bytes = 0;
  #unguarded: Error | undefined;
  #last_words = new Uint8Array();
  #ready = false;
  #alive = true;
  #failed = false;
  #hushed = false;
  #patient_until_ms = 0;
  readonly #opened: Promise<void>;
  #is_open = false;
  #unsent = "";
  #sending = false;
  #last = false;

  /** @throws when the process cannot be started. */
  constructor(plan: ChildPlan, watchdog: Watchdog) {
    const nonce = crypto.randomUUID().replaceAll("-", "").slice(0, 16);
    this.temp_dir = plan.temp_dir;
    const reader = (stream: Stream) =>
      new FrameReader(new TextEncoder().encode(nonce), {
        onFrame: (frame) => this.#hear(frame),
        onText: (bytes) => this.#text(stream, bytes),
      });
    this.#frames = reader("stdout");
    this.#error_frames = reader("stderr");
    this.#process = command(plan).spawn();
    this.pid = this.#process.pid;
    this.#writer = this.#process.stdin.getWriter();
    this.#opened = this.#leadsGroup().then(() => watchdog.add(this.pid)).then(
      () => {
        this.#is_open = true;
        return this.#write({ kind: "hello", nonce, granted: wholeKinds(plan.permissions) });
      },
      (error) => {
        this.#unguarded = error;
        this.kill();
      },
    );
    this.ended = this.#end(watchdog);
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** It has loaded its file, and hears signals. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Alive, and nothing says that it is about to end: nor was it told which run is its last, after which it reads nothing more. */
  get fit(): boolean {
    return this.#alive && !this.#failed && !this.#last;
  }

  /** From now on `listener` hear it; what it printed before comes first. */
  listen(listener: ChildListener): void {
    this.#listener = listener;
    this.#hushed = false;
    const early = this.#early;
    this.#early = [];
    this.#early_bytes = 0;
    for (const [stream, bytes] of early) listener.onText(stream, bytes);
  }

  /** It has done its work and may be given other work, unless it prints anything before: then it is not done, and killed. */
  hush(): void {
    this.#listener = undefined;
    this.#hushed = true;
  }

  /** What it is to do after all that it was told before. */
  order(order: Extract<ToBody, { kind: "order" }>): void {
    this.#last = order.last;
    this.tell(order);
  }

  /** It is known here which orders it has dropped. */
  resume(): void {
    this.tell({ kind: "resume" });
  }

  /** Words gather in one turn of the event loop, and while the last ones are being written. */
  tell(words: ToBody): void {
    this.#unsent += `${JSON.stringify(words)}\n`;
    if (!this.#sending) this.#send();
  }

  /** Before anything else when it can be: the body begins while the worker still says so. */
  async #send(): Promise<void> {
    this.#sending = true;
    await (this.#is_open ? undefined : this.#opened);
    while (this.#unsent !== "") {
      const text = this.#unsent;
      this.#unsent = "";
      await this.#writer.write(encoder.encode(text)).catch(() => {});
    }
    this.#sending = false;
  }

  /** To the body's own process alone. */
  signal(signal: Deno.Signal): void {
    if (this.#alive) signalProcess(this.pid, signal);
  }

  /** TERM to all of its group; those that outlive the body's own process have `grace_ms` from now. */
  terminate(grace_ms: number): void {
    this.#patient_until_ms = monotonicMs() + grace_ms;
    signalGroup(this.pid, "SIGTERM");
  }

  /** KILL to all of its group, or to what has not got as far as leading one. */
  kill(): void {
    this.#patient_until_ms = 0;
    if (this.#alive && !signalGroup(this.pid, "SIGKILL")) signalProcess(this.pid, "SIGKILL");
  }

  /** A millisecond or two after its start. Before that the guard could not end it, so it gets no byte; nor does Deno read one for another ten. */
  async #leadsGroup(): Promise<void> {
    for (let wait_ms = LEAD_MS; this.#alive; wait_ms = Math.min(wait_ms * 2, 8)) {
      await rest(wait_ms);
      if (isThere(-this.pid)) return;
    }
  }

  async #write(message: ToBody): Promise<void> {
    await this.#writer.write(encoder.encode(`${JSON.stringify(message)}\n`)).catch(() => {});
  }

  #hear(frame: FromBody): void {
    if (frame.kind === "ready") this.#beReady();
    if (frame.kind === "exiting" || (frame.kind === "error" && !this.#listener)) this.#failed = true;
    this.#listener?.onFrame(frame);
  }

  #beReady(): void {
    if (!this.#ready && !this.#listener) this.tell(REHEARSAL);
    this.#ready = true;
  }

  #text(stream: Stream, bytes: Uint8Array): void {
    if (stream === "stderr") this.#last_words = lastOf(this.#last_words, bytes);
    if (this.#listener) return this.#listener.onText(stream, bytes);
    if (this.#early_bytes + bytes.length <= EARLY_BYTES) this.#early.push([stream, bytes.slice()]);
    this.#early_bytes += bytes.length;
    if (!this.#hushed && this.#early_bytes <= FLOOD_BYTES) return;
    this.#failed = true;
    this.kill();
  }

  async #end(watchdog: Watchdog): Promise<ChildEnd> {
    const heard = Promise.all([
      this.#listenTo(this.#process.stdout, (bytes) => this.#frames.feed(bytes)),
      this.#listenTo(this.#process.stderr, (bytes) => this.#error_frames.feed(bytes)),
    ]);
    const { code, signal } = await this.#process.status;
    this.#alive = false;
    const left_others = await emptyGroup(this.pid, () => monotonicMs() < this.#patient_until_ms);
    watchdog.remove(this.pid);
    const all_heard = await within(PIPES_CLOSE_MS, "the output of a body", heard).then(() => true, async () => {
      await Promise.all(this.#readers.map((reader) => reader.cancel().catch(() => {})));
      return false;
    });
    this.#frames.end();
    this.#error_frames.end();
    await within(PIPES_CLOSE_MS, "the input of a body", this.#writer.close()).catch(() => {});
    if (this.temp_dir) await removeFolder(this.temp_dir);
    const last_words = new TextDecoder().decode(this.#last_words);
    const end: ChildEnd = {
      code: signal ? null : code,
      signal,
      was_ready: this.#ready,
      last_words,
      left_others,
      heard: all_heard,
      unguarded: this.#unguarded,
    };
    this.#listener?.onEnd(end);
    return end;
  }

  /** To the end of the stream; a pipe that breaks has ended. An ear that throws is a bug, and as loud as one. */
  async #listenTo(stream: ReadableStream<Uint8Array>, take: (bytes: Uint8Array) => void): Promise<void> {
    const reader = stream.getReader({ mode: "byob" });
    this.#readers.push(reader);
    for (let room = QUIET_BYTES;;) {
      const read = await reader.read(new Uint8Array(room)).catch(() => undefined);
      if (!read || read.done) return;
      const more = read.value.length === room;
      room = this.talkative || read.value.length >= QUIET_BYTES ? LOUD_BYTES : QUIET_BYTES;
      try {
        take(read.value);
      } catch (error) {
        reportError(error);
      }
      if (this.talkative && !more) await rest(HEAR_GAP_MS);
    }
  }
}

function command(plan: ChildPlan): Deno.Command {
  const side = new URL(plan.mode === "run" ? "./child/host.ts" : "./child/describe_host.ts", import.meta.url).href;
  const enter = plan.mode === "run" ? "host" : "describeHost";
  // The import has a literal name, so the file is part of the module graph and loading it needs no permission.
  const entry = `import { ${enter} } from ${JSON.stringify(side)}; ` +
    `${enter}(() => import(${JSON.stringify(toFileUrl(plan.job_file).href)}));`;
  const young_mb = Math.min(MOST_YOUNG_MB, Math.floor(plan.memory_mb / YOUNG_PART));
  const heap = `--max-old-space-size=${plan.memory_mb},--max-semi-space-size=${young_mb}`;
  const data_kb = (plan.memory_mb + DATA_BEYOND_MEMORY_MB) * 1024;
  const limits = Deno.build.os === "linux" ? `ulimit -c 0; ulimit -d ${data_kb} 2>/dev/null; ` : "ulimit -c 0; ";
  const setsid = setsidOf();
  return new Deno.Command("/bin/sh", {
    args: [
      "-c",
      `${limits}exec "$@"`,
      STARTER,
      ...(setsid === undefined ? [] : [setsid]),
      denoOf(),
      "run",
      "--no-prompt",
      "--no-lock",
      "--no-check",
      `--config=${resolvePath(plan.project_dir, "deno.json")}`,
      "--node-modules-dir=manual", // finds what is installed without looking whether all of it is: half the start time
      ...(plan.permissions.import?.length ? [] : ["--cached-only", "--no-remote"]),
      `--v8-flags=${heap}`,
      ...grants(plan),
      `data:application/typescript,${encodeURIComponent(entry)}`,
    ],
    clearEnv: true,
    env: {
      ...pick(plan.env, NEEDED_BY_DENO),
      NO_COLOR: "1",
      ...grantedEnv(plan.permissions, plan.env),
      ...(plan.owner === undefined ? {} : { [BODY_MARK]: plan.owner }),
    },
    cwd: plan.project_dir, // what relative paths in the job file's permissions mean, and so in its code
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    detached: setsid === undefined,
  });
}

/**
 * Makes a process the leader of a session of its own. `detached` does so too, but then Deno starts it by fork, which copies
 * the worker's page tables: 1 ms in which nothing else happens for a small worker, 10 ms for one of 250 MB, 0.3 ms without.
 */
const SETSIDS = ["/usr/bin/setsid", "/bin/setsid"];
/** Neither changes while this process lives, and each start would ask the kernel for both. */
const setsidOf = once(() => SETSIDS.find(isFile));
const denoOf = once(() => Deno.execPath());

function once<T>(find: () => T): () => T {
  let found: { value: T } | undefined;
  return () => (found ??= { value: find() }).value;
}

function grants(plan: ChildPlan): string[] {
  const { project_dir, temp_dir, secret_paths } = plan;
  return permissionFlags(plan.permissions, { project_dir, temp_dir, secret_paths });
}

function pick(env: Record<string, string>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.filter((name) => env[name]).map((name) => [name, env[name] as string]));
}

function lastOf(before: Uint8Array, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const kept = before.subarray(Math.max(0, before.length + bytes.length - LAST_WORDS_BYTES));
  const added = bytes.subarray(Math.max(0, bytes.length - LAST_WORDS_BYTES));
  const last = new Uint8Array(kept.length + added.length);
  last.set(kept);
  last.set(added, kept.length);
  return last;
}
