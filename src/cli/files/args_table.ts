/** The args of a job as its schema has them, for whoever is about to give some. */
import { type Field, fieldOf } from "../../admin/args/fields.ts";
import type { DeclaredMessage } from "../../definitions/definition_rows.ts";
import type { Json } from "../../job.ts";
import { say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export function printArgs(schema: Json): void {
  if (schema === null) return say("args: any JSON, since its file has no schema for them");
  const field = fieldOf(schema);
  if (field.kind !== "object") {
    return say(`args: ${typeText(field)}${field.kind === "json" ? "" : `\n${JSON.stringify(schema)}`}`);
  }
  printTable(["arg", "type", "if not given", "about"], rowsOf(field, ""), "args: none");
}

/** What may be sent to the runs of a job, each with what its payload is. */
export function printMessages(messages: Record<string, DeclaredMessage>): void {
  for (const [name, { schema, from }] of Object.entries(messages)) {
    const field = schema === null ? undefined : fieldOf(schema);
    const senders = from === "emit" ? " (tokens of scope emit may send it)" : "";
    say(
      `\nmessage ${name}${senders}: ${field?.kind === "object" ? "an object" : field ? typeText(field) : "any JSON"}`,
    );
    if (field?.kind === "object") {
      printTable(["field", "type", "if not given", "about"], rowsOf(field, ""), "no fields");
    }
  }
}

/** Objects and lists of objects field by field, below their own row. */
function rowsOf(field: Extract<Field, { kind: "object" }>, path: string): unknown[][] {
  return field.fields.flatMap(([name, inner]) => {
    const at = `${path}${name}`;
    const row = [at, typeText(inner), absentText(inner), inner.description ?? inner.title];
    const [parts, below] = inner.kind === "list" ? [inner.item, `${at}[].`] : [inner, `${at}.`];
    return [row, ...parts.kind === "object" ? rowsOf(parts, below) : []];
  });
}

function absentText({ required, standard }: Field): string | null {
  if (standard !== undefined) return JSON.stringify(standard);
  return required ? "refused" : null;
}

function typeText(field: Field): string {
  const text = plainText(field);
  return field.nullable && field.kind !== "choice" ? `${text}, or null` : text;
}

function plainText(field: Field): string {
  switch (field.kind) {
    case "text": {
      const range = rangeText({ least: field.least || undefined, most: field.most });
      return `${field.format ?? "text"}${range && `${range} characters`}`;
    }
    case "number":
      return `${field.whole ? "whole number" : "number"}${rangeText(field)}`;
    case "truth":
      return "true or false";
    case "choice":
      return field.options.map((option) => JSON.stringify(option)).join(" | ");
    case "object":
      return "object";
    case "list":
      return `list of ${typeText(field.item)}`;
    case "json":
      return "JSON; see --json for its schema";
  }
}

/** JSON Schema has whole numbers within what a double can count; that says nothing. */
function rangeText({ least, most }: { least: number | undefined; most: number | undefined }): string {
  const said = (edge: number | undefined) => edge !== undefined && Math.abs(edge) < Number.MAX_SAFE_INTEGER;
  if (said(least) && said(most)) return `, ${least} to ${most}`;
  if (said(least)) return `, at least ${least}`;
  return said(most) ? `, at most ${most}` : "";
}
