/**
 * What stands in the boxes of a form of args, as texts: from a value when the form is opened, from the browser when it comes
 * back, and from there to a value. Texts are kept as they were typed, so a form that comes back with a mistake has lost nothing.
 *
 *   a{path}  the text of a field      n{path}  how many items a list has
 */
import type { Json } from "../../job.ts";
import { below, type Field, isObject, MOST_ITEMS } from "./fields.ts";

export type Draft = ReadonlyMap<string, string>;
/** By path; "" is the whole. */
export type Problems = Map<string, string[]>;

/** Which field, and in which time zone its times are shown and read. */
interface Place {
  path?: string;
  zone: string;
}

export const textKey = (path: string) => `a${path}`;
export const countKey = (path: string) => `n${path}`;

/** A form as it was sent. Of several values of one name (a box beside its "false") the last counts. */
export function draftFrom(form: FormData): Draft {
  const entries = [...form].filter(([name, value]) => /^[an](\/|$)/.test(name) && typeof value === "string");
  return new Map(entries.map(([name, value]) => [name, (value as string).replaceAll("\r\n", "\n")]));
}

/**
 * A new form: defaults are filled in, so that they are seen; not within what may be left out as a whole, since they would
 * make it given.
 */
export function freshDraft(field: Field, at: Place, fill = true): Map<string, string> {
  const { path = "", zone } = at;
  const standard = fill && field.standard !== undefined ? draftOf(field, field.standard, at) : undefined;
  if (standard) return standard;
  if (field.kind === "object") {
    const inside = fill && field.required;
    return joined(field.fields.map(([name, one]) => freshDraft(one, { path: below(path, name), zone }, inside)));
  }
  if (field.kind === "list") {
    const items = field.required && fill ? field.least : 0;
    return joined([
      new Map([[countKey(path), String(items)]]),
      ...freshItems(field, { path, zone, from: 0, to: items }),
    ]);
  }
  return new Map();
}

function freshItems(
  field: Field & { kind: "list" },
  { path, zone, from, to }: { path: string; zone: string; from: number; to: number },
): Draft[] {
  return Array.from({ length: to - from }, (_, n) => freshDraft(field.item, { path: below(path, from + n), zone }));
}

/** A value in the boxes; undefined: they cannot show it, so that it would be lost. */
export function draftOf(
  field: Field,
  value: Json | undefined,
  at: Place,
): Map<string, string> | undefined {
  const path = at.path ?? "";
  const box = (text: string) => new Map([[textKey(path), text]]);
  if (value === undefined) return field.required ? undefined : freshDraft(field, at, false);
  if (field.kind === "choice") {
    const place = field.options.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return place < 0 ? undefined : box(String(place));
  }
  if (field.kind === "json") return box(JSON.stringify(value, null, 2));
  if (value === null) return field.nullable && field.required ? box("") : undefined;
  if (field.kind === "truth") return typeof value === "boolean" ? box(String(value)) : undefined;
  if (field.kind === "number") return typeof value === "number" ? box(String(value)) : undefined;
  if (field.kind === "text") {
    if (typeof value !== "string" || (value === "" && !field.required)) return undefined;
    const shown = field.format === "date-time" ? wallTime(value, at.zone) : value;
    return shown === undefined ? undefined : box(shown);
  }
  const parts = partsOf(field, value, path);
  const drafts = parts?.map(([one, part, path]) => draftOf(one, part, { path, zone: at.zone }));
  if (!drafts || drafts.some((one) => one === undefined)) return undefined;
  const count = field.kind === "list" ? [new Map([[countKey(path), String(drafts.length)]])] : [];
  const all = joined([...count, ...drafts as Draft[]]);
  return field.kind === "object" && !field.required && !isTouched(all, path) ? undefined : all;
}

function partsOf(
  field: Field & { kind: "object" | "list" },
  value: Json,
  path: string,
): [Field, Json | undefined, string][] | undefined {
  if (field.kind === "list") {
    if (!Array.isArray(value) || value.length > field.most) return undefined;
    return value.map((one: Json, n) => [field.item, one, below(path, n)]);
  }
  if (!isObject(value) || Object.keys(value).some((name) => !field.fields.some(([known]) => known === name))) {
    return undefined;
  }
  return field.fields.map((
    [name, one],
  ) => [one, Object.hasOwn(value, name) ? value[name] : undefined, below(path, name)]);
}

/** One more item at the end of the list there. */
export function withItem(root: Field, draft: Draft, { path, zone }: Required<Place>): Draft {
  const list = listAt(root, path);
  if (!list) return draft;
  const count = countOf(draft, path, list.most);
  if (count >= list.most) return draft;
  return joined([
    draft,
    ...freshItems(list, { path, zone, from: count, to: count + 1 }),
    new Map([[countKey(path), String(count + 1)]]),
  ]);
}

/** Without the item there; those after it move up. */
export function withoutItem(draft: Draft, path: string): Draft {
  const list = path.slice(0, path.lastIndexOf("/"));
  const gone = Number(path.slice(list.length + 1));
  const moved = [...draft].flatMap(([key, text]): [string, string][] => {
    if (!key.slice(1).startsWith(`${list}/`)) return [[key, text]];
    const [place = "", ...rest] = key.slice(list.length + 2).split("/");
    if (Number(place) === gone) return [];
    const to = Number(place) > gone ? Number(place) - 1 : place;
    return [[`${key[0]}${[list, to, ...rest].join("/")}`, text]];
  });
  const count = countOf(draft, list, MOST_ITEMS);
  return new Map([...moved, [countKey(list), String(Math.max(0, count - 1))]]);
}

export function countOf(draft: Draft, path: string, most: number): number {
  const count = Number(draft.get(countKey(path)) ?? 0);
  return Number.isInteger(count) && count >= 0 ? Math.min(count, most) : 0;
}

function listAt(field: Field, path: string): Field & { kind: "list" } | undefined {
  if (path === "") return field.kind === "list" ? field : undefined;
  const inside: [string, Field][] = field.kind === "object"
    ? field.fields.map(([name, one]) => [below("", name), one])
    : field.kind === "list"
    ? [[/^\/\d+/.exec(path)?.[0] ?? "", field.item]]
    : [];
  for (const [step, one] of inside) {
    if (step !== "" && (path === step || path.startsWith(`${step}/`))) return listAt(one, path.slice(step.length));
  }
}

/** Whether anything is in the boxes of an object that may be left out. */
export function isTouched(draft: Draft, path: string): boolean {
  return [...draft].some(([key, text]) =>
    key.slice(1).startsWith(`${path}/`) && text !== "" && !(key[0] === "n" && text === "0")
  );
}

/** The clock on the viewer's wall at an instant, as a browser's box for it takes it. */
function wallTime(instant: string, zone: string): string | undefined {
  try {
    return Temporal.Instant.from(instant).toZonedDateTimeISO(zone).toPlainDateTime().toString();
  } catch {
    return undefined;
  }
}

function joined(drafts: readonly Draft[]): Map<string, string> {
  return new Map(drafts.flatMap((one) => [...one]));
}
