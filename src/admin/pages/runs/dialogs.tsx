/** What can be done to one run, each with what it touches. */
import type { RunView } from "../../../runs/run_view.ts";
import { MAY_START, TERMINAL } from "../../../runs/run_states.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

interface Shown {
  on: RequestContext;
  run: RunView;
}

export function ActButtons({ on, run }: Shown) {
  if (TERMINAL.includes(run.state)) {
    return (
      <div class="buttons">
        <DialogButton opens="retry" text={t(on, "runs.retry")} />
        <a class="button" href={link(on, `/runs/${run.id}/edit`)}>{t(on, "runs.edit")}</a>
      </div>
    );
  }
  return (
    <div class="buttons">
      {MAY_START.includes(run.state) && <DialogButton opens="move" text={t(on, "runs.move")} />}
      {run.state !== "PENDING" && <DialogButton opens="close" text={t(on, "runs.close")} danger />}
      {!run.cancel_requested_at && <DialogButton opens="cancel" text={t(on, "runs.cancel")} danger />}
    </div>
  );
}

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
export function Dialogs({ on, run }: Shown) {
  const of = (verb: string) => ({ on, id: verb, action: `/runs/${run.id}/${verb}` });
  return (
    <>
      <ConfirmDialog
        {...of("cancel")}
        title={t(on, "runs.cancel_title", { id: run.id })}
        verb={t(on, "runs.cancel")}
        danger
      >
        <p>{t(on, "runs.cancel_text", { job: run.job_name })}</p>
      </ConfirmDialog>
      <ConfirmDialog {...of("retry")} title={t(on, "runs.retry_title", { id: run.id })} verb={t(on, "runs.retry")}>
        <p>{t(on, "runs.retry_text", { job: run.job_name })}</p>
        <input type="hidden" name="wish" value={crypto.randomUUID()} />
      </ConfirmDialog>
      <ConfirmDialog {...of("move")} title={t(on, "runs.move_title", { id: run.id })} verb={t(on, "runs.move")}>
        <label>
          {t(on, "runs.priority_hint")}
          <input type="number" name="priority" min={0} max={999} required value={String(run.priority)} />
        </label>
      </ConfirmDialog>
      <ConfirmDialog
        {...of("close")}
        title={t(on, "runs.close_title", { id: run.id })}
        verb={t(on, "runs.close")}
        danger
        reason_required
      >
        <p>{t(on, "runs.close_text", { job: run.job_name })}</p>
      </ConfirmDialog>
    </>
  );
}
