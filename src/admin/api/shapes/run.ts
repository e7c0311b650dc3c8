/** Runs as the API gives them. */
import { count, id, jobName, json, page, priority, said, Source, State, time, Waits, warnings, z } from "./fields.ts";

const word = z.string().nullable();
const maybeTime = time.nullable();

const RUN = {
  id,
  job_name: jobName,
  state: State,
  source: Source,
  attempt: z.int().openapi({ description: "From 1; the one that runs, or the last one" }),
  execution: z.int().openapi({ description: "As attempt, but each suspension begins another one; log lines name it" }),
  failures: count.openapi({ description: "Attempts that the job's own code failed; retry.max counts these" }),
  interruptions: count.openapi({ description: "Attempts that were interrupted: a lost worker, a deploy, a drain" }),
  priority,
  args: json,
  result: json.openapi({ description: "What the body returned; null until then" }),
  exit_code: z.int().nullable(),
  error_name: word,
  ...said("error_summary"),
  progress: z.number().nullable().openapi({ description: "Share, 0 to 1", example: 0.5 }),
  progress_message: word,
  scheduled_for: time,
  due_at: time.openapi({ description: "Not before this" }),
  created_at: time,
  assigned_at: maybeTime,
  started_at: maybeTime,
  finished_at: maybeTime,
  assigned_worker_id: word,
  ran_on: word.openapi({ description: "That worker's node; null also once the node was removed", example: "gpu-1" }),
  leader_epoch: z.int().nullable(),
  fence: z.int().nullable().openapi({ description: "Grows with every start; to refuse late writes of an earlier one" }),
  serial_key: word,
  node: word,
  idempotency_key: word,
  event_id: id.nullable(),
  bulk_id: id.nullable(),
  rerun_of: id.nullable().openapi({ description: "The ended run that this one repeats" }),
  cancel_requested_at: maybeTime,
  cancel_requested_by: word,
  ...said("cancel_reason"),
  wait_reason: word.openapi({
    description: "Why it has not started, in one sentence; null once it has",
    example: 'behind run 811 of serial key "device:7"',
  }),
  waits: Waits,
  continuation_state: z.enum(["NONE", "CONFIRMING"]),
  continuation_check_deadline_at: maybeTime,
  log_ref: word,
};

const Run = z.object(RUN).openapi("Run");
export const RunPage = page(Run).openapi("RunPage");

const Attempt = z.object({
  attempt: z.int(),
  execution: z.int(),
  worker_id: word,
  started_at: maybeTime,
  ended_at: time,
  outcome: z.enum(["FAILED", "TIMED_OUT", "LOST", "GIVEN_BACK", "SUSPENDED"]),
  exit_code: z.int().nullable(),
  error_name: word,
  ...said("error_summary"),
}).openapi("Attempt", { description: "An execution that ended without deciding the run" });

export const RunWithAttempts = z.object({ ...RUN, attempts: z.array(Attempt) }).openapi("RunWithAttempts");

export const LogLine = z.object({
  id,
  attempt: z.int(),
  at: time,
  level: z.enum(["debug", "info", "warn", "error", "stdout", "stderr", "system"]),
  message: z.string().openapi({ description: "As the body gave it: escape it where you show it" }),
  fields: json,
}).openapi("LogLine");

export const Created = z.object({
  id,
  is_new: z.boolean().openapi({ description: "False: the key was used before, and this is the run of that time" }),
  warnings,
}).openapi("EnqueuedRun");

export const ManyDone = z.object({
  dry_run: z.boolean(),
  runs: count.openapi({ description: "So many were changed, or would be; counted up to 1000000" }),
}).openapi("ManyDone");
