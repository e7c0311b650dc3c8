/** One job: what it is and may do, what stops it, its options and schedules with what is set beside its file, its newest runs. */
import { askedBy, optionsOf } from "../../../job_options/overridable.ts";
import type { Permissions } from "../../../job.ts";
import { readDefinition, readFollowers, type StoredDefinition } from "../../../definitions/definition_rows.ts";
import type { JobView } from "../../../runs/job_view.ts";
import { readOverrides } from "../../../definitions/override_rows.ts";
import { listRunsOf, type RunView } from "../../../runs/run_view.ts";
import { Badge, State } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty, KeyValues } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { waitText } from "../../../locale/wait_text.ts";
import { link, may, type Page, PageError, type RequestContext } from "../../request_context.ts";
import { countText, readJob } from "./acts.ts";
import { Count, JobBadges } from "./list.tsx";
import { OptionTable, ResetDialogs } from "./option_table.tsx";
import { belongsTo, PauseReason, ScheduleCards, ScheduleDialogs } from "./schedules.tsx";
import { firstLine } from "../../../platform/text.ts";
import { saidText, t } from "../../../locale/locale.ts";

const RUNS_SHOWN = 10;

export async function showJob(on: RequestContext): Promise<Page> {
  const job = await readJob(on);
  const [definition, overrides, runs, followers] = await Promise.all([
    readDefinition(on.sql, job.name),
    readOverrides(on.sql, job.id),
    listRunsOf(on.sql, job.id, RUNS_SHOWN),
    readFollowers(on.sql, job.name),
  ]);
  if (!definition) throw new PageError(404);
  const options = optionsOf(definition, overrides);
  const own = options.filter(({ name }) => !definition.schedules.some((one) => belongsTo(name, one.schedule_id)));
  return {
    title: job.name,
    body: (
      <>
        <Live on={on} id="job" topics={["jobs", "runs"]}>
          <Heading on={on} job={job} />
          <Stopped on={on} job={job} />
          <div class="columns">
            <Details on={on} job={job} definition={definition} followers={followers} />
            <PermissionList on={on} permissions={definition.permissions} />
          </div>
          <ScheduleCards on={on} job={job} definition={definition} options={options} />
          <OptionTable on={on} job={job} options={own} />
          <Runs on={on} job={job} runs={runs} />
          {definition.args_schema && (
            <details>
              <summary>{t(on, "jobs.schema")}</summary>
              <Code value={definition.args_schema} />
            </details>
          )}
          {Object.entries(definition.messages).map(([name, { schema }]) => (
            <details>
              <summary>{t(on, "jobs.schema_message", { name })}</summary>
              {schema === null ? <p>{t(on, "jobs.schema_message_none")}</p> : <Code value={schema} />}
            </details>
          ))}
        </Live>
        {may(on, "operator") && (
          <>
            <PauseDialogs on={on} job={job} />
            <ScheduleDialogs on={on} job={job} definition={definition} />
            <ResetDialogs on={on} job={job} options={options} />
          </>
        )}
      </>
    ),
  };
}

function Heading({ on, job }: { on: RequestContext; job: JobView }) {
  return (
    <>
      <div class="heading">
        <h1>
          {job.name} <JobBadges on={on} job={job} />
        </h1>
        {may(on, "operator") && !job.removed_at && (
          <div class="buttons">
            <a class="button primary" href={link(on, `/jobs/${job.name}/run`)}>{t(on, "jobs.run_now")}</a>
            {job.paused_at
              ? <DialogButton opens="resume" text={t(on, "jobs.resume")} />
              : <DialogButton opens="pause" text={t(on, "jobs.pause")} danger />}
          </div>
        )}
      </div>
      {job.description && <p class="lead">{job.description}</p>}
    </>
  );
}

function Stopped({ on, job }: { on: RequestContext; job: JobView }) {
  return (
    <>
      {job.removed_at && <p class="now">{t(on, "jobs.removed_text")}</p>}
      {!job.enabled && !job.removed_at && <p class="now">{t(on, "jobs.off_text")}</p>}
      {job.paused_at && (
        <p class="now">
          <strong>{t(on, "jobs.paused_by", { who: job.paused_by ?? "" })}</strong> <Time on={on} at={job.paused_at} />
          {" "}
          <PauseReason on={on} of={job} /> {t(on, "jobs.paused_text")}
        </p>
      )}
    </>
  );
}

