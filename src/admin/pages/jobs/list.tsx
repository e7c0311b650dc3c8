/** All jobs: what each waits for, how its last run went, and what keeps it from running. */
import type { JobView } from "../../../runs/job_view.ts";
import { ACTIVE, WAITING } from "../../../runs/run_scans.ts";
import { Badge, State } from "../../parts/badge.tsx";
import { Choice, Filters, TextField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { partOf, PartPager } from "../../parts/pager.tsx";
import { ACTIONS, Table, type TableColumn } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { percent } from "../../parts/percent.ts";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { countText, type ListedJob, readJobs } from "./acts.ts";
import { JOBS } from "./words.ts";

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
  const say = JOBS[on.lang];
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
  const choices = (names: readonly (Wanted | JobView["type"])[]) =>
    names.map((value) => ({ value, text: say[value] as string }));
  return {
    title: say.jobs,
    body: (
      <>
        <h1>{say.jobs}</h1>
        <Filters on={on} any_set={filtered}>
          <div class="fields">
            <TextField label={say.search} name="q" value={on.query.get("q")} />
            <Choice on={on} label={say.type} name="type" value={type} options={choices(["time", "event", "demand"])} />
            <Choice
              on={on}
              label={say.state}
              name="state"
              value={state}
              options={choices(Object.keys(STATES) as Wanted[])}
            />
          </div>
        </Filters>
        <Live on={on} id="jobs" topics={["jobs", "runs"]}>
          {jobs.length > 0
            ? <Table label={say.jobs} rows={part.rows} columns={columnsOf(on)} />
            : <NoJobs on={on} filtered={filtered || all.length > 0} />}
          <PartPager on={on} part={part} />
        </Live>
      </>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<ListedJob>[] {
  const say = JOBS[on.lang];
  return [
    { head: say.job, kind: "main", cell: (job) => <Named on={on} job={job} /> },
    { head: say.type, kind: "wide", cell: (job) => say[job.type] },
    { head: say.next, kind: "wide", cell: (job) => <Time on={on} at={job.next_slot} /> },
    { head: say.last, cell: (job) => <LastRun on={on} job={job} /> },
    { head: say.rate, kind: "number", cell: ({ lately }) => <Lately on={on} lately={lately} /> },
    { head: say.waiting, kind: "number", cell: (job) => <Count on={on} job={job} what="waiting" /> },
    { head: say.running, kind: "number", cell: (job) => <Count on={on} job={job} what="running" /> },
    {
      head: ACTIONS[on.lang].head,
      unseen: true,
      cell: (job) =>
        may(on, "operator") && job.removed_at === null &&
        <a class="button small" href={link(on, `/jobs/${job.name}/run`)}>{say.run_now}</a>,
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
  const say = JOBS[on.lang];
  return (
    <>
      {job.removed_at && <Badge tone="quiet" text={say.removed} />}
      {!job.enabled && !job.removed_at && <Badge tone="warn" sign="◌" text={say.off} />}
      {job.paused_at && <Badge tone="warn" sign="‖" text={say.paused} />}
      {!job.paused_at && job.paused_schedules > 0 && (
        <Badge tone="warn" sign="‖" text={say.paused_partly(job.paused_schedules, job.schedules)} />
      )}
      {isUnsafe(job) && <Badge tone="bad" sign="!" text={say.unsafe} />}
      {job.overrides > 0 && <Badge tone="busy" sign="✎" text={say.overrides(job.overrides)} />}
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
  const title = JOBS[on.lang].rate_of(lately.succeeded, all);
  return (
    <span class={lately.error_rate > 0.1 ? "danger-text" : undefined} title={title}>
      {percent(1 - lately.error_rate)}
    </span>
  );
}

export function Count({ on, job, what }: { on: RequestContext; job: JobView; what: "waiting" | "running" }) {
  if (job[what] === 0) return <Nothing />;
  const query = new URLSearchParams([["job", job.name]]);
  for (const state of what === "waiting" ? WAITING : ACTIVE) query.append("state", state);
  return <a href={link(on, "/runs", query)}>{countText(job[what])}</a>;
}

function NoJobs({ on, filtered }: { on: RequestContext; filtered: boolean }) {
  const say = JOBS[on.lang];
  if (filtered) return <Empty text={say.none_match} />;
  return (
    <Empty text={say.none}>
      <p>{say.none_hint}</p>
      <Code value={`deno task new my_job\ndeno task sync`} />
    </Empty>
  );
}
