/** What acts of pages have in common: who does it and why, what stands in a form, and refusals that come back as words. */
import { Refused } from "../actions/args.ts";
import { type ActionContext, type Done, field, type Page, PageError } from "./request_context.ts";
import { refusalText } from "./refusals.ts";
import { jsonMistake } from "./json_text.ts";
import { type Lang, t } from "../locale/locale.ts";

/** One for each time that a form was opened, so that it does its work once however often it is sent. @throws Refusal 400 */
export function wishOf(on: ActionContext): string {
  const wish = field(on.form, "wish");
  if (!/^[0-9a-f-]{36}$/.test(wish)) throw new PageError(400);
  return wish;
}

/** What cannot be used of a form, in the visitor's language: said where the form was, and nothing is done. */
export class Unusable extends Error {
  override name = "Unusable";
}

/** Undefined: it is empty. @throws Unusable */
export function numberField(
  on: ActionContext,
  name: string,
  rule: { from: number; to: number; whole?: boolean; label: string },
): number | undefined {
  const text = field(on.form, name);
  if (text === "") return undefined;
  const value = Number(text);
  const fits = value >= rule.from && value <= rule.to && (!rule.whole || Number.isInteger(value));
  if (!fits) throw new Unusable(t(on, "form.not_number", { name: rule.label, from: rule.from, to: rule.to }));
  return value;
}

/** What is empty is `{}`. @throws Unusable */
export function jsonField(on: ActionContext, name: string, label: string): unknown {
  const text = field(on.form, name);
  if (text === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unusable(t(on, "form.not_json", { name: label, why: jsonMistake(on.lang, error) }));
  }
}

/** Does it; what is refused is said on the page at `to`. */
export async function orSay(on: { lang: Lang }, to: string, act: () => Promise<Done>): Promise<Done> {
  try {
    return await act();
  } catch (error) {
    const text = wordsOf(on.lang, error);
    if (text === undefined) throw error;
    return { to, tone: "bad", text };
  }
}

/** The same, on the page of what is acted on: where it is gone there is no such page to come back to. @throws PageError 404 */
export function orGone(on: { lang: Lang }, to: string, act: () => Promise<Done>): Promise<Done> {
  return orSay(on, to, () =>
    act().catch((error) => {
      throw error instanceof Refused && error.says.code === "none" ? new PageError(404) : error;
    }));
}

/** Does it; where that is refused the form comes back with what is wrong, and everything that was typed. */
export async function orForm(
  on: { lang: Lang },
  form: (wrong: string) => Promise<Page>,
  act: () => Promise<Done>,
): Promise<Done | Page> {
  try {
    return await act();
  } catch (error) {
    const wrong = wordsOf(on.lang, error);
    if (wrong === undefined) throw error;
    return { ...await form(wrong), status: 400 };
  }
}

/** What to say of a refusal; undefined: it is none. */
export function wordsOf(lang: Lang, error: unknown): string | undefined {
  if (error instanceof Refused) return refusalText(lang, error);
  return error instanceof Unusable ? error.message : undefined;
}
