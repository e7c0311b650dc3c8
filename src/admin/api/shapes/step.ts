/** Steps of runs and runs that belong together, as the API gives them. */
import { count, id, jobName, json, Source, State, time, z } from "./fields.ts";

const word = z.string().nullable();

export const Step = z.object({
  key: z.string().openapi({
    description: "Kind, name and, from the second of a name on, its number",
    example: "step:charge#2",
  }),
  kind: z.enum(["step", "sleep", "message", "event", "call", "start", "bulk", "mark", "undo"]),
  state: z.enum(["BEGUN", "TRYING", "WAITING", "DONE", "FAILED", "TIMED_OUT", "CANCELED"]),
  position: z.int().nullable().openapi({
    description: "In the order in which results were given to the code; null: it is open",
  }),
  tries: count,
  started_at: time,
  finished_at: time.nullable(),
  until: time.nullable().openapi({ description: "A sleep's end, a wait's limit, or when the next try may begin" }),
  result: json.openapi({ description: "Null as well if it has more than 2,000 bytes" }),
  result_bytes: count,
  error_name: word,
  error_summary: word,
  child_run_id: id.nullable(),
  child_bulk_id: id.nullable(),
  child_state: word,
  sent_by: word.openapi({ description: "Who sent the message that it got" }),
  waits_for: word.openapi({ description: "The message's name, or the event's type" }),
  event_where: json.openapi({ description: "Which events it waits for" }),
  prompt: json.openapi({ description: "What people are asked: ask, show, who, notBy, remind" }),
  attempt: z.int().openapi({ description: "The execution that wrote it last" }),
  code_digest: z.string(),
  orphaned: z.boolean().openapi({ description: "The code does not ask for it any more" }),
  has_undo: z.boolean(),
}).openapi("Step");

export const TreeRun = z.object({
  id,
  job_name: jobName,
  state: State,
  source: Source,
  parent_run_id: id.nullable(),
  parent_key: word.openapi({
    description: "The step of the parent that awaits it; null: it lives on without its parent",
  }),
  group_id: id.nullable(),
  bulk_id: id.nullable(),
  after_jobs: z.array(jobName),
  error_name: word,
  error_summary: word,
  created_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
}).openapi("TreeRun");
