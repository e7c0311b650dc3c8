/**
 * The child side of a body. With what it imports (job.ts, frames.ts, channel.ts, thrown.ts, issues.ts, json_values.ts) it is the only
 * code of ours that shares a process with a job file. It loads the file, waits for an order, checks the args, calls
 * `run` and says in frames what came of it.
 *
 * Stages: loading -> idle -> running -> over, or back to idle when the process serves more than one run.
 * Input is read only while idle: a pending read would keep the event loop alive, and a loop that has run dry is how a
 * promise that never settles is noticed. Cancel and timeout therefore arrive as signals, which keep nothing alive.
 *
 * It imports nothing of Node (that would double the start time) and holds the process's only timer and clock outside
 * platform/timers.ts, since a body loads nothing else of ours. What it captures at load a body cannot replace by accident;
 * against malice it promises nothing, the worker trusts no frame.
 */
import { Canceled, DELAY, type Delay, type Json, type Log, type RunContext, type Schema, TimedOut } from "../../job.ts";
import { BodyChannel, type BodyFrameOrder } from "./channel.ts";
import {
  type BodyError,
  type FromBody,
  isRehearsal,
  type LogLevel,
  MOST_LINE_BYTES,
  MOST_RESULT_BYTES,
  MOST_UNTOLD_MS,
} from "../frames.ts";
import { issuesText } from "./issues.ts";
import { whyNotJson } from "../json_values.ts";
import { LazyDurable, loadIfNamed } from "./lazy_durable.ts";
import { describeError } from "./thrown.ts";

export type LoadModule = () => Promise<Record<string, unknown>>;

const PROGRESS_EVERY_MS = 50;
const now = performance.now.bind(performance);
/** Taken out of here when it is needed: Deno makes it then, with a part of Node's that is a third of the start time. */
const timers = Object.getOwnPropertyDescriptor(globalThis, "setTimeout") as PropertyDescriptor;
const timers_back = Object.getOwnPropertyDescriptor(globalThis, "clearTimeout") as PropertyDescriptor;
const makeDir = Deno.mkdirSync;
const removeDir = Deno.removeSync;

/** Loads the job file and serves orders until the last one, or until the worker closes the channel. */
export async function host(load: LoadModule): Promise<void> {
  const channel = new BodyChannel();
  const body = new HostedBody(channel);
  body.watch();
  const job = await body.load(load);
  for (;;) {
    const order = await channel.nextOrder();
    if (!order) return channel.leave(0);
    if (isRehearsal(order)) await body.rehearse(order);
    else await body.serve(order, job);
  }
}

interface LoadedJob {
  options: { args?: Schema; run(context: RunContext<unknown>): unknown };
}

class HostedBody {
  readonly #channel: BodyChannel;
  #stage: "loading" | "idle" | "running" | "over" = "loading";
  /** Of the run under way, once it is asked for. */
  #abort: AbortController | undefined;
  #listening = false;
  /** 0: none. */
  #in_hand = 0;
  #folders = 0;
  /** Of the run under way, if it asked for one. */
  #folder: string | undefined;
  /** Of the run under way. */
  #durable: LazyDurable | undefined;
  #flushProgress = () => {};

  constructor(channel: BodyChannel) {
    this.#channel = channel;
  }

