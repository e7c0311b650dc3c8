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
 * This file imports nothing, because it is loaded into every body.
 * @module
 */

/** Anything JSON can hold. What `run` returns is stored as the run's `result` and must be one of these (or undefined: stored as null). */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

/**
 * The part of the Standard Schema interface (https://standardschema.dev) that is used here. zod, valibot, arktype and
 * others implement it, so any of them can be given as `args`.
 */
export interface Schema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaAnswer<Output> | Promise<SchemaAnswer<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What a schema says of a value: the value it made of it, or the issues it has with it. */
export type SchemaAnswer<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One complaint of a schema, with the path to the value it is about. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** When the job runs. Times of day are in `timezone`, an IANA name; default "UTC". */
export type Schedule = ScheduleTime & {
  /** Names the schedule within its job; default: its kind, e.g. "dailyAt". Needed when a job has two of one kind. */
  id?: string;
  /** IANA time zone, such as "Asia/Tokyo". Default "UTC". */
  timezone?: string;
  /** Args for the runs of this schedule; default `{}`. */
  args?: Json;
  /**
   * What to do with slots that passed while nobody planned (all workers down): `skip` them all, run the `last` one
   * only (default), or run `all` that are younger than `within` seconds, at most `max` (default 100).
   */
  misfire?: "skip" | "last" | { all: true; within?: number; max?: number };
  /**
   * For times of day on the nights when a clock changes. `gap`: a time that does not exist runs `after` the gap
   * (default: 02:30 becomes 03:30), `before` it (01:30), or is a `skip`. `overlap`: a time that exists twice runs at
   * the `first` (default), the `second`, or `both`. Interval schedules and cron patterns with a `*` hour run through
   * such nights by elapsed time and ignore this.
   */
  dst?: { gap?: "after" | "before" | "skip"; overlap?: "first" | "second" | "both" };
  /**
   * Days on which it does not run, on the calendar of `timezone`: `"2026-12-31"`, `"12-25"` in every year, or inclusive ranges
   * of either, `"2026-12-29/2027-01-03"` or `"12-29/01-03"`. At most 366. Days of the week belong into `cron`.
   */
  exclude?: string | readonly string[];
  /**
   * Each run starts up to this many seconds after its slot, always the same for one slot, so that not everything starts on
   * the hour. 0 (default) to 86400, and less than the shortest time between two slots.
   */
  jitterSeconds?: number;
};

/** The kinds of schedules, each with its value. */
export interface ScheduleValues {
  /** Every n minutes, 1 to 1440, counted from midnight UTC 1970-01-01. */
  everyNMinutes: number;
  /** Once an hour at this minute, 0 to 59, of the zone's clock. */
  hourlyAtMinute: number;
  /** Once a day at "HH:MM", 24 hours. */
  dailyAt: string;
  /** Once a month, such as `{ day: "last", at: "02:30" }`. */
  monthlyOn: MonthlyTime;
  /** A cron pattern of five fields (or six, seconds first), as croner reads it. */
  cron: string;
}

/** A time of day on one day of each month. */
export interface MonthlyTime {
  /** 1 to 31, the `"last"` day, or a weekday: `{ nth: 2, weekday: "tue" }` is the second Tuesday. */
  day: number | "last" | {
    /** 1 to 5, or the `"last"` of the month. */
    nth: 1 | 2 | 3 | 4 | 5 | "last";
    /** Its first three letters. */
    weekday: "mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun";
  };
  /** "HH:MM", 24 hours. */
  at: string;
  /** In a month without that day it does not run (`"skip"`, the default), or on its `"last"` day. For a `day` that is a number. */
  ifMissing?: "skip" | "last";
}

/** One of the kinds of schedules; give exactly one. */
export type ScheduleTime = {
  [Kind in keyof ScheduleValues]:
    & Pick<ScheduleValues, Kind>
    & { [Other in Exclude<keyof ScheduleValues, Kind>]?: undefined };
}[keyof ScheduleValues];

/**
 * Events of one type that start runs, if it is not simply one run each. An event that is left without a run of its own says so
 * (`deno task events ls`); nothing is dropped without a trace.
 */
export interface EventTrigger {
  /** The event type, such as "device.changed". */
  type: string;
  /** Only events whose payload has these values; a list means any of them, and null also a field that is missing. Dots go deeper. */
  where?: Record<string, EventValue | readonly EventValue[]>;
  /** Debounce and throttle count for each key by itself; `{name}` is replaced by that field of the payload. Default: one for all. */
  key?: string;
  /**
   * One run, due when this many seconds have passed without a further event of the key, with the last payload. Until then it
   * is a run that waits, and can be seen and canceled. 0.1 to 604800.
   */
  debounceSeconds?: number;
  /** A debounced run is put off no longer than this after its first event, in seconds. Default: as long as events come. */
  maxWaitSeconds?: number;
  /**
   * The first event of a key starts a run at once, and further ones within so many seconds of that none. 0.1 to 604800; not
   * together with `debounceSeconds`.
   */
  throttleSeconds?: number;
}

