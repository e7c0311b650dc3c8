/** Saying that somebody has seen an alert: its button, what it asks, and what comes of it. On each page that lists alerts. */
import { acknowledgeAlert } from "../../../actions/system_actions.ts";
import type { Alert } from "../../../alerts/alerts.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { type ActionContext, type Done, idParam, may, type RequestContext } from "../../request_context.ts";
import { saidText, t } from "../../../locale/locale.ts";

/** Nothing for who may not. */
export function AckButton({ on, alert }: { on: RequestContext; alert: Alert }) {
  return may(on, "operator") ? <DialogButton opens={`ack-${alert.id}`} text={t(on, "alerts.ack")} /> : null;
}

/** Live as well: the button of an alert that has just come finds its dialog. */
export function AckDialogs({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
  if (!may(on, "operator")) return null;
  return (
    <Live on={on} id="acks" topics={["alerts"]}>
      {alerts.filter((one) => one.acked_at === null).map((one) => (
        <ConfirmDialog
          on={on}
          id={`ack-${one.id}`}
          title={t(on, "alerts.ack_title", {
            subject: `${t(on, `alerts.name.${one.kind}`) ?? one.kind} ${one.subject}`,
          })}
          action={`${on.path}/${one.id}/ack`}
          verb={t(on, "alerts.ack")}
        >
          <p>{saidText(on, one.message)}</p>
          <p>{t(on, "alerts.ack_text")}</p>
        </ConfirmDialog>
      ))}
    </Live>
  );
}

export async function acknowledge(on: ActionContext, to: string): Promise<Done> {
  const { acked: done } = await on.perform(acknowledgeAlert, { id: idParam(on) });
  return done ? { to, text: t(on, "alerts.ack_done") } : { to, tone: "bad", text: t(on, "alerts.ack_not") };
}
