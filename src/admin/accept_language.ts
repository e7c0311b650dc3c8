/** Which of our languages a browser wishes for. */
import { type Lang, LANGS } from "../locale/locale.ts";

/** The first language of ours that the browser wishes for. */
export function wishedLang(accept_language: string | undefined): Lang {
  const wishes = (accept_language ?? "").split(",").map((part) => {
    const [tag = "", ...params] = part.trim().toLowerCase().split(";");
    const quality = params.map((param) => /^\s*q=([\d.]+)$/.exec(param)?.[1]).find((found) => found !== undefined);
    return { lang: LANGS.find((lang) => tag === lang || tag.startsWith(`${lang}-`)), quality: Number(quality ?? 1) };
  });
  return wishes.sort((a, b) => b.quality - a.quality).find(({ lang }) => lang)?.lang ?? "en";
}
