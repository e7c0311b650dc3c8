/**
 * Fields that a job names and its args do not have. A key would be the same for all runs, so that they wait for each other, and of
 * events that are debounced by it one run would be left. A schema that lets further fields through may have them.
 */
import type { DefinitionSetting } from "../definitions/definition_rows.ts";
import type { Json } from "../job.ts";
import { isRecord, wordLike } from "../platform/shown.ts";

export function unknownFields(job: DefinitionSetting): string[] {
  const { properties, additionalProperties } = (job.args_schema ?? {}) as { [key: string]: Json | undefined };
  if (!isRecord(properties) || (additionalProperties ?? false) !== false) return [];
  const known = Object.keys(properties);
  const rules = Object.entries(job.event_rules);
  const named: [where: string, fields: string[]][] = [
    ["serialKey", fieldsIn(job.serial_key)],
    ["concurrency.key", fieldsIn(job.concurrency_key)],
    ["node", fieldsIn(job.node)],
    ...rules.map(([type, { key }]): [string, string[]] => [`the key on "${type}"`, fieldsIn(key ?? null)]),
    ...rules.map(([type, { where }]): [string, string[]] => [`where on "${type}"`, Object.keys(where ?? {})]),
  ];
  return named.flatMap(([where, fields]) =>
    fields.filter((field) => !known.includes(field.split(".")[0]!)).map((field) => {
      const like = wordLike(field, known);
      const hint = like ? `; did you mean {${like}}?` : "";
      return `${where} names {${field}}, which the schema of args does not have: it is empty where nobody gives it${hint}`;
    })
  );
}

function fieldsIn(template: string | null): string[] {
  return [...(template ?? "").matchAll(/\{([^{}]+)\}/g)].map(([, field]) => field!);
}
