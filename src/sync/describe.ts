/**
 * What a job file declares -> the columns of its definition, or everything that is wrong with it, all at once.
 *
 * The file's top level runs in a sandbox without any permission and with a deadline; only what comes out of that, plain
 * JSON, is read here. The job's `run` is not called, and nothing that the file says is code to us.
 */
import { type Permissions, type Priority, priorityNumber } from "../job.ts";
import { problemsInPermissions } from "../sandbox/permissions.ts";
import type { Described, Description, ProcessPool } from "../sandbox/process_pool.ts";
import type { DefinitionSetting, ScheduleSetting } from "../definitions/definition_rows.ts";
import { eventsOf } from "./event_options.ts";
import { flowOf, templateOf, unknownFields } from "./flow_options.ts";
import type { JobFile } from "./job_files.ts";
import { isPlainObject, Options } from "./option_reader.ts";
import { shown } from "../platform/shown.ts";
import { KIND_OPTIONS, kindStored } from "../schedule_kinds/kinds.ts";
import { type Complaint, placeOf, type SyncProblem } from "./problem.ts";
import { parseSchedule } from "./schedule_input.ts";
import { unknownKeys, unknownKeyText } from "./unknown_keys.ts";

/** Long enough to load a large library on a busy machine, short enough to be waited for. */
const DESCRIBE_MS = 10_000;

/** What a file says of its job: a definition, and what a sync should warn of. */
export interface DescribedJob {
  definition: DefinitionSetting;
  schedules: ScheduleSetting[];
  warnings: string[];
}

export type DescribeAnswer = { ok: true; job: DescribedJob } | { ok: false; problems: SyncProblem[] };

/** Describes one job file; `digest` is that of its graph, `now` the database's clock. */
export async function describeJob(
  file: JobFile,
  on: { sandbox: Pick<ProcessPool, "describe">; digest: string; now: Temporal.Instant; describe_ms?: number },
): Promise<DescribeAnswer> {
  const described = await on.sandbox.describe(file.path, on.describe_ms ?? DESCRIBE_MS);
  if (!described.ok) return { ok: false, problems: [refusalOf(file, described)] };
  const complaints: Complaint[] = [];
  const job = jobOf(file, described.description, { ...on, complaints });
  if (complaints.length === 0) return { ok: true, job };
  const source = await Deno.readTextFile(file.path).catch(() => "");
  return {
    ok: false,
    problems: complaints.map((complaint) => ({
      file: file.command_name,
      ...placeOf(source, complaint),
      reason: complaint.reason,
      fix: complaint.fix,
    })),
  };
}

const FIXES: Record<Exclude<Described, { ok: true }>["kind"], string> = {
  syntax: "correct the file; `deno check` shows the place",
  threw: "a job file may only declare things when it is loaded, without permissions: move what it does into run()",
  timeout: "a job file may only declare things when it is loaded: move loops and waiting into run()",
  no_default: "end the file with `export default defineJob({ ... })`, or begin its name with _ if it is no job",
  not_a_job: 'export what defineJob({ ... }) of "dandori" gave you',
  invalid: "correct the option",
  crashed: "a job file may only declare things when it is loaded: move what it does into run()",
};

function refusalOf(file: JobFile, refused: Exclude<Described, { ok: true }>): SyncProblem {
  return {
    file: file.command_name,
    ...(refused.line === undefined ? {} : { line: refused.line }),
    ...(refused.column === undefined ? {} : { column: refused.column }),
    reason: refused.reason,
    fix: FIXES[refused.kind],
  };
}

const KEYS = [
  "description",
  "schedule",
  "on",
  "args",
  "priority",
  "serialKey",
  "node",
  "timeoutSeconds",
  "killGraceSeconds",
  "retry",
  "concurrency",
  "rate",
  "resources",
  "onFailure",
  "memoryMb",
  "permissions",
  "isolation",
  "run",
];

interface Reading {
  digest: string;
  now: Temporal.Instant;
  complaints: Complaint[];
}

