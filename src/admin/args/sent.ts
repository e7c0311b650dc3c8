/** A form of args as it was sent: its value with what is wrong with it, or the same form otherwise, by one of its own buttons. */
import { storable } from "../../actions/args.ts";
import type { Json } from "../../job.ts";
import { wordsOf } from "../form_actions.ts";
import { type ActionContext, field } from "../request_context.ts";
import { draftFrom, draftOf, freshDraft, type Problems, withItem, withoutItem } from "./draft.ts";
import { type Field, fieldOf } from "./fields.ts";
import type { ArgsState } from "./form.tsx";
import { checkArgs, jsonOf, valueOf } from "./reading.ts";
import { t } from "../../locale/locale.ts";

export interface SentArgs {
  args: ArgsState;
  value: Json | undefined;
}

/** Undefined: there is nothing that could be drawn. */
export function drawableOf(schema: Json): Field | undefined {
  const root = schema === null ? undefined : fieldOf(schema);
  return root?.kind === "object" ? root : undefined;
}

/** A new form. */
export function freshArgs(schema: Json, zone: string): ArgsState {
  const drawable = drawableOf(schema);
  const draft = drawable && freshDraft(drawable, { zone });
  return { field: drawable, draft, json: "{}", problems: new Map() };
}

export function argsFrom(on: ActionContext, schema: Json, what: { text: string; called: string }): SentArgs {
  const drawable = drawableOf(schema);
  const problems: Problems = new Map();
  const reading = { lang: on.lang, zone: on.zone, problems };
  const draft = drawable && field(on.form, "mode") === "fields" ? draftFrom(on.form) : undefined;
  const json = field(on.form, "json") || "{}";
  const wrong = (text: string) => void problems.set("", [...problems.get("") ?? [], text]);
  const value = drawable && draft ? valueOf(drawable, draft, reading) : jsonOf(json, { lang: on.lang, wrong });
  if (problems.size === 0 && schema !== null) checkArgs(schema, value, reading);
  try {
    if (problems.size === 0) storable(what.text, value, what.called);
  } catch (error) {
    wrong(wordsOf(on.lang, error) ?? (error as Error).message);
  }
  return { args: { field: drawable, draft, json, problems }, value };
}

/** Undefined: it was sent to be used. */
export function changedForm(on: ActionContext, { args, value }: SentArgs): ArgsState | undefined {
  const { field: drawable } = args;
  const [add, remove, to] = ["add", "remove", "switch"].map((name) => on.form.get(name));
  const fresh = { ...args, problems: new Map() };
  if (drawable && args.draft) {
    if (typeof add === "string") {
      return { ...fresh, draft: withItem(drawable, args.draft, { path: add, zone: on.zone }) };
    }
    if (typeof remove === "string") return { ...fresh, draft: withoutItem(args.draft, remove) };
    if (to === "json") return { ...fresh, draft: undefined, json: JSON.stringify(value ?? {}, null, 2) };
  }
  if (to !== "fields" || !drawable) return undefined;
  const draft = value === undefined ? undefined : draftOf(drawable, value, { zone: on.zone });
  if (draft) return { ...fresh, draft };
  return value === undefined ? args : { ...args, problems: new Map([["", [t(on, "jobs.not_drawn")]]]) };
}
