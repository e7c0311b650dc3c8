/** What people do with bulks: make one, change it while it runs, repeat what has failed. */
import { z } from "zod";
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import { retryBulk } from "../bulks/bulks.ts";
import { action, jobName, priority, rowId, text, whole } from "./action.ts";
import { Refused } from "./args.ts";
import { applyChanges, type BulkItems, type BulkStarted, startBulk } from "./bulk.ts";

const PACE = {
  parallel: whole(1, 1_000_000).meta({ description: "So many of its runs at once; default 10" }).optional(),
  interval_seconds: z.number().min(0).max(31_536_000).meta({
    description: "At least so long from one feed of up to `parallel` items to the next",
  }).optional(),
  priority: priority.meta({ description: "Of its runs; also of those that wait" }).optional(),
  max_failures: whole(0, 1_000_000).nullable().meta({
    description: "More failures than these pause the bulk; null: any number",
  }).optional(),
  throttle_above: z.number().gt(0).lt(1).nullable().meta({
    description: "While more than this share of the last 20 runs fails, fewer run at once; null: off",
  }).optional(),
};

export const startOneBulk = action({
  name: "bulk.start",
  does: "make a bulk: its items become runs of one job, a few at a time",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    job_name: jobName,
    /** What it may be, startBulk says: a list, what comes one by one, or a query. */
    items: z.custom<BulkItems<unknown>>((given) => typeof given === "object" && given !== null),
    name: text(500).meta({ description: "For people" }).optional(),
    serial_key: text(500).meta({ description: "Bulks and runs of the same key go one after another" }).optional(),
    on_finish: jobName.meta({ description: "A job that gets one run at the end" }).optional(),
    on_failure: jobName.meta({ description: "A job that gets one run at the end if an item has failed" }).optional(),
    idempotency_key: text(500).meta({ description: "A second bulk with the same key is the first one" }).optional(),
    ...PACE,
    unknown: z.custom<UnknownKeys>().optional(),
  }),
  audit: ["bulk.start"],
  run({ sql, by }, { job_name, items, unknown, ...given }): Promise<BulkStarted> {
    const options = {
      parallel: given.parallel,
      intervalSeconds: given.interval_seconds,
      priority: given.priority,
      maxFailures: given.max_failures ?? undefined,
      throttleAbove: given.throttle_above ?? undefined,
      name: given.name,
      serialKey: given.serial_key,
      onFinish: given.on_finish,
      onFailure: given.on_failure,
      idempotencyKey: given.idempotency_key,
    };
    return startBulk(sql, { job: job_name, items, options, ...by, unknown });
  },
});

export const changeOneBulk = action({
  name: "bulk.set",
  does: "change a bulk while it runs; the leader acts on it within a tick",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ id: rowId, ...PACE }).refine(
    ({ id: _, ...given }) => Object.values(given).some((value) => value !== undefined),
    "must change something: parallel, interval_seconds, priority, max_failures or throttle_above",
  ),
  audit: ["bulk.set"],
  run: ({ sql, by }, { id, parallel, interval_seconds, priority, max_failures, throttle_above }) => {
    const changes = { parallel, intervalSeconds: interval_seconds, priority };
    return applyChanges(sql, id, { ...changes, maxFailures: max_failures, throttleAbove: throttle_above, ...by });
  },
});

const bulk = z.strictObject({ id: rowId });

export const pauseBulk = action({
  name: "bulk.pause",
  does: "start no more runs of a bulk",
  needs: "operate",
  reason: "optional",
  input: bulk,
  audit: ["bulk.pause"],
  run: ({ sql, by }, { id }) => applyChanges(sql, id, { state: "PAUSED", ...by }),
});

export const resumeBulk = action({
  name: "bulk.resume",
  does: "resume a paused bulk",
  needs: "operate",
  reason: "optional",
  input: bulk,
  audit: ["bulk.resume"],
  run: ({ sql, by }, { id }) => applyChanges(sql, id, { state: "RUNNING", ...by }),
});

export const cancelBulk = action({
  name: "bulk.cancel",
  does: "end a bulk for good: what has not begun never does, and what runs is canceled",
  needs: "operate",
  reason: "optional",
  input: bulk,
  audit: ["bulk.cancel"],
  run: ({ sql, by }, { id }) => applyChanges(sql, id, { state: "CANCELED", ...by }),
});

export const retryFailedItems = action({
  name: "bulk.retry",
  does: "make a new bulk of the items whose runs have failed and that were not repeated yet",
  needs: "operate",
  reason: "optional",
  input: bulk,
  audit: ["bulk.retry"],
  async run({ sql, by }, { id }): Promise<{ bulk_id: number; items: number }> {
    const made = await retryBulk(sql, id, by);
    if (!made) {
      throw new Refused(`Cannot retry bulk ${id}: there is none`, {
        why: "not_found",
        says: { code: "none", what: String(id) },
      });
    }
    if (made.bulk_id === null) {
      throw new Refused(`Cannot retry bulk ${id}: none of its runs failed, or the failed ones were already retried`, {
        why: "conflict",
        says: { code: "nothing_failed", bulk_id: id },
      });
    }
    return { bulk_id: made.bulk_id, items: made.items };
  },
});
