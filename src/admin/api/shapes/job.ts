/** Jobs and their schedules as the API gives them. */
import { SCHEDULE_KINDS } from "../../../schedule_kinds/kinds.ts";
import { count, id, jobName, json, priority, said, State, time, z } from "./fields.ts";

const word = z.string().nullable();

const TIMES = {
  schedule_type: z.enum(SCHEDULE_KINDS.map(({ type }) => type)),
  schedule_value: z.string().openapi({ example: "02:30" }),
  timezone: z.string().openapi({ example: "Asia/Tokyo" }),
};

const Schedule = z.looseObject({
  schedule_id: z.string().openapi({ description: "Its name within the job" }),
  ...TIMES,
  args_json: z.record(z.string(), json),
  misfire: json.openapi({ description: "What becomes of slots that passed while nobody planned" }),
  dst_gap: z.enum(["after", "before", "skip"]),
  dst_overlap: z.enum(["first", "second", "both"]),
  enabled: z.boolean(),
  last_slot: time.openapi({ description: "Every slot up to here was dealt with" }),
  next_slot: time.nullable().openapi({ description: "null: it never fires again" }),
}).openapi("Schedule");

/** The same schedule, with what stops it and what came of it last. */
export const ScheduleShown = z.looseObject({
  job_name: jobName,
  schedule_id: z.string(),
  ...TIMES,
  enabled: z.boolean().openapi({ description: "False: its job, or it, is switched off" }),
  paused_at: time.nullable(),
  paused_by: word.openapi({ description: "Who paused it, or its job" }),
  paused_reason: word.openapi({ description: "Why, as they said it" }),
  job_paused: z.boolean().openapi({ description: "It is the job that is paused" }),
  last_run: z.object({ id, state: State, scheduled_for: z.string() }).nullable().openapi({
    description: "The run of its newest slot",
  }),
}).openapi("ScheduleShown");

export const BackfillDone = z.object({
  dry_run: z.boolean(),
  plan: z.array(z.object({
    schedule: z.string().openapi({ example: "report/nightly" }),
    slots: count,
    first: time.nullable(),
    last: time.nullable(),
    exist: count.openapi({ description: "Slots that have a run" }),
    skipped: count.openapi({ description: "Of those, that ended SKIPPED and were not repeated" }),
    forgotten: count.openapi({ description: "Slots so old that their run may have been deleted: none is made" }),
    to_make: count,
  })),
  bulk_id: id.nullable().openapi({ description: "The bulk that its runs are; null: nothing was made" }),
  runs: count.openapi({ description: "So many were made, or in a dry run would be" }),
}).openapi("BackfillDone");

export const JobOptionShown = z.object({
  name: z.string().openapi({ description: "As in a job's file", example: "retry.max" }),
  value: json.openapi({ description: "What holds" }),
  file_value: json.openapi({ description: "What the file says, where something else is set; null: it has none" }),
  override: z.object({ set_at: time, set_by: z.string(), ...said("reason", z.string()) }).nullable().openapi({
    description: "null: the file's value holds",
  }),
}).openapi("JobOption");

export const OptionsChanged = z.object({
  items: z.array(z.object({ name: z.string(), before: json, value: json, file_value: json })),
}).openapi("OptionsChanged");

/** More may be added to it; what is named here stays. */
export const Job = z.looseObject({
  name: jobName,
  command_name: z.string().openapi({ description: "The file, relative to the jobs folder" }),
  type: z.enum(["time", "event", "demand"]),
  enabled: z.boolean(),
  removed_at: time.nullable().openapi({ description: "Its file is gone since; its runs stay" }),
  paused_at: time.nullable(),
  paused_by: word,
  paused_reason: word.openapi({ description: "Why, as they said it" }),
  description: z.string(),
  event_types: z.array(z.string()),
  args_schema: json.openapi({ description: "JSON Schema of its args; null: any" }),
  priority,
  serial_key: word,
  on_failure: z.enum(["continue", "block"]),
  node: word,
  resources: z.record(z.string(), count),
  timeout_seconds: count,
  kill_grace_seconds: count,
  max_retries: count,
  retry_backoff_seconds: z.number(),
  retry_factor: z.number(),
  retry_jitter: z.number(),
  retry_on: z.record(z.string(), json),
  max_interruptions: count,
  concurrency_policy: z.enum(["allow", "forbid", "replace", "queue_one"]),
  concurrency_limit: count.nullable(),
  concurrency_key: word,
  rate_count: count.nullable(),
  rate_seconds: z.number().nullable(),
  memory_mb: count,
  permissions: json,
  isolation_reuse: count,
  messages: json.openapi({
    description: "What may be sent to its runs, by name: the JSON Schema of its payload, and who may send it",
  }),
  after_jobs: z.array(jobName).openapi({ description: "It runs once the runs of these jobs in one group have ended" }),
  after_when: z.enum(["success", "failure", "end"]),
  on_change: z.enum(["continue", "fail", "restart"]),
  deadline_seconds: count.nullable(),
  digest: z.string().openapi({ description: "Of the file and all it imports" }),
  schedules: z.array(Schedule),
}).openapi("Job");

export const Preview = z.object({
  items: z.array(z.object({
    schedule_id: word,
    ...TIMES,
    slots: z.array(time),
    warnings: z.array(z.string()).openapi({ description: "Nights on which a clock changes and touches it" }),
  })),
}).openapi("SchedulePreview");
