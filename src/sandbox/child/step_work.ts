/**
 * A step: its work is done until it succeeds or its tries are used up, each failed try a row that is committed before the next begins.
 *
 *   (BEGUN, with `once` or `undo`) -> try -> DONE | FAILED
 *                                     try -> TRYING -> pause -> try
 *
 * A step that was interrupted is done again, and that is not counted; with `once` it has failed as Interrupted.
 */
import type { Json, Retry, StepOptions, StepTools } from "../../job.ts";
import { StepFailed, TimedOut } from "../../job.ts";
import type { JournalRow, OpenRow } from "../frames/step_frames.ts";
import { MOST_RESULT_BYTES } from "../frames.ts";
import { whyNotJson } from "../json_values.ts";
import type { DurableParts } from "./durable_parts.ts";
import { durationMs } from "./durations.ts";
import type { StepRequest } from "./journal.ts";
import { LINGER_MS } from "./open_waits.ts";
import { describeError } from "./thrown.ts";

/** As of a run; runs/retry_policy.ts. */
const LONGEST_PAUSE_SECONDS = 7 * 86_400;
const LONGEST_PAUSE_ASKED_SECONDS = 366 * 86_400;
const MOST_SUMMARY_CHARS = 8_000;

export interface StepPlan {
  key: string;
  kind: "step" | "undo";
  name: string;
  /** For other systems: the same in every try. */
  idempotency_key: string;
  work: (tools: StepTools) => unknown;
  options: StepOptions<never>;
  resolve(result: Json): void;
  reject(error: Error): void;
}

/** What ended a try. */
interface Failure {
  name: string;
  message: string;
  retry: "policy" | "never" | { after_seconds: number };
}

export class Step implements StepRequest {
  readonly key: string;
  readonly kind: "step" | "undo";
  readonly always: boolean;
  readonly #plan: StepPlan;
  readonly #parts: DurableParts;
  readonly #retry: Retry;
  readonly #timeout_ms: number | undefined;
  #failTry: (error: Error) => void = () => {};

  constructor(plan: StepPlan, parts: DurableParts) {
    const { key, kind, options } = plan;
    this.key = key;
    this.kind = kind;
    this.always = kind === "undo";
    this.#plan = plan;
    this.#parts = parts;
    const { retry, timeoutSeconds } = options;
    this.#retry = typeof retry === "object"
      ? retry
      : { ...parts.retry, ...(retry === undefined ? {} : { max: retry }) };
    this.#timeout_ms = timeoutSeconds === undefined ? undefined : durationMs(timeoutSeconds, `limit step "${key}" to`);
  }

