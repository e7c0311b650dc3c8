/** What an operator does to one run. The store does it, with its audit, as one statement; here is only what is said of it. */
import { actOnMany } from "../../../actions/many_runs.ts";
import { rerunWhere } from "../../../runs/create_runs.ts";
import { requestCancel } from "../../../runs/requests.ts";
import { readState } from "../../../runs/run_view.ts";
import { TERMINAL } from "../../../runs/run_states.ts";
import { forceClose } from "../../../runs/states.ts";
import { by, numberField, orSay, wishOf } from "../../form_actions.ts";
import { type ActionContext, type Done, field, idParam, PageError } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export async function cancelRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const answer = await requestCancel(on.sql, id, by(on));
  if (!answer) throw new PageError(404);
  const to = `/runs/${id}`;
  if (answer.requested) return { to, text: t(on, "runs.cancel_done", { id }) };
  if (TERMINAL.includes(answer.state)) {
    return { to, tone: "bad", text: t(on, "runs.cancel_late", { id, state: answer.state }) };
  }
  return { to, text: t(on, "runs.cancel_before", { id }) };
}

/** One new run for each time that the form was opened: sent twice, it is the first one. */
export async function retryRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const [fresh] = await rerunWhere(on.sql, { id, states: TERMINAL }, { ...by(on), most: 1, wish: wishOf(on) });
  if (!fresh) return { to: `/runs/${id}`, tone: "bad", text: t(on, "runs.retry_not", { id }) };
  return { to: `/runs/${fresh.id}`, text: t(on, "runs.retry_done", { id: fresh.id, of: id }) };
}

export function moveRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  return orSay(on, `/runs/${id}`, async () => {
    const priority = numberField(on, "priority", { from: 0, to: 999, whole: true, label: t(on, "runs.priority") });
    if (priority === undefined) throw new PageError(400);
    const moved = await actOnMany(on.sql, { id }, { verb: "reprioritize", priority }, by(on));
    const to = `/runs/${id}`;
    if (moved.length > 0) return { to, text: t(on, "runs.move_done", { id, priority }) };
    if (await readState(on.sql, id) === undefined) throw new PageError(404);
    return { to, tone: "bad", text: t(on, "runs.move_not", { id, priority }) };
  });
}

/** A reason is asked for: what is closed so looks as if it had failed, and perhaps it goes on. */
export async function closeRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const to = `/runs/${id}`;
  if (field(on.form, "reason") === "") return { to, tone: "bad", text: t(on, "runs.close_why") };
  if (await forceClose(on.sql, id, by(on))) return { to, text: t(on, "runs.close_done", { id }) };
  const state = await readState(on.sql, id);
  if (state === undefined) throw new PageError(404);
  return { to, tone: "bad", text: t(on, "runs.cancel_late", { id, state }) };
}
