/** From the row of a run that was started here to what the sandbox is told of its body. */
import type { Permissions } from "../job.ts";
import type { BodyOrder } from "../sandbox/body_order.ts";
import type { StartedRun } from "../runs/started_runs.ts";

export function bodyOrder(run: StartedRun, job_file: string): BodyOrder {
  return {
    job_run_id: run.job_run_id,
    attempt: run.attempt,
    fence: run.fence,
    job_name: run.job_name,
    job_file,
    digest: run.digest,
    args: run.args_json,
    scheduled_for: run.scheduled_for.toISOString(),
    permissions: run.permissions as Permissions,
    timeout_ms: run.timeout_seconds * 1000,
    kill_grace_ms: run.kill_grace_seconds * 1000,
    memory_mb: run.memory_mb,
    isolation_reuse: run.isolation_reuse,
  };
}
