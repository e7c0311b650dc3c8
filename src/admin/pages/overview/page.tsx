/** Where a visitor comes to: who leads, what waits, how it goes, what is wrong; and in an empty system what to do first. */
import { durationText } from "../../assets/ago.js";
import { type Alert, listAlerts } from "../../../alerts/alerts.ts";
import { type Figures, readFigures } from "../../../stats/gauges.ts";
import { currentLeader, type Leadership } from "../../../nodes/leadership.ts";
import { listJobs } from "../../../runs/job_view.ts";
import { type BacklogRow, type NodeUse, readBacklog, readNodeUse } from "../../../stats/load_stats.ts";
import { listWorkers, type WorkerListing } from "../../../nodes/workers.ts";
import { type EndedCounts, RANGES, readJobTotals, readTotal, type StatsRange } from "../../../stats/run_stats.ts";
import { listRuns } from "../../../runs/run_view.ts";
import { Badge } from "../../parts/badge.tsx";
import { type Dispatch, DispatchPaused, readDispatch } from "../../parts/dispatch.tsx";
import { percent } from "../../parts/percent.ts";
import { Live } from "../../parts/live.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { link, type Page, type RequestContext } from "../../request_context.ts";
import { AckDialogs } from "../alerts/ack.tsx";
import { nodeLink } from "../nodes/figures.tsx";
import { Alerts, MOST_ALERTS } from "./alerts.tsx";
import { Plots, rangeOf, tableSteps } from "./plots.tsx";
import { OVERVIEW } from "./words.ts";

const MOST_JOBS = 8;
/** The leader counts several times a minute. */
const STALE_SECONDS = 120;

interface Seen {
  range: StatsRange;
  figures: Figures;
  dispatch: Dispatch;
  leader: Leadership;
  workers: WorkerListing[];
  alerts: Alert[];
  backlog: BacklogRow[];
  nodes: NodeUse[];
  total: EndedCounts;
  jobs: ({ job_name: string } & EndedCounts)[];
}

async function look(on: RequestContext): Promise<Seen> {
  const { sql } = on;
  const range = rangeOf(on);
  const [figures, dispatch, leader, workers, alerts, backlog, nodes, total, jobs] = await Promise.all([
    readFigures(sql),
    readDispatch(on),
    currentLeader(sql),
    listWorkers(sql),
    listAlerts(sql, { open: true, limit: MOST_ALERTS }),
    readBacklog(sql),
    readNodeUse(sql),
    readTotal(sql, range),
    readJobTotals(sql, range),
  ]);
  return { range, figures, dispatch, leader, workers, alerts, backlog, nodes, total, jobs: jobs.slice(0, MOST_JOBS) };
}

export async function showOverview(on: RequestContext): Promise<Page> {
  const say = OVERVIEW[on.lang];
  const seen = await look(on);
  const [first, steps] = await Promise.all([firstSteps(on, seen), tableSteps(on)]);
  return {
    title: say.overview,
    assets: ["uplot.css", "plots.js"],
    body: (
      <>
        <Live on={on} id="now" topics={["nodes", "jobs", "alerts", "settings"]}>
          <div class="heading overview">
            <h1>{say.overview}</h1>
            {!first && <Stale on={on} seconds={seen.figures.counted_seconds_ago} />}
            <Alerts on={on} alerts={seen.alerts} />
          </div>
          <DispatchPaused on={on} dispatch={seen.dispatch} />
          {first && <FirstSteps on={on} steps={first} />}
          <Tiles on={on} seen={seen} />
        </Live>
        <Plots on={on} steps={steps} />
        <Live on={on} id="parts" topics={["nodes", "jobs"]}>
          <div class="columns">
            <Backlog on={on} backlog={seen.backlog} />
            <Nodes on={on} nodes={seen.nodes} />
            <Jobs on={on} seen={seen} />
          </div>
        </Live>
        <AckDialogs on={on} alerts={seen.alerts} />
      </>
    ),
  };
}

