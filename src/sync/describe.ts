/**
 * What a job file declares -> the columns of its definition, or everything that is wrong with it, all at once.
 *
 * The file's top level runs in a sandbox without any permission and with a deadline; only what comes out of that, plain
 * JSON, is read here. The job's `run` is not called, and nothing that the file says is code to us.
 */
import type { Described, Description, ProcessPool } from "../sandbox/process_pool.ts";
import type { DefinitionSetting, ScheduleSetting } from "../definitions/definition_rows.ts";
import type { Complaint } from "../job_options/complaint.ts";
import { readOptions } from "../job_options/job_schema.ts";
import type { JobFile } from "./job_files.ts";
import { isRecord, shown } from "../platform/shown.ts";
import { KIND_OPTIONS, kindStored } from "../schedule_kinds/kinds.ts";
import { placeOf, type SyncProblem } from "./problem.ts";
import { unknownFields } from "./unknown_fields.ts";
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
  if (job && complaints.length === 0) return { ok: true, job };
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

interface Reading {
  digest: string;
  now: Temporal.Instant;
  complaints: Complaint[];
}

function jobOf(
  file: JobFile,
  description: Description,
  { digest, now, complaints }: Reading,
): DescribedJob | undefined {
  const { options, args_schema } = description;
  const read = readOptions(options, now);
  if (!read.ok) complaints.push(...read.complaints);
  else if (JSON.stringify([options, args_schema]).match(/(?<!\\)(\\\\)*\\u(0000|d[89a-f])/i)) {
    complaints.push({
      key: "",
      reason: "The job holds a text with \\u0000 or half a surrogate pair",
      fix: "remove it: Postgres cannot store it",
    });
  }
  const warnings = argsWarnings(description, read.ok ? read.schedules : [], complaints);
  if (!read.ok) return undefined;
  const { columns, schedules } = read;
  const definition: DefinitionSetting = {
    name: file.name,
    command_name: file.command_name,
    type: schedules.length > 0 ? "time" : columns.event_types.length > 0 ? "event" : "demand",
    ...columns,
    args_schema,
    digest,
  };
  return { definition, schedules, warnings: [...cautionsOf(schedules), ...warnings, ...unknownFields(definition)] };
}

/** Args that a schedule gives and that do not fit are a mistake; no args where some are needed may be on purpose. */
function cautionsOf(schedules: ScheduleSetting[]): string[] {
  return schedules.flatMap(({ schedule_id, schedule_type, schedule_value }) => {
    const caution = kindStored(schedule_type).caution?.(schedule_value);
    return caution ? [`schedule "${schedule_id}": ${caution}`] : [];
  });
}

function argsWarnings(description: Description, schedules: ScheduleSetting[], complaints: Complaint[]): string[] {
  const warnings = schedules.flatMap(({ schedule_id, args_json }) =>
    unknownKeys(description.args_schema, args_json).map((key) =>
      `schedule "${schedule_id}" gives args with an ${unknownKeyText(key)}`
    )
  );
  const { schedule = [] } = description.options as { schedule?: unknown };
  const given = [schedule].flat() as Record<string, unknown>[];
  for (const { place, problem } of description.schedule_args_problems) {
    const { id, args, ...times } = given[place] ?? {};
    const name = String(id ?? KIND_OPTIONS.find((option) => times[option] !== undefined) ?? "");
    if (isRecord(args) && Object.keys(args).length > 0) {
      const key = "schedule";
      const reason = `schedule ${shown(name)} gives args that do not fit: ${problem}`;
      complaints.push({ key, reason, fix: "correct the args of this schedule" });
    } else {
      warnings.push(`schedule "${name}" gives no args, and {} does not fit: ${problem}; each of its runs will fail`);
    }
  }
  return warnings;
}
