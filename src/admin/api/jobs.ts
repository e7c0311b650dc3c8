/** Jobs as they were last synced, and when schedules fire next. */
import { wallClock } from "../../platform/timers.ts";
import { boundedSlots } from "../../schedules/preview.ts";
import { previewWarnings, type ScheduleTimes } from "../../schedules/calendar.ts";
import { SCHEDULE_KINDS, typedTime } from "../../schedule_kinds/kinds.ts";
import { parseSchedule } from "../../job_options/schedule_options.ts";
import type { Sql } from "../../postgres/connection.ts";
import { readDefinition, readDefinitions, type StoredDefinition } from "../../definitions/definition_rows.ts";
import { type Pause, readPaused } from "../../dispatch/pauses.ts";
import { Job, Preview } from "./shapes/job.ts";
import { ApiProblem } from "./problem.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const byName = z.object({ name: w.jobName });

export function addJobs(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /jobs",
    summary: "All jobs, by name, with their schedules and the schema of their args",
    query: z.strictObject({
      removed: z.enum(["true", "false"]).optional().openapi({ description: "true: also those whose files are gone" }),
      limit: w.limit,
      after: w.jobName.optional(),
    }),
    answers: { 200: { description: "A page of jobs", schema: w.page(Job) } },
  }, async ({ sql, query: { removed, limit, after = "" } }) => {
    const all = (await readDefinitions(sql)).filter((job) =>
      job.name > after && (removed === "true" || job.removed_at === null)
    );
    const paused = await readPaused(sql);
    const jobs = all.slice(0, limit + 1).map((job) => shown(job, paused.get(job.name)));
    return [200, w.pageOf(jobs, limit, (job) => job.name)];
  });
  api.route({
    needs: "read",
    route: "GET /jobs/{name}",
    summary: "One job",
    params: byName,
    answers: { 200: { description: "The job", schema: Job } },
    problems: ["not_found"],
  }, async ({ sql, params }) => {
    const job = await existingJob(sql, params.name);
    return [200, shown(job, (await readPaused(sql)).get(job.name))];
  });
  addPreviews(api);
}

const ASK = {
  from: w.timeIn.optional().openapi({ description: "Strictly after this instant, RFC 3339; default now" }),
  count: z.string().regex(/^\d{1,4}$/).transform(Number).pipe(z.int().min(1).max(1000)).default(5)
    .openapi({
      type: "integer",
      minimum: 1,
      maximum: 1000,
      default: 5,
      description: "So many of each schedule; fewer where the next 50 years, or a quarter of a second, have no more",
    }),
};
const wholeNumber = z.string().regex(/^\d{1,4}$/, "must be a whole number").transform(Number).openapi({
  type: "integer",
});

const KIND_QUERY = Object.fromEntries(SCHEDULE_KINDS.map(({ type, query, flag }) => [
  type,
  "least" in query
    ? wholeNumber.optional().openapi({ minimum: query.least, maximum: query.most })
    : w.text(query.longest).optional().openapi({ description: flag.help, example: query.example }),
]));

function addPreviews(api: Api): void {
  api.route({
    needs: "read",
    costly: true,
    route: "GET /jobs/{name}/preview",
    summary: "When the schedules of a job fire next",
    params: byName,
    query: z.strictObject(ASK),
    answers: { 200: { description: "Its schedules", schema: Preview } },
    problems: ["not_found"],
  }, async ({ sql, params, query }) => {
    const { schedules } = await existingJob(sql, params.name);
    const items = [];
    for (const one of schedules) items.push({ schedule_id: one.schedule_id, ...await preview(one, query) });
    return [200, { items }];
  });
  api.route({
    needs: "read",
    costly: true,
    route: "GET /schedules/preview",
    summary: "When a schedule would fire that is given here",
    description: `Give exactly one of ${SCHEDULE_KINDS.map(({ type }) => type).join(", ")}.`,
    query: z.strictObject({
      ...KIND_QUERY,
      timezone: w.text(100).optional().openapi({ description: "IANA name; default UTC", example: "Asia/Tokyo" }),
      dst_gap: z.enum(["after", "before", "skip"]).optional().openapi({
        description: "A time that does not exist; default after",
      }),
      dst_overlap: z.enum(["first", "second", "both"]).optional().openapi({
        description: "One that is there twice; default first",
      }),
      ...ASK,
    }),
    answers: { 200: { description: "The schedule", schema: Preview } },
  }, async ({ query: { from, count, ...given } }) => {
    return [200, { items: [{ schedule_id: null, ...await preview(timesFrom(given), { from, count }) }] }];
  });
}

function timesFrom(given: Record<string, unknown>): ScheduleTimes {
  const { dst_gap: gap, dst_overlap: overlap } = given;
  const given_times = SCHEDULE_KINDS.filter(({ type }) => given[type] !== undefined)
    .map(({ option, type }) => typedTime(option, String(given[type])));
  const dst = gap === undefined && overlap === undefined
    ? {}
    : { dst: { gap: gap ?? "after", overlap: overlap ?? "first" } };
  const parsed = parseSchedule({ ...Object.assign({}, ...given_times), timezone: given.timezone, ...dst });
  if (parsed.ok) return parsed.schedule;
  const text = parsed.complaints.map(({ reason }) => reason).join("; ");
  throw new ApiProblem("invalid", `Cannot preview: ${text}`, {
    fix: parsed.complaints.map(({ fix }) => fix).join("; "),
  });
}

async function preview(times: ScheduleTimes, { from = wallClock(), count }: { from?: Date; count: number }) {
  const after = from.toTemporalInstant();
  const slots = await boundedSlots(times, { after, count });
  const until = slots.at(-1);
  const warnings = until ? previewWarnings(times, { after, until }) : [];
  const { schedule_type, schedule_value, timezone } = times;
  return { schedule_type, schedule_value, timezone, slots, warnings: warnings.map(({ message }) => message) };
}

async function existingJob(sql: Sql, name: string): Promise<StoredDefinition> {
  const job = await readDefinition(sql, name);
  if (job) return job;
  throw new ApiProblem("not_found", `Cannot find job "${name}": none of that name was ever synced`, {
    fix: "a new one is added by a file in jobs/ and `deno task sync`; GET /api/v1/jobs lists those there are",
  });
}

function shown({ id: _, ...job }: StoredDefinition, paused: Pause | typeof NO_PAUSE = NO_PAUSE) {
  const schedules = job.schedules.map(({ id: _, ...schedule }) => schedule);
  return { ...job, schedules, ...paused };
}

const NO_PAUSE = { paused_at: null, paused_by: null, paused_reason: null };
