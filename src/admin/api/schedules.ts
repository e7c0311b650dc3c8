/** Schedules: which there are and what stops them; pause, resume, a run now, runs for slots of the past. */
import {
  makeBackfill,
  planBackfill,
  runSchedule,
  type ScheduleRef,
  setSchedulesPaused,
} from "../../actions/schedule_actions.ts";
import { priorityNumber } from "../../job.ts";
import { readSchedules, type ScheduleView } from "../../schedules/schedule_view.ts";
import { BackfillDone, ScheduleShown } from "./shapes/job.ts";
import type { Api } from "./route.ts";
import * as w from "./shapes/fields.ts";
import { z } from "./shapes/fields.ts";

const WHICH = {
  job_name: w.jobName,
  schedule_id: w.text(64).optional().openapi({
    description: "Its name within the job; without it all schedules of the job",
    example: "nightly",
  }),
};

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
  for (const verb of ["pause", "resume"] as const) {
    api.route({
      needs: "operate",
      route: `POST /schedules/${verb}`,
      summary: `${verb === "pause" ? "Pause" : "Resume"} a schedule, or all of a job; events and enqueued runs go on`,
      description: "Slots that passed while it was paused are dealt with by its misfire rule at its resume.",
      body: z.strictObject({ ...WHICH, reason: w.reason }),
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
    }, async ({ sql, actor, body: { reason = w.NO_REASON, ...which } }) => {
      return [200, { items: await setSchedulesPaused(sql, which, { actor, reason, paused: verb === "pause" }) }];
    });
  }
}

function addRunNow(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /schedules/run",
    summary: "A run now, with the args that the schedule gives; its slots stay as they are",
    body: z.strictObject({ ...WHICH, reason: w.reason }),
    answers: { 201: { description: "Enqueued", schema: z.object({ id: w.id }) } },
    problems: ["not_found"],
  }, async ({ sql, actor, body: { reason = w.NO_REASON, ...which } }) => {
    const { id } = await runSchedule(sql, which, { actor, reason });
    return [201, { id }];
  });
}

function addBackfill(api: Api): void {
  api.route({
    needs: "operate",
    route: "POST /schedules/backfill",
    summary: "Runs for the slots of a past range that have none, as a bulk",
    description: "Doing it again makes no second run of a slot. With dry_run it only says what it would make.",
    body: z.strictObject({
      ...WHICH,
      from: w.timeIn.openapi({ description: "From this instant on, RFC 3339" }),
      to: w.timeIn.openapi({ description: "Before this instant, which has passed" }),
      skipped: z.boolean().default(false).openapi({ description: "Repeat, once, those whose run was SKIPPED" }),
      parallel: z.int().min(1).max(1_000_000).default(1).openapi({ description: "So many at once; 1: oldest first" }),
      priority: w.priorityIn.default(priorityNumber("system.low")),
      dry_run: z.boolean().default(false),
      reason: w.reason,
    }),
    answers: {
      201: { description: "Made", schema: BackfillDone },
      200: { description: "Nothing was made: it is a dry run, or every slot has its run", schema: BackfillDone },
    },
    problems: ["not_found"],
  }, async ({ sql, actor, body }) => {
    const { job_name, schedule_id, from, to, skipped, parallel, priority, dry_run, reason = w.NO_REASON } = body;
    const which: ScheduleRef = { job_name, schedule_id };
    const plan = await planBackfill(sql, which, {
      from: from.toTemporalInstant(),
      until: to.toTemporalInstant(),
      skipped,
    });
    const said = { dry_run, plan: plan.shares };
    if (dry_run) return [200, { ...said, bulk_id: null, runs: plan.runs }];
    const made = await makeBackfill(sql, plan, { actor, reason, parallel, priority });
    return made ? [201, { ...said, ...made }] : [200, { ...said, bulk_id: null, runs: 0 }];
  });
}
