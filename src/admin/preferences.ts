/** How somebody wants to see the page: language, zone, dark or light. Kept in cookies, so that the login has them too. */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { Place } from "./place.ts";
import type { Flash, Theme } from "./visit.ts";
import { type Lang, LANGS, wishedLang } from "./words.ts";

const YEAR_SECONDS = 365 * 24 * 3600;
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export function langOf(c: Context): Lang {
  return LANGS.find((lang) => lang === getCookie(c, "dandori_lang")) ?? wishedLang(c.req.header("accept-language"));
}

export function themeOf(c: Context): Theme {
  return THEMES.find((theme) => theme === getCookie(c, "dandori_theme")) ?? "auto";
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
export function keepPreferences(c: Context, form: FormData, place: Place): void {
  const keep = (name: string, value: FormDataEntryValue | null, allowed: readonly string[]) => {
    if (typeof value !== "string" || !allowed.includes(value)) return;
    setCookie(c, name, value, { ...cookieOptions(place), maxAge: YEAR_SECONDS });
  };
  keep("dandori_lang", form.get("lang"), LANGS);
  keep("dandori_theme", form.get("theme"), THEMES);
}

/** Something to say on the next page, once. */
export function leaveFlash(c: Context, flash: Flash, place: Place): void {
  setCookie(c, "dandori_flash", JSON.stringify(flash), { ...cookieOptions(place), maxAge: 60 });
}

export function takeFlash(c: Context, place: Place): Flash | undefined {
  const text = getCookie(c, "dandori_flash");
  if (!text) return undefined;
  deleteCookie(c, "dandori_flash", cookieOptions(place));
  try {
    const { tone, text: said } = JSON.parse(text) as Flash;
    return typeof said === "string" ? { tone: tone === "bad" ? "bad" : "good", text: said.slice(0, 1000) } : undefined;
  } catch {
    return undefined;
  }
}

/** No script reads it, no other site sends it along with a form, and where there is https nothing else does. */
export function cookieOptions(place: Place) {
  return { path: place.base || "/", httpOnly: true, sameSite: "Lax", secure: place.https } as const;
}
