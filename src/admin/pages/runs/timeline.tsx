/** What became of a run, from its creation to its end, every attempt of it: when, and how long it took. */
import type { Child } from "hono/jsx";
import type { AttemptView, RunView } from "../../../runs/run_view.ts";
import { Duration, Nothing, Time } from "../../parts/time.tsx";
import type { RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** Earlier ones are in the table below it. */
const ATTEMPTS_SHOWN = 4;

interface Shown {
  on: RequestContext;
  run: RunView;
}

export function Timeline({ on, run, attempts }: Shown & { attempts: AttemptView[] }) {
  const shown = attempts.slice(-ATTEMPTS_SHOWN);
  const left_out = attempts.length - shown.length;
  return (
    <ol class="timeline" aria-label={t(on, "runs.timeline")}>
      <Step on={on} name={t(on, "runs.created")} at={run.created_at} />
      {attempts.length === 0 && <Step on={on} name={t(on, "runs.due")} at={run.due_at} />}
      {left_out > 0 && (
        <Step
          on={on}
          name={t(on, "runs.attempts_more", { n: left_out })}
          at={attempts[left_out - 1]?.ended_at ?? null}
        />
      )}
      {shown.map((one) => (
        <Step
          on={on}
          name={t(on, "runs.attempt_ended", { n: one.attempt, outcome: one.outcome })}
          at={one.ended_at}
          tone={TONES[one.outcome]}
        >
          {one.started_at && (
            <>
              {t(on, "runs.ran")} <Duration on={on} from={one.started_at} to={one.ended_at} />
            </>
          )}
        </Step>
      ))}
      <Last on={on} run={run} retried={attempts.length > 0} />
    </ol>
  );
}

const TONES: Record<string, string> = { FAILED: "bad", TIMED_OUT: "bad", LOST: "warn" };

/** The attempt that decides it, or will. An earlier one's times may stand in the row until the next begins. */
function Last({ on, run, retried }: Shown & { retried: boolean }) {
  const between = run.state === "RETRYING" || run.state === "ORPHANED" || run.state === "SUSPENDED";
  const [assigned_at, started_at] = between ? [null, null] : [run.assigned_at, run.started_at];
  const waits = !started_at && !run.finished_at;
  return (
    <>
      {retried && between && run.state !== "SUSPENDED" && (
        <Step on={on} name={`${run.state} · ${t(on, "runs.due")}`} at={run.due_at} />
      )}
      <Step on={on} name={t(on, "runs.assigned")} at={assigned_at} />
      <Step on={on} name={t(on, "runs.started")} at={started_at}>
        {(started_at || waits) && !retried && run.due_at <= on.now && (
          <>
            {t(on, "runs.waited")} <Duration on={on} from={run.due_at} to={started_at} />
          </>
        )}
      </Step>
      {run.cancel_requested_at && (
        <Step on={on} name={t(on, "runs.cancel_asked")} at={run.cancel_requested_at} tone="warn" />
      )}
      <Step on={on} name={run.finished_at ? run.state : t(on, "runs.finished")} at={run.finished_at}>
        {started_at && (
          <>
            {t(on, "runs.ran")} <Duration on={on} from={started_at} to={run.finished_at} />
          </>
        )}
      </Step>
    </>
  );
}

function Step(
  { on, name, at, tone, children }: {
    on: RequestContext;
    name: string;
    at: Date | null;
    tone?: string;
    children?: Child;
  },
) {
  const done = at && at <= on.now;
  return (
    <li class={[done && "done", tone].filter(Boolean).join(" ") || undefined}>
      <strong>{name}</strong>
      {at ? <Time on={on} at={at} /> : <Nothing />}
      <span class="took">{children}</span>
    </li>
  );
}
