/** The schedules of a job, each with its next fires, what of it is set beside the file, and what stops it. */
import type { JobOption } from "../../../job_options/overridable.ts";
import { previewOf, wallTextOf } from "../../../schedules/preview.ts";
import type { StoredDefinition, StoredSchedule } from "../../../definitions/definition_rows.ts";
import type { JobView } from "../../../runs/job_view.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { KeyValues } from "../../parts/notes.tsx";
import { unreadableText } from "../../parts/complaint_text.ts";
import { misfireText, timesText } from "../../parts/schedule_text.ts";
import { Time } from "../../parts/time.tsx";
import { link, may, type RequestContext } from "../../request_context.ts";
import { OptionRows } from "./option_table.tsx";
import { clockText } from "./clock_text.ts";
import { saidText, t } from "../../../locale/locale.ts";

const FIRES_SHOWN = 5;

interface Shown {
  on: RequestContext;
  job: JobView;
  definition: StoredDefinition;
}

export function ScheduleCards({ on, job, definition, options }: Shown & { options: JobOption[] }) {
  if (definition.schedules.length === 0) return null;
  return (
    <div class="columns">
      {definition.schedules.map((schedule) => (
        <Card
          on={on}
          job={job}
          schedule={schedule}
          options={options.filter((one) => one.override && belongsTo(one.name, schedule.schedule_id))}
        />
      ))}
    </div>
  );
}

/** What whoever paused it said, in their own words. */
export function PauseReason({ on, of }: { on: RequestContext; of: { paused_reason: string | null } }) {
  return of.paused_reason && <q>{saidText(on, of.paused_reason)}</q>;
}

function Card(
  { on, job, schedule, options }: { on: RequestContext; job: JobView; schedule: StoredSchedule; options: JobOption[] },
) {
  const id = schedule.schedule_id;
  const stopped = !schedule.enabled || schedule.paused_at !== null || !job.enabled || job.paused_at !== null;
  return (
    <section>
      <div class="heading">
        <h2>
          {id} <small>{timesText(on.lang, schedule)} {schedule.timezone}</small>
          {!schedule.enabled && <Badge tone="warn" sign="◌" text={t(on, "jobs.state.off")} />}
          {schedule.paused_at && <Badge tone="warn" sign="‖" text={t(on, "jobs.state.paused")} />}
        </h2>
        {may(on, "operator") && !job.removed_at && (
          <div class="buttons">
            <a class="button" href={link(on, `/jobs/${job.name}/schedules/${encodeURIComponent(id)}`)}>
              {t(on, "jobs.edit")}
            </a>
            {schedule.paused_at
              ? <DialogButton opens={`resume-${id}`} text={t(on, "jobs.resume")} />
              : <DialogButton opens={`pause-${id}`} text={t(on, "jobs.pause")} />}
          </div>
        )}
      </div>
      {schedule.paused_at && (
        <p class="now">
          <strong>{t(on, "jobs.paused_by", { who: schedule.paused_by ?? "" })}</strong>{" "}
          <Time on={on} at={new Date(schedule.paused_at)} /> <PauseReason on={on} of={schedule} />
        </p>
      )}
      {stopped && <p class="nothing">{t(on, "jobs.fires_stopped")}</p>}
      <Fires on={on} schedule={{ ...schedule, job_name: job.name }} />
      <KeyValues
        pairs={[
          [t(on, "jobs.misfire"), misfireText(on.lang, schedule.misfire)],
          [t(on, "jobs.exclude"), schedule.exclude.join(", ")],
          [t(on, "jobs.jitter"), schedule.jitter_seconds > 0 && t(on, "jobs.seconds", { n: schedule.jitter_seconds })],
          [
            t(on, "jobs.schedule_args"),
            Object.keys(schedule.args_json).length > 0 && <code>{JSON.stringify(schedule.args_json)}</code>,
          ],
        ]}
      />
      {options.length > 0 && <OptionRows on={on} options={options} short={`schedule.${id}.`} />}
    </section>
  );
}

/** The next fires in the schedule's zone and the viewer's, and what a change of the clock does to it within a year. */
export function Fires({ on, schedule }: { on: RequestContext; schedule: StoredSchedule & { job_name: string } }) {
  const after = on.now.toTemporalInstant();
  let preview;
  try {
    preview = previewOf(schedule, { after, count: FIRES_SHOWN, warn_until: after.add({ hours: 366 * 24 }) });
  } catch (error) {
    return <p class="danger-text">{t(on, "jobs.unreadable")}: {unreadableText(on.lang, schedule, error)}</p>;
  }
  const { fires, warnings } = preview;
  if (fires.length === 0) return <p class="nothing">{t(on, "jobs.fires_none")}</p>;
  return (
    <>
      <ol class="fires" aria-label={t(on, "jobs.fires")}>
        {fires.map(({ slot, starts }) => (
          <li>
            <span class="number">{wallTextOf(slot, schedule.timezone)}</span>
            <Time on={on} at={new Date(slot.epochMilliseconds)} />
            {schedule.jitter_seconds > 0 && (
              <small>{t(on, "jobs.starts_at", { at: wallTextOf(starts, schedule.timezone) })}</small>
            )}
          </li>
        ))}
      </ol>
      {warnings.map((warning) => (
        <p class="warning">
          <strong>{t(on, "jobs.clock")}:</strong> {clockText(on.lang, warning)}
        </p>
      ))}
    </>
  );
}

export function ScheduleDialogs({ on, job, definition }: Shown) {
  return (
    <>
      {definition.schedules.map(({ schedule_id: id }) => (
        <>
          <ConfirmDialog
            on={on}
            id={`pause-${id}`}
            title={t(on, "jobs.pause_title", { name: `${job.name}/${id}` })}
            action={`/jobs/${job.name}/schedules/${encodeURIComponent(id)}/pause`}
            verb={t(on, "jobs.pause")}
            danger
          >
            <p>{t(on, "jobs.pause_schedule_text")}</p>
          </ConfirmDialog>
          <ConfirmDialog
            on={on}
            id={`resume-${id}`}
            title={t(on, "jobs.resume_title", { name: `${job.name}/${id}` })}
            action={`/jobs/${job.name}/schedules/${encodeURIComponent(id)}/resume`}
            verb={t(on, "jobs.resume")}
          >
            <p>{t(on, "jobs.pause_schedule_text")}</p>
          </ConfirmDialog>
        </>
      ))}
    </>
  );
}

/** Whether an option of a job is one of this schedule's. */
export function belongsTo(option: string, schedule_id: string): boolean {
  const prefix = `schedule.${schedule_id}.`;
  return option.startsWith(prefix) && !option.slice(prefix.length).includes(".");
}
