/** Webhooks: where other programs deliver events. A hook's secret is shown once, when it is made. */
import { Refused } from "../../../actions/args.ts";
import { addHook, DEFAULT_RATE, MOST_PER_MINUTE, removeHook } from "../../../actions/webhook_actions.ts";
import { listWebhooks, SIGNATURES, type WebhookView } from "../../../events/webhooks.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Empty } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { refusalText } from "../../refusals.ts";
import { type ActionContext, type Done, field, link, type Page, type RequestContext } from "../../request_context.ts";
import { Frame, idOf, nameParam, refused, secretPage } from "./frame.tsx";
import { t } from "../../../locale/locale.ts";

export async function showHooks(on: RequestContext): Promise<Page> {
  const hooks = await listWebhooks(on.sql);
  return {
    title: t(on, "access.area.hooks"),
    body: (
      <Frame on={on} area="hooks">
        <div class="heading">
          <span class="nothing">{t(on, "access.hooks_text")}</span>
          <DialogButton opens="add" text={t(on, "access.add_hook")} />
        </div>
        {hooks.length > 0
          ? <Table label={t(on, "access.area.hooks")} rows={hooks} columns={columnsOf(on)} />
          : <Empty text={t(on, "access.no_hooks")} />}
        <AddDialog on={on} />
        {hooks.map(({ name }) => (
          <ConfirmDialog
            on={on}
            id={idOf("remove", name)}
            title={t(on, "access.remove_hook_title", { name })}
            action={`/access/hooks/${encodeURIComponent(name)}/remove`}
            verb={t(on, "access.remove")}
            danger
          >
            <p>{t(on, "access.remove_hook_text")}</p>
          </ConfirmDialog>
        ))}
      </Frame>
    ),
  };
}

function AddDialog({ on }: { on: RequestContext }) {
  return (
    <ConfirmDialog
      on={on}
      id="add"
      title={t(on, "access.add_hook")}
      action="/access/hooks"
      verb={t(on, "access.add_hook")}
    >
      <label>
        {t(on, "access.token_name")}
        <input name="name" required maxlength={64} autocomplete="off" autocapitalize="none" spellcheck={false} />
      </label>
      <label>
        {t(on, "access.event_type")}
        <input name="event_type" required maxlength={200} autocomplete="off" placeholder="order.placed" />
      </label>
      <label>
        {t(on, "access.signature")}
        <select name="signature">{SIGNATURES.map((one) => <option>{one}</option>)}</select>
      </label>
      <label>
        {t(on, "access.rate")}
        <input type="number" name="rate" min={1} max={MOST_PER_MINUTE} value={String(DEFAULT_RATE)} required />
      </label>
    </ConfirmDialog>
  );
}

function columnsOf(on: RequestContext): TableColumn<WebhookView>[] {
  return [
    { head: t(on, "access.name"), cell: (hook) => hook.name },
    { head: t(on, "access.event_type"), kind: "main", cell: (hook) => <span class="line">{hook.event_type}</span> },
    {
      head: t(on, "access.address"),
      kind: "wide",
      cell: (hook) => <code>{link(on, `/api/v1/hooks/${hook.name}`)}</code>,
    },
    { head: t(on, "access.signature"), kind: "wide", cell: (hook) => hook.signature },
    { head: t(on, "access.rate"), kind: "number", cell: (hook) => hook.rate_per_minute },
    { head: t(on, "access.delivered"), cell: (hook) => <Time on={on} at={hook.delivered_at} /> },
    { head: t(on, "access.created_by"), kind: "wide", cell: (hook) => hook.created_by },
    {
      head: t(on, "table.head"),
      unseen: true,
      cell: ({ name }) => (
        <span class="buttons">
          <DialogButton opens={idOf("remove", name)} text={t(on, "access.remove")} danger />
        </span>
      ),
    },
  ];
}

export async function addFromForm(on: ActionContext): Promise<Done | Page> {
  const [name, event_type] = [field(on.form, "name"), field(on.form, "event_type")];
  const signature = SIGNATURES.find((one) => one === field(on.form, "signature"));
  if (!signature) return refused("hooks", t(on, "access.bad_choice"));
  const hook = { name, event_type, signature, rate_per_minute: Number(field(on.form, "rate")) };
  try {
    const { secret } = await on.perform(addHook, hook);
    return secretPage(on, { title: t(on, "access.secret_of", { name }), secret, area: "hooks" });
  } catch (error) {
    if (error instanceof Refused) return refused("hooks", refusalText(on.lang, error).slice(0, 500));
    throw error;
  }
}

export async function removeOneHook(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  try {
    await on.perform(removeHook, { name });
    return { to: "/access/hooks", text: t(on, "access.removed", { name }) };
  } catch (error) {
    if (error instanceof Refused) return refused("hooks", t(on, "access.none_of"));
    throw error;
  }
}
