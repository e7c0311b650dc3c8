/** Schedules: which there are and what stops them; pause, resume, a run now, runs for slots of the past. */
import {
  backfill,
  pauseSchedule,
  planBackfill,
  resumeSchedule,
  runScheduleNow,
} from "../../actions/schedule_actions.ts";
import { priorityNumber } from "../../job.ts";
import { readSchedules, type ScheduleView } from "../../schedules/schedule_view.ts";
import { BackfillDone, ScheduleShown } from "./shapes/job.ts";
import { type Api, bodyOf } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

export function addSchedules(api: Api): void {
  api.route({
    needs: "read",
    route: "GET /schedules",
    summary: "All schedules, or those of a job: what stops them, and the run of the newest slot",
    query: z.strictObject({ job_name: w.jobName.optional() }),
    answers: { 200: { description: "By job and id", schema: z.object({ items: z.array(ScheduleShown) }) } },
  }, async ({ sql, query }) => [200, { items: (await readSchedules(sql, query)).schedules.map(shown) }]);
  addStops(api);
  addRunNow(api);
  addBackfill(api);
}

function shown({ id: _, default_args_json: __, ...schedule }: ScheduleView) {
  return schedule;
}

function addStops(api: Api): void {
  for (const [verb, does] of [["pause", pauseSchedule], ["resume", resumeSchedule]] as const) {
    api.route({
      does,
      route: `POST /schedules/${verb}`,
      description: "Slots that passed while it was paused are dealt with by its misfire rule at its resume.",
      body: bodyOf(does),
      answers: {
        200: {
          description: "Those that were meant",
          schema: z.object({
            items: z.array(z.object({
              schedule_id: z.string(),
              changed: z.boolean().openapi({ description: "False: it was so already" }),
            })),
          }),
        },
      },
      problems: ["not_found"],
    }, async ({ perform, body }) => [200, { items: await perform(does, body) }]);
  }
}

function addRunNow(api: Api): void {
  api.route({
    does: runScheduleNow,
    route: "POST /schedules/run",
    body: bodyOf(runScheduleNow),
    answers: { 201: { description: "Enqueued", schema: z.object({ id: w.id }) } },
    problems: ["not_found"],
  }, async ({ perform, body }) => [201, { id: (await perform(runScheduleNow, body)).id }]);
}

function addBackfill(api: Api): void {
  api.route({
    does: backfill,
    costly: true,
    route: "POST /schedules/backfill",
    description: "Doing it again makes no second run of a slot. With dry_run it only says what it would make.",
    body: bodyOf(backfill, {
      without: ["until"],
      instead: {
        from: w.timeIn.openapi({ description: "From this instant on, RFC 3339" }),
        to: w.timeIn.openapi({ description: "Before this instant, which has passed" }),
        priority: w.priorityIn.default(priorityNumber("system.low")),
        dry_run: z.boolean().default(false),
      },
    }),
    answers: {
      201: { description: "Made", schema: BackfillDone },
      200: { description: "Nothing was made: it is a dry run, or every slot has its run", schema: BackfillDone },
    },
    problems: ["not_found"],
  }, async ({ sql, perform, body: { from, to, dry_run, ...given } }) => {
    const range = { from: from.toTemporalInstant(), until: to.toTemporalInstant(), skipped: given.skipped };
    const plan = await planBackfill(sql, given, range);
    const said = { dry_run, plan: plan.shares };
    if (dry_run) return [200, { ...said, bulk_id: null, runs: plan.runs }];
    const made = await perform(backfill, { ...given, ...range });
    return made ? [201, { ...said, ...made }] : [200, { ...said, bulk_id: null, runs: 0 }];
  });
}
