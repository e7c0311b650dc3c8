/**
 * Live settings: rows of `scheduler_settings`, read again every few seconds by each process, so that a change needs no
 * restart. A row that is missing means the default below; a row that is wrong is reported and the default used.
 * What a process needs before it can reach Postgres is in base/config.ts.
 */
import { observe } from "../base/facts.ts";
import { type Db, json, type Sql } from "./db.ts";

interface NumberSetting {
  default: number;
  least: number;
  most: number;
  about: string;
}

/** Each number with its bounds; the unit is the last part of the name. */
export const NUMBER_SETTINGS = {
  leader_tick_seconds: { default: 1, least: 0.05, most: 60, about: "The leader looks for work at least this often" },
  leader_lease_seconds: {
    default: 3,
    least: 0.3,
    most: 60,
    about: "A leader that is silent this long has lost its term",
  },
  leader_stale_seconds: {
    default: 5,
    least: 0.5,
    most: 60,
    about: "Redis away this long: candidates go straight to Postgres",
  },
  heartbeat_interval_seconds: { default: 1, least: 0.05, most: 60, about: "How often a worker reports to Redis" },
  heartbeat_ttl_seconds: { default: 5, least: 0.5, most: 300, about: "A report older than this is gone" },
  worker_lease_seconds: {
    default: 30,
    least: 2,
    most: 600,
    about: "A worker unheard by Postgres this long is dead, and its runs go elsewhere",
  },
  worker_renew_seconds: { default: 5, least: 0.2, most: 120, about: "How often a worker renews its lease" },
  worker_margin_seconds: {
    default: 5,
    least: 4, // the guard of bodies strikes 3 s after the last word of its worker
    most: 120,
    about: "A worker stops its bodies this long before its lease ends",
  },
  reassign_after_seconds: {
    default: 10,
    least: 0.5,
    most: 3600,
    about: "An assigned run that has not started by then is given to another worker",
  },
  suspect_seconds: {
    default: 10,
    least: 0.2,
    most: 600,
    about: "A worker whose calls fail gets no work this long, doubled with each failure",
  },
  assign_ahead_seconds: {
    default: 1,
    least: 0,
    most: 5,
    about: "A run whose time is known is given to a free worker so long before, which loads its process; 0: not before",
  },
  worker_detach_grace_seconds: {
    default: 5,
    least: 0.5,
    most: 600,
    about: "A worker whose calls and heartbeat have both failed this long is detached",
  },
  continuation_retry_count: {
    default: 3,
    least: 1,
    most: 100,
    about: "So often a worker that cannot renew its lease asks leader and subleaders, before it pauses",
  },
  continuation_retry_interval_seconds: {
    default: 0.3,
    least: 0.05,
    most: 60,
    about: "The pause between two such questions",
  },
  max_jobs_per_worker: {
    default: 10,
    least: 1,
    most: 1000,
    about: "Bodies that a worker runs at once, unless SCHEDULER_SLOTS says otherwise",
  },
  spare_processes: {
    default: 4,
    least: 0,
    most: 100,
    about: "Loaded processes that a worker keeps ready for its next bodies",
  },
  skip_late_runs_after_seconds: {
    default: 3600,
    least: 0,
    most: 31_536_000,
    about: "A run of a schedule this late is SKIPPED; 0: never",
  },
  drain_grace_seconds: {
    default: 30,
    least: 0,
    most: 86_400,
    about: "A worker told to stop lets its bodies go on this long",
  },
  node_check_seconds: { default: 300, least: 0.1, most: 86_400, about: "An available node is checked this often" },
  node_retry_seconds: {
    default: 60,
    least: 0.1,
    most: 86_400,
    about: "One whose check failed is checked again so soon",
  },
  node_retry_count: { default: 3, least: 0, most: 1000, about: "So many times, and then every node_recheck_seconds" },
  node_recheck_seconds: {
    default: 30,
    least: 0.1,
    most: 86_400,
    about: "How often a node is checked that stays away, until it is back",
  },
  node_script_seconds: {
    default: 10,
    least: 0.1,
    most: 300,
    about: "A script in SCHEDULER_CHECKS_DIR that takes longer has failed",
  },
  node_max_load_percent: {
    default: 0,
    least: 0,
    most: 100_000,
    about: "A node whose load average per core is above this is busy and gets no new work; 0: never",
  },
  node_min_free_disk_mb: {
    default: 100,
    least: 0,
    most: 1_000_000_000,
    about: "A node with less room where its workers keep their state is unavailable; 0: never",
  },
  stat_interval_seconds: {
    default: 10,
    least: 0.2,
    most: 300,
    about: "How often the leader counts what ended, looks at what waits and judges alerts",
  },
  stat_minute_days: {
    default: 8,
    least: 1,
    most: 400,
    about: "Statistics by the minute and by ten are kept this long",
  },
  stat_hour_days: { default: 400, least: 8, most: 4000, about: "Statistics by the hour and alerts are kept this long" },
  alert_overdue_seconds: {
    default: 300,
    least: 1,
    most: 604_800,
    about: "Work that may start and has been due this long is overdue",
  },
  alert_no_leader_seconds: { default: 30, least: 1, most: 86_400, about: "Nobody leading this long is an alert" },
  alert_certificate_days: {
    default: 14,
    least: 0,
    most: 365,
    about: "A certificate that is good for fewer days is an alert",
  },
  alert_clock_skew_seconds: {
    default: 2,
    least: 0.1,
    most: 3600,
    about: "A clock that differs more from the database's is an alert",
  },
} as const satisfies Record<string, NumberSetting>;

export const DISPATCH = ["running", "paused"] as const;
export const LEADER_RUNS_JOBS = ["never", "alone", "always"] as const;

export type Settings = { [K in keyof typeof NUMBER_SETTINGS]: number } & {
  /** Whether the leader runs bodies itself: never, only for runs that no other worker's node can serve, or always. */
  leader_runs_jobs: typeof LEADER_RUNS_JOBS[number];
  /** `paused`: no waiting run is given to a worker, whatever its job. */
  dispatch: typeof DISPATCH[number];
};

export const DEFAULT_SETTINGS: Settings = {
  ...Object.fromEntries(Object.entries(NUMBER_SETTINGS).map(([name, setting]) => [name, setting.default])) as {
    [K in keyof typeof NUMBER_SETTINGS]: number;
  },
  leader_runs_jobs: "alone",
  dispatch: "running",
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

/** Only time can be divided: what is counted, in slots, tries, days or megabytes, is whole. */
export function isWhole(name: string): boolean {
  return Object.hasOwn(NUMBER_SETTINGS, name) && !name.endsWith("_seconds");
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
  for (const [name, choices] of [["leader_runs_jobs", LEADER_RUNS_JOBS], ["dispatch", DISPATCH]] as const) {
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

const CHOICES = {
  leader_runs_jobs: {
    choices: LEADER_RUNS_JOBS,
    about:
      "Whether the leader runs bodies itself: never, alone (only runs that no other worker will ever take: it is the only one, or the only one of the node they ask for), or always",
  },
  dispatch: { choices: DISPATCH, about: "paused: no waiting run is given to a worker, whatever its job" },
};

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
