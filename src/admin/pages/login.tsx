/** The login. */
import { Csrf } from "../parts/dialog.tsx";
import { Code, Problem } from "../parts/notes.tsx";
import { link, type Page, type RequestContext } from "../request_context.ts";
import { t } from "../../locale/locale.ts";

const FIRST_USER = "deno task admin user add NAME --role admin";

export function loginPage(
  on: RequestContext,
  form: {
    back: string;
    name: string;
    problem?: "in" | "wrong" | "too_many" | "busy";
    over?: "ended" | "undone";
    no_users: boolean;
  },
): Page {
  const problem = form.problem && form.problem !== "in" && t(on, `login.problem.${form.problem}`);
  return {
    title: t(on, "login.title"),
    body: (
      <form class="narrow login" method="post" action={link(on, "/login")}>
        <h1>{t(on, "login.title")}</h1>
        {problem && <Problem title={problem} />}
        {form.over && <Problem title={t(on, `login.over.${form.over}`)} />}
        {form.no_users && (
          <div class="empty">
            <p>{t(on, "login.no_users")}</p>
            <Code value={FIRST_USER} />
          </div>
        )}
        <input type="hidden" name="back" value={form.back} />
        <Csrf on={on} />
        <label>
          {t(on, "login.name")}
          <input name="name" value={form.name} required autofocus autocomplete="username" autocapitalize="none" />
        </label>
        <label>
          {t(on, "login.password")}
          <input name="password" type="password" required autocomplete="current-password" />
        </label>
        <div class="buttons">
          <button type="submit" class="primary">{t(on, "login.title")}</button>
        </div>
      </form>
    ),
  };
}
