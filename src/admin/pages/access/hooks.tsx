/** Webhooks: where other programs deliver events. A hook's secret is shown once, when it is made. */
import { Refused } from "../../../actions/args.ts";
import { DEFAULT_RATE, dropHook, makeHook, MOST_PER_MINUTE } from "../../../actions/webhook_actions.ts";
import { listWebhooks, SIGNATURES, type WebhookView } from "../../../events/webhooks.ts";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Empty } from "../../parts/notes.tsx";
import { ACTIONS, Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { by } from "../../form_actions.ts";
import { refusalText } from "../../refusals.ts";
import { type ActionContext, type Done, field, link, type Page, type RequestContext } from "../../request_context.ts";
import { Frame, idOf, nameParam, refused, secretPage } from "./frame.tsx";
import { ACCESS } from "./words.ts";

export async function showHooks(on: RequestContext): Promise<Page> {
  const say = ACCESS[on.lang];
  const hooks = await listWebhooks(on.sql);
  return {
    title: say.hooks,
    body: (
      <Frame on={on} area="hooks">
        <div class="heading">
          <span class="nothing">{say.hooks_text}</span>
          <DialogButton opens="add" text={say.add_hook} />
        </div>
        {hooks.length > 0
          ? <Table label={say.hooks} rows={hooks} columns={columnsOf(on)} />
          : <Empty text={say.no_hooks} />}
        <AddDialog on={on} />
        {hooks.map(({ name }) => (
          <ConfirmDialog
            on={on}
            id={idOf("remove", name)}
            title={say.remove_hook_title(name)}
            action={`/access/hooks/${encodeURIComponent(name)}/remove`}
            verb={say.remove}
            danger
          >
            <p>{say.remove_hook_text}</p>
          </ConfirmDialog>
        ))}
      </Frame>
    ),
  };
}

function AddDialog({ on }: { on: RequestContext }) {
  const say = ACCESS[on.lang];
  return (
    <ConfirmDialog on={on} id="add" title={say.add_hook} action="/access/hooks" verb={say.add_hook}>
      <label>
        {say.token_name}
        <input name="name" required maxlength={64} autocomplete="off" autocapitalize="none" spellcheck={false} />
      </label>
      <label>
        {say.event_type}
        <input name="event_type" required maxlength={200} autocomplete="off" placeholder="order.placed" />
      </label>
      <label>
        {say.signature}
        <select name="signature">{SIGNATURES.map((one) => <option>{one}</option>)}</select>
      </label>
      <label>
        {say.rate}
        <input type="number" name="rate" min={1} max={MOST_PER_MINUTE} value={String(DEFAULT_RATE)} required />
      </label>
    </ConfirmDialog>
  );
}

function columnsOf(on: RequestContext): TableColumn<WebhookView>[] {
  const say = ACCESS[on.lang];
  return [
    { head: say.name, cell: (hook) => hook.name },
    { head: say.event_type, kind: "main", cell: (hook) => <span class="line">{hook.event_type}</span> },
    { head: say.address, kind: "wide", cell: (hook) => <code>{link(on, `/api/v1/hooks/${hook.name}`)}</code> },
    { head: say.signature, kind: "wide", cell: (hook) => hook.signature },
    { head: say.rate, kind: "number", cell: (hook) => hook.rate_per_minute },
    { head: say.delivered, cell: (hook) => <Time on={on} at={hook.delivered_at} /> },
    { head: say.created_by, kind: "wide", cell: (hook) => hook.created_by },
    {
      head: ACTIONS[on.lang].head,
      unseen: true,
      cell: ({ name }) => (
        <span class="buttons">
          <DialogButton opens={idOf("remove", name)} text={say.remove} danger />
        </span>
      ),
    },
  ];
}

export async function addHook(on: ActionContext): Promise<Done | Page> {
  const say = ACCESS[on.lang];
  const [name, event_type] = [field(on.form, "name"), field(on.form, "event_type")];
  const signature = SIGNATURES.find((one) => one === field(on.form, "signature"));
  if (!signature) return refused("hooks", say.bad_choice);
  const hook = { name, event_type, signature, rate_per_minute: Number(field(on.form, "rate")) };
  try {
    const { secret } = await makeHook(on.sql, hook, by(on));
    return secretPage(on, { title: say.secret_of(name), secret, area: "hooks" });
  } catch (error) {
    if (error instanceof Refused) return refused("hooks", refusalText(on.lang, error).slice(0, 500));
    throw error;
  }
}

export async function removeHook(on: ActionContext): Promise<Done> {
  const [say, name] = [ACCESS[on.lang], nameParam(on)];
  try {
    await dropHook(on.sql, name, by(on));
    return { to: "/access/hooks", text: say.removed(name) };
  } catch (error) {
    if (error instanceof Refused) return refused("hooks", say.none_of);
    throw error;
  }
}
