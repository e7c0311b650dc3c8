/** A run again, with other args: what was given is a text to change, checked against the job's schema before anything is made. */
import { retry } from "../../../actions/run_actions.ts";
import { readDefinition } from "../../../definitions/definition_rows.ts";
import { readRun } from "../../../runs/run_view.ts";
import { jsonField, orForm, wishOf } from "../../form_actions.ts";
import { Foot } from "../../parts/dialog.tsx";
import { Code, Problem } from "../../parts/notes.tsx";
import {
  type ActionContext,
  type Done,
  idParam,
  link,
  type Page,
  PageError,
  type RequestContext,
  typedIn,
} from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export async function showEdited(on: RequestContext): Promise<Page> {
  return await editPage(on);
}

async function editPage(on: RequestContext, wrong?: string): Promise<Page> {
  const id = idParam(on);
  const run = await readRun(on.sql, id);
  if (!run) throw new PageError(404);
  const schema = (await readDefinition(on.sql, run.job_name))?.args_schema;
  const given = typedIn(on, "args") ?? JSON.stringify(run.args, null, 2);
  return {
    title: t(on, "runs.edit_title", { id }),
    body: (
      <section>
        <h1>
          {t(on, "runs.edit_title", { id })} <small>{t(on, "runs.of_job")} {run.job_name}</small>
        </h1>
        {wrong && <Problem title={t(on, "runs.edit_refused")} text={wrong} />}
        <form class="start" method="post" action={link(on, `/runs/${id}/edit`)}>
          <label>
            {t(on, "runs.args")}
            <textarea name="args" rows={Math.min(24, given.split("\n").length + 2)} spellcheck={false}>
              {given}
            </textarea>
          </label>
          <input type="hidden" name="wish" value={crypto.randomUUID()} />
          <Foot on={on} back={link(on, `/runs/${id}`)} verb={t(on, "runs.retry")} />
        </form>
        {schema && (
          <details>
            <summary>{t(on, "runs.schema")}</summary>
            <Code value={schema} />
          </details>
        )}
      </section>
    ),
  };
}

/** One new run for each time that the form was opened. */
export async function retryEdited(on: ActionContext): Promise<Done | Page> {
  const id = idParam(on);
  return await orForm(on, (wrong) => editPage(on, wrong), async () => {
    const args = jsonField(on, "args", t(on, "runs.args"));
    const fresh = await on.perform(retry, { id, args, idempotency_key: `page:${wishOf(on)}` });
    return { to: `/runs/${fresh.id}`, text: t(on, "runs.edit_done", { id: fresh.id, of: id }) };
  });
}
