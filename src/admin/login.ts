/** Logging in and out. The answer to a wrong name and to a wrong password is the same, and takes as long. */
import type { Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { observe } from "../base/facts.ts";
import type { Sql } from "../store/db.ts";
import { forgetTries, mayTry } from "../store/login_attempts.ts";
import { endSession, LONGEST_SESSION_SECONDS, openSession } from "../store/sessions.ts";
import { anyUser, readCredentials } from "../store/users.ts";
import { type AdminParts, answerPage, type Env, ownForm, samePath, visitOf } from "./asking.ts";
import { OF_STRANGERS } from "./body.ts";
import { loginPage } from "./pages/login.tsx";
import { digestOf, makeToken, passwordFits } from "./passwords.ts";
import { cookieName, cookieOptions } from "./preferences.ts";
import { field } from "./visit.ts";

export function mountLogin(app: Hono<Env>, parts: AdminParts): void {
  const { sql, place } = parts;
  app.get("/login", async (c) => {
    const visit = visitOf(c, parts);
    const back = samePath(c.req.query("back") ?? "/");
    if (visit.user) return c.redirect(place.base + back, 303);
    // A logout takes the cookie away, so one without a session is of a session that ended otherwise.
    const over = c.req.query("undone") ? "undone" : getCookie(c, cookieName(place, "session")) ? "ended" : undefined;
    return answerPage(c, visit, loginPage(visit, { back, name: "", over, no_users: !await anyUser(sql) }));
  });
  app.post("/login", async (c) => {
    const form = await ownForm(c, parts, OF_STRANGERS);
    const [name, back] = [field(form, "name").toLowerCase().slice(0, 64), samePath(field(form, "back"))];
    const given = form.get("password");
    const who = { name, address: c.get("address"), user_agent: c.req.header("user-agent") ?? "" };
    const { result, token } = await logIn(sql, who, typeof given === "string" ? given : "");
    observe("admin.login", { user: name, address: who.address, result });
    if (token !== undefined) {
      setCookie(c, cookieName(place, "session"), token, { ...cookieOptions(place), maxAge: LONGEST_SESSION_SECONDS });
      return c.redirect(place.base + back, 303);
    }
    const visit = visitOf(c, parts);
    const page = loginPage(visit, { back, name, problem: result, no_users: !await anyUser(sql) });
    return answerPage(c, visit, page, result === "too_many" ? 429 : 403);
  });
  app.post("/logout", async (c) => {
    await ownForm(c, parts, OF_STRANGERS);
    const session = c.get("session");
    if (session) await endSession(sql, await digestOf(session.token));
    deleteCookie(c, cookieName(place, "session"), cookieOptions(place));
    return c.redirect(`${place.base}/login`, 303);
  });
}

export type LoginResult = "in" | "wrong" | "too_many";

async function logIn(
  sql: Sql,
  who: { name: string; address: string; user_agent: string },
  password: string,
): Promise<{ result: LoginResult; token?: string }> {
  if (!await mayTry(sql, who)) return { result: "too_many" };
  const user = await readCredentials(sql, who.name);
  const fits = await passwordFits(password.slice(0, 1000), user?.password_hash);
  if (!user || !fits) return { result: "wrong" };
  const token = makeToken();
  const { id: admin_user_id, password_hash } = user;
  const opened = await openSession(sql, { ...who, admin_user_id, password_hash, token_digest: await digestOf(token) });
  if (!opened) return { result: "wrong" };
  await forgetTries(sql, who);
  return { result: "in", token };
}
