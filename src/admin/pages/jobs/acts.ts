/** What an operator does to a job. The stores do it, with its audit, as one transaction; here is only what is said of it. */
import { resetOverrides } from "../../../sync/overrides.ts";
import { type JobView, listJobs } from "../../../runs/job_view.ts";
import { type EndedCounts, readJobTotals } from "../../../stats/run_stats.ts";
import { pauseJob, pauseSchedules } from "../../../dispatch/pauses.ts";
import { by } from "../../form_actions.ts";
import { type ActionContext, type Done, field, PageError, type RequestContext } from "../../request_context.ts";
import { complaintsText } from "../../parts/complaint_text.ts";
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

export async function pauseOneJob(on: ActionContext, paused: boolean): Promise<Done> {
  const name = on.params.name ?? "";
  const answer = await pauseJob(on.sql, name, { ...by(on), paused });
  if (!answer) throw new PageError(404);
  const text = !answer.changed
    ? t(on, "jobs.was_so", { name })
    : paused
    ? t(on, "jobs.paused_done", { name })
    : t(on, "jobs.resumed_done", { name });
  return { to: `/jobs/${name}`, text };
}

export async function pauseOneSchedule(on: ActionContext, paused: boolean): Promise<Done> {
  const { name = "", schedule = "" } = on.params;
  const [one] = await pauseSchedules(on.sql, { job_name: name, schedule_id: schedule }, { ...by(on), paused });
  if (!one) throw new PageError(404);
  const text = !one.changed
    ? t(on, "jobs.was_so", { name: schedule })
    : paused
    ? t(on, "jobs.paused_done", { name: schedule })
    : t(on, "jobs.resumed_done", { name: schedule });
  return { to: `/jobs/${name}`, text };
}

export async function resetOption(on: ActionContext): Promise<Done> {
  const name = on.params.name ?? "";
  const option = field(on.form, "option");
  const answer = await resetOverrides(on.sql, name, [option], by(on));
  if (!answer) throw new PageError(404);
  if (!answer.ok) return { to: `/jobs/${name}`, tone: "bad", text: complaintsText(on.lang, answer.complaints) };
  return { to: `/jobs/${name}`, text: t(on, "jobs.reset_done", { name: option }) };
}
