/** From the row of a run that was started here to what the sandbox is told of its body. */
import type { Permissions } from "../job.ts";
import type { BodyOrder } from "../sandbox/body_order.ts";
import type { StepOrder } from "../sandbox/frames/step_frames.ts";
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
    steps: stepOrder(run),
  };
}

/** What is as usual is left out: it goes with each run, and most use no steps. */
function stepOrder(run: StartedRun): StepOrder {
  const steps: StepOrder = { started_unix_ms: run.started_unix_ms };
  if (run.suspensions > 0) steps.suspensions = run.suspensions;
  steps.messages = run.messages; // also none: a wait for what nobody can send would never end
  if (run.max_retries > 0 || Object.keys(run.retry_on).length > 0) {
    steps.retry = {
      max: run.max_retries,
      backoffSeconds: run.retry_backoff_seconds,
      factor: run.retry_factor,
      jitter: run.retry_jitter,
      on: run.retry_on,
    };
  }
  if (run.journal) steps.journal = run.journal;
  return steps;
}