/** Beside the heading, where it moves nothing when it comes. */
function Stale({ on, seconds }: { on: RequestContext; seconds: number | null }) {
  const say = OVERVIEW[on.lang];
  if (seconds !== null && seconds < STALE_SECONDS) return null;
  const text = seconds === null ? say.not_counted : say.stale(durationText(seconds * 1_000));
  return <span class="line" role="status" title={text}>{text}</span>;
}

function Tiles({ on, seen }: { on: RequestContext; seen: Seen }) {
  const say = OVERVIEW[on.lang];
  const { figures, leader, total } = seen;
  const { wait_p50, wait_p95, run_p50, run_p95 } = total;
  const subleaders = seen.workers.filter((one) => one.role === "subleader").map((one) => one.worker_id);
  const waiting = seen.backlog.reduce((sum, one) => sum + one.waiting, 0);
  const oldest = Math.max(0, ...seen.backlog.map((one) => one.oldest_seconds));
  const failed = total.failed + total.timed_out;
  const ended = total.succeeded + failed + total.canceled + total.skipped;
  const { draining, detached } = figures.workers;
  const { jobs_paused, keys_stopped, bulks } = figures;
  const times = (p50: number | null, p95: number | null) => ({
    value: p50 === null ? "–" : durationText(p50 * 1_000),
    more: p95 === null ? say.none_yet : say.p95(durationText(p95 * 1_000)),
  });
  return (
    <dl class="tiles">
      <Tile name={say.leader} bad={!figures.has_leader} value={leader.worker_id ?? say.no_leader}>
        <span>{say.term(figures.epoch, figures.failovers)}</span>
        {leader.worker_id && (
          <span class="beside">
            <Time on={on} at={leader.acquired_at} />
          </span>
        )}
      </Tile>
      <Tile name={say.subleaders} value={subleaders.length > 0 ? subleaders.join(", ") : "–"}>
        {subleaders.length === 0 && say.no_subleader}
      </Tile>
      <Tile name={say.workers} bad={figures.workers.active === 0} value={String(figures.workers.active)}>
        {[
          draining + detached > 0 && say.workers_other(draining, detached),
          figures.nodes.unavailable > 0 && say.nodes_away(figures.nodes.unavailable),
          figures.nodes.maintenance > 0 && say.nodes_locked(figures.nodes.maintenance),
        ].filter(Boolean).join(" · ")}
      </Tile>
      <Tile name={say.slots} value={say.of(figures.slots_used, figures.slots)}>
        <meter value={figures.slots_used} max={Math.max(1, figures.slots)} aria-label={say.slots}></meter>
      </Tile>
      <Tile name={say.backlog} value={String(waiting)}>
        {waiting > 0 && <span>{say.oldest(durationText(oldest * 1_000))}</span>}
        {jobs_paused + keys_stopped > 0 && (
          <a class="beside" href={link(on, "/queue")}>{say.stopped(jobs_paused, keys_stopped)}</a>
        )}
        {bulks.paused > 0 && <a class="beside" href={link(on, "/bulks")}>{say.bulks_paused(bulks.paused)}</a>}
      </Tile>
      <Tile name={say.within(say.ended, say[seen.range])} value={String(ended)}>
        {say.per_minute((ended * 60 / RANGES[seen.range].seconds).toFixed(1))}
      </Tile>
      <Tile
        name={say.within(say.success, say[seen.range])}
        bad={(total.error_rate ?? 0) > 0.1}
        value={total.error_rate === null ? "–" : percent(1 - total.error_rate)}
      >
        {total.error_rate === null ? say.none_yet : say.failures(failed)}
      </Tile>
      <Tile name={say.within(say.wait, say[seen.range])} value={times(wait_p50, wait_p95).value}>
        {times(wait_p50, wait_p95).more}
      </Tile>
      <Tile name={say.within(say.ran, say[seen.range])} value={times(run_p50, run_p95).value}>
        {times(run_p50, run_p95).more}
      </Tile>
    </dl>
  );
}

function Tile({ name, value, bad, children }: { name: string; value: string; bad?: boolean; children?: unknown }) {
  return (
    <div class={bad ? "bad" : undefined}>
      <dt>{name}</dt>
      <dd>
        <strong>{value}</strong>
        <small>{children as string}</small>
      </dd>
    </div>
  );
}

