/**
 * What a sync would change: stored definitions and described files -> a plan for people, and the rows to store. Pure.
 *
 * A schedule that is new, or fires at other times than before, counts from now: nothing is made up for the past. One
 * whose times are the same goes on from its last slot, whatever else about it changed, excluded days among it: what is
 * excluded now is not made up for either.
 */
import { kindStored } from "../schedule_kinds/kinds.ts";
import type { Json, Permissions } from "../job.ts";
import type {
  DefinitionSetting,
  SavedDefinition,
  SavedSchedule,
  ScheduleSetting,
  StoredDefinition,
} from "../definitions/definition_rows.ts";
import type { Override } from "../definitions/override_rows.ts";
import type { GoingBack } from "../definitions/syncs.ts";
import type { DescribedJob } from "./describe.ts";
import { shortestDistance } from "../schedules/jitter.ts";
import type { JobFile } from "./job_files.ts";
import type { ArgsMisfits } from "./misfits.ts";
import type { JournalsInFlight, RecordedName } from "../steps/journals_in_flight.ts";
import { asFiled, asWritten, fileValue, withOverrides } from "../job_options/overridable.ts";
import { nextSlots, previewWarnings } from "../schedules/calendar.ts";

/** A job file with the digest of its graph; `job` is left out when the digest is the one that is stored. */
export interface FileState {
  file: JobFile;
  digest: string;
  /** All files of its code. */
  code: readonly string[];
  job?: DescribedJob;
}

export interface FieldChange {
  field: string;
  before: Json;
  after: Json;
}

export interface ScheduleChange {
  schedule_id: string;
  change: "added" | "changed" | "removed" | "unchanged";
  /** What it says, in words; null: it was not there, or will not be. */
  before: string | null;
  after: string | null;
  /** The next five slots, ISO 8601 in UTC. */
  fires_before: string[];
  fires_after: string[];
}

export interface PermissionGain {
  permission: string;
  /** What it is for, such as a host; "*" is everything. */
  what: string;
  /** It breaks the sandbox open. */
  unsafe: boolean;
}

export interface JobChange extends ArgsMisfits {
  name: string;
  file: string;
  description: string;
  /** Its file was gone and is back. */
  returns: boolean;
  /** Empty for a job that is new. */
  fields: FieldChange[];
  schedules: ScheduleChange[];
  permissions_gained: PermissionGain[];
  /** Runs of it that have not started, and will start with what is new. */
  waiting_runs: number;
  /** The code that its file has was stored before, and other code since then. */
  goes_back?: Pick<GoingBack, "stored" | "earlier">;
  /** What runs under way have recorded with other code. */
  journals?: JobJournals;
}

export interface JobJournals extends JournalsInFlight, Pick<DefinitionSetting, "on_change"> {
  /** Names that do not stand in the new code. */
  gone: RecordedName[];
}

export interface PlanWarning {
  job: string;
  warning: string;
}

/** What an operator has set beside the file (`deno task jobs set`): it stays. */
export interface KeptOverride {
  job: string;
  name: string;
  /** What the file says; null: it has no such schedule. */
  file_value: Json;
  value: Json;
  set_at: Date;
  set_by: string;
  reason: string;
}

export interface Plan {
  added: JobChange[];
  changed: JobChange[];
  removed: JobChange[];
  unchanged: string[];
  warnings: PlanWarning[];
  overrides: KeptOverride[];
}

/** The rows that a plan comes down to. */
export interface Changes {
  save: SavedDefinition[];
  schedules: SavedSchedule[];
  remove: string[];
  /** What files say now where operators have set something else. */
  file_values: Pick<Override, "job_definition_id" | "name" | "file_value">[];
  /** Definitions whose waiting runs the plan counts. */
  touched: Map<string, number>;
}

const FIRES_SHOWN = 5;
const WARN_AHEAD = Temporal.Duration.from({ hours: 366 * 24 });

/** What is stored. */
export interface StoredState {
  definitions: StoredDefinition[];
  overrides: Override[];
}

