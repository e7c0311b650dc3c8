/**
 * Every text for people, by its key, in the viewer's language. `locales/en.json` and `locales/ja.json` hold the texts in ICU
 * MessageFormat. `deno task locales` writes `locales/params.ts` from them: the params of each text, so that an unknown key and a
 * missing param do not compile.
 *
 *   t(on, "runs.retry_done", { id, of })
 *
 * Three rules beyond ICU: `{at, time}` is an instant, shown in the viewer's zone; `{has_reason, select, true {: {reason}} other {}}`
 * takes `reason`, which may be null or empty; a param may be a message or a list, which is said in the same language.
 *
 * States, names and what jobs say are not translated: they are the words of the database, the log and the command line.
 */
import { IntlMessageFormat } from "intl-messageformat";
import { type AnyMessage, messageIn, type MessageKey, type ParamsOf } from "./message.ts";
import { timeText } from "./time_text.ts";

export const LANGS = ["en", "ja"] as const;
export type Lang = typeof LANGS[number];

/** Who reads a text. Without a zone it is a program. */
export interface Viewer {
  lang: Lang;
  zone?: string;
}

type Part = ReturnType<IntlMessageFormat["getAst"]>[number];

/** A text without params needs no formatting. */
type Compiled = string | { message: IntlMessageFormat; instants: Set<string> };

const texts: Partial<Record<Lang, Record<string, string>>> = {};
const compiled: Record<Lang, Map<string, Compiled>> = { en: new Map(), ja: new Map() };

export function t<Key extends MessageKey>(viewer: Viewer, key: Key, ...[params]: ParamsOf<Key>): string {
  return format(viewer, key, params);
}

/** For what another version may have written: where the code is unknown here, or a param is missing, the code and its params. */
export function messageText(viewer: Viewer, { code, params }: { code: string; params?: object }): string {
  try {
    return format(viewer, code, params);
  } catch {
    return [code, params && JSON.stringify(params)].filter(Boolean).join(" ");
  }
}

/** What stands in a column of text: a message in the viewer's language, anything else as it is. */
export function saidText(viewer: Viewer, text: string): string {
  const found = knownMessage(text);
  return found ? messageText(viewer, found) : text;
}

export function isKey(key: string): boolean {
  return Object.hasOwn(textsOf("en"), key);
}

/** A text of a person or a job may look like a message, but for its code. */
export function knownMessage(text: string): AnyMessage | undefined {
  const found = messageIn(text);
  return found && isKey(found.code) ? found : undefined;
}

export function textsOf(lang: Lang): Record<string, string> {
  return texts[lang] ??= JSON.parse(Deno.readTextFileSync(new URL(`../../locales/${lang}.json`, import.meta.url)));
}

/** A text as the library reads it. @throws SyntaxError */
export function parsed(text: string, lang: Lang): IntlMessageFormat {
  return new IntlMessageFormat(text, lang, undefined, { ignoreTag: true, formatters: FORMATTERS });
}

/** Each argument of a text, with how it stands there, as often as it does. */
export function argumentsIn(parts: Part[]): { name: string; kind: ArgumentKind; options: string[] }[] {
  return parts.flatMap((part) => {
    const kind = KINDS[part.type];
    if (!kind) return [];
    const branches = "options" in part ? Object.entries(part.options) : [];
    const { value: name } = part as { value: string };
    return [
      { name, kind, options: branches.map(([option]) => option) },
      ...branches.flatMap(([, { value }]) => argumentsIn(value)),
    ];
  });
}

export type ArgumentKind = "text" | "number" | "instant" | "select" | "plural";

/** By the library's number of a part; 0 is literal text and 7 is `#`. */
const KINDS: Record<number, ArgumentKind | undefined> = {
  1: "text",
  2: "number",
  4: "instant",
  5: "select",
  6: "plural",
};

/** One set for all texts; instants reach it as texts, since the viewer's zone is not known when a text is compiled. */
const numbers: Partial<Record<Lang, Intl.NumberFormat>> = {};
const plurals: Partial<Record<Lang, Intl.PluralRules>> = {};
const FORMATTERS = {
  getNumberFormat: (lang: unknown) => numbers[lang as Lang] ??= new Intl.NumberFormat(lang as Lang),
  getPluralRules: (lang: unknown) => plurals[lang as Lang] ??= new Intl.PluralRules(lang as Lang),
  getDateTimeFormat: () => ({ format: String }) as unknown as Intl.DateTimeFormat,
};

function format(viewer: Viewer, key: string, params: object = {}): string {
  const text = compile(viewer.lang, key);
  if (typeof text === "string") return text;
  const values: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(params)) {
    values[name] = text.instants.has(name) ? instantText(viewer, value) : valueText(viewer, value);
    values[`has_${name}`] = String(isThere(value));
  }
  return text.message.format(values) as string;
}

/** For a program, which has no zone, as RFC 3339. */
function instantText({ zone }: Viewer, value: unknown): string {
  if (value === null || value === undefined) return "";
  const at = value instanceof Date ? value : new Date(String(value));
  if (isNaN(at.getTime())) return "?";
  return zone === undefined ? `${at.toISOString().slice(0, 19)}Z` : timeText(at, zone);
}

function valueText(viewer: Viewer, value: unknown): string | number {
  if (typeof value === "number") return value;
  if (Array.isArray(value)) return value.map((one) => valueText(viewer, one)).join(t(viewer, "list.separator"));
  if (typeof value === "object" && value !== null) return messageText(viewer, value as { code: string });
  return saidText(viewer, String(value ?? ""));
}

function compile(lang: Lang, key: string): Compiled {
  const known = compiled[lang].get(key);
  if (known !== undefined) return known;
  const all = textsOf(lang);
  if (!Object.hasOwn(all, key)) throw new Error(`locales/${lang}.json has no text "${key}"`);
  const text = all[key] as string;
  const fresh = /[{']/.test(text) ? withInstants(parsed(text, lang)) : text;
  compiled[lang].set(key, fresh);
  return fresh;
}

function withInstants(message: IntlMessageFormat): Compiled {
  const instants = argumentsIn(message.getAst()).filter(({ kind }) => kind === "instant");
  return { message, instants: new Set(instants.map(({ name }) => name)) };
}

function isThere(value: unknown): boolean {
  return value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0);
}
