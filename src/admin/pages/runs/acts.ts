/** What an operator does to one run. The store does it, with its audit, as one statement; here is only what is said of it. */
import { actOnMany } from "../../../actions/many_runs.ts";
import { rerunWhere } from "../../../runs/create_runs.ts";
import { requestCancel } from "../../../runs/requests.ts";
import { readState } from "../../../runs/run_view.ts";
import { forceClose, TERMINAL } from "../../../runs/states.ts";
import { by, numberField, orSay, wishOf } from "../../form_actions.ts";
import { type ActionContext, type Done, field, idParam, PageError } from "../../request_context.ts";
import { RUNS } from "./words.ts";

export async function cancelRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const answer = await requestCancel(on.sql, id, by(on));
  if (!answer) throw new PageError(404);
  const to = `/runs/${id}`;
  if (answer.requested) return { to, text: say.cancel_done(id) };
  if (TERMINAL.includes(answer.state)) return { to, tone: "bad", text: say.cancel_late(id, answer.state) };
  return { to, text: say.cancel_before(id) };
}

/** One new run for each time that the form was opened: sent twice, it is the first one. */
export async function retryRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const [fresh] = await rerunWhere(on.sql, { id, states: TERMINAL }, { ...by(on), most: 1, wish: wishOf(on) });
  if (!fresh) return { to: `/runs/${id}`, tone: "bad", text: say.retry_not(id) };
  return { to: `/runs/${fresh.id}`, text: say.retry_done(fresh.id, id) };
}

export function moveRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  return orSay(on, `/runs/${id}`, async () => {
    const priority = numberField(on, "priority", { from: 0, to: 999, whole: true, label: say.priority });
    if (priority === undefined) throw new PageError(400);
    const moved = await actOnMany(on.sql, { id }, { verb: "reprioritize", priority }, by(on));
    const to = `/runs/${id}`;
    if (moved.length > 0) return { to, text: say.move_done(id, priority) };
    if (await readState(on.sql, id) === undefined) throw new PageError(404);
    return { to, tone: "bad", text: say.move_not(id, priority) };
  });
}

/** A reason is asked for: what is closed so looks as if it had failed, and perhaps it goes on. */
export async function closeRun(on: ActionContext): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const to = `/runs/${id}`;
  if (field(on.form, "reason") === "") return { to, tone: "bad", text: say.close_why };
  if (await forceClose(on.sql, id, by(on))) return { to, text: say.close_done(id) };
  const state = await readState(on.sql, id);
  if (state === undefined) throw new PageError(404);
  return { to, tone: "bad", text: say.cancel_late(id, state) };
}
