/** Options of jobs that are set beside their files: looking, setting and resetting. */
import { jobOptions, resetJobOptions, setJobOptions } from "../../actions/job_actions.ts";
import type { Json } from "../../job.ts";
import { JobOptionShown, OptionsChanged } from "./shapes/job.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byName = z.object({ name: w.jobName });
const optionName = w.text(200).openapi({ example: "schedule.nightly.dailyAt" });

export function addOptions(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /jobs/{name}/options",
    summary: "What of a job can be set beside its file: what holds, what the file says, set by whom and why",
    params: byName,
    answers: { 200: { description: "All of them", schema: z.object({ items: z.array(JobOptionShown) }) } },
    problems: ["not_found"],
  }, async ({ sql, params }) => {
    const options = await jobOptions(sql, params.name);
    return [200, {
      items: options.map((one) => ({ ...one, file_value: one.file_value ?? null, override: one.override ?? null })),
    }];
  });
  api.route({
    needs: "operate",
    route: "PATCH /jobs/{name}/options",
    summary: "Set options of a job beside its file, all or none; they hold until they are reset, whatever is synced",
    params: byName,
    body: z.strictObject({
      values: z.record(optionName, w.json).refine(
        (values) => Object.keys(values).length > 0,
        "must name at least one option",
      ).openapi({
        description: "As a job's file has them; null: none of it",
        example: { priority: "admin.high", "retry.max": 5, "schedule.nightly.dailyAt": "03:00" },
      }),
      reason: w.reason,
    }),
    answers: { 200: { description: "What this changed", schema: OptionsChanged } },
    problems: ["not_found"],
  }, async ({ sql, actor, params, body: { values, reason = w.NO_REASON } }) => {
    const given = values as Record<string, Json>; // it came as JSON
    return [200, { items: await setJobOptions(sql, params.name, given, { actor, reason }) }];
  });
  api.route({
    needs: "operate",
    route: "POST /jobs/{name}/options/reset",
    summary: "Let what the file says hold again, of some options or of all",
    params: byName,
    body: z.strictObject({
      names: z.array(optionName).min(1).optional().openapi({ description: "Without it all that are set" }),
      reason: w.reason,
    }),
    body_optional: true,
    answers: { 200: { description: "What this changed", schema: OptionsChanged } },
    problems: ["not_found"],
  }, async ({ sql, actor, params, body: { names, reason = w.NO_REASON } }) => {
    return [200, { items: await resetJobOptions(sql, params.name, names ?? "all", { actor, reason }) }];
  });
}
