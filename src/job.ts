/**
 * What a job file imports, under the name `dandori`.
 *
 * A job is one TypeScript file in `jobs/` whose default export is `defineJob({ ... })`. The file's name is the job's
 * name. `deno task sync` reads the file in a sandbox without permissions and stores what it declares; `run` is called
 * later, on some worker, in a fresh Deno process that holds only the permissions named here.
 *
 * ```ts
 * import { defineJob } from "dandori";
 * import { z } from "zod";
 *
 * export default defineJob({
 *   description: "Add two numbers",
 *   args: z.object({ a: z.number(), b: z.number() }),
 *   run({ args }) {
 *     return { sum: args.a + args.b };
 *   },
 * });
 * ```
 *
 * This file imports nothing but types, because it is loaded into every body.
 * @module
 */
import type { Durable } from "./durable.ts";
import type {
  After,
  DelayOptions,
  EventTrigger,
  Json,
  MessageSchema,
  Permissions,
  Priority,
  PriorityName,
  Retry,
  Schedule,
  Schema,
} from "./job_declaration.ts";

export type * from "./durable.ts";
export type * from "./job_declaration.ts";

/** The nine named priorities. A lower number goes first. */
export const PRIORITIES = {
  "admin.high": 120,
  "user.high": 140,
  "system.high": 160,
  "admin.medium": 220,
  "user.medium": 240,
  "system.medium": 260,
  "admin.low": 320,
  "user.low": 340,
  "system.low": 360,
} as const satisfies Record<PriorityName, number>;

/** Writes lines to the run's log. `fields` are kept as JSON beside the message. */
export interface Log {
  debug(message: string, fields?: { [key: string]: Json | undefined }): void;
  info(message: string, fields?: { [key: string]: Json | undefined }): void;
  warn(message: string, fields?: { [key: string]: Json | undefined }): void;
  error(message: string, fields?: { [key: string]: Json | undefined }): void;
}

/** What `run` is given, besides what is needed to be a workflow (`Durable`). */
export interface AttemptContext<Args> {
  /** The args, as the schema made them. */
  args: Args;
  log: Log;
  /**
   * Shows how far the run is: `fraction` 0 to 1, and a few words. Resolves once it is on its way; cheap to call often.
   *
   * @throws RangeError where `fraction` is less than 0, more than 1 or no number, as `done / 0` is
   */
  progress(fraction: number, message?: string): Promise<void>;
  /** Fires on cancel and on timeout, before the process is terminated. */
  signal: AbortSignal;
  /**
   * A number that rises with every start of any run. Give it to what the body writes to, and let that refuse a
   * number lower than the last it saw: then a body that was thought dead can do no harm.
   */
  fence: number;
  /** 1 for the first try, and one more with each assignment after it, other than to go on after a wait. */
  attempt: number;
  /** The run's id: the same in every attempt, so a good idempotency key towards other systems. */
  jobRunId: number;
  /** The slot or instant this run was meant for, ISO 8601 in UTC. */
  scheduledFor: string;
  /** A private folder for this attempt, readable and writable by the body, removed when it ends. */
  tempDir: string;
}

/** All that `run` is given. */
export type RunContext<Args, Messages = Record<never, never>> = AttemptContext<Args> & Durable<Messages>;

