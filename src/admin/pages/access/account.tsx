/** One's own account: the password, and where one is logged in. For everybody who has one. */
import { forgetTries, mayTry } from "../../../access/login_attempts.ts";
import { endSessionsOf, listSessions, type OpenSession } from "../../../access/sessions.ts";
import { readCredentials, setPassword } from "../../../access/users.ts";
import { hashPassword, passwordFits, problemWithPassword } from "../../auth/passwords.ts";
import { Csrf } from "../../parts/dialog.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { by } from "../../form_actions.ts";
import { type ActionContext, type Done, link, type Page, type RequestContext } from "../../request_context.ts";
import { ACCESS } from "./words.ts";

export async function showAccount(on: RequestContext): Promise<Page> {
  const say = ACCESS[on.lang];
  const sessions = await listSessions(on.sql, on.user?.name ?? "");
  return {
    title: say.account,
    body: (
      <>
        <h1>
          {say.account} <small>{on.user?.name} · {on.user?.role}</small>
        </h1>
        <div class="columns">
          <section>
            <h2>{say.change_password}</h2>
            <form method="post" action={link(on, "/account/password")} class="login">
              <Csrf on={on} />
              <Password label={say.current} name="current" autocomplete="current-password" />
              <Password label={say.fresh} name="fresh" autocomplete="new-password" />
              <Password label={say.again} name="again" autocomplete="new-password" />
              <div class="buttons">
                <button type="submit" class="primary">{say.change_password}</button>
              </div>
            </form>
          </section>
          <section>
            <h2>{say.sessions}</h2>
            <Table label={say.sessions} rows={sessions} columns={columnsOf(on)} />
            <form method="post" action={link(on, "/account/logout")} class="after">
              <Csrf on={on} />
              <button type="submit" class="danger">{say.log_out_all}</button>
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
  const say = ACCESS[on.lang];
  return [
    { head: say.from, cell: (session) => session.address },
    { head: say.browser, kind: "main", cell: (session) => <span class="line">{session.user_agent}</span> },
    { head: say.seen, cell: (session) => <Time on={on} at={session.seen_at} /> },
  ];
}

/** Tries are counted as those at the login are: an open session must not help to guess. */
export async function changeOwnPassword(on: ActionContext): Promise<Done> {
  const say = ACCESS[on.lang];
  const name = on.user?.name ?? "";
  const [current, fresh, again] = ["current", "fresh", "again"].map((one) => {
    const value = on.form.get(one);
    return typeof value === "string" ? value : "";
  }) as [string, string, string];
  const bad = (text: string): Done => ({ to: "/account", tone: "bad", text });
  if (problemWithPassword(fresh)) return bad(say.unfit);
  if (fresh !== again) return bad(say.differ);
  // The tries from one address are few, and others' are not one's own: what they guess does not count.
  const who = { name, address: `account of ${name}`, known: "address" } as const;
  if (!await mayTry(on.sql, who)) return bad(say.too_many);
  const known = await readCredentials(on.sql, name);
  if (!await passwordFits(current.slice(0, 1000), known?.password_hash)) return bad(say.wrong);
  await forgetTries(on.sql, who);
  const password_hash = await hashPassword(fresh);
  if (!await setPassword(on.sql, { name, password_hash, instead_of: known?.password_hash }, { actor: on.actor })) {
    return bad(say.wrong);
  }
  return { to: "/account", text: say.password_done };
}

export async function logOutEverywhere(on: ActionContext): Promise<Done> {
  const ended = await endSessionsOf(on.sql, on.user?.name ?? "", by(on));
  return { to: "/account", text: ACCESS[on.lang].log_out_done(ended) };
}
