/** Saying that somebody has seen an alert: its button, what it asks, and what comes of it. On each page that lists alerts. */
import { ackAlert, type Alert } from "../../../alerts/alerts.ts";
import { by } from "../../form_actions.ts";
import { ALERT_NAMES, alertText } from "../../parts/alert_text.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { type ActionContext, type Done, idParam, may, type RequestContext } from "../../request_context.ts";
import { ALERTS } from "./words.ts";

/** Nothing for who may not. */
export function AckButton({ on, alert }: { on: RequestContext; alert: Alert }) {
  return may(on, "operator") ? <DialogButton opens={`ack-${alert.id}`} text={ALERTS[on.lang].ack} /> : null;
}

/** Live as well: the button of an alert that has just come finds its dialog. */
export function AckDialogs({ on, alerts }: { on: RequestContext; alerts: Alert[] }) {
  const say = ALERTS[on.lang];
  if (!may(on, "operator")) return null;
  return (
    <Live on={on} id="acks" topics={["alerts"]}>
      {alerts.filter((one) => one.acked_at === null).map((one) => (
        <ConfirmDialog
          on={on}
          id={`ack-${one.id}`}
          title={say.ack_title(`${ALERT_NAMES[on.lang][one.kind] ?? one.kind} ${one.subject}`)}
          action={`${on.path}/${one.id}/ack`}
          verb={say.ack}
        >
          <p>{alertText(on, one)}</p>
          <p>{say.ack_text}</p>
        </ConfirmDialog>
      ))}
    </Live>
  );
}

export async function acknowledge(on: ActionContext, to: string): Promise<Done> {
  const say = ALERTS[on.lang];
  const done = await ackAlert(on.sql, idParam(on), by(on));
  return done ? { to, text: say.ack_done } : { to, tone: "bad", text: say.ack_not };
}