/** Makes the plan. @throws Error when a file without a description is not the one that is stored: read everything again. */
export function makePlan(
  { definitions: stored, overrides }: StoredState,
  files: FileState[],
  now: Temporal.Instant,
): { plan: Plan; changes: Changes } {
  const plan: Plan = { added: [], changed: [], removed: [], unchanged: [], warnings: [], overrides: [] };
  const changes: Changes = { save: [], schedules: [], remove: [], file_values: [], touched: new Map() };
  const by_id = Map.groupBy(overrides, (one) => one.job_definition_id);
  const by_name = new Map(stored.map((definition) => [definition.name, definition]));
  for (const { file, digest, job } of files) {
    const old = by_name.get(file.name);
    if (!job && old?.digest !== digest) throw new Error(`Cannot plan "${file.name}": it was not described`);
    const own = old ? by_id.get(old.id) ?? [] : [];
    const noted = job ? own.map((one) => ({ ...one, file_value: fileValue(rowsOfFile(job), one) })) : own;
    plan.overrides.push(...noted.map((one) => keptOverride(file.name, one)));
    if (!job) {
      plan.unchanged.push(file.name);
      continue;
    }
    const change = changeOf(job, old, { overrides: own, now });
    plan.warnings.push(...warningsOf(job, now).map((warning) => ({ job: file.name, warning })));
    if (old && !change.returns && change.fields.length === 0 && change.schedules.every(isUnchanged)) {
      plan.unchanged.push(file.name);
      continue;
    }
    (old && !change.returns ? plan.changed : plan.added).push(change);
    if (old) changes.touched.set(old.name, old.id);
    const { schedules, ...definition } = withOverrides({ enabled: true, ...rowsOfFile(job) }, own);
    plan.warnings.push(...clashesOf(schedules, job.schedules, now).map((warning) => ({ job: file.name, warning })));
    const { enabled: enable, ...setting } = definition;
    changes.save.push({ ...setting, enable });
    changes.schedules.push(...schedules.map((schedule) => savedSchedule(file.name, schedule, { old, now })));
    changes.file_values.push(...noted);
  }
  const kept = new Set(files.map(({ file }) => file.name));
  for (const old of stored) {
    if (old.removed_at || kept.has(old.name)) continue;
    plan.removed.push(removalOf(old, now));
    changes.remove.push(old.name);
    changes.touched.set(old.name, old.id);
  }
  if (files.length === 0 && plan.removed.length > 0) {
    plan.warnings.push({ job: "", warning: "the jobs folder holds no job: every definition would be switched off" });
  }
  return { plan, changes };
}

/** Whether a plan changes anything. */
export function isDrift(plan: Plan): boolean {
  return plan.added.length + plan.changed.length + plan.removed.length > 0;
}

/** The words for a schedule: `daily at 02:30 Asia/Tokyo`. */
export function scheduleText(schedule: ScheduleSetting): string {
  const { schedule_type, schedule_value, timezone } = schedule;
  const kind = kindStored(schedule_type);
  const times = kind.text.en(schedule_value);
  const { misfire, dst_gap, dst_overlap, exclude, jitter_seconds, args_json } = schedule;
  const within = misfire.policy === "all" && misfire.within_seconds !== null
    ? ` within ${misfire.within_seconds} s`
    : "";
  return [
    "every_ms" in kind.times(schedule_value) ? times : `${times} ${timezone}`,
    misfire.policy === "all" ? `misfire all${within}, at most ${misfire.max}` : `misfire ${misfire.policy}`,
    ...(dst_gap === "after" ? [] : [`gap ${dst_gap}`]),
    ...(dst_overlap === "first" ? [] : [`overlap ${dst_overlap}`]),
    ...(exclude.length === 0 ? [] : [`not on ${listText(exclude)}`]),
    ...(jitter_seconds === 0 ? [] : [`jitter ${jitter_seconds} s`]),
    ...(Object.keys(args_json).length === 0 ? [] : [`args ${JSON.stringify(args_json)}`]),
  ].join(", ");
}

function listText(days: readonly string[]): string {
  return days.length > 5 ? `${days.slice(0, 4).join(" ")} and ${days.length - 4} more` : days.join(" ");
}

/** The rows that a file asks for. */
function rowsOfFile({ definition, schedules }: DescribedJob): DefinitionSetting & { schedules: ScheduleSetting[] } {
  return { ...definition, schedules };
}

