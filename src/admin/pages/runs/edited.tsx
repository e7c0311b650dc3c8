/** A run again, with other args: what was given is a text to change, checked against the job's schema before anything is made. */
import { retryRun } from "../../../client/run_acts.ts";
import { readDefinition } from "../../../store/definitions.ts";
import { readRun } from "../../../store/run_view.ts";
import { by, jsonField, wishOf, wordsOf } from "../../acting.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Code, Problem } from "../../parts/notes.tsx";
import { type Act, type Done, field, idParam, link, type Page, Refusal, type Visit } from "../../visit.ts";
import { RUNS } from "./words.ts";

export async function showEdited(on: Visit): Promise<Page> {
  return await editPage(on, { reason: "" });
}

async function editPage(on: Visit, typed: { args?: string; reason: string }, wrong?: string): Promise<Page> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  const run = await readRun(on.sql, id);
  if (!run) throw new Refusal(404);
  const schema = (await readDefinition(on.sql, run.job_name))?.args_schema;
  const given = typed.args ?? JSON.stringify(run.args, null, 2);
  return {
    title: say.edit_title(id),
    body: (
      <section>
        <h1>
          {say.edit_title(id)} <small>{say.of_job} {run.job_name}</small>
        </h1>
        {wrong && <Problem title={say.edit_refused} text={wrong} />}
        <form class="start" method="post" action={link(on, `/runs/${id}/edit`)}>
          <label>
            {say.args}
            <textarea name="args" rows={Math.min(24, given.split("\n").length + 2)} spellcheck={false}>
              {given}
            </textarea>
          </label>
          <label>
            {say.many_reason}
            <input name="reason" maxlength={500} autocomplete="off" value={typed.reason} />
          </label>
          <Csrf on={on} />
          <input type="hidden" name="wish" value={crypto.randomUUID()} />
          <div class="buttons">
            <a class="button" href={link(on, `/runs/${id}`)}>{say.back}</a>
            <button type="submit" class="primary">{say.retry}</button>
          </div>
        </form>
        {schema && (
          <details>
            <summary>{say.schema}</summary>
            <Code value={schema} />
          </details>
        )}
      </section>
    ),
  };
}

/** One new run for each time that the form was opened. */
export async function retryEdited(on: Act): Promise<Done | Page> {
  const id = idParam(on);
  const say = RUNS[on.lang];
  try {
    const args = jsonField(on, "args", say.args);
    const fresh = await retryRun(on.sql, id, { args, idempotencyKey: `page:${wishOf(on)}`, ...by(on) });
    return { to: `/runs/${fresh.id}`, text: say.edit_done(fresh.id, id) };
  } catch (error) {
    const wrong = wordsOf(on.lang, error);
    if (wrong === undefined) throw error;
    return {
      ...await editPage(on, { args: field(on.form, "args"), reason: field(on.form, "reason") }, wrong),
      status: 400,
    };
  }
}
