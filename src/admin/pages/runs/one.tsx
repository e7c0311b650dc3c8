/** One run: where it is and why, what it said, what became of its attempts, and what can be done to it. */
import { parseLogRef } from "../../../archive/log_ref.ts";
import { LogUnreadable, RunLog } from "../../../actions/run_log.ts";
import type { LogLineView } from "../../../runs/run_logs.ts";
import { type AttemptView, readAttempts, readReruns, readRun, type RunView } from "../../../runs/run_view.ts";
import { TERMINAL } from "../../../runs/run_states.ts";
import { listSteps } from "../../../steps/run_steps.ts";
import { State } from "../../parts/badge.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, KeyValues, Problem } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Duration, Nothing, Time, timeText } from "../../parts/time.tsx";
import { Why } from "../../parts/why.tsx";
import { idParam, link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { nodeLink, workerLink } from "../nodes/figures.tsx";
import { ActButtons, Dialogs } from "./dialogs.tsx";
import { messageNames, SendButtons } from "./step_acts.tsx";
import { Steps, STEPS_SHOWN } from "./steps.tsx";
import { Timeline } from "./timeline.tsx";
import { saidText, t } from "../../../locale/locale.ts";

/** What fits on a page; the rest is in `deno task runs logs`. */
const LOG_LINES = 300;
const RERUNS_SHOWN = 20;

export async function showRun(on: RequestContext): Promise<Page> {
  const id = idParam(on);
  const run = await readRun(on.sql, id);
  if (!run) throw new PageError(404);
  const log = new RunLog(on, run);
  const [attempts, lines, reruns, steps, names] = await Promise.all([
    readAttempts(on.sql, id),
    log.readTail(LOG_LINES).catch(unreadable),
    readReruns(on.sql, id, RERUNS_SHOWN),
    listSteps(on.sql, id, { most: STEPS_SHOWN }),
    messageNames(on, run),
  ]);
  return {
    title: `${t(on, "runs.run", { id })} · ${run.job_name}`,
    body: (
      <>
        <Live on={on} id="run" topics={[`run:${id}`]}>
          <Heading on={on} run={run} />
          <Now on={on} run={run} />
          <SendButtons on={on} run={run} names={names} />
          <Timeline on={on} run={run} attempts={attempts} />
          <Steps on={on} run={run} steps={steps} attempts={attempts} />
          <Attempts on={on} attempts={attempts} />
          <Log on={on} run={run} lines={lines} />
          <Values on={on} run={run} reruns={reruns} />
        </Live>
        {may(on, "operator") && <Dialogs on={on} run={run} />}
      </>
    ),
  };
}

function Heading({ on, run }: { on: RequestContext; run: RunView }) {
  return (
    <div class="heading">
      <h1>
        {t(on, "runs.run", { id: run.id })} <State state={run.state} />
        <small>
          {t(on, "runs.of_job")} <a href={link(on, `/jobs/${run.job_name}`)}>{run.job_name}</a>
        </small>
      </h1>
      {may(on, "operator") && <ActButtons on={on} run={run} />}
    </div>
  );
}

/** The one thing to know about it now. */
function Now({ on, run }: { on: RequestContext; run: RunView }) {
  const ended = TERMINAL.includes(run.state);
  return (
    <>
      {run.waits && (
        <p class="now">
          <strong>{t(on, "runs.why")}:</strong> <Why on={on} waits={run.waits} />
        </p>
      )}
      {!ended && run.cancel_requested_by && <p class="now">{t(on, "runs.asked", { who: run.cancel_requested_by })}</p>}
      {run.continuation_state === "CONFIRMING" && (
        <p class="now">
          {t(on, "runs.confirming")}: <Time on={on} at={run.continuation_check_deadline_at} />
        </p>
      )}
      {!ended && run.progress !== null && (
        <p class="now">
          <progress value={run.progress} max={1} aria-label={t(on, "runs.progress")}></progress>{" "}
          {Math.round(run.progress * 100)} % {run.progress_message}
        </p>
      )}
      {run.error_summary && (
        <Problem title={run.error_name ?? t(on, "runs.error")} text={saidText(on, run.error_summary)} />
      )}
    </>
  );
}

function Attempts({ on, attempts }: { on: RequestContext; attempts: AttemptView[] }) {
  if (attempts.length === 0) return null;
  return (
    <section>
      <h2>{t(on, "runs.attempts")}</h2>
      <Table
        label={t(on, "runs.attempts")}
        rows={attempts}
        columns={[
          { head: t(on, "runs.attempt"), kind: "number", cell: (one) => one.attempt },
          { head: t(on, "runs.outcome"), cell: (one) => <State state={one.outcome} /> },
          {
            head: t(on, "runs.error"),
            kind: "main",
            cell: (one) => <pre>{saidText(on, one.error_summary ?? "")}</pre>,
          },
          {
            head: t(on, "runs.took"),
            kind: "number",
            cell: (one) => <Duration on={on} from={one.started_at} to={one.ended_at} />,
          },
          { head: t(on, "runs.finished"), kind: "wide", cell: (one) => <Time on={on} at={one.ended_at} /> },
          { head: t(on, "runs.worker"), kind: "wide", cell: (one) => one.worker_id ?? <Nothing /> },
        ]}
      />
    </section>
  );
}

/** The rest of the page is worth showing without its log. */
function unreadable(error: unknown): LogUnreadable {
  if (error instanceof LogUnreadable) return error;
  throw error;
}

function Log({ on, run, lines: read }: { on: RequestContext; run: RunView; lines: LogLineView[] | LogUnreadable }) {
  const { parts, deleted_on, others } = parseLogRef(run.log_ref);
  const lines = read instanceof LogUnreadable ? [] : read;
  return (
    <section>
      <h2>
        {t(on, "runs.log")} {lines.length === LOG_LINES && <small>{t(on, "runs.log_tail", { n: LOG_LINES })}</small>}
        {others.map((other) => (
          <small>
            {t(on, "runs.log_ref")}: <LogRef log_ref={other} />
          </small>
        ))}
      </h2>
      {parts.length > 0 && (
        <p>
          <small>
            {t(on, "runs.log_archived")}{" "}
            {[...new Set(parts.map(({ object }) => object))].map((object) => <code>{object}</code>)}
          </small>
        </p>
      )}
      {deleted_on && (
        <p>
          <small>{t(on, "runs.log_deleted", { day: deleted_on })}</small>
        </p>
      )}
      {read instanceof LogUnreadable && (
        <Problem title={t(on, "runs.log_unreadable")} text={`${read.message}; ${read.fix}`} />
      )}
      <div id="log" class="log" data-tail="" tabindex={0} role="log" aria-label={t(on, "runs.log")}>
        {lines.length === 0 && !deleted_on && !(read instanceof LogUnreadable) && (
          <p class="nothing">{t(on, "runs.log_none")}</p>
        )}
        {lines.map((line) => (
          <div id={`line-${line.id}`} class={line.level}>
            <time datetime={line.at.toISOString()}>{timeText(line.at, on.zone).slice(11)}</time>
            <span class="level">{line.level}</span>
            <span class="said">
              <bdi>{line.message}</bdi>
              {line.fields !== null && <span class="log-fields">{JSON.stringify(line.fields)}</span>}
            </span>
          </div>
        ))}
      </div>
    </section>
  );
}

/** A link only where it is one: what else it may be (`javascript:`) must not become one. */
function LogRef({ log_ref }: { log_ref: string }) {
  if (!/^https?:\/\//.test(log_ref)) return <code>{log_ref}</code>;
  return <a href={log_ref} rel="noopener noreferrer" target="_blank">{log_ref}</a>;
}

function Values({ on, run, reruns }: { on: RequestContext; run: RunView; reruns: number[] }) {
  const known = (to: string, name: string) => run.ran_on === null ? name : <a href={to}>{name}</a>;
  const run_link = (id: number | null) => id && <a href={link(on, `/runs/${id}`)}>{id}</a>;
  return (
    <div class="columns">
      <section>
        <h2>{t(on, "runs.args")}</h2>
        <Code value={run.args} />
        {run.result !== null && <h2>{t(on, "runs.result")}</h2>}
        {run.result !== null && <Code value={run.result} />}
      </section>
      <section>
        <h2>{t(on, "runs.details")}</h2>
        <KeyValues
          pairs={[
            [t(on, "runs.source"), run.source],
            [t(on, "runs.attempt"), run.attempt],
            [t(on, "runs.failures"), run.failures],
            [t(on, "runs.interruptions"), run.interruptions],
            [t(on, "runs.priority"), run.priority],
            [
              t(on, "runs.worker"),
              run.assigned_worker_id && known(workerLink(on, run.assigned_worker_id), run.assigned_worker_id),
            ],
            [t(on, "runs.node"), run.ran_on && known(nodeLink(on, run.ran_on), run.ran_on)],
            [t(on, "runs.exit_code"), run.exit_code],
            [t(on, "runs.serial_key"), run.serial_key],
            [t(on, "runs.pinned"), run.node],
            [t(on, "runs.event"), run.event_id && <a href={link(on, `/events/${run.event_id}`)}>{run.event_id}</a>],
            [t(on, "runs.bulk"), run.bulk_id && <a href={link(on, `/bulks/${run.bulk_id}`)}>{run.bulk_id}</a>],
            [t(on, "runs.rerun_of"), run_link(run.rerun_of)],
            [t(on, "runs.reruns"), reruns.length > 0 ? reruns.map((id) => <>{run_link(id)}</>) : null],
            [t(on, "runs.idempotency_key"), run.idempotency_key],
            [t(on, "runs.epoch"), run.leader_epoch],
            [t(on, "runs.fence"), run.fence],
          ]}
        />
      </section>
    </div>
  );
}