function keptOverride(job: string, one: Override): KeptOverride {
  const { name, value, file_value, set_at, set_by, reason } = one;
  const written = file_value && asWritten(name, file_value);
  return { job, name, file_value: written, value: asWritten(name, value), set_at, set_by, reason };
}

function changeOf(
  job: DescribedJob,
  old: StoredDefinition | undefined,
  on: { overrides: Override[]; now: Temporal.Instant },
): JobChange {
  const { definition } = job;
  const filed = old && asFiled(old, on.overrides);
  return {
    name: definition.name,
    file: definition.command_name,
    description: definition.description,
    returns: old !== undefined && old.removed_at !== null,
    fields: filed ? fieldChanges(filed, definition) : [],
    schedules: scheduleChanges(filed, job.schedules, {
      now: on.now,
      held: old?.schedules ?? [],
      holds: withOverrides(rowsOfFile(job), on.overrides).schedules,
    }),
    permissions_gained: permissionsGained(old?.removed_at ? {} : old?.permissions ?? {}, definition.permissions),
    waiting_runs: 0,
  };
}

function removalOf(old: StoredDefinition, now: Temporal.Instant): JobChange {
  return {
    name: old.name,
    file: old.command_name,
    description: old.description,
    returns: false,
    fields: [],
    schedules: scheduleChanges(old, [], { now, held: old.schedules, holds: [] }),
    permissions_gained: [],
    waiting_runs: 0,
  };
}

const SHOWN_DIGEST = 12;

function fieldChanges(old: StoredDefinition, definition: DefinitionSetting): FieldChange[] {
  const changes: FieldChange[] = [];
  for (const field of Object.keys(definition) as (keyof DefinitionSetting)[]) {
    const [before, after] = [old[field] as Json, definition[field] as Json];
    if (sameJson(before, after) || OWN_LINES.includes(field)) continue;
    changes.push(
      field === "digest"
        ? { field: "code", before: old.digest.slice(0, SHOWN_DIGEST), after: definition.digest.slice(0, SHOWN_DIGEST) }
        : { field, before, after },
    );
  }
  return [...changes, ...messageChanges(old, definition), ...afterChange(old, definition)];
}

/** Told by the names that they have in a file. */
const OWN_LINES: readonly string[] = ["messages", "after_jobs", "after_when"];

function messageChanges({ messages: old }: StoredDefinition, { messages }: DefinitionSetting): FieldChange[] {
  return [...new Set([...Object.keys(old), ...Object.keys(messages)])].flatMap((name) => {
    const [before, after] = [old[name] ?? null, messages[name] ?? null].map((one) => one as Json);
    return sameJson(before, after) ? [] : [{ field: `messages.${name}`, before: before!, after: after! }];
  });
}

function afterChange(old: StoredDefinition, definition: DefinitionSetting): FieldChange[] {
  const [before, after] = [old, definition].map(({ after_jobs: jobs, after_when: when }): Json =>
    jobs.length === 0 ? null : { jobs, when }
  );
  return sameJson(before, after) ? [] : [{ field: "after", before: before!, after: after! }];
}

/** Both as files say it; `held` and `holds`: what did and will count, which operators may have set otherwise. */
function scheduleChanges(
  old: StoredDefinition | undefined,
  schedules: ScheduleSetting[],
  on: { now: Temporal.Instant; held: ScheduleSetting[]; holds: ScheduleSetting[] },
): ScheduleChange[] {
  const before = new Map((old?.removed_at ? [] : old?.schedules ?? []).map((one) => [one.schedule_id, one]));
  const after = new Map(schedules.map((one) => [one.schedule_id, one]));
  return [...new Set([...after.keys(), ...before.keys()])].map((schedule_id) => {
    const [was, is] = [before.get(schedule_id), after.get(schedule_id)];
    const named = (list: ScheduleSetting[]) => list.find((one) => one.schedule_id === schedule_id) as ScheduleSetting;
    const fires_before = was ? fires(named(on.held), on.now) : [];
    return {
      schedule_id,
      change: !was ? "added" : !is ? "removed" : sameSchedule(was, is) ? "unchanged" : "changed",
      before: was ? scheduleText(was) : null,
      after: is ? scheduleText(is) : null,
      fires_before,
      fires_after: !is
        ? []
        : was && sameTimes(named(on.held), named(on.holds))
        ? fires_before
        : fires(named(on.holds), on.now),
    };
  });
}

