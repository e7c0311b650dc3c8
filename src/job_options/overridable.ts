/**
 * Which options of a job an operator may set beside its file, and what then holds. Pure: rows and files to what is shown.
 *
 * Options have the names that they have in a job file: `priority`, `timeoutSeconds`, `retry.max`, `concurrency.limit`, ...,
 * and for a schedule `schedule.ID.dailyAt` (or another kind, kept as `schedule.ID.time`), `.timezone` and `.enabled`.
 */
import type { Json } from "../job.ts";
import { kindNamed, kindStored } from "../schedule_kinds/kinds.ts";
import type { Columns, StoredDefinition } from "../definitions/definition_rows.ts";
import type { Override } from "../definitions/override_rows.ts";
import { isRecord } from "../platform/shown.ts";
import { defaultColumns, OPTION_LIST } from "./option_list.ts";

/** The options of a job, and the columns of each. */
export const OF_JOB: Record<string, readonly string[]> = {
  enabled: ["enabled"],
  ...Object.fromEntries(OPTION_LIST.filter(({ settable }) => settable).map(({ name, columns }) => [name, columns])),
};

/** The options of each schedule. */
export const OF_SCHEDULE: Record<string, readonly string[]> = {
  time: ["schedule_type", "schedule_value"],
  timezone: ["timezone"],
  enabled: ["enabled"],
};

/** One option of a job as it is. */
export interface JobOption {
  name: string;
  /** What holds, as a job file would say it. */
  value: Json;
  /** What the file says; undefined: its value holds. */
  file_value?: Json;
  override?: Pick<Override, "set_at" | "set_by" | "reason">;
}

/** All options of a job that can be set, and what is overridden but has no schedule any more. */
export function optionsOf(definition: StoredDefinition, overrides: Override[]): JobOption[] {
  const rows = rowsOf(definition).flatMap(({ prefix, row, options }) =>
    Object.entries(options).map(([name, columns]) => ({ name: `${prefix}${name}`, value: pick(row, columns) }))
  );
  const own = overrides.filter((one) => one.job_definition_id === definition.id);
  const gone = own.filter((one) => !rows.some(({ name }) => name === one.name));
  return [...rows, ...gone].map(({ name, value }) => {
    const override = own.find((one) => one.name === name);
    if (!override) return { name, value: asWritten(name, value) };
    const { set_at, set_by, reason, file_value } = override;
    return {
      name,
      value: asWritten(name, value),
      file_value: file_value && asWritten(name, file_value),
      override: { set_at, set_by, reason },
    };
  });
}

/** Shown by themselves. */
const SHOWN_ELSEWHERE = ["description", "permissions"];
const USUAL = defaultColumns();

/**
 * What else its file asks for, by the names that it has there, as a text: `["resources", "license 1"]`. What is as it is without
 * being asked for is left out, but for the memory.
 */
export function askedBy(definition: StoredDefinition): [name: string, text: string][] {
  return OPTION_LIST.flatMap(({ name, columns, settable }): [string, string][] => {
    const column = columns.at(-1);
    if (!column || settable || SHOWN_ELSEWHERE.includes(name)) return [];
    const text = askedText(name === "messages" ? messageNames(definition) : definition[column]);
    return text === askedText(USUAL[column]) && name !== "memoryMb" ? [] : [[name, text]];
  });
}

/** Their schemas are long, and shown by themselves. */
function messageNames({ messages }: StoredDefinition): string[] {
  return Object.entries(messages).map(([name, { from }]) => from ? `${name} (${from})` : name);
}

/** `license 1, gpu 2`, `ConnectError: max 3, backoffSeconds 30; Other: max 1` */
function askedText(value: unknown): string {
  if (!isRecord(value)) return Array.isArray(value) ? value.map(askedText).join(", ") : String(value);
  const parts = Object.entries(value);
  const nested = parts.some(([, part]) => isRecord(part));
  return parts.map(([key, part]) => `${key}${nested ? ":" : ""} ${askedText(part)}`).join(nested ? "; " : ", ");
}

