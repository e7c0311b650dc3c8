/** The steps of a run as a waterfall: a bar for each, what it waits for hatched, and above them the executions with their workers. */
import type { AttemptView, RunView } from "../../../runs/run_view.ts";
import type { StepRow } from "../../../steps/run_steps.ts";
import { State } from "../../parts/badge.tsx";
import { Code } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Duration, Nothing, Time } from "../../parts/time.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { StepActs } from "./step_acts.tsx";
import { t } from "../../../locale/locale.ts";

/** What fits on a page; the rest is in `deno task runs steps`. */
export const STEPS_SHOWN = 300;

interface Shown {
  on: RequestContext;
  run: RunView;
  steps: StepRow[];
}

/** From `from_ms` on, `length_ms` long: what the bars share. */
interface Axis {
  from_ms: number;
  length_ms: number;
}

export function Steps({ on, run, steps, attempts }: Shown & { attempts: AttemptView[] }) {
  if (steps.length === 0) return null;
  const axis = axisOf(on, run, steps, attempts);
  return (
    <section id="steps">
      <h2>
        {t(on, "steps.title")}{" "}
        {steps.length === STEPS_SHOWN && <small>{t(on, "steps.first", { n: STEPS_SHOWN })}</small>}
      </h2>
      <Executions on={on} run={run} attempts={attempts} axis={axis} />
      <Table
        label={t(on, "steps.title")}
        rows={steps}
        columns={[
          { head: "#", kind: "number", cell: ({ seq }) => seq ?? <Nothing /> },
          { head: t(on, "steps.step"), cell: (step) => <Named on={on} step={step} /> },
          { head: t(on, "steps.state"), cell: (step) => <StateOf on={on} step={step} /> },
          { head: t(on, "steps.when"), kind: "main", cell: (step) => <Bar on={on} step={step} axis={axis} /> },
          {
            head: t(on, "runs.took"),
            kind: "number",
            cell: (step) => <Duration on={on} from={step.began_at} to={step.ended_at} />,
          },
          { head: t(on, "steps.outcome"), kind: "text", cell: (step) => <Outcome on={on} step={step} /> },
          { head: t(on, "steps.acts"), cell: (step) => <StepActs on={on} run={run} step={step} /> },
        ]}
      />
    </section>
  );
}

/** Which execution ran when, and where: a row of bars over those of the steps. */
function Executions({ on, run, attempts, axis }: Omit<Shown, "steps"> & { attempts: AttemptView[]; axis: Axis }) {
  const spans = attempts.map(({ attempt, worker_id, started_at, ended_at }) => ({
    attempt,
    worker_id,
    started_at,
    ended_at,
  }));
  const { attempt, assigned_worker_id, started_at, finished_at } = run;
  if (started_at && !spans.some((span) => span.attempt === attempt)) {
    spans.push({ attempt, worker_id: assigned_worker_id, started_at, ended_at: finished_at ?? on.now });
  }
  return (
    <svg
      class="executions"
      viewBox="0 0 1000 10"
      preserveAspectRatio="none"
      role="img"
      aria-label={t(on, "steps.executions")}
    >
      {spans.map(({ attempt, worker_id, started_at, ended_at }) =>
        started_at && (
          <rect
            x={placeOf(started_at, axis)}
            y={0}
            width={widthOf(started_at, ended_at, axis)}
            height={10}
            class="execution"
          >
            <title>{t(on, "steps.execution", { n: attempt, worker: worker_id ?? "?" })}</title>
          </rect>
        )
      )}
    </svg>
  );
}

function Named({ on, step }: { on: RequestContext; step: StepRow }) {
  const { key, orphaned, tries, has_undo, child_run_id, child_bulk_id } = step;
  return (
    <>
      <code class={orphaned ? "soft" : undefined}>
        <bdi>{key}</bdi>
      </code>
      {tries > 1 && <small>{t(on, "steps.tries", { n: tries })}</small>}
      {has_undo && <small>{t(on, "steps.has_undo")}</small>}
      {orphaned && <small>{t(on, "steps.orphaned")}</small>}
      {child_run_id !== null && (
        <small>
          <a href={link(on, `/runs/${child_run_id}`)}>{t(on, "runs.run", { id: child_run_id })}</a>
        </small>
      )}
      {child_bulk_id !== null && (
        <small>
          <a href={link(on, `/bulks/${child_bulk_id}`)}>{t(on, "runs.bulk")} {child_bulk_id}</a>
        </small>
      )}
    </>
  );
}

function StateOf({ on, step }: { on: RequestContext; step: StepRow }) {
  if (step.state === "BEGUN") return <State state={t(on, "steps.begun")} />;
  return <State state={step.state} />;
}

/** Nothing of it is an inline style: the page's policy allows none. */
function Bar({ on, step, axis }: { on: RequestContext; step: StepRow; axis: Axis }) {
  const to = step.ended_at ?? (on.now > step.began_at ? on.now : step.began_at);
  const waits = step.kind !== "step" && step.kind !== "undo";
  return (
    <svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
      <rect
        x={placeOf(step.began_at, axis)}
        y={1}
        width={widthOf(step.began_at, to, axis)}
        height={8}
        class={`step-bar ${step.state} ${waits ? "waits" : "works"}`}
      />
    </svg>
  );
}

function Outcome({ on, step }: { on: RequestContext; step: StepRow }) {
  if (step.error_name !== null) {
    return (
      <details>
        <summary>{step.error_name}</summary>
        <pre><bdi>{step.error_summary}</bdi></pre>
      </details>
    );
  }
  if (step.ended_at === null) {
    return step.until
      ? (
        <>
          {t(on, "steps.until")} <Time on={on} at={step.until} />
        </>
      )
      : <Nothing />;
  }
  if (step.result === null) {
    return step.result_bytes > 4 ? <>{t(on, "steps.long", { bytes: step.result_bytes })}</> : <Nothing />;
  }
  return (
    <details>
      <summary>
        <bdi>{shortText(step.result)}</bdi>
      </summary>
      <Code value={step.result} />
      {step.sent_by && <small>{t(on, "steps.sent_by", { who: step.sent_by })}</small>}
    </details>
  );
}

function shortText(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

function axisOf(on: RequestContext, run: RunView, steps: StepRow[], attempts: AttemptView[]): Axis {
  const begins = [
    ...steps.map(({ began_at }) => began_at),
    ...attempts.map(({ started_at }) => started_at),
    run.started_at,
  ];
  const ends = [run.finished_at ?? on.now, ...steps.map(({ ended_at }) => ended_at)];
  const from_ms = Math.min(...begins.flatMap((at) => at ? [at.getTime()] : []));
  const to_ms = Math.max(...ends.flatMap((at) => at ? [at.getTime()] : []));
  return { from_ms, length_ms: Math.max(1, to_ms - from_ms) };
}

function placeOf(at: Date, { from_ms, length_ms }: Axis): number {
  return Math.round(Math.min(Math.max((at.getTime() - from_ms) / length_ms, 0), 1) * 1_000);
}

/** At least as wide as can be seen. */
function widthOf(from: Date, to: Date, axis: Axis): number {
  return Math.max(4, placeOf(to, axis) - placeOf(from, axis));
}
