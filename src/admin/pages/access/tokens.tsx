/** Tokens by which programs use the API. One is shown once, when it is made; only its digest is kept. */
import { addToken, removeToken } from "../../../actions/system_actions.ts";
import { type ApiTokenView, listApiTokens, MOST_TOKEN_DAYS, SCOPES, TOKEN_NAME } from "../../../access/api_tokens.ts";
import { digestOf, makeToken } from "../../auth/passwords.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Chips } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { type ActionContext, type Done, field, type Page, type RequestContext } from "../../request_context.ts";
import { Frame, idOf, nameParam, refused, secretPage } from "./frame.tsx";
import { t } from "../../../locale/locale.ts";

const USUAL_DAYS = 90;

export async function showTokens(on: RequestContext): Promise<Page> {
  const tokens = await listApiTokens(on.sql);
  return {
    title: t(on, "access.area.tokens"),
    body: (
      <Frame on={on} area="tokens">
        <div class="heading">
          <span class="nothing">{t(on, "access.tokens_text")}</span>
          <DialogButton opens="add" text={t(on, "access.add_token")} />
        </div>
        {tokens.length > 0
          ? <Table label={t(on, "access.area.tokens")} rows={tokens} columns={columnsOf(on)} />
          : <Empty text={t(on, "access.no_tokens")} />}
        <ConfirmDialog
          on={on}
          id="add"
          title={t(on, "access.add_token")}
          action="/access/tokens"
          verb={t(on, "access.add_token")}
        >
          <label>
            {t(on, "access.token_name")}
            <input name="name" required maxlength={64} autocomplete="off" autocapitalize="none" spellcheck={false} />
          </label>
          <Chips label={t(on, "access.scopes")} name="scope" chosen={["read"]} options={SCOPES} />
          <label>
            {t(on, "access.days")}
            <input type="number" name="days" min={1} max={MOST_TOKEN_DAYS} value={String(USUAL_DAYS)} required />
          </label>
        </ConfirmDialog>
        {tokens.map(({ name }) => (
          <ConfirmDialog
            on={on}
            id={idOf("remove", name)}
            title={t(on, "access.remove_token_title", { name })}
            action={`/access/tokens/${encodeURIComponent(name)}/remove`}
            verb={t(on, "access.remove")}
            danger
          >
            <p>{t(on, "access.remove_token_text")}</p>
          </ConfirmDialog>
        ))}
      </Frame>
    ),
  };
}

function columnsOf(on: RequestContext): TableColumn<ApiTokenView>[] {
  return [
    { head: t(on, "access.name"), cell: (token) => token.name },
    { head: t(on, "access.scopes"), cell: (token) => token.scopes.join(", ") },
    {
      head: t(on, "access.expires"),
      cell: (token) => (
        <span class="states">
          {token.expires_at < on.now && <Badge tone="bad" sign="!" text={t(on, "access.expired")} />}
          <Time on={on} at={token.expires_at} />
        </span>
      ),
    },
    { head: t(on, "access.used"), kind: "wide", cell: (token) => <Time on={on} at={token.used_at} /> },
    { head: t(on, "access.created_by"), kind: "wide", cell: (token) => token.created_by },
    {
      head: t(on, "table.head"),
      unseen: true,
      kind: "main",
      cell: ({ name }) => (
        <span class="buttons">
          <DialogButton opens={idOf("remove", name)} text={t(on, "access.remove")} danger />
        </span>
      ),
    },
  ];
}

export async function addFromForm(on: ActionContext): Promise<Done | Page> {
  const [name, days] = [field(on.form, "name"), Number(field(on.form, "days"))];
  if (!TOKEN_NAME.test(name)) return refused("tokens", t(on, "access.bad_token_name", { name: name.slice(0, 100) }));
  if (!Number.isInteger(days) || days < 1 || days > MOST_TOKEN_DAYS) return refused("tokens", t(on, "access.bad_days"));
  const given = on.form.getAll("scope");
  const scopes = SCOPES.filter((scope) => given.includes(scope));
  if (scopes.length === 0) return refused("tokens", t(on, "access.scope_missing"));
  const secret = makeToken();
  const added = await on.perform(addToken, { name, token_digest: await digestOf(secret), scopes, days });
  if (!added.added) return refused("tokens", t(on, "access.taken", { name }));
  return secretPage(on, { title: t(on, "access.token_is", { name }), secret, area: "tokens" });
}

export async function removeOneToken(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  if (!(await on.perform(removeToken, { name })).removed) return refused("tokens", t(on, "access.none_of"));
  return { to: "/access/tokens", text: t(on, "access.removed", { name }) };
}
