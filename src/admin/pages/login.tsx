/** The login. */
import { Csrf } from "../parts/dialog.tsx";
import { Code, Problem } from "../parts/notes.tsx";
import { link, type Page, type RequestContext } from "../request_context.ts";
import { words } from "../words.ts";

const WORDS = words({
  title: { en: "Log in", ja: "ログイン" },
  name: { en: "Name", ja: "名前" },
  password: { en: "Password", ja: "パスワード" },
  wrong: { en: "No user has this name and this password.", ja: "名前またはパスワードが違います。" },
  too_many: {
    en: "Too many attempts for this name or from this address. Wait 15 minutes, or have an admin unlock the user.",
    ja: "この名前またはアドレスからの試行が多すぎます。15 分待つか、管理者にロック解除を依頼してください。",
  },
  busy: {
    en: "Too many are logging in at this moment. Try again in a few seconds.",
    ja: "ログインが混み合っています。数秒待ってからもう一度試してください。",
  },
  ended: {
    en: "Your session has ended. Log in, and you are back where you were.",
    ja: "セッションが終了しました。ログインすると元のページに戻ります。",
  },
  undone: {
    en:
      "You are not logged in any more, so what you sent was not done. Log in, and send it again from the page that it was on.",
    ja:
      "ログイン状態が終了していたため、送信した内容は実行していません。ログインすると元のページに戻るので、もう一度送信してください。",
  },
  no_users: {
    en: "There is no user yet. Make the first one where Dandori runs:",
    ja: "ユーザーがまだいません。Dandori が動く環境で最初のユーザーを作成してください:",
  },
});

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
  const say = WORDS[on.lang];
  const problem = form.problem && form.problem !== "in" && say[form.problem];
  return {
    title: say.title,
    body: (
      <form class="narrow login" method="post" action={link(on, "/login")}>
        <h1>{say.title}</h1>
        {problem && <Problem title={problem} />}
        {form.over && <Problem title={say[form.over]} />}
        {form.no_users && (
          <div class="empty">
            <p>{say.no_users}</p>
            <Code value={FIRST_USER} />
          </div>
        )}
        <input type="hidden" name="back" value={form.back} />
        <Csrf on={on} />
        <label>
          {say.name}
          <input name="name" value={form.name} required autofocus autocomplete="username" autocapitalize="none" />
        </label>
        <label>
          {say.password}
          <input name="password" type="password" required autocomplete="current-password" />
        </label>
        <div class="buttons">
          <button type="submit" class="primary">{say.title}</button>
        </div>
      </form>
    ),
  };
}
