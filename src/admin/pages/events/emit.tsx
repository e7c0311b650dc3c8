/** An event emitted by hand: a type, a payload, and a key under which it counts once. */
import { emit } from "../../../actions/run_actions.ts";
import { listEvents } from "../../../events/events.ts";
import { listEventTypes } from "../../../runs/job_view.ts";
import { jsonField, orForm } from "../../form_actions.ts";
import { Foot } from "../../parts/dialog.tsx";
import { TextField } from "../../parts/filters.tsx";
import { Problem } from "../../parts/notes.tsx";
import { type ActionContext, type Done, field, link, type Page, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

const UNFIT_SHOWN = 10;

interface Typed {
  type: string;
  payload: string;
  dedupe_key: string;
}

/** `of`: an event to begin with; its key is not taken over, since it would make the new one the same. */
export async function showEmit(on: RequestContext): Promise<Page> {
  const of = Number(on.query.get("of"));
  const [event] = Number.isSafeInteger(of) && of > 0 ? await listEvents(on.sql, { id: of, most: 1 }) : [];
  const payload = JSON.stringify(event?.payload ?? {}, null, 2);
  const type = event?.event_type ?? on.query.get("type") ?? "";
  return await emitPage(on, { type, payload, dedupe_key: "" });
}

async function emitPage(on: RequestContext, typed: Typed, wrong?: string): Promise<Page> {
  const types = await listEventTypes(on.sql);
  return {
    title: t(on, "events.emit"),
    body: (
      <section>
        <h1>{t(on, "events.emit")}</h1>
        <p>{t(on, "events.emit_text")}</p>
        {wrong && <Problem title={t(on, "events.emit_refused")} text={wrong} />}
        <form class="start" method="post" action={link(on, "/events/new")}>
          <div class="fields">
            <TextField label={t(on, "events.type")} name="type" value={typed.type} list={types} />
            <TextField label={t(on, "events.dedupe_key")} name="dedupe_key" value={typed.dedupe_key} />
          </div>
          <label>
            {t(on, "events.payload")}
            <textarea name="payload" rows={10} spellcheck={false}>{typed.payload}</textarea>
          </label>
          <Foot on={on} back={link(on, "/events")} verb={t(on, "events.emit")} />
        </form>
      </section>
    ),
  };
}

export async function emitFromForm(on: ActionContext): Promise<Done | Page> {
  const text = (name: string) => field(on.form, name);
  const typed = {
    type: text("type"),
    payload: text("payload"),
    dedupe_key: text("dedupe_key"),
  };
  return await orForm(on, (wrong) => emitPage(on, typed, wrong), async () => {
    const payload = jsonField(on, "payload", t(on, "events.payload"));
    const given = { event_type: typed.type, payload, dedupe_key: typed.dedupe_key || undefined };
    const { id, fit } = await on.perform(emit, given);
    if (!fit || fit.listening === 0 || fit.fits.length > 0) {
      return {
        to: `/events/${id}`,
        text: fit ? t(on, "events.emit_done", { id }) : t(on, "events.emit_known", { id }),
      };
    }
    const { listening, unfit } = fit;
    const names = unfit.slice(0, UNFIT_SHOWN).map(({ job_name }) => job_name).join(", ");
    return { to: `/events/${id}`, tone: "bad", text: t(on, "events.emit_unfit", { id, jobs: listening, names }) };
  });
}
