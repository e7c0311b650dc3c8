/** What there is of jobs, and who may do it. */
import { resetOptions, setOptions } from "../../../actions/job_actions.ts";
import { pauseQueue, resumeQueue } from "../../../actions/queue_actions.ts";
import { enqueue } from "../../../actions/run_actions.ts";
import { pauseSchedule, resumeSchedule } from "../../../actions/schedule_actions.ts";
import type { Route } from "../../request_context.ts";
import { pauseOneJob, pauseOneSchedule, resetOption } from "./acts.ts";
import { showJobs } from "./list.tsx";
import { showJob } from "./one.tsx";
import { changeOptions, showOptions } from "./options.tsx";
import { runJob, showRunForm } from "./run.tsx";
import { changeSchedule, showSchedule } from "./schedule.tsx";

export const jobRoutes: Route[] = [
  { get: "/jobs", role: "viewer", show: showJobs },
  { get: "/jobs/:name", role: "viewer", show: showJob },
  { get: "/jobs/:name/run", role: "operator", show: showRunForm },
  { post: "/jobs/:name/run", does: enqueue, act: runJob },
  { post: "/jobs/:name/pause", does: pauseQueue, act: (on) => pauseOneJob(on, true) },
  { post: "/jobs/:name/resume", does: resumeQueue, act: (on) => pauseOneJob(on, false) },
  { get: "/jobs/:name/options", role: "operator", show: showOptions },
  { post: "/jobs/:name/options", does: setOptions, act: changeOptions },
  { post: "/jobs/:name/reset", does: resetOptions, act: resetOption },
  { get: "/jobs/:name/schedules/:schedule", role: "operator", show: showSchedule },
  { post: "/jobs/:name/schedules/:schedule", does: setOptions, act: changeSchedule },
  { post: "/jobs/:name/schedules/:schedule/pause", does: pauseSchedule, act: (on) => pauseOneSchedule(on, true) },
  { post: "/jobs/:name/schedules/:schedule/resume", does: resumeSchedule, act: (on) => pauseOneSchedule(on, false) },
];
