/** Options of a job: what holds, and beside it what the file says where an operator has set something else. */
import type { JobOption } from "../../../job_options/overridable.ts";
import type { Json } from "../../../job.ts";
import type { JobView } from "../../../runs/job_view.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Table } from "../../parts/table.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { link, may, type RequestContext } from "../../request_context.ts";
import { saidText, t } from "../../../locale/locale.ts";

export function OptionTable({ on, job, options }: { on: RequestContext; job: JobView; options: JobOption[] }) {
  return (
    <section>
      <div class="heading">
        <h2>{t(on, "jobs.options")}</h2>
        {may(on, "operator") && !job.removed_at && (
          <a class="button" href={link(on, `/jobs/${job.name}/options`)}>{t(on, "jobs.change")}</a>
        )}
      </div>
      <OptionRows on={on} options={options} />
    </section>
  );
}

/** `short`: without the schedule that its names begin with. */
export function OptionRows({ on, options, short = "" }: { on: RequestContext; options: JobOption[]; short?: string }) {
  return (
    <Table
      label={t(on, "jobs.options")}
      rows={options}
      columns={[
        { head: t(on, "jobs.option"), cell: ({ name }) => <code>{name.slice(short.length)}</code> },
        {
          head: t(on, "jobs.value"),
          cell: ({ value, override }) => override ? <strong>{valueText(on, value)}</strong> : valueText(on, value),
        },
        {
          head: t(on, "jobs.file_says"),
          cell: ({ override, file_value }) =>
            !override
              ? <span class="nothing">{t(on, "jobs.same")}</span>
              : file_value === null
              ? t(on, "jobs.gone")
              : valueText(on, file_value),
        },
        { head: t(on, "jobs.set_by"), cell: ({ override }) => override?.set_by ?? <Nothing /> },
        {
          head: t(on, "jobs.set_at"),
          unseen: true,
          kind: "wide",
          cell: ({ override }) => override && <Time on={on} at={override.set_at} />,
        },
        {
          head: t(on, "jobs.reason"),
          kind: "main",
          cell: ({ override }) => override && <Reason on={on} reason={override.reason} />,
        },
        {
          head: t(on, "table.head"),
          unseen: true,
          cell: ({ name, override }) =>
            override && may(on, "operator") && <DialogButton opens={`reset-${name}`} text={t(on, "jobs.reset")} />,
        },
      ]}
    />
  );
}

function Reason({ on, reason }: { on: RequestContext; reason: string }) {
  const text = saidText(on, reason);
  return <span class="line" title={text}>{text}</span>;
}

export function ResetDialogs({ on, job, options }: { on: RequestContext; job: JobView; options: JobOption[] }) {
  return (
    <>
      {options.filter(({ override }) => override).map(({ name, value, file_value }) => (
        <ConfirmDialog
          on={on}
          id={`reset-${name}`}
          title={t(on, "jobs.reset_title", { name })}
          action={`/jobs/${job.name}/reset`}
          verb={t(on, "jobs.reset")}
        >
          <p>{t(on, "jobs.reset_text", { value: valueText(on, value), file: valueText(on, file_value) })}</p>
          <input type="hidden" name="option" value={name} />
        </ConfirmDialog>
      ))}
    </>
  );
}

/** As it stands in a job file, as a text: `02:30`, `60/1`, `none`. */
export function valueText(on: RequestContext, value: Json | undefined): string {
  if (value === null || value === undefined) return t(on, "jobs.nothing_set");
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, one]) => `${key} ${typeof one === "object" ? JSON.stringify(one) : one}`)
    .join(", ");
}
