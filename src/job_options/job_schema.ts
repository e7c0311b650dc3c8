/**
 * The options of `defineJob`, once: what each takes, what holds when it is left out, what it does, and the columns that it becomes.
 * Sync and overrides check by it, and the table in docs/jobs.md, the columns and what the pages show of a job derive from it.
 * The types of job.ts say the same for people who write job files; a test compares both at compile time.
 */
import { z } from "zod";
import type { DefinitionSetting, ScheduleSetting } from "../definitions/definition_rows.ts";
import { type Job, type Json, type Priority, priorityNumber } from "../job.ts";
import { isRecord, shown } from "../platform/shown.ts";
import { permissionsSchema } from "../sandbox/permissions.ts";
import {
  type Broken,
  into,
  merged,
  MOST,
  number,
  rule,
  ruleOfAll,
  template,
  text,
  WEEK_SECONDS,
  whole,
} from "./building.ts";
import type { Complaint } from "./complaint.ts";
import { complaintsOf } from "./issues.ts";
import { eventsSchema } from "./event_options.ts";
import { known } from "./option_node.ts";
import { schedulesSchema, wrongByClock } from "./schedule_options.ts";

/** What a file says, without what its surroundings say: its name, its schema of args, its digest. */
export type OptionColumns = Omit<DefinitionSetting, "name" | "command_name" | "type" | "args_schema" | "digest">;

const MOST_RETRIES = 1000;
/** Ten years, in seconds. */
const LONGEST_DEADLINE = 315_360_000;

const priority = z.custom<Priority>((value) => {
  try {
    return Number.isInteger(priorityNumber(value as Priority));
  } catch {
    return false;
  }
}).default("user.medium").transform((value) => priorityNumber(value));

const backoff = number(0, WEEK_SECONDS);

const retryOn = z.record(
  z.string(),
  known(
    z.strictObject({
      max: known(whole(0, MOST_RETRIES), { missing: "say how often to try again, e.g. max: 3" }),
      backoffSeconds: backoff.optional(),
      otherNode: z.boolean().optional(),
    }),
    { meant: (value) => typeof value === "number" ? { max: value } : undefined },
  ),
).default({}).transform((policies): DefinitionSetting["retry_on"] =>
  Object.fromEntries(
    Object.entries(policies).map(([error, { otherNode, ...policy }]) => [
      error,
      otherNode ? { ...policy, otherNode } : policy,
    ]),
  )
);

const retry = known(
  z.strictObject({
    max: into("max_retries", whole(0, MOST_RETRIES).default(0), {
      about: "Attempts after the first one. Interruptions do not count.",
      settable: true,
    }),
    backoffSeconds: into("retry_backoff_seconds", backoff.default(30), {
      about: "Seconds before the first retry.",
      settable: true,
    }),
    factor: into("retry_factor", number(1, 100).default(2), { about: "Each further wait is so many times longer." }),
    jitter: into("retry_jitter", number(0, 1).default(0.1), {
      about: "Each wait is changed at random by up to this share of itself.",
    }),
    on: into("retry_on", retryOn, {
      about:
        "Another policy for errors of a `name`; `otherNode`: the next attempt is on another node, if there is one.",
      takes: "`{ ConnectError: { max, backoffSeconds, otherNode } }`",
      otherwise: "none",
      wrong: (value) => ({
        reason: `must be an object: current value is ${shown(value)}`,
        fix: "write on: { ErrorName: { max: 3 } }",
      }),
    }),
    interruptions: into("max_interruptions", whole(0, MOST_RETRIES).default(3), {
      about: "How often a run may be interrupted before it fails as `Quarantined`.",
    }),
  }).prefault({}).transform(merged),
  { meant: (value) => typeof value === "number" ? { max: value } : undefined },
);

const POLICIES = { allow: "allow", forbid: "forbid", replace: "replace", queueOne: "queue_one" } as const;
export const POLICY_NAMES = ["allow", "forbid", "replace", "queueOne"] as const;

const limited = z.strictObject({
  limit: known(whole(1, MOST), {
    about: "Active runs of the job at once, for each `key` if there is one.",
    missing: "say how many may run at once, e.g. limit: 3",
    columns: ["concurrency_limit"],
    settable: true,
  }),
  key: known(template(), { about: "What `limit` counts by.", columns: ["concurrency_key"] }).optional(),
});

const concurrency = known(
  z.union([z.enum(POLICY_NAMES), limited]).default("allow").transform(concurrencyColumns),
  {
    about:
      "For slots of schedules while a run is active: start beside it, skip the slot, replace the run, or queue one. " +
      "Events and enqueued runs of all but `allow` wait.",
    columns: ["concurrency_policy"],
    settable: true,
    meant: (value) => typeof value === "number" ? { limit: value } : undefined,
  },
);

