/** What an operator does to a bulk: what is read of the form, and what is said of it. */
import { cancelBulk, changeOneBulk, pauseBulk, resumeBulk, retryFailedItems } from "../../../actions/bulk_actions.ts";
import { numberField, orGone } from "../../form_actions.ts";
import { type ActionContext, type Done, idParam, PageError } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** Bounds of what a person sets; the store's own are wider. */
export const PACE = {
  parallel: { from: 1, to: 1_000_000, whole: true },
  interval: { from: 0, to: 31_536_000, whole: false },
  priority: { from: 0, to: 999, whole: true },
};

/** Says nothing when it is done: the page shows it. */
export function setPace(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return orGone(on, `/bulks/${id}`, async () => {
    const change = {
      parallel: numberField(on, "parallel", { ...PACE.parallel, label: t(on, "bulks.parallel") }),
      interval_seconds: numberField(on, "interval", { ...PACE.interval, label: t(on, "bulks.interval") }),
      priority: numberField(on, "priority", { ...PACE.priority, label: t(on, "bulks.priority") }),
    };
    if (Object.values(change).every((value) => value === undefined)) throw new PageError(400);
    await on.perform(changeOneBulk, { id, ...change });
    return { to: `/bulks/${id}` };
  });
}

export function pauseIt(on: ActionContext): Promise<Done> {
  return changed(on, pauseBulk, t(on, "bulks.done_pause", { id: idParam(on) }));
}

export function resumeIt(on: ActionContext): Promise<Done> {
  return changed(on, resumeBulk, t(on, "bulks.done_resume", { id: idParam(on) }));
}

export function cancelIt(on: ActionContext): Promise<Done> {
  return changed(on, cancelBulk, t(on, "bulks.done_cancel", { id: idParam(on) }));
}

function changed(on: ActionContext, act: typeof pauseBulk, text: string): Promise<Done> {
  const id = idParam(on);
  const to = `/bulks/${id}`;
  return orGone(on, to, async () => {
    await on.perform(act, { id });
    return { to, text };
  });
}

/** What is in a new bulk already is not repeated again, so sending it twice makes one. */
export function retryFailed(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return orGone(on, `/bulks/${id}`, async () => {
    const { bulk_id, items } = await on.perform(retryFailedItems, { id });
    return { to: `/bulks/${bulk_id}`, text: t(on, "bulks.done_retry", { id: bulk_id, items, of: id }) };
  });
}