  begin(open: OpenRow | undefined): void {
    const { once, undo } = this.#plan.options;
    if (open && once) return this.#interrupted(open);
    if (open?.state === "TRYING") return this.#pause(open.until_in_ms ?? 0, open.tries);
    if (open || (!once && !undo)) return void this.#try(1);
    const more = this.#has_undo;
    this.#parts.journal.write(
      { key: this.key, request: this.kind, state: "BEGUN", tries: 1, ...more },
      () => this.#unlessClosed(() => void this.#try(1)),
    );
  }

  deliver(row: JournalRow): void {
    const { name, resolve, reject } = this.#plan;
    if (row.state === "DONE") return resolve(row.result);
    const failed = { tries: row.tries, errorName: row.error_name ?? "Error", summary: row.error_summary ?? "" };
    reject(new StepFailed(name, failed, this.kind));
  }

  refuse(error: Error): void {
    this.#plan.reject(error);
  }

  /** Ends the try that runs. */
  fail(error: Error): void {
    this.#failTry(error);
  }

  get #has_undo(): { has_undo?: true } {
    return this.#plan.options.undo ? { has_undo: true } : {};
  }

  #unlessClosed(act: () => void): void {
    const { closed, journal } = this.#parts;
    if (closed && !this.always) journal.refuse(this, closed);
    else act();
  }

  async #try(tries: number): Promise<void> {
    const { host, working } = this.#parts;
    const began_ms = host.monotonicMs();
    working.add(this);
    let value: unknown;
    let thrown: { error: unknown } | undefined;
    try {
      value = await this.#timed(tries);
    } catch (error) {
      thrown = { error };
    }
    working.delete(this);
    if (thrown) this.#failed(describeError(thrown.error), tries);
    else this.#done(value, tries, host.monotonicMs() - began_ms);
  }

  async #timed(tries: number): Promise<unknown> {
    const { host } = this.#parts;
    const { promise, reject } = Promise.withResolvers<never>();
    this.#failTry = reject;
    let made: AbortController | undefined; // few ask for a signal
    const abort = () => made ??= new AbortController();
    const limit_ms = this.#timeout_ms;
    const cancel = limit_ms === undefined ? () => {} : host.later(
      () => {
        const error = new TimedOut(`it took more than ${limit_ms / 1000} s (timeoutSeconds of the step)`);
        abort().abort(new DOMException(error.message, "TimeoutError"));
        reject(error);
      },
      limit_ms,
      false,
    );
    const undoes = this.always; // after a cancel, whose signal has fired
    const tools = {
      key: this.#plan.idempotency_key,
      tries,
      fence: this.#parts.order.fence,
      get signal() {
        if (undoes) return abort().signal;
        return limit_ms === undefined ? host.signal() : AbortSignal.any([host.signal(), abort().signal]);
      },
    };
    try {
      return await Promise.race([dandoriStepWork(() => this.#call(tools)), promise]);
    } finally {
      cancel();
    }
  }

  #call(tools: StepTools): unknown {
    this.#parts.inside = true;
    try {
      return this.#plan.work(tools);
    } finally {
      this.#parts.inside = false;
    }
  }

  #done(value: unknown, tries: number, took_ms: number): void {
    const stored = storedText(value, `what step "${this.#plan.name}" returned`);
    if ("problem" in stored) {
      return this.#end({ name: "InvalidResult", message: stored.problem, retry: "never" }, tries);
    }
    const full = this.#parts.journal.whyNoRoom(stored.text.length);
    if (full) return this.#end({ name: "JournalFull", message: full, retry: "never" }, tries);
    this.#parts.journal.end(this, {
      ...{ key: this.key, request: this.kind, state: "DONE", tries, took_ms, ...this.#has_undo },
      result: JSON.parse(stored.text),
    });
  }

  #failed(failure: Failure & { stack: string; causes: string[]; denied?: string }, tries: number): void {
    const { host, journal } = this.#parts;
    const named = this.#retry.on && Object.hasOwn(this.#retry.on, failure.name)
      ? this.#retry.on[failure.name]
      : undefined;
    const most = this.#plan.options.once
      ? 0
      : Math.max(named?.max ?? this.#retry.max ?? 0, this.kind === "undo" ? 3 : 0);
    const is_last = tries > most || failure.retry === "never" || failure.denied !== undefined;
    const text = [
      `${this.kind} "${this.#plan.name}" failed (try ${tries} of ${
        is_last ? tries : most + 1
      }): ${failure.name}: ${failure.message}`,
      ...[failure.stack, ...failure.causes].filter(Boolean),
    ].join("\n");
    host.log(is_last ? "error" : "warn", text);
    if (is_last) return this.#end(failure, tries);
    const pause_ms = pauseMs(this.#retry, { failure, tries, luck: host.luck(), first: named?.backoffSeconds });
    journal.write(
      {
        ...{ key: this.key, request: this.kind, state: "TRYING", tries, until_in_ms: pause_ms, ...this.#has_undo },
        ...textsOf(failure),
      },
      () => this.#unlessClosed(() => this.#pause(pause_ms, tries)),
    );
  }

  #pause(ms: number, tries: number): void {
    const { host, waits, journal } = this.#parts;
    const next = () => void this.#try(tries + 1);
    if (ms <= 0) return next();
    waits.add(this.key, {
      until_ms: host.monotonicMs() + ms,
      lingers: ms <= LINGER_MS,
      onLimit: () => {
        waits.ended(this.key);
        next();
      },
      onArrival: next,
      refuse: (error) => journal.refuse(this, error),
    });
  }

  #interrupted({ tries }: OpenRow): void {
    const message = "it was begun and has no end: its worker ended meanwhile, and with `once` it is not done again";
    this.#end({ name: "Interrupted", message, retry: "never" }, tries);
  }

  #end(failure: Failure, tries: number): void {
    this.#parts.journal.end(this, {
      ...{ key: this.key, request: this.kind, state: "FAILED", tries, ...this.#has_undo },
      ...textsOf(failure),
    });
  }
}

/** Named so that it is found in the stack of what the work calls after an `await`. */
async function dandoriStepWork(call: () => unknown): Promise<unknown> {
  return await call();
}

/** Whether this is called from the work of a step, as far as its stack tells. */
export function isCalledByWork(): boolean {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 200;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return stack.includes("dandoriStepWork");
}

/** As JSON that Postgres can store. */
export function storedText(value: unknown, what: string): { text: string } | { problem: string } {
  const problem = whyNotJson(value ?? null, "it");
  if (problem) return { problem: `${what} cannot be stored as JSON: ${problem}` };
  const text = JSON.stringify(value ?? null) as string | undefined;
  if (text === undefined) return { problem: `${what} cannot be stored as JSON: its toJSON gives nothing` };
  if (/\\u0000|\\ud[89a-f]/i.test(text.replaceAll("\\\\", ""))) {
    return {
      problem: `${what} holds a text with \\u0000 or half a surrogate pair, which Postgres cannot store: remove it`,
    };
  }
  const bytes = text.length * 3 <= MOST_RESULT_BYTES ? 0 : new TextEncoder().encode(text).length;
  if (bytes <= MOST_RESULT_BYTES) return { text };
  return {
    problem:
      `${what} is ${bytes} bytes of JSON, at most ${MOST_RESULT_BYTES} can be stored: keep it elsewhere and give where`,
  };
}

function textsOf({ name, message }: Failure): { error_name: string; error_summary: string } {
  const storable = (text: string) => text.replaceAll("\0", "\uFFFD").toWellFormed();
  return { error_name: storable(name), error_summary: storable(message.slice(0, MOST_SUMMARY_CHARS)) };
}

/** How long until the next try: what the error asks for, else the policy of its name, else the step's. */
export function pauseMs(
  retry: Retry,
  last: { failure: Failure; tries: number; luck: number; first: number | undefined },
): number {
  const { failure, tries, luck, first = retry.backoffSeconds ?? 30 } = last;
  if (typeof failure.retry === "object") {
    return Math.min(failure.retry.after_seconds, LONGEST_PAUSE_ASKED_SECONDS) * 1000;
  }
  const factor = Math.min((retry.factor ?? 2) ** (tries - 1), Number.MAX_VALUE);
  const seconds = Math.min(first * factor, LONGEST_PAUSE_SECONDS);
  return seconds * 1000 * (1 + (retry.jitter ?? 0.1) * (2 * luck - 1));
}
