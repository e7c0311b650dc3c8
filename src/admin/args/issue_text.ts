/** What a schema finds wrong with args, in Japanese: in words of our own what it says most often, and else in zod's. */
import { z } from "zod";

const TYPES: Record<string, string> = {
  string: "文字列を",
  number: "数を",
  int: "整数を",
  boolean: "true か false を",
  object: "{ ... } を",
  record: "{ ... } を",
  array: "[ ... ] を",
  tuple: "[ ... ] を",
  null: "null を",
  date: "日付を",
};

/** What is counted; of all else the value itself is compared. */
const UNITS: Record<string, string> = { string: "文字", array: "件", set: "件", map: "件", object: "項目" };

const { localeError } = z.locales.ja();

/** `issue`: with what was given, where that is known. */
export function issueJa(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case "invalid_type":
      if (issue.input === undefined) return "必須です";
      return `${TYPES[issue.expected] ?? `${issue.expected} を`}指定してください`;
    case "too_small":
      return `${bound(issue.minimum, issue.origin)}${issue.inclusive === false ? "より大きく" : "以上に"}してください`;
    case "too_big":
      return `${bound(issue.maximum, issue.origin)}${issue.inclusive === false ? "より小さく" : "以下に"}してください`;
    case "invalid_value":
      return `${issue.values.map((value) => JSON.stringify(value)).join("、")} のいずれかを指定してください`;
    case "unrecognized_keys":
      return `不明な項目です：${issue.keys.join("、")}`;
    case "invalid_union":
      return "どの形式にも合いません";
    default: {
      const said = localeError(issue);
      return (typeof said === "string" ? said : said?.message) ?? "正しくありません";
    }
  }
}

function bound(limit: number | bigint, origin: string): string {
  return `${limit} ${UNITS[origin] ?? ""}`;
}
