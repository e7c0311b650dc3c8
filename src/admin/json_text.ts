/** What a reader of JSON stumbled over, in the visitor's language; in English, its own words. */
import type { Lang } from "../locale/locale.ts";

/** By what the message begins with. */
const JA: [sign: RegExp, text: string][] = [
  [/^Unexpected end/, "途中で終わっています"],
  [/^Expected property name/, '項目名は " で囲んで書いてください'],
  [/^Expected double-quoted property name/, '項目名は " で囲んで書いてください（最後の , は不要です）'],
  [/^Expected ',' or/, "区切りの , または閉じ括弧が必要です"],
  [/^Expected ':'/, "項目名の後に : が必要です"],
  [/^Unterminated string/, '文字列が " で閉じられていません'],
  [/^Bad control character/, "文字列の中に改行などの制御文字があります"],
  [/^Bad (escaped character|Unicode escape)/, "\\ の使い方が正しくありません"],
  [/^(No number|Exponent part|Unterminated fractional)/, "数の書き方が正しくありません"],
  [/^Unexpected non-whitespace/, "値の後に余分な文字があります"],
];

/** `error`: as JSON.parse throws it. */
export function jsonMistake(lang: Lang, error: unknown): string {
  const { message } = error as Error;
  if (lang === "en") return message;
  const [, token] = /^Unexpected token '(.+?)',/us.exec(message) ?? [];
  const [, line, column] = /\(line (\d+) column (\d+)\)/.exec(message) ?? [];
  const where = column === undefined ? "" : line === "1" ? `${column} 文字目：` : `${line} 行 ${column} 文字目：`;
  const what = token === undefined ? JA.find(([sign]) => sign.test(message))?.[1] : `「${token}」は使えません`;
  return `${where}${what ?? "書式が正しくありません"}`;
}
