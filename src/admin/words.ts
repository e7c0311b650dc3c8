/**
 * Words in both languages, kept beside the page that says them. A word that is missing in one of them does not compile:
 *
 *   const WORDS = words({ title: { en: "Runs", ja: "実行" }, count: { en: (n: number) => `${n} runs`, ja: (n) => `${n} 件` } });
 *   WORDS[on.lang].title
 *
 * States, names and what jobs say are not translated: they are the words of the database, the log and the command line.
 */
export const LANGS = ["en", "ja"] as const;
export type Lang = typeof LANGS[number];

type Sentence<Args extends unknown[]> = (...args: Args) => string;
type Entry = Record<Lang, string | Sentence<never[]>>;
/** What one language says: texts, and functions that take what their sentence is about. */
export type Said<W extends Record<string, Entry>> = {
  [Key in keyof W]: W[Key]["en"] extends Sentence<infer Args> ? Sentence<Args> : string;
};

export function words<W extends Record<string, Entry>>(entries: W): Record<Lang, Said<W>> {
  const pick = (lang: Lang) =>
    Object.fromEntries(Object.entries(entries).map(([key, entry]) => [key, entry[lang]])) as Said<W>;
  return { en: pick("en"), ja: pick("ja") };
}

/** The first language of ours that the browser wishes for. */
export function wishedLang(accept_language: string | undefined): Lang {
  const wishes = (accept_language ?? "").split(",").map((part) => {
    const [tag = "", ...params] = part.trim().toLowerCase().split(";");
    const quality = params.map((param) => /^\s*q=([\d.]+)$/.exec(param)?.[1]).find((found) => found !== undefined);
    return { lang: LANGS.find((lang) => tag === lang || tag.startsWith(`${lang}-`)), quality: Number(quality ?? 1) };
  });
  return wishes.sort((a, b) => b.quality - a.quality).find(({ lang }) => lang)?.lang ?? "en";
}
