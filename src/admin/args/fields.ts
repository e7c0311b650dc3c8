/**
 * What of a JSON Schema can be drawn as a form: a tree of fields. The schema is whatever a job file said (zod's is the usual
 * one, and it is plain JSON Schema that counts); what has no field of its own here becomes a box for JSON, so nothing is lost.
 */
import type { Json } from "../../job.ts";

interface Common {
  title: string | undefined;
  description: string | undefined;
  required: boolean;
  /** Null may be given; an empty box means null if it is required, and otherwise that nothing is given. */
  nullable: boolean;
  /** What holds when nothing is given. */
  standard: Json | undefined;
}

export type Field =
  & Common
  & (
    | { kind: "text"; format: string | undefined; least: number; most: number | undefined }
    | { kind: "number"; whole: boolean; least: number | undefined; most: number | undefined }
    | { kind: "truth" }
    | { kind: "choice"; options: Json[] }
    | { kind: "object"; fields: [name: string, field: Field][] }
    | { kind: "list"; item: Field; least: number; most: number }
    | { kind: "json" }
  );

/** Deeper than this, or where a schema names itself, JSON is easier to write than a form. */
const DEEPEST = 5;
const MOST_FIELDS = 200;
/** Of a list that is drawn item by item. */
export const MOST_ITEMS = 100;

type Schema = { [word: string]: Json | undefined };

/** The field of a whole schema. Of kind "object" it can be drawn; otherwise there is the box for JSON. */
export function fieldOf(schema: Json): Field {
  const drawing = { root: isObject(schema) ? schema : {}, left: MOST_FIELDS };
  return drawn(schema, drawing, { required: true, depth: 0 });
}

interface Drawing {
  root: Schema;
  left: number;
}

function drawn(schema: Json | undefined, on: Drawing, at: { required: boolean; depth: number }): Field {
  const { plain, nullable } = withoutNull(resolved(schema, on));
  const common: Common = {
    title: text(plain.title),
    description: text(plain.description),
    required: at.required,
    nullable,
    standard: plain.default,
  };
  const json: Field = { ...common, kind: "json" };
  if (--on.left < 0 || at.depth > DEEPEST) return json;
  const options = optionsOf(plain);
  if (options) return { ...common, kind: "choice", options: nullable ? [...options, null] : options };
  if (plain.anyOf || plain.oneOf || plain.allOf || plain.not || plain.if) return json;
  const least = (word: string) => typeof plain[word] === "number" ? plain[word] as number : undefined;
  switch (plain.type) {
    case "string":
      return {
        ...common,
        kind: "text",
        format: text(plain.format),
        least: least("minLength") ?? 0,
        most: least("maxLength"),
      };
    case "integer":
    case "number":
      return {
        ...common,
        kind: "number",
        whole: plain.type === "integer",
        least: least("minimum"),
        most: least("maximum"),
      };
    case "boolean":
      return nullable ? { ...common, kind: "choice", options: [true, false, null] } : { ...common, kind: "truth" };
    case "object":
      return nullable ? json : objectOf(plain, on, { common, depth: at.depth });
    case "array": {
      if (nullable || plain.prefixItems || !isObject(plain.items)) return json;
      const item = drawn(plain.items, on, { required: true, depth: at.depth + 1 });
      const most = Math.min(least("maxItems") ?? MOST_ITEMS, MOST_ITEMS);
      return { ...common, kind: "list", item, least: Math.min(least("minItems") ?? 0, most), most };
    }
    default:
      return json;
  }
}

/** An object whose names are free has no fields to draw. */
function objectOf(plain: Schema, on: Drawing, { common, depth }: { common: Common; depth: number }): Field {
  const properties = isObject(plain.properties) ? Object.entries(plain.properties) : [];
  const free = isObject(plain.additionalProperties) || plain.additionalProperties === true || plain.patternProperties;
  if (free || (properties.length === 0 && depth > 0)) return { ...common, kind: "json" };
  const required = Array.isArray(plain.required) ? plain.required : [];
  const fields = properties.map(([name, schema]): [string, Field] => [
    name,
    drawn(schema, on, { required: required.includes(name), depth: depth + 1 }),
  ]);
  // In the order of the file, but what must be given first.
  return { ...common, kind: "object", fields: fields.sort(([, a], [, b]) => Number(b.required) - Number(a.required)) };
}

/** What `$ref` names stands in its place, with what is said beside it. */
function resolved(schema: Json | undefined, { root }: Drawing): Schema {
  let plain: Schema = isObject(schema) ? schema : {};
  for (let step = 0; typeof plain.$ref === "string" && step < DEEPEST; step++) {
    const { $ref, ...beside } = plain;
    const path = $ref.startsWith("#/") ? $ref.slice(2).split("/").map(unescaped) : [];
    const named = path.length === 0 ? undefined : path.reduce<Json | undefined>(
      (at, name) => isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined,
      root as Json,
    );
    plain = { ...(isObject(named) ? named : {}), ...beside };
  }
  return plain;
}

function withoutNull(schema: Schema): { plain: Schema; nullable: boolean } {
  const { type, anyOf, ...rest } = schema;
  if (Array.isArray(type)) {
    const others = type.filter((one) => one !== "null");
    const plain = others.length === 1 ? { ...rest, type: others[0] } : rest;
    return { plain: anyOf ? { ...plain, anyOf } : plain, nullable: others.length < type.length };
  }
  if (Array.isArray(anyOf)) {
    const others = anyOf.filter((one) => !isObject(one) || one.type !== "null");
    const [only] = others;
    if (others.length === 1 && others.length < anyOf.length && isObject(only)) {
      return { plain: { ...only, ...rest }, nullable: true };
    }
  }
  return { plain: schema, nullable: false };
}

/** Of an enumeration, or a union of constants. */
function optionsOf(schema: Schema): Json[] | undefined {
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return [...schema.enum];
  if (schema.const !== undefined) return [schema.const];
  const union = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(union) || union.length === 0) return undefined;
  const each = union.map((one) => isObject(one) ? optionsOf(one) : undefined);
  return each.every((one) => one !== undefined) ? each.flat() : undefined;
}

export function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Where a field stands in the args: "/devices/0/id", with "~" and "/" in names as "~0" and "~1" (RFC 6901). */
export function below(path: string, name: string | number): string {
  return `${path}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function unescaped(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
