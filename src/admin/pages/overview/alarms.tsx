/** Alarms that are open, with who has seen them: one line that is always there, so that a new one moves nothing, and the list above what is below. */
import { ackAlert, type Alert, ALERT_KINDS } from "../../../store/alerts.ts";
import { ALERT_NAMES, alertText } from "../../parts/alert_text.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { ACTS, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { by } from "../../acting.ts";
import { type Act, type Done, idParam, link, may, type Visit } from "../../visit.ts";
import { OVERVIEW } from "./words.ts";

export const MOST_ALERTS = 20;

export function Alarms({ on, alerts }: { on: Visit; alerts: Alert[] }) {
  const say = OVERVIEW[on.lang];
  const [newest, ...others] = alerts;
  if (!newest) {
    return (
      <p class="calm">
        <Badge tone="good" sign="✓" text={say.alerts_none} />
      </p>
    );
  }
  return (
    <details class="alarms">
      <summary>
        <Badge
          tone={alerts.every((one) => one.acked_at) ? "warn" : "bad"}
          sign="!"
          text={say.alerts_open(alerts.length, alerts.length === MOST_ALERTS)}
        />
        <span class="line">
          {[newest, ...others].map((one) => `${one.subject}: ${alertText(on, one)}`).join(" · ")}
        </span>
      </summary>
      <AlarmTable on={on} alerts={alerts} />
    </details>
  );
}

function AlarmTable({ on, alerts }: { on: Visit; alerts: Alert[] }) {
  const say = OVERVIEW[on.lang];
  return (
    <section class="over">
      <Table
        label={say.alerts}
        rows={alerts}
        columns={[
          { head: say.kind, cell: (one) => <Kind on={on} alert={one} /> },
          { head: say.about, cell: (one) => <Subject on={on} alert={one} /> },
          {
            head: say.what,
            kind: "main",
            cell: (one) => <span class="line" title={alertText(on, one)}>{alertText(on, one)}</span>,
          },
          { head: say.since, kind: "wide", cell: (one) => <Time on={on} at={one.opened_at} /> },
          {
            head: ACTS[on.lang].head,
            unseen: true,
            cell: (one) =>
              one.acked_by
                ? <small>{say.seen_by(one.acked_by)}</small>
                : may(on, "operator") && <DialogButton opens={`seen-${one.id}`} text={say.ack} />,
          },
        ]}
      />
    </section>
  );
}

function Kind({ on, alert }: { on: Visit; alert: Alert }) {
  const text = ALERT_NAMES[on.lang][alert.kind] ?? alert.kind;
  return (
    <span title={on.lang === "en" ? ALERT_KINDS[alert.kind] : undefined}>
      <Badge tone={alert.acked_at ? "warn" : "bad"} sign="!" text={text} />
    </span>
  );
}

/** Where what it is about can be looked at. */
function Subject({ on, alert }: { on: Visit; alert: Alert }) {
  const detail = (alert.detail ?? {}) as { job_run_id?: number; bulk_id?: number };
  const to = Number.isInteger(detail.job_run_id)
    ? link(on, `/runs/${detail.job_run_id}`)
    : Number.isInteger(detail.bulk_id)
    ? link(on, "/runs", { bulk: detail.bulk_id })
    : alert.kind.startsWith("run.")
    ? link(on, `/jobs/${encodeURIComponent(alert.subject)}`)
    : undefined;
  return to ? <a href={to}>{alert.subject}</a> : <span>{alert.subject}</span>;
}

/** Live as well: the button of an alarm that has just come finds its dialog. */
export function AlarmDialogs({ on, alerts }: { on: Visit; alerts: Alert[] }) {
  const say = OVERVIEW[on.lang];
  return (
    <Live on={on} id="seen" topics={["alerts"]}>
      {alerts.filter((one) => !one.acked_at).map((one) => (
        <ConfirmDialog
          on={on}
          id={`seen-${one.id}`}
          title={say.ack_title(one.subject)}
          action={`/overview/alarms/${one.id}/seen`}
          verb={say.ack}
        >
          <p>{alertText(on, one)}</p>
          <p>{say.ack_text}</p>
        </ConfirmDialog>
      ))}
    </Live>
  );
}

export async function seenAlert(on: Act): Promise<Done> {
  const say = OVERVIEW[on.lang];
  const seen = await ackAlert(on.sql, idParam(on), by(on));
  return seen ? { to: "/overview", text: say.ack_done } : { to: "/overview", tone: "bad", text: say.ack_late };
}
