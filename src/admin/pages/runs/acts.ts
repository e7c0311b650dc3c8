/** What an operator does to one run: what is read of the form, and what is said of it. */
import { reprioritize } from "../../../actions/many_runs.ts";
import { cancel, close, retry } from "../../../actions/run_actions.ts";
import { numberField, orGone, wishOf } from "../../form_actions.ts";
import { type ActionContext, type Done, idParam, PageError } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export function cancelRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const to = `/runs/${id}`;
  return orGone(on, to, async () => {
    const { requested } = await on.perform(cancel, { id });
    return { to, text: requested ? t(on, "runs.cancel_done", { id }) : t(on, "runs.cancel_before", { id }) };
  });
}

/** One new run for each time that the form was opened: sent twice, it is the first one. */
export function retryRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return orGone(on, `/runs/${id}`, async () => {
    const fresh = await on.perform(retry, { id, idempotency_key: `page:${wishOf(on)}` });
    return { to: `/runs/${fresh.id}`, text: t(on, "runs.retry_done", { id: fresh.id, of: id }) };
  });
}

export function moveRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const to = `/runs/${id}`;
  return orGone(on, to, async () => {
    const priority = numberField(on, "priority", { from: 0, to: 999, whole: true, label: t(on, "runs.priority") });
    if (priority === undefined) throw new PageError(400);
    await on.perform(reprioritize, { id, priority });
    return { to, text: t(on, "runs.move_done", { id, priority }) };
  });
}

export function closeRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const to = `/runs/${id}`;
  return orGone(on, to, async () => {
    await on.perform(close, { id });
    return { to, text: t(on, "runs.close_done", { id }) };
  });
}
