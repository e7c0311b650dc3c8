/**
 * A span for each attempt, for OpenTelemetry: from the facts, so nothing else knows of it. Loaded only where Deno's exporter
 * is on (OTEL_DENO).
 */
import { type Span, SpanStatusCode, trace } from "@opentelemetry/api";
import { type Facts, hear } from "../platform/facts.ts";

/** From now on; the returned function ends it. */
export function traceRuns(): () => void {
  const tracer = trace.getTracer("dandori");
  const spans = new Map<string, Span>();
  return hear((name, fact) => {
    if (name === "run.started") {
      const { job_run_id, attempt, job_name, worker_id } = fact as Facts["run.started"];
      const attributes = {
        "dandori.run_id": job_run_id,
        "dandori.attempt": attempt,
        "dandori.job": job_name,
        "dandori.worker": worker_id,
      };
      spans.set(`${job_run_id}:${attempt}`, tracer.startSpan(`run ${job_name}`, { attributes }));
    } else if (name === "run.finished") {
      const { job_run_id, attempt, outcome, state } = fact as Facts["run.finished"];
      const key = `${job_run_id}:${attempt}`;
      const span = spans.get(key);
      spans.delete(key);
      span?.setAttributes({ "dandori.outcome": outcome, "dandori.state": state });
      if (outcome !== "SUCCEEDED") span?.setStatus({ code: SpanStatusCode.ERROR, message: outcome });
      span?.end();
    } else if (name === "run.suspended") {
      const { job_run_id, attempt } = fact as Facts["run.suspended"];
      const key = `${job_run_id}:${attempt}`;
      spans.get(key)?.setAttributes({ "dandori.state": "SUSPENDED" }).end();
      spans.delete(key);
    }
  });
}
