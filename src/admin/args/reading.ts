/** From what was typed to args: what is no number, no choice or no JSON is said beside its box; then the schema says the rest. */
import { z } from "zod";
import type { Json } from "../../job.ts";
import { jsonMistake } from "../json_text.ts";
import { countOf, type Draft, isTouched, type Problems, textKey } from "./draft.ts";
import { below, type Field } from "./fields.ts";
import { issueJa } from "./issue_text.ts";
import { type Lang, t } from "../../locale/locale.ts";

export interface FieldReading {
  lang: Lang;
  /** In which a date and time without a zone is meant. */
  zone: string;
  problems: Problems;
}

/** The value of a field; undefined: nothing is given. Mistakes are added to `problems`. */
export function valueOf(field: Field, draft: Draft, on: FieldReading, path = ""): Json | undefined {
  const wrong = (text: string) => void on.problems.set(path, [...on.problems.get(path) ?? [], text]);
  const typed = draft.get(textKey(path)) ?? "";
  const missing = (text: string) => field.required ? field.nullable ? null : wrong(text) : undefined;
  switch (field.kind) {
    case "text":
      if (typed === "") return field.required ? (field.nullable ? null : "") : undefined;
      return field.format === "date-time" ? instantOf(typed, on.zone) : typed;
    case "number":
      if (typed.trim() === "") return missing(t(on, "args.number"));
      return Number.isFinite(Number(typed)) ? Number(typed) : wrong(t(on, "args.number"));
    case "choice":
      if (typed === "") return field.required ? wrong(t(on, "args.choose")) : undefined;
      return /^\d{1,4}$/.test(typed) && Number(typed) < field.options.length
        ? field.options[Number(typed)]
        : wrong(t(on, "args.choose"));
    case "truth":
      if (typed === "") return field.required ? wrong(t(on, "args.choose")) : undefined;
      return typed === "true";
    case "json":
      if (typed.trim() === "") return missing(t(on, "args.json_empty"));
      return jsonOf(typed, { lang: on.lang, wrong });
    case "list":
      return listOf(field, draft, on, path);
    case "object":
      if (!field.required && !isTouched(draft, path)) return undefined;
      return Object.fromEntries(
        field.fields.map(([name, one]) => [name, valueOf(one, draft, on, below(path, name))] as const)
          .filter(([, value]) => value !== undefined),
      );
  }
}

/** A list that was emptied although it has a default is empty, not the default. */
function listOf(field: Field & { kind: "list" }, draft: Draft, on: FieldReading, path: string): Json | undefined {
  const count = countOf(draft, path, field.most);
  if (count === 0 && !field.required && field.standard === undefined) return undefined;
  return Array.from({ length: count }, (_, n) => valueOf(field.item, draft, on, below(path, n)) ?? null);
}

/** Args that were written as JSON. */
export function jsonOf(text: string, on: { lang: Lang; wrong(text: string): void }): Json | undefined {
  try {
    return JSON.parse(text);
  } catch (error) {
    on.wrong(t(on, "args.json", { why: jsonMistake(on.lang, error) }));
  }
}

/** What the schema finds wrong, by path. */
export function checkArgs(schema: Json, value: Json | undefined, { lang, problems }: Omit<FieldReading, "zone">): void {
  const add = (path: string, text: string) => {
    const said = problems.get(path) ?? [];
    if (!said.includes(text)) problems.set(path, [...said, text]);
  };
  try {
    const read = z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema);
    const answer = read.safeParse(value, lang === "ja" ? { error: issueJa } : undefined);
    const issues = answer.error?.issues ?? [];
    // A mail address is said to be none, not also which pattern it does not match.
    const told = new Set(issues.filter(isFormat).map(({ path }) => String(path)));
    for (
      const issue of issues.filter((one) =>
        one.code !== "invalid_format" || isFormat(one) || !told.has(String(one.path))
      )
    ) {
      add(issue.path.reduce<string>((at, step) => below(at, String(step)), ""), issue.message);
    }
  } catch (error) {
    add("", t({ lang }, "args.schema", { why: (error as Error).message }));
  }
}

function isFormat(issue: z.core.$ZodIssue): boolean {
  return issue.code === "invalid_format" && issue.format !== "regex";
}

/** "2026-01-31T09:00" on the viewer's wall is an instant; whatever else was typed is left for the schema to judge. */
function instantOf(typed: string, zone: string): string {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(typed)) return typed;
  try {
    return Temporal.PlainDateTime.from(typed).toZonedDateTime(zone).toInstant().toString();
  } catch {
    return typed;
  }
}
