/** What an operator does to a job: what is read of the form, and what is said of it. */
import { resetOptions } from "../../../actions/job_actions.ts";
import { pauseQueue, resumeQueue } from "../../../actions/queue_actions.ts";
import { pauseSchedule, resumeSchedule } from "../../../actions/schedule_actions.ts";
import { type JobView, listJobs } from "../../../runs/job_view.ts";
import { type EndedCounts, readJobTotals } from "../../../stats/run_stats.ts";
import { orGone } from "../../form_actions.ts";
import { type ActionContext, type Done, field, PageError, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** More of what waits is "1000+": a page must not get slower with a backlog. */
const MOST_COUNTED = 1_000;

/** A job with how its runs of the last day ended, if any did. */
export type ListedJob = JobView & { lately?: EndedCounts };

export async function readJobs(on: RequestContext): Promise<ListedJob[]> {
  const [jobs, totals] = await Promise.all([listJobs(on.sql, null, MOST_COUNTED), readJobTotals(on.sql, "24h")]);
  const by_id = new Map(totals.map((one) => [one.job_definition_id, one]));
  return jobs.map((job) => ({ ...job, lately: by_id.get(job.id) }));
}

/** The job of the path. @throws Refusal 404 */
export async function readJob(on: RequestContext): Promise<JobView> {
  const [job] = await listJobs(on.sql, on.params.name ?? "", MOST_COUNTED);
  if (!job) throw new PageError(404);
  return job;
}

export function countText(count: number): string {
  return count >= MOST_COUNTED ? `${MOST_COUNTED}+` : String(count);
}

export function pauseOneJob(on: ActionContext, paused: boolean): Promise<Done> {
  const { name = "" } = on.params;
  return orGone(on, `/jobs/${name}`, async () => {
    const changed = await on.perform(paused ? pauseQueue : resumeQueue, { job_name: name });
    return { to: `/jobs/${name}`, text: pausedText(on, name, { paused, changed }) };
  });
}

export function pauseOneSchedule(on: ActionContext, paused: boolean): Promise<Done> {
  const { name = "", schedule = "" } = on.params;
  return orGone(on, `/jobs/${name}`, async () => {
    const which = { job_name: name, schedule_id: schedule };
    const [one] = await on.perform(paused ? pauseSchedule : resumeSchedule, which);
    return { to: `/jobs/${name}`, text: pausedText(on, schedule, { paused, changed: one?.changed === true }) };
  });
}

function pausedText(on: ActionContext, name: string, now: { paused: boolean; changed: boolean }): string {
  if (!now.changed) return t(on, "jobs.was_so", { name });
  return now.paused ? t(on, "jobs.paused_done", { name }) : t(on, "jobs.resumed_done", { name });
}

export function resetOption(on: ActionContext): Promise<Done> {
  const { name = "" } = on.params;
  const option = field(on.form, "option");
  return orGone(on, `/jobs/${name}`, async () => {
    await on.perform(resetOptions, { name, names: [option] });
    return { to: `/jobs/${name}`, text: t(on, "jobs.reset_done", { name: option }) };
  });
}