  /** Everything that can end a body other than its own return. */
  watch(): void {
    globalThis.addEventListener("unhandledrejection", (event) => {
      event.preventDefault();
      if (this.#durable?.body?.hasRefused(event.reason)) return;
      this.#fail({ ...describeError(event.reason), phase: this.#stage === "loading" ? "load" : "uncaught" });
    });
    globalThis.addEventListener("error", (event) => {
      event.preventDefault();
      this.#fail({ ...describeError(event.error), phase: this.#stage === "loading" ? "load" : "uncaught" });
    });
    // The event loop has run dry. (Below a top-level await of the job file Deno ends the process without this event.)
    globalThis.addEventListener("beforeunload", (event) => {
      if (this.#durable?.body?.onIdle()) return event.preventDefault();
      const message = "The promise of run() never settled: it waits for something that can no longer come " +
        "(no timer, request or other handle is open)";
      this.#fail({ ...describeError(message), name: "NeverSettled" });
    });
    globalThis.addEventListener("unload", () => {
      if (this.#stage !== "over") this.#channel.send({ kind: "exiting", code: Deno.exitCode });
    });
    Deno.addSignalListener("SIGUSR2", () => this.#tell("TimeoutError", "The run has reached its timeout"));
    Deno.addSignalListener("SIGWINCH", () => this.#channel.recall(this.#in_hand));
    Deno.addSignalListener("SIGHUP", () => this.#tell("AbortError", "The run was canceled"));
  }

  #fail(error: BodyError): void {
    if (this.#stage === "over") return;
    this.#stage = "over";
    this.#channel.fail(error);
  }

  #tell(name: string, message: string): void {
    if (this.#stage !== "running") return;
    this.#channel.send({ kind: "noticed", listening: this.#listening });
    this.#aborter.abort(new DOMException(message, name));
    this.#durable?.body?.cancel(name === "TimeoutError" ? new TimedOut(message) : new Canceled(message));
  }

  async load(load: LoadModule): Promise<LoadedJob> {
    try {
      refuseDelay();
      const job = (await load()).default as Partial<LoadedJob> | undefined;
      if (typeof job?.options?.run !== "function") {
        throw new TypeError("The file's default export is not a job: export default defineJob({ ... })");
      }
      await loadIfNamed(job.options.run);
      this.#stage = "idle";
      this.#channel.send({ kind: "ready" });
      return job as LoadedJob;
    } catch (error) {
      this.#fail({ ...describeError(error), phase: "load" });
      throw error; // never reached
    }
  }

  /** Up to `run` and back, with a job that does nothing: else the first run would wait for code to be compiled. */
  async rehearse(order: BodyFrameOrder): Promise<void> {
    this.#channel.silent = true;
    await this.#verdict(order, { options: { run: () => undefined } });
    this.#channel.silent = false;
  }

  get #aborter(): AbortController {
    return this.#abort ??= new AbortController();
  }

  /** This one, and all that are at hand after it. Their verdicts are on their way when this resolves. */
  async serve(first: BodyFrameOrder, job: LoadedJob): Promise<void> {
    for (let order: BodyFrameOrder | undefined = first; order;) {
      this.#stage = "running";
      this.#abort = undefined;
      this.#listening = false;
      this.#in_hand = order.job_run_id;
      order = this.#judge(order, await this.#verdict(order, job));
    }
  }

  /** Tells the verdict. Between this and the word that the next one has started nothing else is called. */
  #judge({ last }: BodyFrameOrder, verdict: FromBody): BodyFrameOrder | undefined {
    this.#flushProgress();
    this.#in_hand = 0;
    const unfinished = this.#durable?.body?.end() ?? false;
    this.#durable = undefined;
    const clean = this.#removeFolder() && !unfinished;
    this.#stage = last || !clean ? "over" : "idle";
    const next = this.#stage === "idle" ? this.#channel.orderAtHand() : undefined;
    if (next) this.#channel.sendWithNext(verdict);
    else this.#channel.send(verdict);
    if (this.#stage === "over") this.#channel.leave(verdict.kind === "result" ? 0 : 1); // what an unclean one left must not meet another
    this.#channel.sendIdle();
    return next;
  }

  async #verdict(order: BodyFrameOrder, job: LoadedJob): Promise<FromBody> {
    try {
      const args = job.options.args ? await this.#readArgs(order, job.options.args) : { value: order.args };
      if ("problem" in args) return failure("args", "InvalidArgs", args.problem);
      this.#channel.send({ kind: "started" });
      const began_ms = now();
      const { durable, again } = this.#makeDurable(order);
      const context = this.#context(order, args.value, durable);
      const run = () => job.options.run(context);
      const returned = await Promise.race([
        order.journal ? durable.load().then((body) => body.serve(run)) : run(),
        again,
      ]);
      if (returned instanceof Again) return { kind: "result", result: null, again: { args: returned.args } };
      const result = returned ?? null;
      const took_ms = now() - began_ms;
      const problem = whyNotJson(result, "result");
      return problem ? notStored(problem) : resultOf(result, took_ms);
    } catch (error) {
      return { kind: "error", error: describeError(error) };
    }
  }

  /** The args as the schema makes them: a function of the job's, before which all is to be told. */
  async #readArgs(order: BodyFrameOrder, schema: Schema): Promise<{ value: unknown } | { problem: string }> {
    this.#channel.flush();
    const answer = await schema["~standard"].validate(order.args);
    if (!answer.issues) return { value: answer.value };
    return { problem: `Cannot run "${order.job_name}": its args do not fit the schema: ${issuesText(answer.issues)}` };
  }

  #makeDurable(order: BodyFrameOrder): { durable: LazyDurable; again: Promise<Again> } {
    const { promise: again, resolve } = Promise.withResolvers<Again>();
    const durable = this.#durable = new LazyDurable(order, {
      channel: this.#channel,
      signal: () => this.#signal(),
      abort: (error) => this.#aborter.abort(new DOMException(error.message, "AbortError")),
      fail: ({ name, message }) => this.#fail({ ...describeError(message), name, retry: "never" }),
      onAgain: (args) => resolve(new Again(args)),
      leaveSuspended: () => {
        this.#stage = "over";
        this.#channel.leave(0);
      },
      ...{ later, forget },
    });
    return { durable, again };
  }