/** The next slots, or none when the row cannot be read, e.g. since its zone is not known here: a plan must not fail on what it replaces. */
function fires(schedule: ScheduleSetting, now: Temporal.Instant): string[] {
  try {
    return nextSlots(schedule, { after: now, count: FIRES_SHOWN }).map((slot) => slot.toString());
  } catch {
    return [];
  }
}

function savedSchedule(
  job_name: string,
  { enabled, ...schedule }: ScheduleSetting & { enabled?: boolean },
  on: { old: StoredDefinition | undefined; now: Temporal.Instant },
): SavedSchedule {
  const was = on.old?.schedules.find((one) => one.schedule_id === schedule.schedule_id);
  const returns = was === undefined || on.old?.removed_at !== null;
  const saved = { ...schedule, job_name, enable: returns && enabled !== false };
  if (was && !returns && sameTimes(was, schedule)) return saved;
  const goes_on = was && !returns && sameTimes({ ...was, exclude: schedule.exclude }, schedule);
  const last_slot = goes_on ? was.last_slot : on.now;
  const next_slot = nextSlots(schedule, { after: last_slot, count: 1 })[0] ?? null;
  return { ...saved, starts: { last_slot, next_slot } };
}

const TIMES = ["schedule_type", "schedule_value", "timezone", "dst_gap", "dst_overlap", "exclude"] as const;

function sameTimes(a: ScheduleSetting, b: ScheduleSetting): boolean {
  return TIMES.every((column) => sameJson(a[column], b[column]));
}

function sameSchedule(a: ScheduleSetting, b: ScheduleSetting): boolean {
  return sameTimes(a, b) && a.jitter_seconds === b.jitter_seconds && sameJson(a.misfire, b.misfire) &&
    sameJson(a.args_json, b.args_json);
}

function isUnchanged(schedule: ScheduleChange): boolean {
  return schedule.change === "unchanged";
}

function warningsOf(job: DescribedJob, now: Temporal.Instant): string[] {
  const clocks = job.schedules.flatMap((schedule) =>
    previewWarnings(schedule, { after: now, until: now.add(WARN_AHEAD), most: 2 })
      .map((warning) => `schedule "${schedule.schedule_id}": ${warning.message}`)
  );
  return [...job.warnings, ...clocks];
}

/** The times that an operator has set were checked against the jitter and the days off of another file: what this one says may not go with them. */
function clashesOf(schedules: ScheduleSetting[], filed: ScheduleSetting[], now: Temporal.Instant): string[] {
  return schedules.flatMap((schedule, place) => {
    const { schedule_id, jitter_seconds } = schedule;
    if (sameTimes(schedule, filed[place] as ScheduleSetting)) return [];
    const set = `schedule "${schedule_id}": at the times that an operator has set, ${scheduleText(schedule)},`;
    if (nextSlots(schedule, { after: now, count: 1 }).length === 0) return [`${set} it never comes`];
    return jitter_seconds > 0 && jitter_seconds * 1000 >= shortestDistance(schedule, now)
      ? [`${set} the jitter is not shorter than the time between two fires: its runs may start out of their order`]
      : [];
  });
}

function permissionsGained(before: Permissions, after: Permissions): PermissionGain[] {
  const had = new Set(permissionList(before).map(({ permission, what }) => `${permission} ${what}`));
  return permissionList(after).filter(({ permission, what }) =>
    !had.has(`${permission} ${what}`) && !had.has(`${permission} *`)
  );
}

function permissionList(permissions: Permissions): PermissionGain[] {
  const { unsafe, ...safe } = permissions;
  const list = (granted: object, is_unsafe: boolean) =>
    Object.entries(granted as Record<string, readonly string[] | true>).flatMap(([permission, what]) =>
      (what === true ? ["*"] : what).map((one) => ({ permission, what: one, unsafe: is_unsafe }))
    );
  return [...list(safe, false), ...list(unsafe ?? {}, true)];
}

/** Equal as JSON: the order of an object's keys says nothing (jsonb does not keep it), and undefined is absent. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [one, other] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].every((key) => sameJson(one[key], other[key]));
}
