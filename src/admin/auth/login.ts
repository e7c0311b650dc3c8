/** Logging in and out. The answer to a wrong name and to a wrong password is the same, and takes as long. */
import type { Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { observe } from "../../platform/facts.ts";
import type { Sql } from "../../postgres/connection.ts";
import {
  auditFailed,
  DEVICE_SECONDS,
  forgetTries,
  knownAs,
  mayTry,
  rememberDevice,
} from "../../access/login_attempts.ts";
import { endSession, LONGEST_SESSION_SECONDS, openSession } from "../../access/sessions.ts";
import { anyUser, readCredentials } from "../../access/users.ts";
import { type AdminParts, answerPage, contextOf, type HonoEnv, ownForm, samePath } from "./authentication.ts";
import { OF_STRANGERS } from "../body.ts";
import { COME_BACK_SECONDS } from "../hash_queue.ts";
import { loginPage } from "../pages/login.tsx";
import { digestOf, hashing, makeToken, passwordFits } from "./passwords.ts";
import { cookieName, cookieOptions } from "../preferences.ts";
import { field } from "../request_context.ts";

export function mountLogin(app: Hono<HonoEnv>, parts: AdminParts): void {
  const { sql, place } = parts;
  app.get("/login", async (c) => {
    const visit = contextOf(c, parts);
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
    const kept = getCookie(c, cookieName(place, "device"));
    const device = kept && await digestOf(kept);
    const who = { name, address: c.get("address"), user_agent: c.req.header("user-agent") ?? "", device };
    const { result, opened } = await logIn(sql, who, typeof given === "string" ? given : "");
    observe("admin.login", { user: name, address: who.address, result });
    if (opened) {
      const options = cookieOptions(place);
      setCookie(c, cookieName(place, "session"), opened.session, { ...options, maxAge: LONGEST_SESSION_SECONDS });
      setCookie(c, cookieName(place, "device"), opened.device, { ...options, maxAge: DEVICE_SECONDS });
      return c.redirect(place.base + back, 303);
    }
    const visit = contextOf(c, parts);
    const page = loginPage(visit, { back, name, problem: result, no_users: !await anyUser(sql) });
    if (result === "busy") c.header("retry-after", String(COME_BACK_SECONDS));
    return answerPage(c, visit, page, result === "busy" ? 503 : result === "too_many" ? 429 : 403);
  });
  app.post("/logout", async (c) => {
    await ownForm(c, parts, OF_STRANGERS);
    const session = c.get("session");
    if (session) await endSession(sql, await digestOf(session.token));
    deleteCookie(c, cookieName(place, "session"), cookieOptions(place));
    return c.redirect(`${place.base}/login`, 303);
  });
}

export type LoginResult = "in" | "wrong" | "too_many" | "busy";

interface Visitor {
  name: string;
  address: string;
  user_agent: string;
  /** The digest of what the browser keeps since the last login in it. */
  device: string | undefined;
}

interface Opened {
  session: string;
  device: string;
}

async function logIn(sql: Sql, who: Visitor, password: string): Promise<{ result: LoginResult; opened?: Opened }> {
  const known = await knownAs(sql, who);
  const from = typeof known === "object" ? known.device : who.address;
  const leave = hashing.enter({ known: known !== undefined, from });
  if (!leave) return { result: "busy" };
  try {
    const attempt = { ...who, known };
    if (!await mayTry(sql, attempt)) return { result: "too_many" };
    const user = await readCredentials(sql, who.name);
    const fits = await passwordFits(password.slice(0, 1000), user?.password_hash, known !== undefined);
    const opened = user && fits ? await open(sql, who, user) : undefined;
    if (opened) await forgetTries(sql, attempt);
    else await auditFailed(sql, attempt);
    return opened ? { result: "in", opened } : { result: "wrong" };
  } finally {
    leave();
  }
}

/** Undefined: the password that was checked is not the user's any more. */
async function open(
  sql: Sql,
  who: Visitor,
  { id: admin_user_id, password_hash }: { id: number; password_hash: string },
): Promise<Opened | undefined> {
  const opened = { session: makeToken(), device: makeToken() };
  const token_digest = await digestOf(opened.session);
  if (!await openSession(sql, { ...who, admin_user_id, password_hash, token_digest })) return undefined;
  const { address, device: before } = who;
  await rememberDevice(sql, { admin_user_id, address, fresh: await digestOf(opened.device), before });
  return opened;
}
