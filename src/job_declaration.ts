/**
 * What a job file declares, as types: schedules, events, retries, permissions, messages. `dandori` exports all of it (job.ts).
 *
 * Types only, and nothing is imported: a body loads nothing of this file.
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

/** The name of a priority. */
export type PriorityName =
  | "admin.high"
  | "user.high"
  | "system.high"
  | "admin.medium"
  | "user.medium"
  | "system.medium"
  | "admin.low"
  | "user.low"
  | "system.low";

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
  /** Jobs that the body may `call` or `start`: their names, `"mail_*"` for all that begin so, or all. Default: none. */
  call?: readonly string[] | true;
  /** What breaks the sandbox open: any program that may be run can do anything the worker's user can. */
  unsafe?: { run?: readonly string[] | true; ffi?: readonly string[] | true };
}

/** What a message's payload must be, and who may send it besides those who operate the run. */
export type MessageSchema<Payload> = Schema<unknown, Payload> | {
  schema: Schema<unknown, Payload>;
  /** Tokens of scope emit may send it. */
  from?: "emit";
};

/** When a job runs after others. */
export interface After {
  /** All of their runs must have ended. */
  jobs: readonly string[];
  /** All have SUCCEEDED (`"success"`, the default), one has not (`"failure"`), or whatever came of them (`"end"`). */
  when?: "success" | "failure" | "end";
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
