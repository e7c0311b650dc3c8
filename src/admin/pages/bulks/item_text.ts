/** Items as they are pasted: JSON, one value a line, or CSV whose first line names the args. */
import { type CsvError, parse } from "csv-parse/sync";
import { Unusable } from "../../form_actions.ts";
import { jsonMistake } from "../../json_text.ts";
import { type Lang, t } from "../../../locale/locale.ts";

/** @throws Unusable naming the line */
export function itemsIn(lang: Lang, text: string): unknown[] {
  const first = text.trimStart()[0] ?? "";
  return /[\[{"0-9-]/.test(first) ? fromJson(lang, text) : fromCsv(lang, text);
}

function fromJson(lang: Lang, text: string): unknown[] {
  return text.split("\n").flatMap((line, place) => {
    if (line.trim() === "") return [];
    try {
      return [JSON.parse(line)];
    } catch (error) {
      throw new Unusable(t({ lang }, "bulks.pasted.line", { line: place + 1, why: jsonMistake(lang, error) }));
    }
  });
}

/** Values that are JSON (numbers, true, null, objects) are that, all others texts: `7,tokyo` is {device: 7, zone: "tokyo"}. */
function fromCsv(lang: Lang, text: string): unknown[] {
  try {
    return parse(text, {
      columns: true,
      skip_empty_lines: true,
      trim: true,
      cast: (value, at) => at.header ? value : valueOf(value),
    });
  } catch (error) {
    throw new Unusable(t({ lang }, "bulks.pasted.csv", { why: csvMistake(lang, error as CsvError) }));
  }
}

/** What the reader of CSV stumbled over; in English, its own words. */
function csvMistake(lang: Lang, { message, code, lines }: CsvError): string {
  if (lang === "en") return message;
  const what = /COLUMNS|FIELDS_LENGTH/.test(code)
    ? "列の数が 1 行目と違います"
    : /QUOTE/.test(code)
    ? '引用符 " の使い方が正しくありません'
    : "形式が正しくありません";
  return typeof lines === "number" ? `${lines} 行目：${what}` : what;
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