function jobOf(file: JobFile, description: Description, on: Reading): DescribedJob {
  const options = new Options(description.options, on.complaints);
  options.onlyKnows(KEYS);
  const schedules = schedulesOf(options, on);
  const events = eventsOf(options, on.complaints);
  const definition: DefinitionSetting = {
    name: file.name,
    command_name: file.command_name,
    type: schedules.length > 0 ? "time" : events.event_types.length > 0 ? "event" : "demand",
    description: options.text("description", 500) ?? "",
    ...events,
    args_schema: description.args_schema,
    serial_key: templateOf(options, "serialKey"),
    ...workOf(options, on.complaints),
    memory_mb: options.number("memoryMb", { least: 64, most: 65_536, default: 512, whole: true }),
    permissions: permissionsOf(options, on.complaints),
    isolation_reuse: isolationOf(options, on.complaints),
    digest: on.digest,
  };
  if (JSON.stringify([definition, schedules]).match(/(?<!\\)(\\\\)*\\u(0000|d[89a-f])/i)) {
    options.complain(
      "",
      "The job holds a text with \\u0000 or half a surrogate pair",
      "remove it: Postgres cannot store it",
    );
  }
  const warnings = [
    ...cautionsOf(schedules),
    ...argsWarnings(options, description, schedules),
    ...unknownFields(definition),
  ];
  return { definition, schedules, warnings };
}

function schedulesOf(options: Options, on: Reading): ScheduleSetting[] {
  const given = options.raw("schedule");
  const list = given === undefined ? [] : Array.isArray(given) ? given : [given];
  const schedules: ScheduleSetting[] = [];
  list.forEach((input, place) => {
    const at = Array.isArray(given) ? `schedule[${place}].` : "schedule.";
    const parsed = parseSchedule(input, { at, now: on.now });
    if (!parsed.ok) return void on.complaints.push(...parsed.complaints);
    const { schedule_id } = parsed.schedule;
    if (schedules.some((other) => other.schedule_id === schedule_id)) {
      options.complain(
        `schedule[${place}]`,
        `has the id ${shown(schedule_id)} of another schedule`,
        'give each schedule of a job an id of its own, such as id: "nightly"',
      );
    }
    schedules.push(parsed.schedule);
  });
  return schedules;
}

function priorityOf(options: Options): number {
  const value = options.raw("priority") ?? "user.medium";
  try {
    if (typeof value !== "number" && typeof value !== "string") throw new RangeError("neither a number nor a text");
    return priorityNumber(value as Priority);
  } catch {
    options.complain(
      "priority",
      `${shown(value)} is no priority`,
      'give a whole number from 0 (first) to 999 (last), or a name such as "admin.high" or "user.medium+5"',
      { code: "priority" },
    );
    return 0;
  }
}

/** How its runs are done, each option by itself: those that an operator may set beside the file are among them. */
export function workOf(options: Options, complaints: Complaint[]) {
  return {
    priority: priorityOf(options),
    node: templateOf(options, "node"),
    timeout_seconds: options.number("timeoutSeconds", { least: 1, most: 604_800, default: 3600, whole: true }),
    kill_grace_seconds: options.number("killGraceSeconds", { least: 0, most: 300, default: 10, whole: true }),
    ...retryOf(options, complaints),
    ...flowOf(options, complaints),
  };
}

type RetryColumns = Pick<
  DefinitionSetting,
  "max_retries" | "retry_backoff_seconds" | "retry_factor" | "retry_jitter" | "retry_on" | "max_interruptions"
>;

const MOST_RETRIES = 1000;
const LONGEST_BACKOFF = { least: 0, most: 604_800, default: 30 };

function retryOf(options: Options, complaints: Complaint[]): RetryColumns {
  const given = options.raw("retry") ?? { max: 0 };
  const retry = new Options(given, complaints, "retry.", typeof given === "number" ? { max: given } : undefined);
  retry.onlyKnows(["max", "backoffSeconds", "factor", "jitter", "on", "interruptions"]);
  return {
    max_retries: retry.number("max", { least: 0, most: MOST_RETRIES, default: 0, whole: true }),
    retry_backoff_seconds: retry.number("backoffSeconds", LONGEST_BACKOFF),
    retry_factor: retry.number("factor", { least: 1, most: 100, default: 2 }),
    retry_jitter: retry.number("jitter", { least: 0, most: 1, default: 0.1 }),
    retry_on: retryOnOf(retry, complaints),
    max_interruptions: retry.number("interruptions", { least: 0, most: MOST_RETRIES, default: 3, whole: true }),
  };
}

