/** What an act changed, in lines: of two objects only what differs, of anything else all of it. */
import { isRecord } from "../../../platform/shown.ts";

export interface Difference {
  /** Of an object's field; "" for a plain value. */
  name: string;
  before: string | undefined;
  after: string | undefined;
}

export function differencesOf(before: unknown, after: unknown): Difference[] {
  const fields = [before, after].filter((value) => value !== null && value !== undefined);
  if (fields.length === 0) return [];
  if (!fields.every(isRecord)) return [{ name: "", before: textOf(before), after: textOf(after) }];
  const [was, is] = [before ?? {}, after ?? {}] as Record<string, unknown>[];
  const names = [...new Set(fields.flatMap((one) => Object.keys(one as object)))];
  return names.map((name) => ({ name, before: textOf(was?.[name]), after: textOf(is?.[name]) }))
    .filter((one) => one.before !== one.after);
}

function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  return typeof value === "string" ? value : JSON.stringify(value);
}