/** What a field of a payload can be compared with. */
export type EventValue = string | number | boolean | null;

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
} as const;

/** The name of a priority. */
export type PriorityName = keyof typeof PRIORITIES;

/** A number from 0 (first) to 999 (last), a name, or a name with an offset such as `"admin.medium+2"`. Default "user.medium", 240. */
export type Priority = number | PriorityName | `${PriorityName}${"+" | "-"}${number}`;

/** How a failed attempt is tried again. */
export interface Retry {
  /** Tries after the first one; 0 (default) is none. Interruptions (a lost worker, a deploy) are not counted here. */
  max?: number;
  /** How often a run may be interrupted before it fails as `Quarantined`; 0: work that was lost is not begun again. Default 3. */
  interruptions?: number;
  /** Seconds before the first retry. Default 30. */
  backoffSeconds?: number;
  /** Each further wait is this many times longer. Default 2. */
  factor?: number;
  /** Each wait is changed at random by up to this share of itself, 0 to 1. Default 0.1. */
  jitter?: number;
  /**
   * Another policy for errors of this `name`, e.g. `{ ConnectError: { max: 3, backoffSeconds: 30 } }`. `otherNode`: the
   * next attempt is on another node than this one, if there is another.
   */
  on?: Record<string, { max: number; backoffSeconds?: number; otherNode?: boolean }>;
}

/**
 * What the body's process may do; nothing that is not named. Each becomes Deno's flag of the same name:
 * a list names hosts, paths or variables, and `true` means all of them.
 */
export interface Permissions {
  /** Hosts to connect to, `"host"` or `"host:port"`. */
  net?: readonly string[] | true;
  /** Paths to read; relative ones are below the project's folder. */
  read?: readonly string[] | true;
  /** Paths to write; relative ones are below the project's folder. The body's own `tempDir` needs no permission. */
  write?: readonly string[] | true;
  /** Environment variables of the worker that are handed to the body. */
  env?: readonly string[];
  /** Kinds of system information, such as `"hostname"`. */
  sys?: readonly string[] | true;
  /** Hosts to import code from at run time. */
  import?: readonly string[];
  /** What breaks the sandbox open: any program that may be run can do anything the worker's user can. */
  unsafe?: { run?: readonly string[] | true; ffi?: readonly string[] | true };
}

/** Writes lines to the run's log. `fields` are kept as JSON beside the message. */
export interface Log {
  debug(message: string, fields?: { [key: string]: Json | undefined }): void;
  info(message: string, fields?: { [key: string]: Json | undefined }): void;
  warn(message: string, fields?: { [key: string]: Json | undefined }): void;
  error(message: string, fields?: { [key: string]: Json | undefined }): void;
}

/** What `run` is given. */
export interface RunContext<Args> {
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
  /** 1 for the first try, and one more with each assignment after it. */
  attempt: number;
  /** The run's id: the same in every attempt, so a good idempotency key towards other systems. */
  jobRunId: number;
  /** The slot or instant this run was meant for, ISO 8601 in UTC. */
  scheduledFor: string;
  /** A private folder for this attempt, readable and writable by the body, removed when it ends. */
  tempDir: string;
}

/** The options of `defineJob`. */
export interface JobOptions<Input, Output, Result> {
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
  /** Seconds until the body is ended as TIMED_OUT. 1 to 604800; default 3600. */
  timeoutSeconds?: number;
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
  run(context: RunContext<Output>): Result | Promise<Result>;
}

/** What `defineJob` gives back: the options, and `delay`. */
export interface Job<Input = unknown, Output = unknown, Result = unknown> {
  readonly options: JobOptions<Input, Output, Result>;
  /** The job's name: its file's name without the extension. Undefined when the file was bundled into another. */
  readonly name: string | undefined;
  /**
   * Enqueues a run of this job, through the client that the application made first (`createClient` of
   * `dandori/client`). Gives the run's id.
   * @throws Error when no client was made yet.
   */
  delay(args: Input, options?: DelayOptions): Promise<{ id: number }>;
}

/** Options of one run, for `delay` and the client's `enqueue`. */
export interface DelayOptions {
  /** Overrides the job's priority. */
  priority?: Priority;
  /** Not before this instant. */
  runAt?: Date;
  /**
   * A second enqueue with the same key for the same job gives back the first run. Without one, an enqueue that is sent again,
   * because its reply was lost say, makes another run.
   */
  idempotencyKey?: string;
  /** Overrides the job's serial key. After a bulk that has the same key the run waits until all of that has ended. */
  serialKey?: string;
  /** The node that must run it. */
  node?: string;
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

/** Declares a job; the default export of a job file. Checked by `deno task sync`, so it throws nothing itself. */
export function defineJob<Input = unknown, Output = Input, Result = unknown>(
  options: JobOptions<Input, Output, Result>,
): Job<Input, Output, Result> {
  const name = callersName();
  const job: Job<Input, Output, Result> = {
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