/** The options of `defineJob`. */
export interface JobOptions<Input, Output, Result, Messages = Record<never, never>> {
  /** One line for lists and pages. */
  description?: string;
  /** One or more schedules. */
  schedule?: Schedule | readonly Schedule[];
  /** Event type, or types, that start a run; the event's payload becomes its args. With a rule: `{ type, ... }`. */
  on?: string | EventTrigger | readonly (string | EventTrigger)[];
  /** A Standard Schema for the args; without it any JSON is accepted. Args are JSON: a date is `z.coerce.date()`, not `z.date()`. */
  args?: Schema<Input, Output>;
  /** Default priority of its runs. */
  priority?: Priority;
  /**
   * Runs with the same key are done one at a time, retries included, by priority, due time and id.
   * `{name}` is replaced by that field of the args. An item of a bulk gets its key when it becomes a run: to keep what is asked for
   * after a bulk behind all of it, give both the same key (`serialKey` of the bulk's options, and of the run's).
   */
  serialKey?: string;
  /**
   * What a run that has failed for good means for those behind it in its serial key: `continue` (default), or `block`
   * them until an operator takes the stop away (`deno task queue unblock KEY`).
   */
  onFailure?: "continue" | "block";
  /**
   * The node its runs must be on, or labels that the node must have, such as `"gpu=a100,zone=tokyo"`. `{name}` is replaced
   * by that field of the args.
   */
  node?: string;
  /** What each run takes of things of which there is only so much, e.g. `{ license: 2 }`; runs wait while too little is left. */
  resources?: Record<string, number>;
  /**
   * The messages that a run takes (`waitFor`): their names, each with the schema of its payload, or with `{ schema, from: "emit" }` to let
   * tokens of scope emit send it. A name has lower case letters, digits, `_`, `.` and `-`, at most 64.
   */
  messages?: { readonly [Name in keyof Messages]: MessageSchema<Messages[Name]> };
  /**
   * For runs that have recorded steps with other code than the file has now: they `continue` (default) with the new code, where steps keep
   * their results by name; `fail` as `CodeChanged`; or `restart` and do all of it again.
   */
  onChange?: "continue" | "fail" | "restart";
  /** Runs once other jobs' runs have ended that come from the same schedule slot, event or request: `"nightly"`, or with a rule. */
  after?: string | readonly string[] | After;
  /** Seconds until the body is ended as TIMED_OUT, without the time that the run waits. 1 to 604800; default 3600. */
  timeoutSeconds?: number;
  /** Seconds from the run's first start, waits and retries included, until it ends as TIMED_OUT. Default: none. */
  deadlineSeconds?: number;
  /**
   * When a body is ended: seconds that it has after its `signal` if it has taken that, and again from TERM to KILL.
   * 0 to 300; default 10.
   */
  killGraceSeconds?: number;
  retry?: Retry;
  /**
   * For slots of schedules: `allow` (default) runs beside each other, `forbid` skips a slot while a run is active,
   * `queueOne` lets one slot wait for it, `replace` cancels the active one. Events and enqueued runs of all but `allow` wait.
   * Or how many of the job's runs may be active at once: `limit`, for each `key` if one is given, in which `{name}` is
   * replaced by that field of the args.
   */
  concurrency?: "allow" | "forbid" | "replace" | "queueOne" | { limit: number; key?: string };
  /** At most `count` starts in `seconds` (default 1), spread evenly. */
  rate?: { count: number; seconds?: number };
  /**
   * MiB of memory for what the body keeps (`--max-old-space-size` of V8); new objects take up to a tenth on top, Deno itself about 40.
   * 64 to 65536; default 512.
   */
  memoryMb?: number;
  permissions?: Permissions;
  /** `"process"` (default): a fresh process for each attempt. `{ reuse: n }`: one process serves n runs, one after another. */
  isolation?: "process" | { reuse: number };
  /** The work itself. What it returns is the run's result, what it throws its error. */
  run(context: RunContext<Output, Messages>): Result | Promise<Result>;
}

/** What `defineJob` gives back: the options, and `delay`. */
export interface Job<Input = unknown, Output = unknown, Result = unknown, Messages = Record<never, never>> {
  readonly options: JobOptions<Input, Output, Result, Messages>;
  /** The job's name: its file's name without the extension. Undefined when the file was bundled into another. */
  readonly name: string | undefined;
  /**
   * Enqueues a run of this job, through the client that the application made first (`createClient` of
   * `dandori/client`). Gives the run's id.
   * @throws Error when no client was made yet.
   */
  delay(args: Input, options?: DelayOptions): Promise<{ id: number }>;
}

/** Thrown by a body that knows trying again is useless: the run fails at once. */
export class Fatal extends Error {
  override name = "Fatal";
}

/** Thrown by a body that knows when to try again: the next attempt starts after `seconds`, within `retry.max`. */
export class RetryAfter extends Error {
  override name = "RetryAfter";
  /** Seconds to wait, 0 or more. */
  readonly seconds: number;
  constructor(seconds: number, message = `try again in ${seconds} s`) {
    super(message);
    this.seconds = seconds;
  }
}

