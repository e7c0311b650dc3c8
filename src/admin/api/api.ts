/** The HTTP API, to be mounted at /api/v1: every noun's routes, and the document that describes them. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { VERSION } from "../../platform/version.ts";
import type { ApiEnv } from "./access.ts";
import { addAudit } from "./audit.ts";
import { addBulks } from "./bulks.ts";
import { addEvents } from "./events.ts";
import { addHooks } from "./hooks.ts";
import { addJobs } from "./jobs.ts";
import { addNodes } from "./nodes.ts";
import { addOptions } from "./options.ts";
import { addQueue } from "./queue.ts";
import { addSettings } from "./settings.ts";
import { addManyRuns } from "./many_runs.ts";
import { answerProblem, ApiProblem } from "./problem.ts";
import { Api, type ApiDeps } from "./route.ts";
import { addSchedules } from "./schedules.ts";
import { addRuns } from "./runs.ts";
import { addSteps } from "./steps.ts";
import { addUsers } from "./users.ts";

/** In the order of the document, each with the tag of its routes. */
const NOUNS: [tag: string, add: (api: Api) => void][] = [
  ["jobs", addJobs],
  ["jobs", addOptions],
  ["schedules", addSchedules],
  ["runs", addRuns],
  ["runs", addManyRuns],
  ["runs", addSteps],
  ["bulks", addBulks],
  ["events", addEvents],
  ["queue", addQueue],
  ["nodes", addNodes],
  ["settings", addSettings],
  ["hooks", addHooks],
  ["users", addUsers],
  ["audit", addAudit],
];

export function buildApi(deps: ApiDeps): OpenAPIHono<ApiEnv> {
  const api = new Api(deps);
  for (const [tag, add] of NOUNS) add(api.tagged(tag));
  api.addDocument({ title: "Dandori", version: VERSION, description: ABOUT });
  api.app.all("*", (c) => {
    const what = `${c.req.method} ${new URL(c.req.url).pathname}`;
    return answerProblem(
      new ApiProblem("not_found", `Cannot find ${what}: there is no such route`, { fix: SEE_DOCUMENT }),
    );
  });
  return api.app;
}

const SEE_DOCUMENT = "see openapi.json for those that there are";

const ABOUT =
  `Everything that the command line can do with jobs, schedules, runs, bulks, events, queue, nodes and settings.
Fields are named as the columns of the database; times are RFC 3339 in UTC. Lists come in pages: give \`next\` as \`after\`.
What is refused is told as application/problem+json (RFC 9457) with \`fix\`, what to do about it.
Every change leaves a row in the audit under the name of the user or token.`;
