/** Alerts that are open, with who has seen them: one line that is always there, so that a new one moves nothing, and the list above what is below. */
import type { Alert } from "../../../alerts/alerts.ts";
import { Badge } from "../../parts/badge.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { AckButton } from "../alerts/ack.tsx";
import { saidText, t } from "../../../locale/locale.ts";

export const MOST_ALERTS = 20;

export function Alerts({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
  const [newest, ...others] = alerts;
  if (!newest) {
    return (
      <p class="calm">
        <Badge tone="good" sign="✓" text={t(on, "overview.alerts_none")} />
      </p>
    );
  }
  return (
    <details class="alerts">
      <summary>
        <Badge
          tone={alerts.every((one) => one.acked_at) ? "warn" : "bad"}
          sign="!"
          text={t(on, "overview.alerts_open", { n: alerts.length, more: alerts.length === MOST_ALERTS })}
        />
        <span class="line">
          {[newest, ...others].map((one) => `${one.subject}: ${saidText(on, one.message)}`).join(" · ")}
        </span>
      </summary>
      <AlertTable on={on} alerts={alerts} />
    </details>
  );
}

function AlertTable({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
  return (
    <section class="over">
      <Table
        label={t(on, "overview.alerts")}
        rows={alerts}
        columns={[
          { head: t(on, "overview.kind"), cell: (one) => <Kind on={on} alert={one} /> },
          { head: t(on, "overview.about"), cell: (one) => <Subject on={on} alert={one} /> },
          {
            head: t(on, "overview.what"),
            kind: "main",
            cell: (one) => <span class="line" title={saidText(on, one.message)}>{saidText(on, one.message)}</span>,
          },
          { head: t(on, "overview.since"), kind: "wide", cell: (one) => <Time on={on} at={one.opened_at} /> },
          {
            head: t(on, "table.head"),
            unseen: true,
            cell: (one) =>
              one.acked_by
                ? <small>{t(on, "overview.seen_by", { who: one.acked_by })}</small>
                : <AckButton on={on} alert={one} />,
          },
        ]}
      />
    </section>
  );
}

function Kind({ on, alert }: { on: RequestContext; alert: Alert }) {
  const text = t(on, `alerts.name.${alert.kind}`) ?? alert.kind;
  return (
    <span title={t(on, `alerts.about.${alert.kind}`)}>
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