  #signal(): AbortSignal {
    this.#listening = true;
    return this.#aborter.signal;
  }

  #context(order: BodyFrameOrder, args: unknown, durable: LazyDurable): RunContext<unknown> {
    const tempDir = () => this.#folder ??= order.temp_dir && this.#makeFolder(order.temp_dir);
    const signal = () => this.#signal();
    return {
      ...durable.tools(),
      args,
      log: this.#log(),
      progress: this.#progress(),
      get signal() {
        return signal();
      },
      fence: order.fence,
      attempt: order.attempt - (order.suspensions ?? 0),
      jobRunId: order.job_run_id,
      scheduledFor: order.scheduled_for,
      get tempDir() {
        return tempDir();
      },
    };
  }

  /** One for each run that asks, below the process's own, which the first makes and the worker removes. */
  #makeFolder(below: string): string {
    if (this.#folders === 0) makeDir(below, { mode: 0o700, recursive: true });
    const folder = `${below}/${++this.#folders}`;
    makeDir(folder, { mode: 0o700 });
    return folder;
  }

  /** False: the run has made its folder hard to remove. */
  #removeFolder(): boolean {
    const folder = this.#folder;
    this.#folder = undefined;
    try {
      if (folder) removeDir(folder, { recursive: true });
      return true;
    } catch (error) {
      return error instanceof Deno.errors.NotFound;
    }
  }

  #log(): Log {
    const at = (level: LogLevel) => (message: string, fields?: { [key: string]: unknown }) => {
      if (this.#durable?.body?.replaying) return;
      this.#channel.send({
        kind: "log",
        level,
        message: String(message).slice(0, MOST_LINE_BYTES),
        ...(fields === undefined ? {} : { fields: plainFields(fields) as never }),
      });
    };
    return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  }

  /** At most one frame each 50 ms, and always the last one. */
  #progress(): RunContext<unknown>["progress"] {
    let waiting: FromBody | undefined;
    let sent_ms = -Infinity;
    const flush = this.#flushProgress = () => {
      if (!waiting) return;
      this.#channel.send(waiting);
      waiting = undefined;
      sent_ms = now();
    };
    return (fraction, message) => {
      const share = shareOf(fraction);
      if (this.#durable?.body?.replaying) return Promise.resolve();
      const timed = waiting !== undefined;
      const words = message === undefined ? {} : { message: String(message).slice(0, 500) };
      waiting = { kind: "progress", fraction: share, ...words };
      if (now() - sent_ms >= PROGRESS_EVERY_MS) flush();
      else if (!timed) Deno.unrefTimer(later(flush, PROGRESS_EVERY_MS));
      return Promise.resolve();
    };
  }
}

/** The run goes on in a new one. */
class Again {
  constructor(readonly args: Json) {}
}

/** In the process of a body there is no client, unless it makes one. */
function refuseDelay(): void {
  const delay: Delay = (job) =>
    Promise.reject(
      new Error(
        `Cannot delay "${job.name}" inside the body of a job: call(${job.name}, args) gives its result, start(${job.name}, args) does not wait`,
      ),
    );
  Object.assign(globalThis, { [DELAY]: delay });
}

/** Shares that are added up end beside 1, as 0.7 + 0.2 + 0.1 does: what differs by less than this is meant to be 0 or 1. */
const ROUNDING = 1e-9;

function shareOf(fraction: unknown): number {
  if (typeof fraction === "number" && fraction >= -ROUNDING && fraction <= 1 + ROUNDING) {
    return Math.min(Math.max(fraction, 0), 1);
  }
  const given = typeof fraction === "number" ? String(fraction) : `${JSON.stringify(fraction)} (${typeof fraction})`;
  throw new RangeError(`Cannot report progress ${given}: give a number from 0 to 1, such as done / total`);
}

function later(act: () => void, ms: number): number {
  const setTimer = timers.get?.call(globalThis) ?? timers.value;
  return setTimer(act, ms);
}

function forget(timer: number): void {
  const clear = timers_back.get?.call(globalThis) ?? timers_back.value;
  clear(timer);
}

/** As it is measured, and not read again: a getter or a toJSON may answer differently each time. */
function resultOf(result: unknown, took_ms: number): FromBody {
  const text = JSON.stringify(result) as string | undefined;
  if (text === undefined) return notStored("its toJSON gives nothing");
  const bytes = text.length * 3 <= MOST_RESULT_BYTES ? 0 : new TextEncoder().encode(text).length;
  const told = took_ms >= MOST_UNTOLD_MS ? { took_ms } : {};
  if (bytes <= MOST_RESULT_BYTES) return { kind: "result", result: JSON.parse(text), ...told };
  const message = `What run() returned is ${bytes} bytes of JSON, at most ${MOST_RESULT_BYTES} can be stored: ` +
    "keep it elsewhere and return where";
  return failure("result", "InvalidResult", message);
}

function notStored(problem: string): FromBody {
  return failure("result", "InvalidResult", `What run() returned cannot be stored as JSON: ${problem}`);
}

function failure(phase: BodyError["phase"], name: string, message: string): FromBody {
  return { kind: "error", error: { phase, name, message, stack: "", causes: [], retry: "never" } };
}

function plainFields(fields: { [key: string]: unknown }): unknown {
  try {
    const text = JSON.stringify(fields, (_, value) => typeof value === "bigint" ? String(value) : value);
    return text.length <= MOST_LINE_BYTES
      ? JSON.parse(text)
      : { dropped: `fields of ${text.length} bytes, at most ${MOST_LINE_BYTES} are kept` };
  } catch (error) {
    return { dropped: `fields that are not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}
