/**
 * The schema of an option, seen through what wraps it: its kind, its default, and what we know of it beside what zod does. All that is
 * derived from the schema of a job (complaints, columns, the table in the docs) walks it by this.
 */
import { z } from "zod";
import type { DefinitionSetting } from "../definitions/definition_rows.ts";
import type { Wrong } from "./complaint.ts";

export type OptionColumn = keyof DefinitionSetting;

/** What is known of an option beside its schema. */
export interface OptionFacts {
  /** For the table in the docs. */
  about?: string;
  /** What it takes, where the kind of its schema does not say it well. */
  takes?: string;
  /** What holds when it is left out, where that is no value that a file could say. */
  otherwise?: string;
  /** Columns of the definition that hold it. */
  columns?: readonly OptionColumn[];
  /** An operator may set it beside the file. */
  settable?: true;
  /** What is wrong with a value, in words of its own. */
  wrong?(value: unknown): Wrong;
  /** Issues with what is in it are told as one with the whole. */
  whole?: true;
  /** How to give it where it must be there. */
  missing?: string;
  /** What was most likely meant by a value that is no object. */
  meant?(value: unknown): Record<string, unknown> | undefined;
  /** Issues are whole sentences already; this is what to do about each. */
  sentence?: string;
}

const FACTS = z.registry<OptionFacts>();

/** Notes what is known of an option; last in the chain that makes its schema, as each link of that makes another one. */
export function known<Schema extends z.ZodType>(schema: Schema, facts: OptionFacts): Schema {
  FACTS.add(schema as never, facts as never);
  return schema;
}

export interface OptionNode {
  /** Without what makes it optional or turns it into columns. */
  schema: z.ZodType;
  facts: OptionFacts;
  /** What holds when it is left out; undefined: nothing does. */
  fallback: unknown;
  /** Whether it may be left out. */
  optional: boolean;
  /** The names that an object may have. */
  names: readonly string[];
  at(step: PropertyKey): z.ZodType | undefined;
  /** Of a union the part that a value was meant for; anything else is itself. */
  chosen(value: unknown): OptionNode;
}

/** `value` chooses among the parts of a union; without it the union itself is given. */
export function nodeOf(outer: z.ZodType, value?: unknown): OptionNode {
  let facts: OptionFacts = {};
  let fallback: unknown;
  let optional = false;
  let schema = outer;
  for (;;) {
    facts = { ...FACTS.get(schema as never) as OptionFacts | undefined, ...facts };
    if (schema instanceof z.ZodPipe) schema = schema.def.in as z.ZodType;
    else if (schema instanceof z.ZodOptional) [schema, optional] = [schema.def.innerType as z.ZodType, true];
    else if (schema instanceof z.ZodDefault) {
      [fallback, optional, schema] = [schema.def.defaultValue, true, schema.def.innerType as z.ZodType];
    } else if (schema instanceof z.ZodPrefault) [optional, schema] = [true, schema.def.innerType as z.ZodType];
    else break;
  }
  const node: OptionNode = {
    schema,
    facts,
    fallback,
    optional,
    names: schema instanceof z.ZodObject ? Object.keys(schema.def.shape) : [],
    at: (step) => within(schema, step, value),
    chosen: (value) => {
      if (!(schema instanceof z.ZodUnion)) return node;
      const part = nodeOf(schema.def.options[chosenOption(schema, value)] as z.ZodType, value);
      return { ...part, facts: { ...part.facts, ...facts }, fallback, optional };
    },
  };
  return node;
}

function within(schema: z.ZodType, step: PropertyKey, value: unknown): z.ZodType | undefined {
  if (schema instanceof z.ZodObject) return schema.def.shape[step as string] as z.ZodType | undefined;
  if (schema instanceof z.ZodArray) return schema.def.element as z.ZodType;
  if (schema instanceof z.ZodRecord) return schema.def.valueType as z.ZodType;
  if (!(schema instanceof z.ZodUnion)) return undefined;
  return nodeOf(schema.def.options[chosenOption(schema, value)] as z.ZodType, value).at(step);
}

/** Which part of a union a value was meant for: an object for an object, a list for a list, and anything else for a plain one if there is. */
export function chosenOption(schema: z.ZodUnion, value: unknown): number {
  const kinds = schema.def.options.map((option) => {
    const { schema: inner } = nodeOf(option as z.ZodType);
    return inner instanceof z.ZodArray ? "list" : inner instanceof z.ZodObject ? "object" : "plain";
  });
  const kind = Array.isArray(value) ? "list" : typeof value === "object" && value !== null ? "object" : "plain";
  return [kind, "plain", "object"].map((one) => kinds.indexOf(one as typeof kind)).find((place) => place >= 0) ?? 0;
}