function Backlog({ on, backlog }: { on: RequestContext; backlog: BacklogRow[] }) {
  const say = OVERVIEW[on.lang];
  const rows = backlog.filter((one) => one.waiting > 0);
  return (
    <section>
      <h2>{say.by_priority}</h2>
      {rows.length === 0 ? <p class="nothing">{say.nothing_waits}</p> : (
        <Table
          label={say.by_priority}
          rows={rows}
          columns={[
            { head: say.priority, cell: (one) => one.priority },
            { head: say.backlog, kind: "number", cell: (one) => one.waiting },
            { head: say.age, kind: "number", cell: (one) => durationText(one.oldest_seconds * 1_000) },
          ]}
        />
      )}
    </section>
  );
}

function Nodes({ on, nodes }: { on: RequestContext; nodes: NodeUse[] }) {
  const say = OVERVIEW[on.lang];
  return (
    <section>
      <h2>{say.nodes}</h2>
      {nodes.length === 0 ? <p class="nothing">{say.no_nodes}</p> : (
        <Table
          label={say.nodes}
          rows={nodes}
          columns={[
            { head: say.node, kind: "main", cell: (one) => <a href={nodeLink(on, one.node_id)}>{one.node_id}</a> },
            {
              head: say.slots,
              cell: (one) => (
                <span class="number">
                  <meter value={one.running} max={Math.max(1, one.slots)} aria-label={say.slots}></meter>{" "}
                  {say.of(one.running, one.slots)}
                </span>
              ),
            },
          ]}
        />
      )}
    </section>
  );
}

function Jobs({ on, seen }: { on: RequestContext; seen: Seen }) {
  const say = OVERVIEW[on.lang];
  return (
    <section>
      <h2>
        {say.jobs} <small>{say[seen.range]}</small>
      </h2>
      {seen.jobs.length === 0 ? <p class="nothing">{say.none_yet}</p> : (
        <Table
          label={say.jobs}
          rows={seen.jobs}
          columns={[
            {
              head: say.job,
              kind: "main",
              cell: (one) => <a href={link(on, `/jobs/${one.job_name}`)}>{one.job_name}</a>,
            },
            { head: say.failed, kind: "number", cell: (one) => one.failed + one.timed_out },
            { head: say.succeeded, kind: "number", cell: (one) => one.succeeded },
            {
              head: say.success,
              kind: "number",
              cell: (one) => one.error_rate === null ? "–" : percent(1 - one.error_rate),
            },
          ]}
        />
      )}
    </section>
  );
}

interface FirstStep {
  text: string;
  command?: string;
  done: boolean;
}

/** What is left to do before anything can run; undefined once something has. */
async function firstSteps(on: RequestContext, { workers }: Seen): Promise<FirstStep[] | undefined> {
  const [run] = await listRuns(on.sql, { most: 1 });
  if (run) return undefined;
  const say = OVERVIEW[on.lang];
  const jobs = (await listJobs(on.sql, null, 1)).filter((one) => one.removed_at === null);
  const name = jobs[0]?.name;
  return [
    { text: say.first_worker, command: "deno task worker", done: workers.length > 0 },
    { text: say.first_job, command: "deno task new my_job", done: jobs.length > 0 },
    { text: say.first_sync, command: "deno task sync", done: jobs.length > 0 },
    { text: say.first_run, command: `deno task run ${name ?? "my_job"} --wait`, done: false },
  ];
}

function FirstSteps({ on, steps }: { on: RequestContext; steps: FirstStep[] }) {
  const say = OVERVIEW[on.lang];
  return (
    <section>
      <h2>{say.first}</h2>
      <p class="lead">{say.first_lead}</p>
      <ol class="steps">
        {steps.map(({ text, command, done }) => (
          <li>
            {text} {done && <Badge tone="good" sign="✓" text={say.done} />}
            <br />
            <code>{command}</code>
          </li>
        ))}
      </ol>
    </section>
  );
}
