/** What can be done to one run, each with what it touches. */
import type { RunView } from "../../../runs/run_view.ts";
import { WAITING } from "../../../runs/run_scans.ts";
import { TERMINAL } from "../../../runs/states.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { RUNS } from "./words.ts";

interface Shown {
  on: RequestContext;
  run: RunView;
}

export function ActButtons({ on, run }: Shown) {
  const say = RUNS[on.lang];
  if (TERMINAL.includes(run.state)) {
    return (
      <div class="buttons">
        <DialogButton opens="retry" text={say.retry} />
        <a class="button" href={link(on, `/runs/${run.id}/edit`)}>{say.edit}</a>
      </div>
    );
  }
  return (
    <div class="buttons">
      {WAITING.includes(run.state) && <DialogButton opens="move" text={say.move} />}
      {run.state !== "PENDING" && <DialogButton opens="close" text={say.close} danger />}
      {!run.cancel_requested_at && <DialogButton opens="cancel" text={say.cancel} danger />}
    </div>
  );
}

/** Each is there also where its button is not just now: the button comes and goes while the page is live. */
export function Dialogs({ on, run }: Shown) {
  const say = RUNS[on.lang];
  const of = (verb: string) => ({ on, id: verb, action: `/runs/${run.id}/${verb}` });
  return (
    <>
      <ConfirmDialog {...of("cancel")} title={say.cancel_title(run.id)} verb={say.cancel} danger>
        <p>{say.cancel_text(run.job_name)}</p>
      </ConfirmDialog>
      <ConfirmDialog {...of("retry")} title={say.retry_title(run.id)} verb={say.retry}>
        <p>{say.retry_text(run.job_name)}</p>
        <input type="hidden" name="wish" value={crypto.randomUUID()} />
      </ConfirmDialog>
      <ConfirmDialog {...of("move")} title={say.move_title(run.id)} verb={say.move}>
        <label>
          {say.priority_hint}
          <input type="number" name="priority" min={0} max={999} required value={String(run.priority)} />
        </label>
      </ConfirmDialog>
      <ConfirmDialog {...of("close")} title={say.close_title(run.id)} verb={say.close} danger reason_required>
        <p>{say.close_text(run.job_name)}</p>
      </ConfirmDialog>
    </>
  );
}
