/** Workers, nodes, run queues and runs as the leader reads them, with what differs, and what it chooses among them. */
import { placesFor, takesPart } from "../../src/leader/assignment.ts";
import { choose, openOf } from "../../src/leader/scheduling.ts";
import { admissionsOf } from "../../src/leader/admission.ts";
import { CapacitySnapshot, hostsOf } from "../../src/leader/placement.ts";
import type { NodeRow, WorkerRow } from "../../src/nodes/workers.ts";
import type { Candidate, RunQueue } from "../../src/dispatch/dispatch_queues.ts";

export const worker = (worker_id: string, more: Partial<WorkerRow> = {}): WorkerRow => ({
  worker_id,
  node_id: "n1",
  state: "ACTIVE",
  grpc_host: "127.0.0.1",
  grpc_port: 1,
  tls_fingerprint: "",
  tls_former_fingerprint: null,
  slots: 2,
  load: 0,
  ahead: 0,
  ...more,
});
export const run = (job_run_id: number, more: Partial<Candidate> = {}): Candidate => ({
  job_run_id,
  job_definition_id: 1,
  version: 0,
  node: "",
  serial_key: null,
  limit_key: null,
  limit_left: null,
  bulk_id: null,
  bulk_left: null,
  digest: "d",
  avoid_node: null,
  worn_out: false,
  behind: false,
  ...more,
});
export const queue = (more: Partial<RunQueue> = {}): RunQueue => ({
  job_definition_id: 1,
  job_name: "job",
  node: "",
  digest: "d",
  removed: false,
  paused_by: null,
  paused_reason: null,
  concurrency_limit: null,
  concurrency_key: null,
  running: 0,
  resources: {},
  rate_count: null,
  rate_seconds: null,
  rate_wait_ms: -1,
  ...more,
});
export const node = (node_id: string, more: Partial<NodeRow> = {}): NodeRow => ({
  node_id,
  is_active: true,
  status: "available",
  labels: {},
  max_concurrent: null,
  left_behind: 0,
  problem: null,
  checked: true,
  inactive_by: null,
  inactive_reason: null,
  ...more,
});

/** A capacity snapshot of workers, each given as its name, with what differs; nodes as they are named. */
export function capacity(
  workers: Record<string, Partial<WorkerRow>>,
  { nodes = [], leader = "", prefetch, lineLeft, ...more }:
    & Partial<ConstructorParameters<typeof CapacitySnapshot>[0]>
    & Partial<Pick<Parameters<typeof placesFor>[1], "prefetch" | "lineLeft">>
    & { nodes?: NodeRow[]; leader?: string } = {},
): CapacitySnapshot {
  const rows = Object.entries(workers).map(([worker_id, columns]) => worker(worker_id, columns));
  const placed = rows.map((row) => ({
    ...row,
    node: nodes.find((one) => one.node_id === row.node_id) ?? node(row.node_id),
  }));
  const monitor = placesFor(placed.filter((one) => takesPart(one.node)), {
    leader_worker_id: leader,
    leader_runs_jobs: "alone",
    fit: () => true,
    prefetch,
    lineLeft: lineLeft ?? (() => Infinity),
  });
  return new CapacitySnapshot({ hosts: hostsOf(placed, monitor), ...more });
}

/** What is chosen of these runs when their run queues are as open as the capacity snapshot says. */
export function chosen(
  waiting: Candidate[],
  place: CapacitySnapshot,
  lanes: RunQueue[] = [...new Set(waiting.map((one) => one.node))].map((node) => queue({ node })),
) {
  const open = openOf(admissionsOf(lanes, place));
  return choose(waiting, open, place).map((one) => [one.job_run_id, one.worker_id]);
}
