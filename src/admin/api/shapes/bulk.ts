/** Bulks as the API takes and gives them. */
import { count, id, jobName, page, priority, said, text, time, Waits, warnings, z } from "./fields.ts";

const word = z.string().nullable();
const seconds = z.number().nullable().openapi({ description: "Of the last hundred bodies; null: too few have ended" });

/** What is said once. */
export const FIXED = {
  name: text(200).optional().openapi({ description: "For people" }),
  serial_key: text(500).optional().openapi({ description: "Bulks and runs that share one go one after another" }),
  on_finish: jobName.optional().openapi({ description: "A job that gets one run when the bulk ends" }),
  on_failure: jobName.optional().openapi({ description: "The same if something of it failed" }),
};

const BulkState = z.enum(["RUNNING", "PAUSED", "CANCELED", "FINISHED"]).openapi("BulkState");

export const Bulk = z.object({
  id,
  name: z.string(),
  job_name: jobName,
  state: BulkState,
  wait_reason: word.openapi({ description: "Why nothing of it goes on, in one sentence" }),
  waits: Waits,
  parallel: count,
  running_limit: count.openapi({ description: "As many at once as it may run now" }),
  throttle_above: z.number().nullable(),
  throttled: count.nullable(),
  interval_seconds: z.number(),
  priority,
  serial_key: word,
  max_failures: count.nullable(),
  on_finish: word,
  on_failure: word,
  retry_of: id.nullable(),
  items: count,
  fed: count.openapi({ description: "Items that have a run" }),
  waiting: count,
  running: count,
  retrying: count,
  suspended: count,
  succeeded: count,
  failed: count,
  canceled: count,
  progress: z.number().openapi({ description: "Share of the items whose runs have ended, 0 to 1" }),
  per_minute: z.number().nullable().openapi({ description: "Ends per minute, over the last hundred" }),
  seconds_p25: seconds,
  seconds_p50: seconds,
  seconds_p75: seconds,
  done_from: time.nullable().openapi({ description: "Done at the earliest; null: unknown" }),
  done_to: time.nullable(),
  created_by: z.string(),
  changed_by: word,
  ...said("reason"),
  created_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
}).openapi("Bulk");

export const BulkPage = page(Bulk).openapi("BulkPage");

export const BulkMade = z.object({
  id,
  is_new: z.boolean().openapi({ description: "False: the key was used before, and this is the bulk of that time" }),
  items: count.openapi({ description: "Stored now" }),
  warnings,
}).openapi("BulkMade");

const Forecast = z.object({
  parallel: count,
  at_once: count.openapi({ description: "Fewer than `parallel` where its runs can have fewer slots" }),
  done_from: time.nullable(),
  done_to: time.nullable(),
});

export const WhatIf = z.object({ id, now: Forecast, at: Forecast }).openapi("BulkWhatIf");
