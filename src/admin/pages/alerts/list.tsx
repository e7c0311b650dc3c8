/** What somebody should look at now, what was lately, and whether the webhook hears of it. */
import { type Alert, type AlertKind, type DeliveryView, listAlerts, readDelivery } from "../../../alerts/alerts.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty, Problem } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { TargetLink } from "../../parts/target.tsx";
import { Nothing, Time } from "../../parts/time.tsx";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { AckButton, AckDialogs } from "./ack.tsx";
import { saidText, t } from "../../../locale/locale.ts";

const MOST_OPEN = 200;
const MOST_RECENT = 50;

export async function showAlerts(on: RequestContext): Promise<Page> {
  const test_id = /^[1-9]\d{0,14}$/.exec(on.query.get("test") ?? "")?.[0];
  const [open, all, test] = await Promise.all([
    listAlerts(on.sql, { open: true, limit: MOST_OPEN }),
    listAlerts(on.sql, { limit: MOST_OPEN + MOST_RECENT }),
    test_id ? readDelivery(on.sql, Number(test_id)) : undefined,
  ]);
  const recent = all.filter((one) => one.closed_at !== null).slice(0, MOST_RECENT);
  return {
    title: t(on, "alerts.title"),
    body: (
      <>
        <div class="heading">
          <h1>{t(on, "alerts.title")}</h1>
          <div class="buttons">
            <a class="button quiet" href={`${link(on, "/settings")}#alert_overdue_seconds`}>{t(on, "alerts.limits")}</a>
            {may(on, "admin") && <DialogButton opens="test" text={t(on, "alerts.test")} />}
          </div>
        </div>
        <Live on={on} id="alerts" topics={["alerts"]}>
          {test && <TestResult on={on} test={test} />}
          <h2>{t(on, "alerts.open")}</h2>
          {open.length > 0
            ? <Table label={t(on, "alerts.open")} rows={open} columns={columnsOf(on, true)} />
            : <Empty text={t(on, "alerts.none_open")} />}
          <h2>{t(on, "alerts.recent")}</h2>
          {recent.length > 0
            ? <Table label={t(on, "alerts.recent")} rows={recent} columns={columnsOf(on, false)} />
            : <Empty text={t(on, "alerts.none_recent")} />}
        </Live>
        <AckDialogs on={on} alerts={open} />
        {may(on, "admin") && (
          <ConfirmDialog
            on={on}
            id="test"
            title={t(on, "alerts.test_title")}
            action="/alerts/test"
            verb={t(on, "alerts.test")}
          >
            <p>{t(on, "alerts.test_text")}</p>
          </ConfirmDialog>
        )}
      </>
    ),
  };
}

function TestResult({ on, test }: { on: RequestContext; test: DeliveryView }) {
  if (test.delivered_at) {
    return (
      <p class="flash good" role="status">
        {t(on, "alerts.test_delivered", { worker: test.claimed_by ?? "?" })} <Time on={on} at={test.delivered_at} />
      </p>
    );
  }
  if (test.last_error) {
    return (
      <Problem
        title={t(on, "alerts.test_refused", { tries: test.attempts })}
        text={saidText(on, test.last_error)}
      />
    );
  }
  return <p class="now">{t(on, "alerts.test_waits")}</p>;
}

/** The subject of each kind, as the audit names its targets. */
const SUBJECTS: Record<AlertKind, string> = {
  "run.failed": "job",
  "run.quarantined": "job",
  "run.overdue": "job",
  "code.missing": "job",
  "node.away": "node",
  "leader.none": "leader",
  "bulk.paused": "bulk",
  "key.blocked": "key",
  "certificate.expiring": "node",
  "clock.skewed": "node",
  "login.guessed": "user",
};

/** Its version stands in the message. */
function targetOf({ kind, subject }: Alert): string {
  return kind === "code.missing" ? subject.split(" ")[0] ?? subject : subject;
}

function columnsOf(on: RequestContext, open: boolean): TableColumn<Alert>[] {
  const over: TableColumn<Alert> = { head: t(on, "alerts.closed"), cell: (one) => <Time on={on} at={one.closed_at} /> };
  return [
    {
      head: t(on, "alerts.kind"),
      cell: (one) => (
        <span title={t(on, `alerts.about.${one.kind}`)}>
          <Badge tone={open ? "bad" : "quiet"} sign="!" text={t(on, `alerts.name.${one.kind}`)} />
        </span>
      ),
    },
    {
      head: t(on, "alerts.subject"),
      cell: (one) => <TargetLink on={on} type={SUBJECTS[one.kind]} id={targetOf(one)} />,
    },
    { head: t(on, "alerts.message"), kind: "main", cell: (one) => <Message on={on} alert={one} /> },
    {
      head: t(on, "alerts.opened"),
      kind: open ? undefined : "wide",
      cell: (one) => <Time on={on} at={one.opened_at} />,
    },
    ...open ? [] : [over],
    {
      head: t(on, "alerts.told"),
      kind: "wide",
      cell: (one) =>
        one.told_at ? <Time on={on} at={one.told_at} /> : one.last_error ? saidText(on, one.last_error) : <Nothing />,
    },
    { head: t(on, "alerts.seen"), cell: (one) => <Seen on={on} alert={one} open={open} /> },
  ];
}

function Message({ on, alert }: { on: RequestContext; alert: Alert }) {
  const { job_run_id } = (alert.detail ?? {}) as { job_run_id?: unknown };
  const text = <span class="said">{saidText(on, alert.message)}</span>;
  return typeof job_run_id === "number" ? <a href={link(on, `/runs/${job_run_id}`)}>{text}</a> : text;
}

function Seen({ on, alert, open }: { on: RequestContext; alert: Alert; open: boolean }) {
  if (alert.acked_by) return <span title={saidText(on, alert.ack_reason ?? "")}>{alert.acked_by}</span>;
  if (!open || !may(on, "operator")) return <Nothing />;
  return <AckButton on={on} alert={alert} />;
}