/** Thrown by `step` when its tries are used up. A run that fails with it is not retried: its steps are not done again. */
export class StepFailed extends Error {
  override name = "StepFailed";
  /** The step's name. */
  readonly step: string;
  /** How often it was tried. */
  readonly tries: number;
  /** The name of the error that ended the last try. */
  readonly errorName: string;
  /** Its message. */
  readonly summary: string;
  constructor(step: string, failed: { tries: number; errorName: string; summary: string }, kind = "step") {
    const times = failed.tries > 1 ? ` ${failed.tries} times` : "";
    super(`${kind} "${step}" failed${times}: ${failed.errorName}: ${failed.summary}`);
    this.step = step;
    this.tries = failed.tries;
    this.errorName = failed.errorName;
    this.summary = failed.summary;
  }
}

/** Thrown by `call` when the run of the other job did not succeed. */
export class ChildFailed extends Error {
  override name = "ChildFailed";
  /** The id of that run. */
  readonly run: number;
  /** The name of its error. */
  readonly errorName: string;
  /** What its error says. */
  readonly summary: string;
  constructor(job: string, failed: { run: number; errorName: string; summary: string }) {
    super(`run ${failed.run} of "${job}" failed: ${failed.errorName}: ${failed.summary}`);
    this.run = failed.run;
    this.errorName = failed.errorName;
    this.summary = failed.summary;
  }
}

/** One try of a step, or the run, has taken longer than it may. */
export class TimedOut extends Error {
  override name = "TimedOut";
}

/** Thrown by what a run waits for, or asks for, after it was canceled. */
export class Canceled extends Error {
  override name = "Canceled";
}

/** Thrown by what a run waits for, or asks for, once its `deadlineSeconds` have passed. */
export class DeadlinePassed extends Error {
  override name = "DeadlinePassed";
}

/** Declares a job; the default export of a job file. Checked by `deno task sync`, so it throws nothing itself. */
export function defineJob<Input = unknown, Output = Input, Result = unknown, Messages = Record<never, never>>(
  options: JobOptions<Input, Output, Result, Messages>,
): Job<Input, Output, Result, Messages> {
  const name = callersName();
  const job: Job<Input, Output, Result, Messages> = {
    options,
    name,
    delay(args, delayOptions) {
      const enqueue = (globalThis as { [DELAY]?: Delay })[DELAY];
      if (!enqueue) {
        return Promise.reject(
          new Error(
            `Cannot delay "${name}": no client yet, call createClient({ databaseUrl }) of "dandori/client" first`,
          ),
        );
      }
      return enqueue(job as Job, args, delayOptions);
    },
  };
  return job;
}

/** The number of a priority. @throws RangeError when it names none. */
export function priorityNumber(priority: Priority): number {
  const [, name, offset] = typeof priority === "string" ? /^([a-z.]+)([+-]\d+)?$/.exec(priority) ?? [] : [];
  const base = typeof priority === "number" ? priority : PRIORITIES[name as PriorityName];
  const number = base + Number(offset ?? 0);
  if (Number.isInteger(number) && number >= 0 && number <= 999) return number;
  throw new RangeError(
    `Cannot use priority ${JSON.stringify(priority)}: give a whole number from 0 to 999, or one of ${
      Object.keys(PRIORITIES).join(", ")
    }, with an offset such as "+2" if you like`,
  );
}

/** How `delay` finds the client without importing it (it would pull Postgres into every body). */
export const DELAY: unique symbol = Symbol.for("dandori.delay") as never;

/** What the client leaves under `DELAY`. */
export type Delay = (job: Job, args: unknown, options?: DelayOptions) => Promise<{ id: number }>;

/** The file that called `defineJob` names the job; a stack is the only thing that knows it. */
function callersName(): string | undefined {
  const files = (new Error().stack ?? "").match(/(?:file|data|https?):[^\s()]+?\.(?:ts|tsx|js|mjs|mts)(?=[:)\s?])/g) ??
    [];
  const caller = files.find((file) => file !== import.meta.url);
  return caller && decodeURIComponent(caller.split("/").pop() as string).replace(/\.[^.]+$/, "");
}
