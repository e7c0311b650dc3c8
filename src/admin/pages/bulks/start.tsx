/** A bulk made on the page: a job, and the args of each item on a line of its own. */
import { startBulk } from "../../../actions/bulk.ts";
import { readDefinitions } from "../../../definitions/definition_rows.ts";
import { numberField, orForm, Unusable, wishOf } from "../../form_actions.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import { TextField } from "../../parts/filters.tsx";
import { type ActionContext, type Done, field, link, type Page, type RequestContext } from "../../request_context.ts";
import { PACE } from "./acts.ts";
import { itemsIn } from "./item_text.ts";
import { BULKS } from "./words.ts";

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
  const say = BULKS[on.lang];
  const definitions = await readDefinitions(on.sql);
  const jobs = definitions.filter((one) => !one.removed_at).map((one) => one.name).sort();
  return {
    title: say.start_title,
    body: (
      <section>
        <h1>{say.start_title}</h1>
        {wrong && <Problem title={wrong} />}
        <form class="start" method="post" action={link(on, "/bulks/new")}>
          <div class="fields">
            <TextField label={say.job} name="job" value={typed.job} list={jobs} />
            <TextField label={say.name} name="name" value={typed.name} />
            <label>
              {say.parallel}
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
            {say.start_items}
            <textarea name="items" rows={12} spellcheck={false} required placeholder={EXAMPLE}>{typed.items}</textarea>
            <small>{say.start_text}</small>
          </label>
          <Csrf on={on} />
          <input type="hidden" name="wish" value={crypto.randomUUID()} />
          <div class="buttons">
            <button type="submit" class="primary">{say.start}</button>
          </div>
        </form>
      </section>
    ),
  };
}

const EXAMPLE = '{"device": 7}\n{"device": 8}';

export async function startFromForm(on: ActionContext): Promise<Done | Page> {
  const say = BULKS[on.lang];
  const text = (name: string) => field(on.form, name);
  const typed = { job: text("job"), name: text("name"), parallel: text("parallel"), items: text("items") };
  return await orForm(on, (wrong) => startPage(on, typed, wrong), async () => {
    const parallel = numberField(on, "parallel", { ...PACE.parallel, label: say.parallel });
    const items = itemsIn(on.lang, typed.items);
    if (items.length === 0) throw new Unusable(say.start_empty);
    const options = { parallel, name: typed.name || undefined, idempotencyKey: `page:${wishOf(on)}` };
    const made = await startBulk(on.sql, { job: typed.job, items, options, actor: on.actor });
    return { to: `/bulks/${made.id}`, text: made.isNew ? say.start_done(made.items) : say.start_again };
  });
}
