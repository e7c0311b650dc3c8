/**
 * Live settings: rows of `scheduler_settings`, read again every few seconds by each process, so that a change needs no
 * restart. A row that is missing means the default below; a row that is wrong is reported and the default used.
 * What a process needs before it can reach Postgres is in platform/config.ts.
 */
import { observe } from "../platform/facts.ts";
import { type Db, json, type Sql } from "../postgres/connection.ts";
import {
  type Choice,
  CHOICES,
  type DISPATCH,
  type LEADER_RUNS_JOBS,
  NUMBER_SETTINGS,
  type NumberSetting,
  type OLD_LOGS,
} from "./setting_list.ts";

export { CHOICES, NUMBER_SETTINGS };

export type Settings = { [K in keyof typeof NUMBER_SETTINGS]: number } & {
  /** Whether the leader runs bodies itself: never, only for runs that no other worker's node can serve, or always. */
  leader_runs_jobs: typeof LEADER_RUNS_JOBS[number];
  /** `paused`: no waiting run is given to a worker, whatever its job. */
  dispatch: typeof DISPATCH[number];
  /** What becomes of log lines after `log_retention_days_db`. `archive`: without a SCHEDULER_ARCHIVE they stay. */
  old_logs: typeof OLD_LOGS[number];
};

export const DEFAULT_SETTINGS: Settings = {
  ...Object.fromEntries(Object.entries(NUMBER_SETTINGS).map(([name, setting]) => [name, setting.default])) as {
    [K in keyof typeof NUMBER_SETTINGS]: number;
  },
  leader_runs_jobs: "alone",
  dispatch: "running",
  old_logs: "archive",
};

type NumberName = keyof typeof NUMBER_SETTINGS;

/** A setting that must be at least so many times others, added. */
export interface Relation {
  of: NumberName;
  at_least: readonly (readonly [times: number, name: NumberName])[];
}

export const RELATIONS: readonly Relation[] = [
  { of: "leader_lease_seconds", at_least: [[2, "leader_tick_seconds"]] },
  { of: "leader_stale_seconds", at_least: [[1, "leader_lease_seconds"]] },
  { of: "heartbeat_ttl_seconds", at_least: [[2, "heartbeat_interval_seconds"]] },
  { of: "worker_detach_grace_seconds", at_least: [[2, "heartbeat_interval_seconds"]] },
  { of: "worker_lease_seconds", at_least: [[2, "worker_renew_seconds"], [1, "worker_margin_seconds"]] },
  { of: "stat_hour_days", at_least: [[1, "stat_minute_days"]] },
];

export function relationText({ of, at_least }: Relation): string {
  return `${of} must be at least ${
    at_least.map(([times, name]) => times === 1 ? name : `${times} x ${name}`).join(" + ")
  }`;
}

/** What is wrong: `text` says it in a sentence, the rest is for whoever says it in other words. */
export type SettingProblem =
  & { text: string }
  & (
    | { code: "bounds"; name: string; whole: boolean; least: number; most: number; value: unknown }
    | { code: "choice"; name: string; choices: readonly string[]; value: unknown }
    | { code: "relation"; relation: Relation; values: number[] }
    | { code: "unknown"; name: string }
  );

/** Only time can be divided: what is counted, in slots, tries or megabytes, is whole, and so are days, but where hours of logs fill a disk. */
export function isWhole(name: string): boolean {
  return Object.hasOwn(NUMBER_SETTINGS, name) && !name.endsWith("_seconds") && name !== "log_retention_days_db";
}

/** Everything that is wrong with a set of settings, bounds and relations; empty when it can be used. */
export function problemsIn(settings: Settings): SettingProblem[] {
  const problems: SettingProblem[] = [];
  for (const [name, bounds] of Object.entries(NUMBER_SETTINGS) as [NumberName, NumberSetting][]) {
    const { least, most } = bounds;
    const value = settings[name];
    const whole = isWhole(name);
    if (typeof value === "number" && value >= least && value <= most && (!whole || Number.isInteger(value))) continue;
    const kind = whole ? "whole number" : "number";
    const text = `${name} must be a ${kind} from ${least} to ${most}: current value is ${JSON.stringify(value)}`;
    problems.push({ code: "bounds", name, whole, least, most, value, text });
  }
  for (const [name, { choices }] of Object.entries(CHOICES) as [keyof typeof CHOICES, Choice][]) {
    const value = settings[name];
    if (choices.some((one) => one === value)) continue;
    const text = `${name} must be one of ${choices.join(", ")}: current value is ${JSON.stringify(value)}`;
    problems.push({ code: "choice", name, choices, value, text });
  }
  for (const relation of RELATIONS) {
    const names = [relation.of, ...relation.at_least.map(([, name]) => name)];
    const least = relation.at_least.reduce((sum, [times, name]) => sum + times * settings[name], 0);
    if (settings[relation.of] >= least) continue;
    const values = names.map((name) => settings[name]);
    const text = `${relationText(relation)}: current values are ${values.slice(0, -1).join(", ")} and ${values.at(-1)}`;
    problems.push({ code: "relation", relation, values, text });
  }
  return problems;
}

