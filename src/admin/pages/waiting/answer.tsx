/** One message to one run: what the run asks, and the answer as a form drawn from the message's schema, checked by it where it is sent. */
import { send } from "../../../actions/workflow_actions.ts";
import { type DeclaredMessage, readDefinition } from "../../../definitions/definition_rows.ts";
import { readRun, type RunView } from "../../../runs/run_view.ts";
import { TERMINAL } from "../../../runs/run_states.ts";
import { type OpenPrompt, promptsOfRun } from "../../../steps/open_prompts.ts";
import { ArgsFields, type ArgsState } from "../../args/form.tsx";
import { argsFrom, changedForm, freshArgs } from "../../args/sent.ts";
import { orForm, wishOf } from "../../form_actions.ts";
import { Back, Csrf, ReasonField } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import {
  type ActionContext,
  type Done,
  field,
  idParam,
  link,
  may,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";
import { besides, DecisionButtons, decisionOf } from "./decision.tsx";
import { answers, messagePath, Question } from "./list.tsx";

interface Asked {
  run: RunView;
  name: string;
  message: DeclaredMessage;
  prompts: OpenPrompt[];
}

interface Filled {
  args: ArgsState;
  wish: string;
  wrong?: string;
}

export async function showMessage(on: RequestContext): Promise<Page> {
  const asked = await readAsked(on);
  return messagePage(on, asked, { args: freshArgs(asked.message.schema, on.zone), wish: crypto.randomUUID() });
}

/** @throws PageError 404 */
async function readAsked(on: RequestContext): Promise<Asked> {
  const [id, name = ""] = [idParam(on), on.params.name];
  const run = await readRun(on.sql, id);
  const messages = run && (await readDefinition(on.sql, run.job_name))?.messages;
  if (!run || !messages || !Object.hasOwn(messages, name)) throw new PageError(404);
  return { run, name, message: messages[name] as DeclaredMessage, prompts: await promptsOfRun(on.sql, id, name) };
}

/** Sends it, once for each time that the form was opened; or gives the form back: changed by one of its own buttons, or with what is wrong. */
export async function sendAnswer(on: ActionContext): Promise<Done | Page> {
  const asked = await readAsked(on);
  const { run: { id }, name, message, prompts } = asked;
  const sent = argsFrom(on, message.schema, { text: `message "${name}"`, called: "payload" });
  const wish = wishOf(on);
  const changed = changedForm(on, sent);
  if (changed) return messagePage(on, asked, { args: changed, wish });
  const { args, value: payload } = sent;
  if (args.problems.size > 0) return { ...messagePage(on, asked, { args, wish }), status: 400 };
  return await orForm(on, (wrong) => Promise.resolve(messagePage(on, asked, { args, wish, wrong })), async () => {
    await on.perform(send, { id, name, payload, dedupe_key: `page:${wish}` });
    const to = field(on.form, "to") === "/waiting" ? "/waiting" : `/runs/${id}`;
    return { to, text: t(on, prompts.length > 0 ? "waiting.answered" : "waiting.sent", { id, name }) };
  });
}

function messagePage(on: RequestContext, asked: Asked, filled: Filled): Page {
  const { run, name, prompts } = asked;
  const title = t(on, "waiting.one_title", { id: run.id, name });
  const ended = TERMINAL.includes(run.state);
  const open = !ended && may(on, "operator") && prompts.every((prompt) => answers(on, prompt));
  return {
    title,
    body: (
      <>
        <h1>
          {title} <small>{t(on, "runs.of_job")} {run.job_name}</small>
        </h1>
        {ended && <p class="now">{t(on, "waiting.ended", { state: run.state })}</p>}
        {!ended && prompts.length === 0 && <p class="now">{t(on, "waiting.unasked_yet")}</p>}
        {prompts.map((prompt) => (
          <section class="prompt">
            <Question on={on} prompt={prompt} />
          </section>
        ))}
        {open ? <AnswerForm on={on} asked={asked} filled={filled} /> : (
          <div class="buttons">
            {!ended && <p>{t(on, "waiting.not_yours")}</p>}
            <Back on={on} to={link(on, `/runs/${run.id}`)} />
          </div>
        )}
      </>
    ),
  };
}

function AnswerForm({ on, asked, filled }: { on: RequestContext; asked: Asked; filled: Filled }) {
  const { run, name } = asked;
  const { args, wish, wrong } = filled;
  const path = messagePath(run.id, name);
  const form = args.draft && args.field;
  const decision = decisionOf(form);
  const drawn = form && decision ? { ...args, field: besides(form, decision) } : args;
  return (
    <form class="form" method="post" action={link(on, path)}>
      {/* What the Enter key presses: where there is something to decide, it decides nothing. */}
      <button type="submit" class="first" tabindex={-1} aria-hidden="true">{t(on, "waiting.send")}</button>
      {args.problems.size > 0 && <Problem title={t(on, "waiting.wrong")} />}
      {wrong && <Problem title={t(on, "waiting.refused")} text={wrong} />}
      {isBare(drawn)
        ? <input type="hidden" name="mode" value="fields" />
        : <ArgsFields on={on} args={drawn} action={path} legend={t(on, "waiting.payload")} />}
      <ReasonField on={on} />
      <Csrf on={on} />
      <input type="hidden" name="wish" value={wish} />
      <div class="buttons">
        <Back on={on} to={link(on, `/runs/${run.id}`)} />
        {decision
          ? <DecisionButtons on={on} decision={decision} />
          : <button type="submit" class="primary">{t(on, "waiting.send")}</button>}
      </div>
    </form>
  );
}

/** The buttons say all that there is to say. */
function isBare({ draft, field }: ArgsState): boolean {
  return draft !== undefined && field?.kind === "object" && field.fields.length === 0;
}
