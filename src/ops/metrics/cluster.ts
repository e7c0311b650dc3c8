/**
 * The cluster's metrics, as Prometheus reads them: from Postgres alone, so any process can give them and all give the same.
 *
 * They are read once in `CACHE_MS` however many ask, and what waits and what ended comes from what the leader counts
 * (stats/run_stats.ts): a scrape costs the same with ten runs as with ten million.
 * Labels are few by design: a job's name is the only one that grows, and jobs beyond `MOST_JOBS` share the label "(other)",
 * by age, so that no series ever changes its meaning. It is `job_name`, since `job` is Prometheus' own. No run, key, node, worker or tenant is ever a label.
 */
import { Gauge, Registry } from "prom-client";
import { monotonicMs } from "../../platform/timers.ts";
import { ALERT_KINDS } from "../../alerts/alerts.ts";
import type { Sql } from "../../postgres/connection.ts";
import { type Figures, readFigures } from "../../stats/gauges.ts";
import { type BacklogRow, readBacklog } from "../../stats/load_stats.ts";
import { type AllTime, BOUNDS, readAllTime, type Sums } from "../../stats/run_stats.ts";
import { toldCounter, toldHistogram, type Value } from "./told.ts";

export const METRICS_CONTENT_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

const CACHE_MS = 5_000;
const MOST_JOBS = 200;

interface Read {
  figures: Figures;
  backlog: BacklogRow[];
  jobs: AllTime[];
}

interface Cached {
  at_ms: number;
  text: Promise<string>;
}

const cached = new WeakMap<Sql, Cached>();

/** What `/metrics` answers. Read at most once in five seconds from one `sql`; who asks meanwhile gets the same text. */
export function metricsText(sql: Sql): Promise<string> {
  const before = cached.get(sql);
  if (before && monotonicMs() - before.at_ms < CACHE_MS) return before.text;
  const text = readAll(sql).then((read) => clusterRegistry(read).metrics());
  cached.set(sql, { at_ms: monotonicMs(), text });
  text.catch(() => cached.delete(sql)); // the next one asks again
  return text;
}

async function readAll(sql: Sql): Promise<Read> {
  const [figures, backlog, jobs] = await Promise.all([readFigures(sql), readBacklog(sql), readAllTime(sql)]);
  return { figures, backlog, jobs };
}

const OUTCOMES = ["succeeded", "failed", "timed_out", "canceled", "skipped"] as const;

/** Pure: a registry that holds what was read. */
export function clusterRegistry({ figures, backlog, jobs }: Read): Registry {
  const registry = new Registry();
  addRuns(registry, jobs);
  addQueue(registry, backlog, figures);
  addCluster(registry, figures);
  return registry;
}

function addRuns(registry: Registry, jobs: Read["jobs"]): void {
  const labeled = jobs.map((one) => ({ ...one, job: one.place < MOST_JOBS ? one.job_name : "(other)" }));
  const shared = merged(labeled);
  addCounter(
    registry,
    "runs_total",
    "Runs that ended, by outcome",
    shared.flatMap((sums) =>
      OUTCOMES.map((outcome) => ({ labels: { job_name: sums.job, outcome }, value: sums[outcome] }))
    ),
  );
  addCounter(
    registry,
    "runs_quarantined_total",
    "Runs that failed for good since they were interrupted too often",
    shared.map(({ job, quarantined }) => ({ labels: { job_name: job }, value: quarantined })),
  );
  const histogram = (name: string, help: string, counts: "waits" | "runs", sum: "wait_seconds" | "run_seconds") =>
    registry.registerMetric(
      toldHistogram(`dandori_${name}`, help, {
        bounds: BOUNDS,
        series: shared.map((one) => ({ labels: { job_name: one.job }, counts: one[counts], sum: one[sum] })),
      }),
    );
  histogram("run_wait_seconds", "From due to started, of runs that ended", "waits", "wait_seconds");
  histogram("run_duration_seconds", "From started to finished, of runs that ended", "runs", "run_seconds");
}

