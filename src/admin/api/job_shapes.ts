/** Jobs and their schedules as the API gives them. */
import { count, jobName, json, priority, time, z } from "./words.ts";

const word = z.string().nullable();

const TIMES = {
  schedule_type: z.enum(["every_n_minutes", "hourly_at_minute", "daily_at", "cron"]),
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

/** More may be added to it; what is named here stays. */
export const Job = z.looseObject({
  name: jobName,
  command_name: z.string().openapi({ description: "The file, relative to the jobs folder" }),
  type: z.enum(["time", "event", "demand"]),
  enabled: z.boolean(),
  removed_at: time.nullable().openapi({ description: "Its file is gone since; its runs stay" }),
  paused_at: time.nullable(),
  paused_by: word,
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
