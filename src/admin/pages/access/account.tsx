/** One's own account: the password, and where one is logged in. For everybody who has one. */
import { listSessions, type OpenSession } from "../../../access/sessions.ts";
import { hashPassword, passwordFits, problemWithPassword } from "../../auth/passwords.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { changeOwnPassword, logOutEverywhere } from "../../../actions/user_actions.ts";
import { orSay } from "../../form_actions.ts";
import { type ActionContext, type Done, link, type Page, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export async function showAccount(on: RequestContext): Promise<Page> {
  const sessions = await listSessions(on.sql, on.user?.name ?? "");
  return {
    title: t(on, "access.account"),
    body: (
      <>
        <h1>
          {t(on, "access.account")} <small>{on.user?.name} · {on.user?.role}</small>
        </h1>
        <div class="columns">
          <section>
            <h2>{t(on, "access.change_password")}</h2>
            <form method="post" action={link(on, "/account/password")} class="login">
              <Csrf on={on} />
              <Password label={t(on, "access.current")} name="current" autocomplete="current-password" />
              <Password label={t(on, "access.fresh")} name="fresh" autocomplete="new-password" />
              <Password label={t(on, "access.again")} name="again" autocomplete="new-password" />
              <div class="buttons">
                <button type="submit" class="primary">{t(on, "access.change_password")}</button>
              </div>
            </form>
          </section>
          <section>
            <h2>{t(on, "access.sessions")}</h2>
            <Table label={t(on, "access.sessions")} rows={sessions} columns={columnsOf(on)} />
            <form method="post" action={link(on, "/account/logout")} class="after">
              <Csrf on={on} />
              <button type="submit" class="danger">{t(on, "access.log_out_all")}</button>
            </form>
          </section>
        </div>
      </>
    ),
  };
}

function Password({ label, name, autocomplete }: { label: string; name: string; autocomplete: string }) {
  return (
    <label>
      {label}
      <input type="password" name={name} autocomplete={autocomplete} required maxlength={1000} />
    </label>
  );
}

function columnsOf(on: RequestContext): TableColumn<OpenSession>[] {
  return [
    { head: t(on, "access.from"), cell: (session) => session.address },
    { head: t(on, "access.browser"), kind: "main", cell: (session) => <span class="line">{session.user_agent}</span> },
    { head: t(on, "access.seen"), cell: (session) => <Time on={on} at={session.seen_at} /> },
  ];
}

export async function changePassword(on: ActionContext): Promise<Done> {
  const name = on.user?.name ?? "";
  const [current, fresh, again] = ["current", "fresh", "again"].map((one) => {
    const value = on.form.get(one);
    return typeof value === "string" ? value : "";
  }) as [string, string, string];
  const bad = (text: string): Done => ({ to: "/account", tone: "bad", text });
  if (problemWithPassword(fresh)) return bad(t(on, "access.unfit"));
  if (fresh !== again) return bad(t(on, "access.differ"));
  const fits = (hash: string | undefined) => passwordFits(current.slice(0, 1000), hash);
  return await orSay(on, "/account", async () => {
    const { changed } = await on.perform(changeOwnPassword, { name, hash: () => hashPassword(fresh), fits });
    return changed ? { to: "/account", text: t(on, "access.password_done") } : bad(t(on, "access.wrong"));
  });
}

export async function endOwnSessions(on: ActionContext): Promise<Done> {
  const ended = await on.perform(logOutEverywhere, { name: on.user?.name ?? "" });
  return { to: "/account", text: t(on, "access.log_out_done", { n: ended }) };
}