type ConcurrencyColumn = "concurrency_policy" | "concurrency_limit" | "concurrency_key";

function concurrencyColumns(
  given: keyof typeof POLICIES | z.output<typeof limited>,
): Pick<OptionColumns, ConcurrencyColumn> {
  return isRecord(given)
    ? { concurrency_policy: "allow", concurrency_limit: given.limit, concurrency_key: given.key ?? null }
    : { concurrency_policy: POLICIES[given], concurrency_limit: null, concurrency_key: null };
}

const rate = known(
  z.strictObject({
    count: known(whole(1, MOST), {
      about: "Starts in each `seconds`, spread evenly.",
      missing: "say how many may start, e.g. count: 60",
    }),
    seconds: known(number(0.001, WEEK_SECONDS), { about: "The time in which `count` may start." }).default(1),
  }).optional().transform((given) => ({
    rate_count: given?.count ?? null,
    rate_seconds: given?.seconds ?? null,
  })),
  {
    columns: ["rate_count", "rate_seconds"],
    settable: true,
    meant: (value) => typeof value === "number" ? { count: value, seconds: 1 } : undefined,
  },
);

const amount = whole(1, MOST);
const resourceName = text(100);

const resources = known(z.record(resourceName, amount), {
  whole: true,
  wrong: (value) => {
    const wrong = Object.entries(isRecord(value) ? value : {}).find(([name, n]) =>
      !resourceName.safeParse(name).success || !amount.safeParse(n).success
    );
    return {
      reason: `must say how many of what a run takes, whole numbers from 1: found ${
        shown(wrong ? Object.fromEntries([wrong]) : value)
      }`,
      fix: "write resources: { license: 1 }",
    };
  },
}).default({});

const isolation = known(
  z.union([
    z.literal("process"),
    z.strictObject({
      reuse: known(whole(1, MOST), {
        about: "Runs that one process serves, one after another.",
        missing: "say how many runs a process serves, e.g. reuse: 100",
        columns: ["isolation_reuse"],
      }),
    }),
  ]).default("process").transform((given) => ({ isolation_reuse: isRecord(given) ? given.reuse : 0 })),
  {
    about: "A fresh process for each attempt, or one that is reused.",
    takes: '`"process"` or `{ reuse }`',
    wrong: (value) => ({
      reason: `must be "process" or { reuse: n }: current value is ${shown(value)}`,
      fix: "leave it out for a fresh process each time",
    }),
  },
);

const message = z.strictObject({
  schema: known(z.custom<Json>(), {}),
  from: known(z.enum(["emit"]), { about: "Tokens of scope emit may send it." }).optional(),
});

const messages = known(z.record(z.string(), message).check(rule(notNames)), {}).default({});

function notNames(messages: Record<string, unknown>): Broken[] {
  return Object.keys(messages).filter((name) => !/^[a-z0-9][a-z0-9_.-]{0,63}$/.test(name)).map((name) => ({
    path: [name],
    reason: "is no name of a message",
    fix: 'give 1 to 64 lower case letters, digits, "_", "." or "-", such as "approval"',
  }));
}

const jobNames = known(z.array(z.string()).min(1), {
  whole: true,
  wrong: (value) => ({
    reason: `must be names of jobs, at least one: found ${shown(value)}`,
    fix: 'write after: ["nightly"], or after: { jobs: ["load_orders", "load_users"], when: "end" }',
  }),
});

const after = known(
  z.union([
    z.string(),
    jobNames,
    z.strictObject({
      jobs: jobNames,
      when: known(z.enum(["success", "failure", "end"]).default("success"), {
        about: "All have succeeded, one has not, or whatever came of them.",
        columns: ["after_when"],
      }),
    }),
  ]).default([]).transform((given): Pick<OptionColumns, "after_jobs" | "after_when"> => {
    const { jobs, when } = isRecord(given) ? given : { jobs: [given].flat(), when: "success" as const };
    return { after_jobs: [...new Set(jobs as string[])].sort(), after_when: when as OptionColumns["after_when"] };
  }),
  {
    about: "One run once other jobs' runs have ended that come from the same slot, event or request.",
    takes: "a job's name, a list, or `{ jobs, when }`",
    otherwise: "none",
    columns: ["after_jobs"],
  },
);

