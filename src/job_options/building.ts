/** The pieces that the schema of a job's options is made of. */
import { z } from "zod";
import type { DefinitionSetting } from "../definitions/definition_rows.ts";
import { isOneLine } from "../platform/text.ts";
import { shown } from "../platform/shown.ts";
import type { Wrong, WrongParams } from "./complaint.ts";
import { known, type OptionColumn, type OptionFacts } from "./option_node.ts";

/** The largest number of anything that is counted. */
export const MOST = 1_000_000;
/** A week, in seconds. */
export const WEEK_SECONDS = 604_800;

/** A whole number. */
export function whole(least: number, most: number): z.ZodNumber {
  return z.int().min(least).max(most) as unknown as z.ZodNumber;
}

/** Any number. */
export function number(least: number, most: number): z.ZodNumber {
  return z.number().min(least).max(most);
}

/** A text of 1 to `most` characters on one line. */
export function text(most: number): z.ZodString {
  return z.string().min(1).max(most).refine((value) => isOneLine(value));
}

/** A text with fields in it, "tenant:{tenant}". */
export function template(): z.ZodString {
  return text(200).check(rule((value) =>
    /[{}]/.test(value.replace(/\{[^{}]+\}/g, ""))
      ? [{
        reason: `has a brace without its other half: ${shown(value)}`,
        fix: 'write fields as "tenant:{tenant}"',
        says: { code: "braces" },
      }]
      : []
  ));
}

/** A rule of ours. `path`: what in the value it is about. */
export interface Broken extends Wrong, Pick<WrongParams, "punctuation"> {
  path?: PropertyKey[];
}

/** Checks a value that is of the right kind. */
export function rule<Value>(broken: (value: Value) => readonly Broken[]): z.core.$ZodCheck<Value> {
  return z.check<Value>((payload) => {
    for (const { path = [], ...params } of broken(payload.value)) {
      payload.issues.push({ code: "custom", input: payload.value, path, params, continue: true });
    }
  });
}

/** Checks an object also where other things are wrong with it, so that all is told at once: it may be anything. */
export function ruleOfAll(broken: (value: Record<string, unknown>) => readonly Broken[]): z.core.$ZodCheck<object> {
  const check = rule<object>((value) => broken(Object(value)));
  check._zod.def.when = ({ value }) => typeof value === "object" && value !== null;
  return check;
}

/** What a column may be made of: where it may be null, an option may be left out. */
type ForColumn<Column extends OptionColumn> = null extends DefinitionSetting[Column]
  ? DefinitionSetting[Column] | undefined
  : DefinitionSetting[Column];

/** An option that one column holds as it is. */
export function into<const Column extends OptionColumn, Schema extends z.ZodType<ForColumn<Column>>>(
  column: Column,
  schema: Schema,
  facts: OptionFacts,
) {
  return known(
    schema.transform((value) => ({ [column]: value ?? null }) as unknown as Pick<DefinitionSetting, Column>),
    { ...facts, columns: [column] },
  );
}

type AllOf<Part> = (Part extends unknown ? (part: Part) => void : never) extends (all: infer All) => void ? All : never;

/** The columns of several options as one. */
export function merged<Parts extends object>(parts: Parts): AllOf<Parts[keyof Parts]> {
  return Object.assign({}, ...Object.values(parts));
}
