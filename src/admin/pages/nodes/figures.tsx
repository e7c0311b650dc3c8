/** How nodes and workers are shown: states, load, certificates and clocks. */
import type { Settings } from "../../../settings/settings.ts";
import type { NodeListing } from "../../../nodes/node_health.ts";
import type { WorkerListing } from "../../../nodes/workers.ts";
import { versionOf } from "../../../runs/wait_reason.ts";
import type { RunView } from "../../../runs/run_view.ts";
import { Badge, State, type Tone } from "../../parts/badge.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Duration, Nothing, Time } from "../../parts/time.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { problemOf } from "../../parts/part_text.ts";
import { saidText, t } from "../../../locale/locale.ts";

const STATUS: Record<NodeListing["status"], { tone: Tone; sign: string }> = {
  available: { tone: "good", sign: "✓" },
  busy: { tone: "warn", sign: "◔" },
  unavailable: { tone: "bad", sign: "✕" },
};

const WORKER: Record<string, { tone: Tone; sign: string }> = {
  ACTIVE: { tone: "good", sign: "✓" },
  DRAINING: { tone: "warn", sign: "↓" },
  DETACHED: { tone: "bad", sign: "⊘" },
  DEAD: { tone: "quiet", sign: "✕" },
};

export function NodeStatus({ on, node }: { on: RequestContext; node: NodeListing }) {
  const { tone, sign } = STATUS[node.status];
  return (
    <span class="states">
      {node.is_active
        ? <Badge tone={tone} sign={sign} text={node.status} />
        : <Badge tone="quiet" sign="‖" text={t(on, "nodes.maintenance")} />}
      {node.checking && <Badge tone="busy" sign="◌" text={t(on, "nodes.checking")} />}
    </span>
  );
}

export function WorkerState({ worker }: { worker: Pick<WorkerListing, "state"> }) {
  const { tone, sign } = WORKER[worker.state] ?? { tone: "quiet", sign: "·" };
  return <Badge tone={tone} sign={sign} text={worker.state} />;
}

export function Role({ role }: { role: WorkerListing["role"] }) {
  if (role === "worker") return <span class="nothing">{role}</span>;
  return <Badge tone={role === "leader" ? "busy" : "quiet"} sign={role === "leader" ? "★" : "☆"} text={role} />;
}

/** Why it gets no work, in one line; "" when it does. */
export function whyNot(on: RequestContext, node: NodeListing): string {
  if (!node.is_active) {
    const reason = saidText(on, node.inactive_reason ?? "");
    return [node.inactive_by ?? "", reason].filter((word) => word !== "").join(": ");
  }
  if (node.status === "available") return "";
  return problemOf(on, node) ?? (node.checked_at === null ? t(on, "nodes.never") : "");
}

/** `most` null: nobody knows how much is too much. */
export function Load({ load, most, label }: { load: number; most: number | null; label: string }) {
  return (
    <span class="load">
      {most !== null && most > 0 && <meter value={load} max={most} high={most * 0.9} aria-label={label}></meter>}
      <span class="number">{most === null ? load : `${load}/${most}`}</span>
    </span>
  );
}

export function Labels({ labels }: { labels: Record<string, string> }) {
  const all = Object.entries(labels);
  if (all.length === 0) return <Nothing />;
  return <span class="labels">{all.map(([name, value]) => <code>{`${name}=${value}`}</code>)}</span>;
}

export function Expiry({ on, worker, settings }: { on: RequestContext; worker: WorkerListing; settings: Settings }) {
  const at = worker.tls_not_after;
  if (!at) return <Nothing />;
  const days = (at.getTime() - on.now.getTime()) / 86_400_000;
  const tone = days < 0 ? "bad" : days < settings.alert_certificate_days ? "warn" : undefined;
  return (
    <span class="states">
      {tone && <Badge tone={tone} sign="!" text={`${Math.floor(days)} d`} />} <Time on={on} at={at} />
    </span>
  );
}

export function Skew({ on, worker, settings }: { on: RequestContext; worker: WorkerListing; settings: Settings }) {
  const ms = worker.clock_skew_ms;
  if (ms === null) return <Nothing />;
  const text = t(on, "nodes.skew_text", { ms: Math.abs(ms), behind: ms < 0 });
  const far = Math.abs(ms) > settings.alert_clock_skew_seconds * 1000;
  return far ? <Badge tone="warn" sign="!" text={text} /> : <span>{text}</span>;
}

export function leaseUntil(on: RequestContext, worker: WorkerListing): Date | null {
  if (worker.lease_seconds_left <= 0) return null;
  return new Date(on.now.getTime() + worker.lease_seconds_left * 1000);
}