/** Columns of an option in the words of a job file: `{ dailyAt: "02:30" }`, `{ count: 60, seconds: 1 }`, `"queueOne"`, 240. */
export function asWritten(name: string, columns: Columns): Json {
  if (name.endsWith(".time")) {
    const kind = kindStored(columns.schedule_type as string);
    return { [kind.option]: kind.written(columns.schedule_value as string) };
  }
  if (name === "rate") {
    return columns.rate_count === null ? null : { count: columns.rate_count, seconds: columns.rate_seconds };
  }
  const value = Object.values(columns)[0] ?? null;
  return value === "queue_one" ? "queueOne" : value;
}

/** The rows of a job, or what is to become of them. */
interface Rows {
  schedules: { schedule_id: string }[];
}

/** The rows with other values in them: `choose` says which columns an override puts there. */
function withColumns<Job extends Rows>(
  job: Job,
  overrides: Override[],
  choose: (one: Override) => Columns | null,
): Job {
  const columns = (row: RowOptions) =>
    Object.assign({}, ...overrides.filter(({ name }) => isOf(row, name)).map(choose));
  const [own, ...of_schedules] = rowsOf(job) as [RowOptions, ...RowOptions[]];
  return {
    ...job,
    ...columns(own),
    schedules: job.schedules.map((schedule, place) => ({ ...schedule, ...columns(of_schedules[place] as RowOptions) })),
  };
}

/** A stored definition as its file had it at the last sync. */
export function asFiled(definition: StoredDefinition, overrides: Override[]): StoredDefinition {
  return withColumns(definition, overrides, (one) => one.file_value);
}

/** What a file says, with what operators have set: what then holds. */
export function withOverrides<Job extends Rows>(job: Job, overrides: Override[]): Job {
  return withColumns(job, overrides, (one) => one.value);
}

/** What a file says of an option that is set beside it; null: it has no such schedule. */
export function fileValue(job: Rows, { name }: Pick<Override, "name">): Columns | null {
  const row = rowsOf(job).find((one) => isOf(one, name));
  if (!row) return null;
  const columns = row.options[name.slice(row.prefix.length)] as readonly string[];
  return columns[0] === "enabled" ? ON : pick(row.row, columns);
}

/** What a file that is there says of `enabled`. */
export const ON: Columns = { enabled: true };

/** A row, with the names of its options: each is the prefix and a key of `options`. */
export interface RowOptions {
  prefix: string;
  row: object;
  options: Record<string, readonly string[]>;
}

/** Whether an option is one of this row's. */
export function isOf({ prefix, options }: Omit<RowOptions, "row">, name: string): boolean {
  return name.startsWith(prefix) && name.slice(prefix.length) in options;
}

export function rowsOf(definition: Rows): RowOptions[] {
  return [
    { prefix: "", row: definition, options: OF_JOB },
    ...definition.schedules.map((row) => ({ prefix: prefixOf(row), row, options: OF_SCHEDULE })),
  ];
}

export function prefixOf({ schedule_id }: { schedule_id: string }): string {
  return `schedule.${schedule_id}.`;
}

/** A schedule's id may hold dots; the last part of a name never does. */
export function scheduleIdOf(name: string): string {
  return name.slice("schedule.".length, Math.max(name.lastIndexOf("."), "schedule.".length));
}

export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** Each kind of time is kept under one name, so that there is one of them. */
export function storedName(name: string): string {
  return name.startsWith("schedule.") && kindNamed(lastPart(name))
    ? `${name.slice(0, name.lastIndexOf("."))}.time`
    : name;
}

export function pick(row: object, columns: readonly string[]): Columns {
  return Object.fromEntries(columns.map((column) => [column, (row as Columns)[column] ?? null]));
}
