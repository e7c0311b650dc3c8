/** A bulk made on the page: a job, and the args of each item on a line of its own. */
import { startOneBulk } from "../../../actions/bulk_actions.ts";
import { readDefinitions } from "../../../definitions/definition_rows.ts";
import { numberField, orForm, Unusable, wishOf } from "../../form_actions.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import { TextField } from "../../parts/filters.tsx";
import { type ActionContext, type Done, field, link, type Page, type RequestContext } from "../../request_context.ts";
import { PACE } from "./acts.ts";
import { itemsIn } from "./item_text.ts";
import { t } from "../../../locale/locale.ts";

export async function showStart(on: RequestContext): Promise<Page> {
  return await startPage(on, { job: on.query.get("job") ?? "", name: "", parallel: "10", items: "" });
}

interface Typed {
  job: string;
  name: string;
  parallel: string;
  items: string;
}

async function startPage(on: RequestContext, typed: Typed, wrong?: string): Promise<Page> {
  const definitions = await readDefinitions(on.sql);
  const jobs = definitions.filter((one) => !one.removed_at).map((one) => one.name).sort();
  return {
    title: t(on, "bulks.start_title"),
    body: (
      <section>
        <h1>{t(on, "bulks.start_title")}</h1>
        {wrong && <Problem title={wrong} />}
        <form class="start" method="post" action={link(on, "/bulks/new")}>
          <div class="fields">
            <TextField label={t(on, "bulks.job")} name="job" value={typed.job} list={jobs} />
            <TextField label={t(on, "bulks.name")} name="name" value={typed.name} />
            <label>
              {t(on, "bulks.parallel")}
              <input
                type="number"
                name="parallel"
                value={typed.parallel}
                min={PACE.parallel.from}
                max={PACE.parallel.to}
                required
              />
            </label>
          </div>
          <label>
            {t(on, "bulks.start_items")}
            <textarea name="items" rows={12} spellcheck={false} required placeholder={EXAMPLE}>{typed.items}</textarea>
            <small>{t(on, "bulks.start_text")}</small>
          </label>
          <Csrf on={on} />
          <input type="hidden" name="wish" value={crypto.randomUUID()} />
          <div class="buttons">
            <button type="submit" class="primary">{t(on, "bulks.start")}</button>
          </div>
        </form>
      </section>
    ),
  };
}

const EXAMPLE = '{"device": 7}\n{"device": 8}';

export async function startFromForm(on: ActionContext): Promise<Done | Page> {
  const text = (name: string) => field(on.form, name);
  const typed = { job: text("job"), name: text("name"), parallel: text("parallel"), items: text("items") };
  return await orForm(on, (wrong) => startPage(on, typed, wrong), async () => {
    const parallel = numberField(on, "parallel", { ...PACE.parallel, label: t(on, "bulks.parallel") });
    const items = itemsIn(on.lang, typed.items);
    if (items.length === 0) throw new Unusable(t(on, "bulks.start_empty"));
    const more = { parallel, name: typed.name || undefined, idempotency_key: `page:${wishOf(on)}` };
    const made = await on.perform(startOneBulk, { job_name: typed.job, items, ...more });
    return {
      to: `/bulks/${made.id}`,
      text: made.isNew ? t(on, "bulks.start_done", { items: made.items }) : t(on, "bulks.start_again"),
    };
  });
}