const SHAPE = {
  description: into("description", text(500).default(""), {
    about: "One line for lists and pages.",
    otherwise: "empty",
  }),
  schedule: schedulesSchema.default([]),
  on: eventsSchema,
  args: known(z.custom<Job["options"]["args"]>().optional(), {
    about: "A Standard Schema for the args.",
    takes: "schema",
    otherwise: "any JSON",
  }),
  priority: into("priority", priority, {
    about: "Lower goes first.",
    takes: "0 to 999, a name, or a name with an offset",
    otherwise: '`"user.medium"` (240)',
    settable: true,
    wrong: (value) => ({
      reason: `${shown(value)} is no priority`,
      fix: 'give a whole number from 0 (first) to 999 (last), or a name such as "admin.high" or "user.medium+5"',
      says: { code: "priority" },
    }),
  }),
  serialKey: into("serial_key", template().optional(), {
    about: "Runs with the same key are done one at a time, in order. `{name}` is that field of the args.",
    otherwise: "none",
  }),
  node: into("node", template().optional(), {
    about: "The node of its runs, or labels that it must have. `{name}` is that field of the args.",
    otherwise: "any",
    settable: true,
  }),
  timeoutSeconds: into("timeout_seconds", whole(1, WEEK_SECONDS).default(3600), {
    about: "Seconds until a body is ended as TIMED_OUT.",
    settable: true,
  }),
  killGraceSeconds: into("kill_grace_seconds", whole(0, 300).default(10), {
    about: "Seconds that a body has after its `signal`, and again from TERM to KILL.",
  }),
  deadlineSeconds: into("deadline_seconds", whole(1, LONGEST_DEADLINE).optional(), {
    about: "Seconds from a run's first start, waits and retries included, until it ends as TIMED_OUT.",
  }),
  retry,
  concurrency,
  rate,
  resources: into("resources", resources, {
    about: "What each run takes of things of which there is only so much.",
    takes: "`{ license: 2 }`",
    otherwise: "nothing",
  }),
  onFailure: into("on_failure", z.enum(["continue", "block"]).default("continue"), {
    about: "What a run that has failed for good means for those behind it in its serial key.",
  }),
  memoryMb: into("memory_mb", whole(64, 65_536).default(512), { about: "MiB of memory for what a body keeps." }),
  permissions: into(
    "permissions",
    known(permissionsSchema, {
      sentence: 'name what the body needs, e.g. permissions: { net: ["api.example.com:443"] }',
    }).default({}),
    {},
  ),
  isolation,
  messages: into("messages", messages, {
    about: "What may be sent to its runs: names, each with the schema of its payload or `{ schema, from }`.",
    takes: "`{ approval: schema }`",
    otherwise: "none",
  }),
  onChange: into("on_change", z.enum(["continue", "fail", "restart"]).default("continue"), {
    about: "What runs do that have recorded steps with other code than the file has now.",
  }),
  after,
  run: known(z.custom<Job["options"]["run"]>().optional(), {
    about: "The work itself.",
    takes: "function",
    otherwise: "must be given",
  }),
};

/** What `defineJob` is given, as JSON: the file's process has left out what is none. */
export const jobSchema = z.strictObject(SHAPE).check(ruleOfAll(across));

/** What one option says of another. */
function across({ onFailure, serialKey, concurrency }: Record<string, unknown>): Broken[] {
  const { on_failure } = Object(onFailure) as Partial<OptionColumns>;
  const { serial_key = null } = Object(serialKey) as Partial<OptionColumns>;
  const { concurrency_policy = "allow" } = Object(concurrency) as Partial<OptionColumns>;
  if (on_failure !== "block" || serial_key !== null || concurrency_policy !== "allow") return [];
  return [{
    path: ["onFailure"],
    reason: 'is "block", and there is no line of runs that it could block',
    fix: 'give the job a serialKey, e.g. serialKey: "device:{device}"',
  }];
}

export type ReadOptions = { ok: true; columns: OptionColumns; schedules: ScheduleSetting[] } | {
  ok: false;
  complaints: Complaint[];
};

/** Reads the options of a job, or says everything that is wrong with them; `now` is the database's clock. */
export function readOptions(given: unknown, now?: Temporal.Instant): ReadOptions {
  const parsed = jobSchema.safeParse(given);
  const complaints = parsed.success ? [] : complaintsOf(jobSchema, given, parsed.error.issues);
  const { schedule } = isRecord(given) ? given : {};
  const schedules = SHAPE.schedule.safeParse(schedule).data ?? []; // read also where others are wrong, so that all is told
  for (const [place, one] of now ? schedules.entries() : []) {
    complaints.push(
      ...wrongByClock(one, { at: Array.isArray(schedule) ? `schedule[${place}].` : "schedule.", now: now! }),
    );
  }
  if (!parsed.success || complaints.length > 0) return { ok: false, complaints };
  const { schedule: _, args: __, run: ___, ...columns } = parsed.data;
  return { ok: true, columns: merged(columns), schedules };
}
