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
import { t } from "../../../locale/locale.ts";

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
  const seen = await look(on);
  const [first, steps] = await Promise.all([firstSteps(on, seen), tableSteps(on)]);
  return {
    title: t(on, "overview.overview"),
    assets: ["uplot.css", "plots.js"],
    body: (
      <>
        <Live on={on} id="now" topics={["nodes", "jobs", "alerts", "settings"]}>
          <div class="heading overview">
            <h1>{t(on, "overview.overview")}</h1>
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
  if (seconds !== null && seconds < STALE_SECONDS) return null;
  const text = seconds === null
    ? t(on, "overview.not_counted")
    : t(on, "overview.stale", { text: durationText(seconds * 1_000) });
  return <span class="line" role="status" title={text}>{text}</span>;
}

function Tiles({ on, seen }: { on: RequestContext; seen: Seen }) {
  const { figures, leader } = seen;
  const subleaders = seen.workers.filter((one) => one.role === "subleader").map((one) => one.worker_id);
  const waiting = seen.backlog.reduce((sum, one) => sum + one.waiting, 0);
  const oldest = Math.max(0, ...seen.backlog.map((one) => one.oldest_seconds));
  const { draining, detached } = figures.workers;
  const { jobs_paused, keys_stopped, bulks } = figures;
  return (
    <dl class="tiles">
      <Tile
        name={t(on, "overview.leader")}
        bad={!figures.has_leader}
        value={leader.worker_id ?? t(on, "overview.no_leader")}
      >
        <span>{t(on, "overview.term", { epoch: figures.epoch, failovers: figures.failovers })}</span>
        {leader.worker_id && (
          <span class="beside">
            <Time on={on} at={leader.acquired_at} />
          </span>
        )}
      </Tile>
      <Tile name={t(on, "overview.subleaders")} value={subleaders.length > 0 ? subleaders.join(", ") : "–"}>
        {subleaders.length === 0 && t(on, "overview.no_subleader")}
      </Tile>
      <Tile name={t(on, "overview.workers")} bad={figures.workers.active === 0} value={String(figures.workers.active)}>
        {[
          draining + detached > 0 && t(on, "overview.workers_other", { draining, detached }),
          figures.nodes.unavailable > 0 && t(on, "overview.nodes_away", { n: figures.nodes.unavailable }),
          figures.nodes.maintenance > 0 && t(on, "overview.nodes_locked", { n: figures.nodes.maintenance }),
        ].filter(Boolean).join(" · ")}
      </Tile>
      <Tile
        name={t(on, "overview.slots")}
        value={t(on, "overview.of", { used: figures.slots_used, all: figures.slots })}
      >
        <meter value={figures.slots_used} max={Math.max(1, figures.slots)} aria-label={t(on, "overview.slots")}></meter>
      </Tile>
      <Tile name={t(on, "overview.backlog")} value={String(waiting)}>
        {waiting > 0 && <span>{t(on, "overview.oldest", { text: durationText(oldest * 1_000) })}</span>}
        {jobs_paused + keys_stopped > 0 && (
          <a class="beside" href={link(on, "/queue")}>
            {t(on, "overview.stopped", { what: stoppedTexts(on, jobs_paused, keys_stopped) })}
          </a>
        )}
        {bulks.paused > 0 && (
          <a class="beside" href={link(on, "/bulks")}>{t(on, "overview.bulks_paused", { n: bulks.paused })}</a>
        )}
      </Tile>
      <RunTiles on={on} seen={seen} />
    </dl>
  );
}

function RunTiles({ on, seen: { total, range } }: { on: RequestContext; seen: Seen }) {
  const { wait_p50, wait_p95, run_p50, run_p95 } = total;
  const failed = total.failed + total.timed_out;
  const ended = total.succeeded + failed + total.canceled + total.skipped;
  const within = (name: "overview.ended" | "overview.success" | "overview.wait" | "overview.ran") =>
    t(on, "overview.within", { name: t(on, name), range: t(on, `overview.range.${range}`) });
  const times = (p50: number | null, p95: number | null) => ({
    value: p50 === null ? "–" : durationText(p50 * 1_000),
    more: p95 === null ? t(on, "overview.none_yet") : t(on, "overview.p95", { text: durationText(p95 * 1_000) }),
  });
  return (
    <>
      <Tile
        name={within("overview.ended")}
        value={String(ended)}
      >
        {t(on, "overview.per_minute", { n: (ended * 60 / RANGES[range].seconds).toFixed(1) })}
      </Tile>
      <Tile
        name={within("overview.success")}
        bad={(total.error_rate ?? 0) > 0.1}
        value={total.error_rate === null ? "–" : percent(1 - total.error_rate)}
      >
        {total.error_rate === null ? t(on, "overview.none_yet") : t(on, "overview.failures", { n: failed })}
      </Tile>
      <Tile
        name={within("overview.wait")}
        value={times(wait_p50, wait_p95).value}
      >
        {times(wait_p50, wait_p95).more}
      </Tile>
      <Tile
        name={within("overview.ran")}
        value={times(run_p50, run_p95).value}
      >
        {times(run_p50, run_p95).more}
      </Tile>
    </>
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
  const rows = backlog.filter((one) => one.waiting > 0);
  return (
    <section>
      <h2>{t(on, "overview.by_priority")}</h2>
      {rows.length === 0 ? <p class="nothing">{t(on, "overview.nothing_waits")}</p> : (
        <Table
          label={t(on, "overview.by_priority")}
          rows={rows}
          columns={[
            { head: t(on, "overview.priority"), cell: (one) => one.priority },
            { head: t(on, "overview.backlog"), kind: "number", cell: (one) => one.waiting },
            { head: t(on, "overview.age"), kind: "number", cell: (one) => durationText(one.oldest_seconds * 1_000) },
          ]}
        />
      )}
    </section>
  );
}

function Nodes({ on, nodes }: { on: RequestContext; nodes: NodeUse[] }) {
  return (
    <section>
      <h2>{t(on, "overview.nodes")}</h2>
      {nodes.length === 0 ? <p class="nothing">{t(on, "overview.no_nodes")}</p> : (
        <Table
          label={t(on, "overview.nodes")}
          rows={nodes}
          columns={[
            {
              head: t(on, "overview.node"),
              kind: "main",
              cell: (one) => <a href={nodeLink(on, one.node_id)}>{one.node_id}</a>,
            },
            {
              head: t(on, "overview.slots"),
              cell: (one) => (
                <span class="number">
                  <meter value={one.running} max={Math.max(1, one.slots)} aria-label={t(on, "overview.slots")}></meter>
                  {" "}
                  {t(on, "overview.of", { used: one.running, all: one.slots })}
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
  return (
    <section>
      <h2>
        {t(on, "overview.jobs")} <small>{t(on, `overview.range.${seen.range}`)}</small>
      </h2>
      {seen.jobs.length === 0 ? <p class="nothing">{t(on, "overview.none_yet")}</p> : (
        <Table
          label={t(on, "overview.jobs")}
          rows={seen.jobs}
          columns={[
            {
              head: t(on, "overview.job"),
              kind: "main",
              cell: (one) => <a href={link(on, `/jobs/${one.job_name}`)}>{one.job_name}</a>,
            },
            { head: t(on, "overview.line.failed"), kind: "number", cell: (one) => one.failed + one.timed_out },
            { head: t(on, "overview.line.succeeded"), kind: "number", cell: (one) => one.succeeded },
            {
              head: t(on, "overview.success"),
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
  const jobs = (await listJobs(on.sql, null, 1)).filter((one) => one.removed_at === null);
  const name = jobs[0]?.name;
  return [
    { text: t(on, "overview.first_worker"), command: "deno task worker", done: workers.length > 0 },
    { text: t(on, "overview.first_job"), command: "deno task new my_job", done: jobs.length > 0 },
    { text: t(on, "overview.first_sync"), command: "deno task sync", done: jobs.length > 0 },
    { text: t(on, "overview.first_run"), command: `deno task run ${name ?? "my_job"} --wait`, done: false },
  ];
}

function FirstSteps({ on, steps }: { on: RequestContext; steps: FirstStep[] }) {
  return (
    <section>
      <h2>{t(on, "overview.first")}</h2>
      <p class="lead">{t(on, "overview.first_lead")}</p>
      <ol class="steps">
        {steps.map(({ text, command, done }) => (
          <li>
            {text} {done && <Badge tone="good" sign="✓" text={t(on, "overview.done")} />}
            <br />
            <code>{command}</code>
          </li>
        ))}
      </ol>
    </section>
  );
}

function stoppedTexts(on: RequestContext, jobs: number, keys: number): string[] {
  return [
    jobs > 0 && t(on, "overview.stopped_jobs", { n: jobs }),
    keys > 0 && t(on, "overview.stopped_keys", { n: keys }),
  ].filter((text) => typeof text === "string");
}
