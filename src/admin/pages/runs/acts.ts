/** What an operator does to one run. The store does it, with its audit, as one statement; here is only what is said of it. */
import { rerunWhere } from "../../../store/births.ts";
import { requestCancel } from "../../../store/requests.ts";
import { TERMINAL } from "../../../store/runs.ts";
import { type Act, by, type Done, field, idParam, Refusal } from "../../visit.ts";
import { RUNS } from "./words.ts";

export async function cancelRun(on: Act): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const answer = await requestCancel(on.sql, id, by(on));
  if (!answer) throw new Refusal(404);
  const to = `/runs/${id}`;
  if (answer.requested) return { to, text: say.cancel_done(id) };
  if (TERMINAL.includes(answer.state)) return { to, tone: "bad", text: say.cancel_late(id, answer.state) };
  return { to, text: say.cancel_before(id) };
}

/** One new run for each time that the form was opened: sent twice, it is the first one. */
export async function retryRun(on: Act): Promise<Done> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const wish = field(on.form, "wish");
  if (!/^[0-9a-f-]{36}$/.test(wish)) throw new Refusal(400);
  const [fresh] = await rerunWhere(on.sql, { id, states: TERMINAL }, { ...by(on), most: 1, wish });
  if (!fresh) return { to: `/runs/${id}`, tone: "bad", text: say.retry_not(id) };
  return { to: `/runs/${fresh.id}`, text: say.retry_done(fresh.id, id) };
}
