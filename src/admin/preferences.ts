/** How somebody wants to see the page: language, zone, dark or light. Kept in cookies, so that the login has them too. */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { BaseUrl } from "./base_url.ts";
import type { Flash, Theme } from "./request_context.ts";
import { type Lang, LANGS } from "../locale/locale.ts";
import { wishedLang } from "./accept_language.ts";

const YEAR_SECONDS = 365 * 24 * 3600;
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export function langOf(c: Context, place: BaseUrl): Lang {
  return LANGS.find((lang) => lang === getCookie(c, cookieName(place, "lang"))) ??
    wishedLang(c.req.header("accept-language"));
}

export function themeOf(c: Context, place: BaseUrl): Theme {
  return THEMES.find((theme) => theme === getCookie(c, cookieName(place, "theme"))) ?? "auto";
}

/** Written by the browser itself (admin.js), which knows its zone. */
export function zoneOf(c: Context): string {
  const zone = getCookie(c, "dandori_zone") ?? "UTC";
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}

/** What of a form is a wish of this kind. */
export function keepPreferences(c: Context, form: FormData, place: BaseUrl): void {
  const keep = (kind: CookieKind, value: FormDataEntryValue | null, allowed: readonly string[]) => {
    if (typeof value !== "string" || !allowed.includes(value)) return;
    setCookie(c, cookieName(place, kind), value, { ...cookieOptions(place), maxAge: YEAR_SECONDS });
  };
  keep("lang", form.get("lang"), LANGS);
  keep("theme", form.get("theme"), THEMES);
}

/** Something to say on the next page, once. */
export function leaveFlash(c: Context, flash: Flash, place: BaseUrl): void {
  setCookie(c, cookieName(place, "flash"), JSON.stringify(flash), { ...cookieOptions(place), maxAge: 60 });
}

export function takeFlash(c: Context, place: BaseUrl): Flash | undefined {
  const text = getCookie(c, cookieName(place, "flash"));
  if (!text) return undefined;
  deleteCookie(c, cookieName(place, "flash"), cookieOptions(place));
  try {
    const { tone, text: said } = JSON.parse(text) as Flash;
    return typeof said === "string" ? { tone: tone === "bad" ? "bad" : "good", text: said.slice(0, 1000) } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * No script reads it, no other site makes a browser send it, and where there is https nothing else carries it.
 * There `__Host-` also keeps others of the same domain from setting it; its path is always "/", so the name holds ours.
 */
export function cookieOptions({ base, https }: BaseUrl) {
  return { path: https ? "/" : base || "/", httpOnly: true, sameSite: "Strict", secure: https } as const;
}

export type CookieKind = "session" | "device" | "flash" | "lang" | "theme";

export function cookieName({ base, https }: BaseUrl, kind: CookieKind): string {
  return https ? `__Host-dandori_${kind}${base.replace(/[^\w-]/g, ".")}` : `dandori_${kind}`;
}
