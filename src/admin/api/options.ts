/** Options of jobs that are set beside their files: looking, setting and resetting. */
import { jobOptions, resetOptions, setOptions } from "../../actions/job_actions.ts";
import { JobOptionShown, OptionsChanged } from "./shapes/job.ts";
import { type Api, bodyOf } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byName = z.object({ name: w.jobName });

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
    does: setOptions,
    route: "PATCH /jobs/{name}/options",
    params: byName,
    body: bodyOf(setOptions, {
      without: ["name"],
      instead: {
        values: setOptions.input.shape.values.refine(
          (values) => Object.keys(values).length > 0,
          "must name at least one option",
        ),
      },
    }),
    answers: { 200: { description: "What this changed", schema: OptionsChanged } },
    problems: ["not_found"],
  }, async ({ perform, params, body }) => [200, { items: await perform(setOptions, { ...params, ...body }) }]);
  api.route({
    does: resetOptions,
    route: "POST /jobs/{name}/options/reset",
    params: byName,
    body: bodyOf(resetOptions, { without: ["name"] }),
    body_optional: true,
    answers: { 200: { description: "What this changed", schema: OptionsChanged } },
    problems: ["not_found"],
  }, async ({ perform, params, body }) => [200, { items: await perform(resetOptions, { ...params, ...body }) }]);
}
