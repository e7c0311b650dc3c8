/** The buttons of an answer: a first yes or no, or a first choice of a few, is one for each; else one that sends. */
import type { Json } from "../../../job.ts";
import { textKey } from "../../args/draft.ts";
import { below, type Field } from "../../args/fields.ts";
import type { RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** More would be no buttons but a list. */
const MOST_BUTTONS = 6;

export interface Decision {
  name: string;
  field: Field & { kind: "truth" | "choice" };
}

/** Undefined: the message has no such field, or it may be left out. */
export function decisionOf(form: Field | undefined): Decision | undefined {
  if (form?.kind !== "object") return undefined;
  const [name, first] = form.fields[0] ?? [];
  if (name === undefined || !first?.required) return undefined;
  if (first.kind === "truth") return { name, field: first };
  return first.kind === "choice" && first.options.length <= MOST_BUTTONS ? { name, field: first } : undefined;
}

/** Whether nothing else must be given. */
export function isWhole(form: Field, decision: Decision): boolean {
  return form.kind === "object" && form.fields.every(([name, { required }]) => name === decision.name || !required);
}

/** The form without what the buttons decide. */
export function besides(form: Field, decision: Decision): Field {
  return form.kind === "object" ? { ...form, fields: form.fields.filter(([name]) => name !== decision.name) } : form;
}

export function DecisionButtons({ on, decision }: { on: RequestContext; decision: Decision }) {
  const { name, field } = decision;
  const box = textKey(below("", name));
  const button = (value: string, text: string, looks: string | undefined) => (
    <button type="submit" name={box} value={value} class={looks}>{text}</button>
  );
  if (field.kind === "choice") {
    return <>{field.options.map((option, n) => button(String(n), shown(option), n === 0 ? "primary" : undefined))}</>;
  }
  const approves = /^(is_?)?approv/i.test(name);
  return (
    <>
      {button(
        "true",
        approves ? t(on, "waiting.approve") : t(on, "waiting.yes", { name: field.title ?? name }),
        "primary",
      )}
      {button(
        "false",
        approves ? t(on, "waiting.refuse") : t(on, "waiting.no", { name: field.title ?? name }),
        "danger",
      )}
    </>
  );
}

function shown(option: Json): string {
  return typeof option === "string" ? option : JSON.stringify(option);
}