function Details(
  { on, job, definition, followers }: {
    on: RequestContext;
    job: JobView;
    definition: StoredDefinition;
    followers: string[];
  },
) {
  return (
    <section>
      <h2>{t(on, "jobs.details")}</h2>
      <KeyValues
        pairs={[
          [t(on, "jobs.file"), <code>jobs/{job.command_name}</code>],
          [t(on, "jobs.type"), t(on, `jobs.type.${job.type}`)],
          [t(on, "jobs.events"), job.event_types.length > 0 && <code>{job.event_types.join(", ")}</code>],
          [t(on, "jobs.next"), job.next_slot && <Time on={on} at={job.next_slot} />],
          [t(on, "jobs.waiting"), <Count on={on} job={job} what="waiting" />],
          [t(on, "jobs.running"), <Count on={on} job={job} what="running" />],
          [t(on, "jobs.suspended"), job.suspended > 0 && <Count on={on} job={job} what="suspended" />],
          ...askedBy(definition),
          [
            t(on, "jobs.followers"),
            followers.length > 0 && followers.map((name, place) => (
              <>
                {place > 0 && ", "}
                <a href={link(on, `/jobs/${name}`)}>{name}</a>
              </>
            )),
          ],
          [t(on, "jobs.digest"), <code title={definition.digest}>{definition.digest.slice(0, 12)}</code>],
          [t(on, "jobs.synced"), <Synced on={on} job={job} />],
        ]}
      />
    </section>
  );
}

/** When, by whom, where, and from which commit. */
function Synced({ on, job }: { on: RequestContext; job: JobView }) {
  const { synced_at, synced_by, machine, git_commit, git_dirty } = job;
  return (
    <>
      <Time on={on} at={synced_at} />{" "}
      {synced_by !== null && t(on, "jobs.synced_by", { who: synced_by, machine: machine ?? "" })}{" "}
      {git_commit !== null && <code title={git_commit}>{git_commit.slice(0, 10)}</code>}{" "}
      {git_dirty && t(on, "jobs.synced_dirty")}
    </>
  );
}

function PermissionList({ on, permissions }: { on: RequestContext; permissions: Permissions }) {
  const { unsafe, ...safe } = permissions;
  const given = (all: object) =>
    Object.entries(all).map(([name, value]): [string, string] => [
      name,
      value === true ? t(on, "jobs.anything") : (value as string[]).join(", "),
    ]);
  const none = Object.keys(safe).length === 0 && !unsafe;
  return (
    <section>
      <h2>
        {t(on, "jobs.permissions")} {unsafe && <Badge tone="bad" sign="!" text={t(on, "jobs.state.unsafe")} />}
      </h2>
      {none && <p class="nothing">{t(on, "jobs.permissions_none")}</p>}
      <KeyValues pairs={given(safe).map(([name, value]) => [name, <code>{value}</code>])} />
      {unsafe && (
        <>
          <p class="danger-text">{t(on, "jobs.unsafe_what")}</p>
          <KeyValues pairs={given(unsafe).map(([name, value]) => [name, <code>{value}</code>])} />
        </>
      )}
    </section>
  );
}

function Runs({ on, job, runs }: { on: RequestContext; job: JobView; runs: RunView[] }) {
  return (
    <section>
      <h2>
        {t(on, "jobs.runs")}{" "}
        <small>
          <a href={link(on, "/runs", { job: job.name })}>{t(on, "jobs.all_runs")}</a>
        </small>
      </h2>
      {runs.length === 0 ? <Empty text={t(on, "jobs.no_runs")} /> : (
        <Table
          label={t(on, "jobs.runs")}
          rows={runs}
          columns={[
            {
              head: t(on, "jobs.run"),
              kind: "number",
              cell: (run) => <a href={link(on, `/runs/${run.id}`)}>{run.id}</a>,
            },
            { head: t(on, "jobs.state"), cell: (run) => <State state={run.state} /> },
            {
              head: t(on, "jobs.note"),
              kind: "main",
              cell: (run) => (
                <span class="line">
                  {run.waits ? waitText(on, run.waits) : firstLine(saidText(on, run.error_summary ?? ""))}
                </span>
              ),
            },
            {
              head: t(on, "jobs.took"),
              kind: "number",
              cell: (run) => <Duration on={on} from={run.started_at} to={run.finished_at} />,
            },
            { head: t(on, "jobs.due"), kind: "wide", cell: (run) => <Time on={on} at={run.due_at} /> },
          ]}
        />
      )}
    </section>
  );
}

function PauseDialogs({ on, job }: { on: RequestContext; job: JobView }) {
  const waiting = countText(job.waiting);
  return (
    <>
      <ConfirmDialog
        on={on}
        id="pause"
        title={t(on, "jobs.pause_title", { name: job.name })}
        action={`/jobs/${job.name}/pause`}
        verb={t(on, "jobs.pause")}
        danger
      >
        <p>{t(on, "jobs.pause_text", { waiting })}</p>
      </ConfirmDialog>
      <ConfirmDialog
        on={on}
        id="resume"
        title={t(on, "jobs.resume_title", { name: job.name })}
        action={`/jobs/${job.name}/resume`}
        verb={t(on, "jobs.resume")}
      >
        <p>{t(on, "jobs.resume_text", { waiting })}</p>
      </ConfirmDialog>
    </>
  );
}
