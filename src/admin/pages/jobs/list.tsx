/** All jobs: what each waits for, how its last run went, and what keeps it from running. */
import type { JobView } from "../../../runs/job_view.ts";
import { ACTIVE, WAITING } from "../../../runs/run_states.ts";
import { Badge, State } from "../../parts/badge.tsx";
import { Choice, Filters, TextField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { partOf, PartPager } from "../../parts/pager.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { percent } from "../../parts/percent.ts";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { countText, type ListedJob, readJobs } from "./acts.ts";
import { t } from "../../../locale/locale.ts";

const STATES = {
  failed_last: (job: JobView) => ["FAILED", "TIMED_OUT"].includes(job.last_run?.state ?? ""),
  busy: (job: JobView) => job.waiting > 0 || job.running > 0,
  paused: (job: JobView) => job.paused_at !== null || job.paused_schedules > 0,
  off: (job: JobView) => !job.enabled && job.removed_at === null,
  overridden: (job: JobView) => job.overrides > 0,
  unsafe: (job: JobView) => isUnsafe(job),
  removed: (job: JobView) => job.removed_at !== null,
} as const;
type Wanted = keyof typeof STATES;

/** A page of thousands of jobs, which is sent anew with what their runs do, is more than a browser shows at once. */
const MOST_JOBS = 200;

export async function showJobs(on: RequestContext): Promise<Page> {
  const all = await readJobs(on);
  const state = (Object.keys(STATES) as Wanted[]).find((one) => one === on.query.get("state"));
  const [text, type] = [on.query.get("q")?.toLowerCase(), on.query.get("type")];
  const jobs = all.filter((job) =>
    (state === "removed" || job.removed_at === null) && (!state || STATES[state](job)) &&
    (!type || job.type === type) &&
    (!text || `${job.name} ${job.description}`.toLowerCase().includes(text))
  );
  const part = partOf(on, jobs, MOST_JOBS);
  const filtered = Boolean(state || text || type);
  const types = (["time", "event", "demand"] as const).map((value) => ({ value, text: t(on, `jobs.type.${value}`) }));
  const states = (Object.keys(STATES) as Wanted[]).map((value) => ({ value, text: t(on, `jobs.state.${value}`) }));
  return {
    title: t(on, "jobs.jobs"),
    body: (
      <>
        <h1>{t(on, "jobs.jobs")}</h1>
        <Filters on={on} any_set={filtered}>
          <div class="fields">
            <TextField label={t(on, "jobs.search")} name="q" value={on.query.get("q")} />
            <Choice
              on={on}
              label={t(on, "jobs.type")}
              name="type"
              value={type}
              options={types}
            />
            <Choice
              on={on}
              label={t(on, "jobs.state")}
              name="state"
              value={state}
              options={states}
            />
          </div>
        </Filters>
        <Live on={on} id="jobs" topics={["jobs", "runs"]}>
          {jobs.length > 0
            ? <Table label={t(on, "jobs.jobs")} rows={part.rows} columns={columnsOf(on)} />
            : <NoJobs on={on} filtered={filtered || all.length > 0} />}
          <PartPager on={on} part={part} />
        </Live>
      </>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<ListedJob>[] {
  return [
    { head: t(on, "jobs.job"), kind: "main", cell: (job) => <Named on={on} job={job} /> },
    { head: t(on, "jobs.type"), kind: "wide", cell: (job) => t(on, `jobs.type.${job.type}`) },
    { head: t(on, "jobs.next"), kind: "wide", cell: (job) => <Time on={on} at={job.next_slot} /> },
    { head: t(on, "jobs.last"), cell: (job) => <LastRun on={on} job={job} /> },
    { head: t(on, "jobs.rate"), kind: "number", cell: ({ lately }) => <Lately on={on} lately={lately} /> },
    { head: t(on, "jobs.waiting"), kind: "number", cell: (job) => <Count on={on} job={job} what="waiting" /> },
    { head: t(on, "jobs.running"), kind: "number", cell: (job) => <Count on={on} job={job} what="running" /> },
    {
      head: t(on, "table.head"),
      unseen: true,
      cell: (job) =>
        may(on, "operator") && job.removed_at === null &&
        <a class="button small" href={link(on, `/jobs/${job.name}/run`)}>{t(on, "jobs.run_now")}</a>,
    },
  ];
}

function Named({ on, job }: { on: RequestContext; job: JobView }) {
  return (
    <>
      <span class="named">
        <a href={link(on, `/jobs/${job.name}`)}>{job.name}</a> <JobBadges on={on} job={job} />
      </span>
      <span class="line">{job.description}</span>
    </>
  );
}

/** What is out of the ordinary about it. */
export function JobBadges({ on, job }: { on: RequestContext; job: JobView }) {
  return (
    <>
      {job.removed_at && <Badge tone="quiet" text={t(on, "jobs.state.removed")} />}
      {!job.enabled && !job.removed_at && <Badge tone="warn" sign="◌" text={t(on, "jobs.state.off")} />}
      {job.paused_at && <Badge tone="warn" sign="‖" text={t(on, "jobs.state.paused")} />}
      {!job.paused_at && job.paused_schedules > 0 && (
        <Badge
          tone="warn"
          sign="‖"
          text={t(on, "jobs.paused_partly", { paused: job.paused_schedules, all: job.schedules })}
        />
      )}
      {isUnsafe(job) && <Badge tone="bad" sign="!" text={t(on, "jobs.state.unsafe")} />}
      {job.overrides > 0 && <Badge tone="busy" sign="✎" text={t(on, "jobs.overrides", { n: job.overrides })} />}
    </>
  );
}

function isUnsafe({ permissions }: JobView): boolean {
  return Object.keys(permissions.unsafe ?? {}).length > 0;
}

function LastRun({ on, job }: { on: RequestContext; job: JobView }) {
  if (!job.last_run) return <Nothing />;
  const { id, state, finished_at, started_at, due_at } = job.last_run;
  return (
    <span class="pair">
      <a href={link(on, `/runs/${id}`)}>
        <State state={state} />
      </a>{" "}
      <Time on={on} at={new Date(finished_at ?? started_at ?? due_at)} />
    </span>
  );
}

function Lately({ on, lately }: { on: RequestContext; lately: ListedJob["lately"] }) {
  if (!lately || lately.error_rate === null) return <Nothing />;
  const all = lately.succeeded + lately.failed + lately.timed_out;
  const title = t(on, "jobs.rate_of", { good: lately.succeeded, all });
  return (
    <span class={lately.error_rate > 0.1 ? "danger-text" : undefined} title={title}>
      {percent(1 - lately.error_rate)}
    </span>
  );
}

const COUNTED = { waiting: WAITING, running: ACTIVE, suspended: ["SUSPENDED"] } as const;

export function Count({ on, job, what }: { on: RequestContext; job: JobView; what: keyof typeof COUNTED }) {
  if (job[what] === 0) return <Nothing />;
  const query = new URLSearchParams([["job", job.name]]);
  for (const state of COUNTED[what]) query.append("state", state);
  return <a href={link(on, "/runs", query)}>{countText(job[what])}</a>;
}

function NoJobs({ on, filtered }: { on: RequestContext; filtered: boolean }) {
  if (filtered) return <Empty text={t(on, "jobs.none_match")} />;
  return (
    <Empty text={t(on, "jobs.none")}>
      <p>{t(on, "jobs.none_hint")}</p>
      <Code value={`deno task new my_job\ndeno task sync`} />
    </Empty>
  );
}
