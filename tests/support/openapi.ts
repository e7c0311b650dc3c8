/** OpenAPI documents as far as tests read them: finding an operation, and holding a value against a schema. */

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
  description?: string;
}

export interface Operation {
  operationId: string;
  summary?: string;
  "x-needs": string;
  security: Record<string, string[]>[];
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>;
}

export interface Document {
  openapi: string;
  info: { title: string; version: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, unknown> };
}

/** All of them, as "post /runs/{id}/cancel". */
export function operationsIn(
  document: Document,
): { name: string; method: string; path: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, method, path, operation }))
  );
}

/** Paths without parameters win, as they do in the router. */
export function operationOf(document: Document, method: string, path: string): Operation | undefined {
  const fits = (template: string) => new RegExp(`^${template.replace(/\{[^}]+\}/g, "[^/]+")}$`).test(path);
  const found = operationsIn(document).filter((one) => one.method === method.toLowerCase() && fits(one.path));
  return (found.find((one) => one.path === path) ?? found[0])?.operation;
}

/** Everything in which a value differs from a schema. A field that the schema does not name is one, unless it says that there may be more. */
export function complaintsOf(document: Document, schema: Schema, value: unknown, at = "$"): string[] {
  const again = (inner: Schema, of: unknown, place = at) => complaintsOf(document, inner, of, place);
  if (schema.$ref) return again(named(document, schema.$ref), value);
  if (schema.anyOf) {
    const all = schema.anyOf.map((one) => again(one, value));
    return all.some((one) => one.length === 0) ? [] : all.flat();
  }
  if (schema.allOf) return again(merged(document, schema), value);
  const types = schema.type === undefined ? undefined : [schema.type].flat();
  if (types && !types.some((type) => isOf(type, value))) return [`${at} is no ${types.join(" or ")}: ${shown(value)}`];
  if (value === null) return [];
  if (schema.enum && !schema.enum.includes(value)) {
    return [`${at} is none of ${schema.enum.join(", ")}: ${shown(value)}`];
  }
  if (schema.format === "date-time" && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(String(value))) {
    return [`${at} is no time in UTC: ${shown(value)}`];
  }
  if (Array.isArray(value)) {
    return value.flatMap((item, place) => schema.items ? again(schema.items, item, `${at}[${place}]`) : []);
  }
  if (typeof value === "object") return fieldsOf(document, schema, value as Record<string, unknown>, at);
  return [];
}

function fieldsOf(document: Document, schema: Schema, value: Record<string, unknown>, at: string): string[] {
  const known = schema.properties ?? {};
  const more = schema.additionalProperties;
  if (!schema.properties && more === undefined) return [];
  return [
    ...(schema.required ?? []).filter((name) => !(name in value)).map((name) => `${at}.${name} is missing`),
    ...Object.entries(value).flatMap(([name, inner]) => {
      const place = `${at}.${name}`;
      const own = known[name] ?? (typeof more === "object" ? more : undefined);
      if (own) return complaintsOf(document, own, inner, place);
      return more ? [] : [`${place} is not in the document`];
    }),
  ];
}

function named(document: Document, ref: string): Schema {
  const schema = document.components.schemas[ref.replace("#/components/schemas/", "")];
  if (!schema) throw new Error(`Cannot find ${ref} in the document`);
  return schema;
}

function merged(document: Document, { allOf = [], ...rest }: Schema): Schema {
  const parts = allOf.map((part) => part.$ref ? named(document, part.$ref) : part);
  return {
    ...Object.assign({}, ...parts, rest),
    properties: Object.assign({}, ...[...parts, rest].map((part) => part.properties ?? {})),
    required: [...parts, rest].flatMap((part) => part.required ?? []),
  };
}

function isOf(type: string, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  if (type === "string") return typeof value === "string";
  return type === "number" ? typeof value === "number" : typeof value === "boolean";
}

function shown(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 100);
}

/** Every `$ref` in it. */
export function refsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => key === "$ref" ? [String(inner)] : refsIn(inner));
}