/** Whether its job files are what was synced. */
function Files({ on, worker }: { on: RequestContext; worker: Pick<WorkerListing, "other_jobs" | "other_code"> }) {
  if (worker.other_jobs === null) return <Nothing />;
  if (worker.other_jobs === 0) return <Badge tone="good" sign="✓" text={t(on, "nodes.as_synced")} />;
  return (
    <span title={worker.other_code.map(({ job_name }) => job_name).join(", ")}>
      <Badge tone="warn" sign="≠" text={t(on, "nodes.differ", { n: worker.other_jobs })} />
    </span>
  );
}

/** Which of them are not; nothing where all are. */
export function OtherFiles(
  { on, worker }: { on: RequestContext; worker: Pick<WorkerListing, "other_jobs" | "other_code"> },
) {
  const more = (worker.other_jobs ?? 0) - worker.other_code.length;
  if (worker.other_code.length === 0) return null;
  return (
    <section>
      <h2>
        {t(on, "nodes.other_files")}{" "}
        {more > 0 && <small>{t(on, "nodes.first_jobs", { n: worker.other_code.length })}</small>}
      </h2>
      <p>{t(on, "nodes.other_files_text")}</p>
      <Table
        label={t(on, "nodes.other_files")}
        rows={worker.other_code}
        columns={[
          { head: t(on, "nodes.job"), cell: ({ job_name }) => <a href={link(on, `/jobs/${job_name}`)}>{job_name}</a> },
          { head: t(on, "nodes.synced"), cell: ({ digest }) => <code title={digest}>{versionOf(digest)}</code> },
          {
            head: t(on, "nodes.found_here"),
            kind: "main",
            cell: ({ found, problem }) =>
              found === null ? <span>{problem}</span> : <code title={found}>{versionOf(found)}</code>,
          },
        ]}
      />
    </section>
  );
}

export function workerColumns(on: RequestContext, with_node: boolean): TableColumn<WorkerListing>[] {
  const node: TableColumn<WorkerListing> = {
    head: t(on, "nodes.node"),
    cell: ({ node_id }) => <a class="number" href={nodeLink(on, node_id)}>{node_id}</a>,
  };
  return [
    {
      head: t(on, "nodes.worker"),
      cell: (one) => <a class="number" href={workerLink(on, one.worker_id)}>{one.worker_id}</a>,
    },
    ...with_node ? [node] : [],
    { head: t(on, "nodes.state"), cell: (one) => <WorkerState worker={one} /> },
    { head: t(on, "nodes.role"), cell: (one) => <Role role={one.role} /> },
    { head: t(on, "nodes.load"), cell: (one) => <Load load={one.load} most={one.slots} label={t(on, "nodes.load")} /> },
    { head: t(on, "nodes.files"), cell: (one) => <Files on={on} worker={one} /> },
    { head: t(on, "nodes.seen"), kind: "wide", cell: (one) => <Time on={on} at={one.seen_at} /> },
    { head: t(on, "nodes.lease"), kind: "wide", cell: (one) => <Time on={on} at={leaseUntil(on, one)} /> },
    { head: t(on, "nodes.version"), kind: "wide", cell: (one) => one.version || <Nothing /> },
    { head: t(on, "nodes.started"), kind: "wide", cell: (one) => <Time on={on} at={one.started_at} /> },
  ];
}

/** More than these are counted, not listed. */
export const MOST_RUNS = 50;

export function Carried({ on, runs }: { on: RequestContext; runs: RunView[] }) {
  return (
    <section>
      <h2>
        {t(on, "nodes.runs")}{" "}
        {runs.length === MOST_RUNS && <small>{t(on, "nodes.first_runs", { n: MOST_RUNS })}</small>}
      </h2>
      {runs.length === 0 ? <p class="nothing">{t(on, "nodes.no_runs")}</p> : (
        <Table
          label={t(on, "nodes.runs")}
          rows={runs}
          columns={[
            {
              head: t(on, "nodes.run"),
              kind: "number",
              cell: (run) => <a href={link(on, `/runs/${run.id}`)}>{run.id}</a>,
            },
            { head: t(on, "nodes.job"), kind: "main", cell: (run) => run.job_name },
            { head: t(on, "nodes.state"), cell: (run) => <State state={run.state} /> },
            {
              head: t(on, "nodes.took"),
              kind: "number",
              cell: (run) => <Duration on={on} from={run.started_at} to={null} />,
            },
            { head: t(on, "nodes.worker"), kind: "wide", cell: (run) => run.assigned_worker_id },
          ]}
        />
      )}
    </section>
  );
}

export function nodeLink(on: RequestContext, node_id: string): string {
  return link(on, `/nodes/${encodeURIComponent(node_id)}`);
}

export function workerLink(on: RequestContext, worker_id: string): string {
  return link(on, `/workers/${encodeURIComponent(worker_id)}`);
}
