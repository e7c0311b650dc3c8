/**
 * What `run` receives to be a workflow, as types: steps, sleeps, waits, calls of other jobs. `dandori` exports all of it.
 *
 * Each call of these is recorded, once it has an end, as a row of the run. A run that waits leaves its worker; when it goes on, `run` is
 * called again from its top, and what was recorded is given back in the recorded order. So what reaches outside of the process, or
 * must not differ the next time, belongs into a step.
 *
 * Types only, as job_declaration.ts: a body loads nothing of this file.
 * @module
 */
import type { DelayOptions, EventTrigger, Json, Retry } from "./job_declaration.ts";

/** What comes back of a value that was stored as JSON: a Date as its text, undefined as null. What JSON cannot hold is a type that nothing fits. */
export type Stored<T> = T extends { toJSON(): infer J } ? Stored<J>
  : T extends string | number | boolean | null ? T
  : T extends undefined | void ? null
  : T extends bigint | symbol | ((...args: never[]) => unknown) | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
    ? { "cannot be stored": T }
  : T extends readonly (infer E)[] ? Stored<E>[]
  : T extends object ? { [K in keyof T]: StoredField<T[K]> }
  : T;

/** A field that is undefined is left out by JSON. */
type StoredField<T> = T extends undefined ? undefined : Stored<T>;

/** Seconds, or a text such as "90 s", "3 days" or "2 h 30 min". */
export type Duration = number | `${number} ${DurationUnit}` | (string & Record<never, never>);
type DurationUnit = "s" | "min" | "h" | "day" | "days" | "week" | "weeks";

/** How one step is done. */
export interface StepOptions<T> {
  /** Tells steps of one name in parallel apart, such as an id. */
  key?: string;
  /** Tries after the first, or a policy. Default: the job's. */
  retry?: number | Retry;
  /** Seconds that one try may take; then it has failed as `TimedOut`. Default: none but the job's. */
  timeoutSeconds?: number;
  /** At most once, whatever happens: no retry, and `Interrupted` when it was begun and not ended. It costs one more write. */
  once?: true;
  /**
   * Called when the run ends other than SUCCEEDED, in reverse order of the steps, with the step's result, or undefined where it may have
   * begun without one. Tried again as a step is, three times at least. It costs one more write.
   */
  undo?: (result: Stored<T> | undefined, tools: StepTools) => unknown;
}

/** What the work of a step is given. */
export interface StepTools {
  /** The same in every try and attempt, such as "dandori-812-charge": an idempotency key towards other systems. */
  key: string;
  /** 1 in the first try. */
  tries: number;
  /** Fires on cancel, at the job's timeout and at the step's. */
  signal: AbortSignal;
  /** As `fence` of the run: rises with each start. */
  fence: number;
}

/** How a message is waited for. */
export interface WaitOptions {
  /** Undefined is given after it. Default: no limit. */
  timeout?: Duration;
  /** The question, for those who answer it on the page *Waiting for you*. */
  ask?: string;
  /** What is shown below the question. */
  show?: unknown;
  /** Who may answer: users, or `"role:operator"`. */
  who?: readonly string[];
  /** Who may not, e.g. the one who asked for it. */
  notBy?: string;
  /** Those who are asked are alerted again each time that it has passed. */
  remind?: Duration;
  /** The answer is `{ payload, sentBy }`. */
  withSender?: true;
}

/** A job, as far as a call of it needs to know. */
interface Callable {
  readonly name: string | undefined;
  readonly options: object;
  delay(args: never, options?: DelayOptions): Promise<{ id: number }>;
}

/** The args that a job takes. */
export type ArgsOf<J> = J extends { delay(args: infer A, options?: DelayOptions): unknown }
  ? [A] extends [never] ? unknown : A
  : unknown;

/** What the result of a job's run is, once it was stored. */
export type ResultOf<J> = J extends { readonly options: { run(context: never): infer R } } ? Stored<Awaited<R>>
  : unknown;

