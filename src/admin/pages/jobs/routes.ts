/** What there is of jobs, and who may do it. */
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
  { post: "/jobs/:name/run", role: "operator", act: runJob },
  { post: "/jobs/:name/pause", role: "operator", act: (on) => pauseOneJob(on, true) },
  { post: "/jobs/:name/resume", role: "operator", act: (on) => pauseOneJob(on, false) },
  { get: "/jobs/:name/options", role: "operator", show: showOptions },
  { post: "/jobs/:name/options", role: "operator", act: changeOptions },
  { post: "/jobs/:name/reset", role: "operator", act: resetOption },
  { get: "/jobs/:name/schedules/:schedule", role: "operator", show: showSchedule },
  { post: "/jobs/:name/schedules/:schedule", role: "operator", act: changeSchedule },
  { post: "/jobs/:name/schedules/:schedule/pause", role: "operator", act: (on) => pauseOneSchedule(on, true) },
  { post: "/jobs/:name/schedules/:schedule/resume", role: "operator", act: (on) => pauseOneSchedule(on, false) },
];
