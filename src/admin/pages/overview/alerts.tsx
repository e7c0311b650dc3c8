/** Alerts that are open, with who has seen them: one line that is always there, so that a new one moves nothing, and the list above what is below. */
import { type Alert, ALERT_KINDS } from "../../../alerts/alerts.ts";
import { ALERT_NAMES, alertText } from "../../parts/alert_text.ts";
import { Badge } from "../../parts/badge.tsx";
import { ACTIONS, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { AckButton } from "../alerts/ack.tsx";
import { OVERVIEW } from "./words.ts";

export const MOST_ALERTS = 20;

export function Alerts({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
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
    <details class="alerts">
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
      <AlertTable on={on} alerts={alerts} />
    </details>
  );
}

function AlertTable({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
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
            head: ACTIONS[on.lang].head,
            unseen: true,
            cell: (one) =>
              one.acked_by ? <small>{say.seen_by(one.acked_by)}</small> : <AckButton on={on} alert={one} />,
          },
        ]}
      />
    </section>
  );
}

function Kind({ on, alert }: { on: RequestContext; alert: Alert }) {
  const text = ALERT_NAMES[on.lang][alert.kind] ?? alert.kind;
  return (
    <span title={on.lang === "en" ? ALERT_KINDS[alert.kind] : undefined}>
      <Badge tone={alert.acked_at ? "warn" : "bad"} sign="!" text={text} />
    </span>
  );
}

/** Where what it is about can be looked at. */
function Subject({ on, alert }: { on: RequestContext; alert: Alert }) {
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
