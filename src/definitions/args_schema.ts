/** The schema of a job's args as it was last synced, JSON Schema as text, against args. */
import { z } from "zod";
import type { Json, SchemaIssue } from "../job.ts";

interface Compiled {
  json: Json;
  /** Undefined: another library said it in words that are not read here, and the worker alone checks. */
  schema: z.ZodType | undefined;
}

/** By their text, so that a job that is synced with another has that at once. */
const schemas = new Map<string, Compiled>();
const MOST_SCHEMAS = 1_000;

/** What does not fit; undefined: all does. With what was given, for whoever says it in another language. */
export function unfitIn(args_schema: string | null, args: unknown): readonly SchemaIssue[] | undefined {
  const schema = args_schema === null ? undefined : compiled(args_schema).schema;
  const answer = schema?.safeParse(args, { reportInput: true });
  return answer?.success === false ? answer.error.issues : undefined;
}

/** The schema itself; null: anything fits. */
export function schemaJson(args_schema: string | null): Json {
  return args_schema === null ? null : compiled(args_schema).json;
}

function compiled(text: string): Compiled {
  let found = schemas.get(text);
  if (!found) {
    if (schemas.size >= MOST_SCHEMAS) schemas.clear();
    schemas.set(text, found = compile(JSON.parse(text)));
  }
  return found;
}

function compile(json: Json): Compiled {
  try {
    return { json, schema: z.fromJSONSchema(json as Parameters<typeof z.fromJSONSchema>[0]) };
  } catch {
    return { json, schema: undefined };
  }
}