/** The settings as they are now. Wrong ones are reported, and the defaults of all are used, since they relate. */
export async function readSettings(sql: Db): Promise<Settings> {
  return checked(await readStored(sql));
}

/** The same of rows that were read along with something else: name and value. */
export function settingsOf(rows: Record<string, unknown> | null): Settings {
  return checked(completed(Object.entries(rows ?? {})));
}

function checked(settings: Settings): Settings {
  const problems = problemsIn(settings);
  for (const problem of problems) observe("settings.problem", { problem: problem.text });
  return problems.length === 0 ? settings : DEFAULT_SETTINGS;
}

/** A setting as it is stored, with its bounds: for people. */
export interface SettingView {
  name: keyof Settings;
  value: unknown;
  default: number | string;
  /** Of a number. */
  least: number | null;
  most: number | null;
  /** Of one that is no number: all it can be. */
  choices: readonly string[] | null;
  about: string;
  /** Null: it was never changed. */
  updated_at: Date | null;
  updated_by: string | null;
}

/** All of them, also those that were never changed. */
export async function listSettings(sql: Db): Promise<SettingView[]> {
  const rows = await sql<{ name: string; value: unknown; updated_at: Date; updated_by: string }[]>`
    select name, value, updated_at, updated_by from scheduler_settings`;
  return (Object.keys(DEFAULT_SETTINGS) as (keyof Settings)[]).map((name) => {
    const { value = DEFAULT_SETTINGS[name], updated_at = null, updated_by = null } = rows.find((row) =>
      row.name === name
    ) ?? {};
    const number: NumberSetting | undefined = NUMBER_SETTINGS[name as NumberName];
    const word = CHOICES[name as keyof typeof CHOICES];
    return {
      name,
      value,
      default: DEFAULT_SETTINGS[name],
      least: number?.least ?? null,
      most: number?.most ?? null,
      choices: word?.choices ?? null,
      about: number?.about ?? word?.about ?? "",
      updated_at,
      updated_by,
    };
  });
}

/** As the rows have them, right or wrong. */
async function readStored(sql: Db): Promise<Settings> {
  const rows = await sql<{ name: string; value: unknown }[]>`select name, value from scheduler_settings`;
  return completed(rows.map(({ name, value }) => [name, value]));
}

function completed(stored: [string, unknown][]): Settings {
  return {
    ...DEFAULT_SETTINGS,
    ...Object.fromEntries(stored.filter(([name]) => Object.hasOwn(DEFAULT_SETTINGS, name))),
  };
}

/** New values by name; null: back to the default, whatever that will be. */
export type SettingsChange = { [Name in keyof Settings]?: Settings[Name] | null };

/**
 * Stores some settings, with an audit row for each that differs, or refuses all of them and says why. Gives the names of
 * those that changed. One change after another, since each is checked against all that stands there.
 * @throws RangeError
 */
export async function changeSettings(
  sql: Sql,
  change: SettingsChange,
  by: { actor: string; reason?: string },
): Promise<string[]> {
  const usual = json(sql, DEFAULT_SETTINGS);
  return await sql.begin(async (tx) => {
    await tx`lock table scheduler_settings in share row exclusive mode`;
    const problems = problemsWith(await readStored(tx), change);
    if (problems.length > 0) {
      throw new RangeError(`Cannot change settings: ${problems.map(({ text }) => text).join("; ")}`);
    }
    const rows = await tx<{ name: string }[]>`
      with change as (select key as name, nullif(value, 'null') as value from jsonb_each(${json(tx, change)})),
      differs as (
        select name, change.value, old.value as old from change left join scheduler_settings old using (name)
         where change.value is distinct from old.value),
      stored as (
        insert into scheduler_settings (name, value, updated_by)
        select name, value, ${by.actor} from differs where value is not null
        on conflict (name) do update set value = excluded.value, updated_by = excluded.updated_by, updated_at = clock_timestamp()),
      reset as (delete from scheduler_settings s using differs where s.name = differs.name and differs.value is null)
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${by.actor}, case when value is null then 'settings.reset' else 'settings.change' end, 'setting', name,
             coalesce(old, ${usual}::jsonb->name), coalesce(value, ${usual}::jsonb->name), ${by.reason ?? null}
        from differs returning target_id as name, pg_notify('scheduler', 'settings')`;
    return rows.map(({ name }) => name);
  });
}

/** What would be wrong after a change; empty when it can be made. */
export async function problemsAfter(sql: Db, change: SettingsChange): Promise<SettingProblem[]> {
  return problemsWith(await readStored(sql), change);
}

function problemsWith(stored: Settings, change: SettingsChange): SettingProblem[] {
  const unknown = Object.keys(change).filter((name) => !Object.hasOwn(DEFAULT_SETTINGS, name));
  const given = Object.entries(change).map(([name, value]) => [
    name,
    value ?? DEFAULT_SETTINGS[name as keyof Settings],
  ]);
  return [
    ...unknown.map((name) => ({ code: "unknown" as const, name, text: `${name} is no setting` })),
    ...problemsIn({ ...stored, ...Object.fromEntries(given) }),
  ];
}
