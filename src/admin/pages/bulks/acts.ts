/** What an operator does to a bulk. The store does it, with its audit, as one statement; here is only what is said of it. */
import { type BulkChange, changeBulk, retryBulk } from "../../../bulks/bulks.ts";
import { by, numberField, orSay } from "../../form_actions.ts";
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
  return orSay(on, `/bulks/${id}`, async () => {
    const change = {
      parallel: numberField(on, "parallel", { ...PACE.parallel, label: t(on, "bulks.parallel") }),
      interval_seconds: numberField(on, "interval", { ...PACE.interval, label: t(on, "bulks.interval") }),
      priority: numberField(on, "priority", { ...PACE.priority, label: t(on, "bulks.priority") }),
    };
    if (Object.values(change).every((value) => value === undefined)) throw new PageError(400);
    return await changed(on, id, change);
  });
}

export function pauseBulk(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return changed(on, id, { state: "PAUSED" }, t(on, "bulks.done_pause", { id }));
}

export function resumeBulk(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return changed(on, id, { state: "RUNNING" }, t(on, "bulks.done_resume", { id }));
}

export function cancelBulk(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return changed(on, id, { state: "CANCELED" }, t(on, "bulks.done_cancel", { id }));
}

async function changed(on: ActionContext, id: number, change: BulkChange, text?: string): Promise<Done> {
  const answer = await changeBulk(on.sql, id, change, by(on));
  if (!answer) throw new PageError(404);
  const to = `/bulks/${id}`;
  const over = answer.finished || (answer.was === "CANCELED" && change.state !== "CANCELED");
  return over ? { to, tone: "bad", text: t(on, "bulks.over", { id }) } : { to, text };
}

/** What is in a new bulk already is not repeated again, so sending it twice makes one. */
export async function retryFailed(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const made = await retryBulk(on.sql, id, by(on));
  if (!made) throw new PageError(404);
  if (made.bulk_id === null) return { to: `/bulks/${id}`, tone: "bad", text: t(on, "bulks.retry_nothing", { id }) };
  return {
    to: `/bulks/${made.bulk_id}`,
    text: t(on, "bulks.done_retry", { id: made.bulk_id, items: made.items, of: id }),
  };
}