/** A job is called by itself or by its name: `call<typeof render>("render", ...)` does not load its file. */
export type NameOf<J> = J extends Callable ? string : never;

/** What came of a bulk of calls. */
export interface CallsDone<R> {
  /** Of the bulk. */
  id: number;
  succeeded: number;
  failed: number;
  /** Of those that succeeded, in the order of the list. */
  results(): AsyncIterable<R>;
}

/** What `run` receives in addition; `M`: the messages that the job takes. */
export interface Durable<M = Record<never, never>> {
  /**
   * Does something once: what `work` returned is recorded, and given back when `run` is called again.
   *
   * ```ts
   * import { defineJob } from "dandori";
   *
   * export default defineJob({
   *   async run({ step }) {
   *     const { id } = await step("make account", ({ key }) => ({ id: key })); // done once, whatever crashes
   *     return { account: id };
   *   },
   * });
   * ```
   *
   * @throws StepFailed when its tries are used up
   */
  step<T>(
    name: string,
    work: (tools: StepTools) => T | Promise<T>,
    options?: StepOptions<T>,
  ): Promise<Stored<T>>;
  /** Waits. From 5 s on the run leaves its worker meanwhile. */
  sleep(duration: Duration, name?: string): Promise<void>;
  /** Waits until an instant. */
  sleepUntil(when: Date | Temporal.Instant | Temporal.ZonedDateTime | string, name?: string): Promise<void>;
  /** The next message of this name, also one that was sent before; undefined after `timeout`. */
  waitFor<N extends keyof M & string, O extends WaitOptions = Record<never, never>>(
    name: N,
    options?: O,
  ): Promise<
    | (O extends { withSender: true } ? { payload: M[N]; sentBy: string } : M[N])
    | (O extends { timeout: Duration } ? undefined : never)
  >;
  /** The payload of the first event of this type since the run was created that matches; undefined after `timeout`. */
  waitForEvent(
    type: string,
    options?: { where?: EventTrigger["where"]; timeout?: Duration; name?: string },
  ): Promise<Json | undefined>;
  /**
   * Runs another job and gives its result. The job's `permissions.call` must name it.
   *
   * @throws ChildFailed when that run ended otherwise
   */
  call<J extends Callable>(job: J | NameOf<J>, args: ArgsOf<J>, options?: { key?: string }): Promise<ResultOf<J>>;
  /** Runs another job for each item, as a bulk, whose pace can be changed meanwhile. */
  callMany<J extends Callable>(
    job: J | NameOf<J>,
    list: Iterable<ArgsOf<J>>,
    options?: { parallel?: number; maxFailures?: number },
  ): Promise<CallsDone<ResultOf<J>>>;
  /** Starts a run of another job, which outlives this one. */
  start<J extends Callable>(
    job: J | NameOf<J>,
    args: ArgsOf<J>,
    options?: DelayOptions,
  ): Promise<{ id: number }>;
  /**
   * Calls `work` for each item, 10 at a time unless `parallel` says otherwise, in this process. What an item does is recorded under its
   * `key`, or its place. When all are done, those that failed are thrown as one `AggregateError`.
   */
  each<T, R>(
    items: Iterable<T>,
    work: (item: T, tools: Durable<M>, index: number) => R | Promise<R>,
    options?: { parallel?: number; key?: (item: T) => string },
  ): Promise<Stored<R>[]>;
  /** A URL at which anybody who has it sends this message, until the run ends or `expires`. */
  callbackUrl(name: keyof M & string, options?: { expires?: Duration }): Promise<string>;
  /** For changed code: false in a run that had passed here before the change was made, true in all others. */
  isNew(change: string): Promise<boolean>;
  /** The time of what was recorded last: the same when `run` is called again. */
  now(): Date;
  /** At least 0 and below 1, the same when `run` is called again. For no secrets. */
  random(): number;
  /** A UUID, the same when `run` is called again. For no secrets. */
  uuid(): string;
  /** Ends this run as SUCCEEDED, and a new one of the job goes on with these args and the messages that were not read. */
  again(args: unknown): Promise<never>;
}