function retryOnOf(retry: Options, complaints: Complaint[]): DefinitionSetting["retry_on"] {
  const on = retry.raw("on") ?? {};
  if (!isPlainObject(on)) {
    retry.complain("on", `must be an object: current value is ${shown(on)}`, "write on: { ErrorName: { max: 3 } }");
    return {};
  }
  return Object.fromEntries(
    Object.entries(on).map(([error_name, policy]) => {
      const meant = typeof policy === "number" ? { max: policy } : undefined;
      const one = new Options(policy, complaints, `retry.on.${error_name}.`, meant);
      one.onlyKnows(["max", "backoffSeconds", "otherNode"]);
      if (isPlainObject(policy) && !one.has("max")) {
        one.complain("max", "is missing", "say how often to try again, e.g. max: 3");
      }
      if (one.has("otherNode") && typeof one.raw("otherNode") !== "boolean") {
        one.complain(
          "otherNode",
          `must be true or false: current value is ${shown(one.raw("otherNode"))}`,
          "write true",
        );
      }
      return [error_name, {
        max: one.number("max", { least: 0, most: MOST_RETRIES, default: 0, whole: true }),
        ...(one.has("backoffSeconds") ? { backoffSeconds: one.number("backoffSeconds", LONGEST_BACKOFF) } : {}),
        ...(one.raw("otherNode") === true ? { otherNode: true } : {}),
      }];
    }),
  );
}

function permissionsOf(options: Options, complaints: Complaint[]): Permissions {
  const permissions = options.raw("permissions") ?? {};
  const problems = problemsInPermissions(permissions);
  for (const reason of problems) {
    const key = /^[\w.]+/.exec(reason)?.[0] ?? "permissions";
    complaints.push({
      key,
      reason,
      fix: 'name what the body needs, e.g. permissions: { net: ["api.example.com:443"] }',
    });
  }
  return problems.length === 0 ? permissions as Permissions : {};
}

function isolationOf(options: Options, complaints: Complaint[]): number {
  const isolation = options.raw("isolation") ?? "process";
  if (isolation === "process") return 0;
  if (isPlainObject(isolation)) {
    const reuse = new Options(isolation, complaints, "isolation.");
    reuse.onlyKnows(["reuse"]);
    return reuse.number("reuse", { least: 1, most: 1_000_000, default: 1, whole: true });
  }
  options.complain(
    "isolation",
    `must be "process" or { reuse: n }: current value is ${shown(isolation)}`,
    "leave it out for a fresh process each time",
  );
  return 0;
}

/** Args that a schedule gives and that do not fit are a mistake; no args where some are needed may be on purpose. */
function cautionsOf(schedules: ScheduleSetting[]): string[] {
  return schedules.flatMap(({ schedule_id, schedule_type, schedule_value }) => {
    const caution = kindStored(schedule_type).caution?.(schedule_value);
    return caution ? [`schedule "${schedule_id}": ${caution}`] : [];
  });
}

function argsWarnings(options: Options, description: Description, schedules: ScheduleSetting[]): string[] {
  const warnings = schedules.flatMap(({ schedule_id, args_json }) =>
    unknownKeys(description.args_schema, args_json).map((key) =>
      `schedule "${schedule_id}" gives args with an ${unknownKeyText(key)}`
    )
  );
  const given = [options.raw("schedule") ?? []].flat() as Record<string, unknown>[];
  for (const { place, problem } of description.schedule_args_problems) {
    const schedule = String(
      given[place]?.id ?? KIND_OPTIONS.find((option) => given[place]?.[option] !== undefined) ?? "",
    );
    const found = schedules.find((one) => one.schedule_id === schedule);
    if (found && Object.keys(found.args_json).length > 0) {
      options.complain(
        "schedule",
        `${shown(schedule)} gives args that do not fit: ${problem}`,
        "correct the args of this schedule",
      );
    } else {
      warnings.push(
        `schedule "${schedule}" gives no args, and {} does not fit: ${problem}; each of its runs will fail`,
      );
    }
  }
  return warnings;
}
