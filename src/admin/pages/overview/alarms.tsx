/** Alarms that are open, with who has seen them. */
import { ackAlert, type Alert, ALERT_KINDS } from "../../../store/alerts.ts";
import { ALERT_NAMES, alertText } from "../../parts/alert_text.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { by } from "../../acting.ts";
import { type Act, type Done, idParam, link, may, type Visit } from "../../visit.ts";
import { OVERVIEW } from "./words.ts";

export function Alarms({ on, alerts }: { on: Visit; alerts: Alert[] }) {
  const say = OVERVIEW[on.lang];
  if (alerts.length === 0) {
    return (
      <p class="calm">
        <Badge tone="good" sign="✓" text={say.alerts_none} />
      </p>
    );
  }
  return (
    <section class="alarms">
      <h2>{say.alerts}</h2>
      <Table
        label={say.alerts}
        rows={alerts}
        columns={[
          {
            head: say.kind,
            cell: (one) => (
              <span title={on.lang === "en" ? ALERT_KINDS[one.kind] : undefined}>
                <Badge
                  tone={one.acked_at ? "warn" : "bad"}
                  sign="!"
                  text={ALERT_NAMES[on.lang][one.kind] ?? one.kind}
                />
              </span>
            ),
          },
          { head: say.about, cell: (one) => <Subject on={on} alert={one} /> },
          {
            head: say.what,
            kind: "main",
            cell: (one) => <span class="line" title={alertText(on, one)}>{alertText(on, one)}</span>,
          },
          { head: say.since, kind: "wide", cell: (one) => <Time on={on} at={one.opened_at} /> },
          {
            head: "",
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

export function AlarmDialogs({ on, alerts }: { on: Visit; alerts: Alert[] }) {
  const say = OVERVIEW[on.lang];
  return (
    <>
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
    </>
  );
}

export async function seenAlert(on: Act): Promise<Done> {
  const say = OVERVIEW[on.lang];
  const seen = await ackAlert(on.sql, idParam(on), by(on));
  return seen ? { to: "/overview", text: say.ack_done } : { to: "/overview", tone: "bad", text: say.ack_late };
}