function addQueue(registry: Registry, backlog: BacklogRow[], figures: Figures): void {
  const gauge = (name: string, help: string, values: Value[]) => addGauge(registry, name, help, values);
  gauge(
    "queue_runs",
    "Runs that are due and have not started, by the nearest named priority",
    backlog.map(({ priority, waiting }) => ({ labels: { priority }, value: waiting })),
  );
  gauge(
    "queue_oldest_seconds",
    "How long the run that has waited longest has been due",
    backlog.map(({ priority, oldest_seconds }) => ({ labels: { priority }, value: oldest_seconds })),
  );
  gauge("events_waiting", "Events whose runs are not made yet", one(figures.events_waiting));
  gauge("events_oldest_seconds", "How old the oldest of those is", one(figures.event_oldest_seconds));
  gauge("bulks", "Bulks that have not ended, by state", by("state", figures.bulks));
  gauge("serial_keys_stopped", "Serial keys whose next run must not start", one(figures.keys_stopped));
  gauge("jobs_paused", "Jobs that are paused", one(figures.jobs_paused));
  const none = Object.fromEntries(ALERT_KINDS.map((kind) => [kind, 0]));
  gauge("alerts_open", "Alerts that are open, by kind", by("kind", { ...none, ...figures.alerts }));
  gauge("alert_deliveries_waiting", "Messages that the webhook has not taken", one(figures.deliveries_waiting));
  gauge(
    "counted_seconds_ago",
    "Since the leader last counted; what is said of runs and the queue is as old",
    one(figures.counted_seconds_ago),
  );
}

function addCluster(registry: Registry, figures: Figures): void {
  const gauge = (name: string, help: string, values: Value[]) => addGauge(registry, name, help, values);
  gauge("slots", "Bodies that the workers which take work may run at once", one(figures.slots));
  gauge("slots_used", "Runs that those workers have or were given", one(figures.slots_used));
  gauge("workers", "Workers whose lease holds, by state", by("state", figures.workers));
  gauge(
    "nodes",
    "Nodes by what their last check found; in maintenance they are not checked",
    by("status", figures.nodes),
  );
  gauge("leader_epoch", "The number of the leader's term", one(figures.epoch));
  gauge("leader_up", "1 while somebody leads", one(Number(figures.has_leader)));
  addCounter(
    registry,
    "failovers_total",
    "Times the lead was taken from a leader that had not given it back",
    one(figures.failovers),
  );
  gauge(
    "certificate_expiry_seconds",
    "Until the first certificate of a live worker ends; less than 0: it has ended",
    one(figures.certificate_seconds),
  );
  gauge(
    "clock_skew_seconds",
    "By how much the worst clock of a live worker differs from the database's",
    one(figures.clock_skew_seconds),
  );
}

function addGauge(registry: Registry, name: string, help: string, values: Value[]): void {
  const labelNames = Object.keys(values[0]?.labels ?? {});
  const gauge = new Gauge({ name: `dandori_${name}`, help, labelNames, registers: [registry] });
  if (values.length === 0) gauge.remove(); // nothing is known: no value, rather than 0
  for (const { labels, value } of values) gauge.set(labels, value);
}

function addCounter(registry: Registry, name: string, help: string, values: Value[]): void {
  registry.registerMetric(toldCounter(`dandori_${name}`, help, values));
}

function one(value: number | null): Value[] {
  return value === null ? [] : [{ labels: {}, value }];
}

function by(label: string, values: Record<string, number>): Value[] {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

/** One for each label; those with the same are added up. */
function merged(jobs: ({ job: string } & Sums)[]): ({ job: string } & Sums)[] {
  const sums = new Map<string, { job: string } & Sums>();
  for (const { ...one } of jobs) {
    const before = sums.get(one.job);
    if (!before) sums.set(one.job, one);
    else {
      for (const name of [...OUTCOMES, "quarantined", "wait_seconds", "run_seconds"] as const) {
        before[name] += one[name];
      }
      for (const name of ["waits", "runs"] as const) {
        before[name] = before[name].map((count, place) => count + (one[name][place] ?? 0));
      }
    }
  }
  return [...sums.values()];
}
