/**
 * Sets options of a job beside its file, and resets them: values are checked as those of a file are, and all is stored in
 * one transaction with its audit. The operator's value holds until it is reset, whatever the file says meanwhile; a sync
 * shows both (job_options/overridable.ts, plan.ts).
 */
import type { Json } from "../job.ts";
import type { Actor } from "../access/audit.ts";
import type { Sql, TransactionSql } from "../postgres/connection.ts";
import { KIND_OPTIONS, kindNamed } from "../schedule_kinds/kinds.ts";
import {
  changeDefinition,
  changeSchedule,
  type Columns,
  databaseNow,
  lockDefinitions,
  readDefinition,
  type SavedSchedule,
  type ScheduleSpec,
  type StoredDefinition,
  type StoredSchedule,
} from "../definitions/definition_rows.ts";
import { changeOverrides, type Override, type OverrideChange, readOverrides } from "../definitions/override_rows.ts";
import type { Complaint } from "../job_options/complaint.ts";
import { POLICY_NAMES, readOptions } from "../job_options/job_schema.ts";
import {
  asWritten,
  isOf,
  lastPart,
  OF_JOB,
  OF_SCHEDULE,
  ON,
  pick,
  prefixOf,
  type RowOptions,
  rowsOf,
  scheduleIdOf,
  storedName,
} from "../job_options/overridable.ts";
import { sameJson } from "./plan.ts";
import { shown, wordLike } from "../platform/shown.ts";
import { nextSlots } from "../schedules/calendar.ts";
import { type ParsedSchedule, parseSchedule } from "../job_options/schedule_options.ts";
import { whyInfeasible } from "../dispatch/feasibility.ts";

export type OverrideAnswer = { ok: true; changed: OverrideChange[] } | {
  ok: false;
  complaints: Complaint[];
};

/** Sets options of a job: all of them, audited, or none, with every problem. Undefined: there is no such job. */
export async function setOverrides(
  sql: Sql,
  job_name: string,
  wishes: { readonly [option: string]: Json },
  by: Actor,
): Promise<OverrideAnswer | undefined> {
  const { node } = wishes;
  const fixed = typeof node === "string" && !node.includes("{") && readOptions({ node }).ok ? [node] : [];
  const nowhere = await whyInfeasible(sql, { selectors: fixed, resources: {} });
  return await inTurn(sql, job_name, by, (on) => {
    const complaints: Complaint[] = [];
    const values = { ...jobValues(wishes, complaints), ...scheduleValues(wishes, on, complaints) };
    if (nowhere) complaints.push({ key: "node", ...nowhere });
    if (complaints.length > 0) return { ok: false, complaints };
    return { ok: true, changed: changesTo(values, on) };
  });
}

/** What the file says holds again: for these options, or for all. "schedule.nightly" means all of that schedule. */
export function resetOverrides(
  sql: Sql,
  job_name: string,
  names: readonly string[] | "all",
  by: Actor,
): Promise<OverrideAnswer | undefined> {
  return inTurn(sql, job_name, by, ({ overrides }) => {
    const known = overrides.map((one) => one.name);
    const meant = (one: string, name: string) => one === storedName(name) || one.startsWith(`${name}.`);
    const chosen = names === "all" ? known : known.filter((one) => names.some((name) => meant(one, name)));
    const missed = names === "all" ? [] : names.filter((name) => !known.some((one) => meant(one, name)));
    if (missed.length > 0) {
      const fix = known.length === 0 ? "nothing of this job is" : `what is: ${known.join(", ")}`;
      return {
        ok: false,
        complaints: missed.map((key) => ({
          key,
          reason: `${key} is not set beside the file`,
          fix,
          says: { code: "not_set" },
        })),
      };
    }
    return {
      ok: true,
      changed: overrides.filter((one) => chosen.includes(one.name)).map(({ name, value, file_value }) => ({
        name,
        before: value,
        value: null,
        file_value,
      })),
    };
  });
}

interface Stored {
  definition: StoredDefinition;
  overrides: Override[];
  now: Temporal.Instant;
}

const FILE_REMOVED: Complaint = {
  key: "",
  reason: "its file was removed",
  fix: "put it back and sync",
  says: { code: "file_removed" },
};

const DEADLOCK = "40P01";
const TRIES = 3;

/** One after another, also with syncs: what was read is still so when it is written. */
async function inTurn(
  sql: Sql,
  job_name: string,
  by: Actor,
  decide: (on: Stored) => OverrideAnswer,
): Promise<OverrideAnswer | undefined> {
  for (let attempt = 1;; attempt++) {
    try {
      return await sql.begin(async (tx: TransactionSql) => {
        await lockDefinitions(tx);
        const definition = await readDefinition(tx, job_name);
        if (!definition) return undefined;
        if (definition.removed_at) return { ok: false, complaints: [FILE_REMOVED] };
        const overrides = await readOverrides(tx, definition.id);
        const on = { definition, overrides, now: await databaseNow(tx) };
        const answer = decide(on);
        if (answer.ok && answer.changed.length > 0) await write(tx, answer.changed, on, by);
        return answer;
      }) as OverrideAnswer | undefined;
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK || attempt === TRIES) throw error; // with the leader, over slots
    }
  }
}

async function write(tx: TransactionSql, changed: OverrideChange[], on: Stored, by: Actor): Promise<void> {
  const { definition } = on;
  await changeOverrides(tx, definition, changed, by);
  const columns = columnsOf(changed.filter(({ name }) => name in OF_JOB));
  if (Object.keys(columns).length > 0) await changeDefinition(tx, definition.id, columns);
  for (const schedule of definition.schedules) {
    const own = { prefix: prefixOf(schedule), options: OF_SCHEDULE };
    const columns = columnsOf(changed.filter(({ name }) => isOf(own, name)));
    if (Object.keys(columns).length === 0) continue;
    const starts = "schedule_value" in columns || "timezone" in columns
      ? startsOf({ ...schedule, ...columns }, on.now)
      : undefined;
    await changeSchedule(tx, schedule.id, { columns, starts });
  }
}

function startsOf(schedule: ScheduleSpec, now: Temporal.Instant): NonNullable<SavedSchedule["starts"]> {
  return { last_slot: now, next_slot: nextSlots(schedule, { after: now, count: 1 })[0] ?? null };
}

function columnsOf(changed: OverrideChange[]): Columns {
  return Object.assign({}, ...changed.map(({ value, file_value }) => value ?? file_value ?? {}));
}

/** The changes that bring these values about; what is set to the same already is left out. */
function changesTo(values: Record<string, Columns>, { definition, overrides }: Stored): OverrideChange[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const old = overrides.find((one) => one.name === name);
    if (old && sameJson(old.value, value)) return [];
    const { row } = rowsOf(definition).find((one) => isOf(one, name)) as RowOptions;
    const before = pick(row, Object.keys(value));
    return [{ name, before, value, file_value: old ? old.file_value : name.endsWith("enabled") ? ON : before }];
  });
}

/** Null says that the job has none, where a file would leave it out. */
const CLEARED = ["rate", "node"];

function jobValues(wishes: { readonly [option: string]: Json }, complaints: Complaint[]): Record<string, Columns> {
  const values: Record<string, Columns> = {};
  for (const [name, wish] of Object.entries(wishes)) {
    if (name.startsWith("schedule.")) continue;
    const columns = OF_JOB[name];
    if (!Object.hasOwn(OF_JOB, name) || !columns) complaints.push(unknownOption(name));
    else if (name === "enabled") values[name] = { enabled: truth(name, wish, complaints) };
    else if (wish === null && !CLEARED.includes(name)) complaints.push(noValue(name));
    else if (name === "concurrency" && typeof wish === "object") {
      complaints.push({
        key: name,
        reason: "concurrency is one of the words here",
        fix: "set concurrency.limit for a limit",
        says: { code: "choice", words: POLICY_NAMES },
      });
    } else if (name === "rate" && typeof wish === "string") {
      complaints.push({
        key: name,
        value: wish,
        reason: `rate says how many may start in how many seconds: found ${shown(wish)}`,
        fix: "give both, such as 60/1 for 60 in each second",
        says: { code: "rate" },
      });
    } else {
      const read = readOptions(asInFile(name, wish));
      if (read.ok) values[name] = pick(read.columns, columns);
      else complaints.push(...read.complaints);
    }
  }
  return values;
}

/** The options of a file that would say this. */
function asInFile(name: string, wish: Json): Record<string, unknown> {
  const [option = "", part] = name.split(".");
  const value = wish ?? undefined;
  return { [option]: part === undefined ? value : { [part]: value } };
}

function scheduleValues(
  wishes: { readonly [option: string]: Json },
  on: Stored,
  complaints: Complaint[],
): Record<string, Columns> {
  const values: Record<string, Columns> = {};
  const asked = Object.entries(wishes).filter(([name]) => name.startsWith("schedule."));
  for (const [id, parts] of Map.groupBy(asked, ([name]) => scheduleIdOf(name))) {
    const schedule = on.definition.schedules.find((one) => one.schedule_id === id);
    if (!schedule) {
      const known = on.definition.schedules.map((one) => one.schedule_id);
      const ids = known.map((one) => `"${one}"`).join(", ");
      complaints.push({
        key: `schedule.${id}`,
        reason: `the job has no schedule "${id}"`,
        fix: ids === "" ? "it has none at all; add one in its file" : `it has ${ids}`,
        says: { code: "no_schedule", ids: known },
      });
      continue;
    }
    const given = Object.fromEntries(parts.map(([name, wish]) => [lastPart(name), wish]));
    Object.assign(values, oneSchedule(schedule, given, { complaints, now: on.now }));
  }
  return values;
}

function oneSchedule(
  schedule: StoredSchedule,
  given: Record<string, Json>,
  on: { complaints: Complaint[]; now: Temporal.Instant },
): Record<string, Columns> {
  const prefix = prefixOf(schedule);
  const values: Record<string, Columns> = {};
  const { enabled, timezone, ...times } = given;
  if (enabled !== undefined) {
    values[`${prefix}enabled`] = { enabled: truth(`${prefix}enabled`, enabled, on.complaints) };
  }
  const unknown = Object.keys(times).filter((word) => !kindNamed(word));
  on.complaints.push(...unknown.map((word) => unknownOption(`${prefix}${word}`)));
  if (unknown.length > 0 || (timezone === undefined && Object.keys(times).length === 0)) return values;
  const parsed = scheduleWith(schedule, given, { at: prefix, now: on.now });
  if (!parsed.ok) return on.complaints.push(...parsed.complaints), values;
  if (Object.keys(times).length > 0) values[`${prefix}time`] = pick(parsed.schedule, OF_SCHEDULE.time as string[]);
  if (timezone !== undefined) values[`${prefix}timezone`] = pick(parsed.schedule, ["timezone"]);
  return values;
}

/** What of a schedule that is stored says when it comes. */
export type StoredTimes = Omit<ScheduleSpec, "misfire">;

/**
 * A schedule at other times (`{ dailyAt: "02:30" }`), in another zone, or both, with all else that its file says of it: what
 * an override would make of it, or what is wrong with that.
 */
export function scheduleWith(
  schedule: StoredTimes,
  given: Record<string, Json>,
  on: { at?: string; now?: Temporal.Instant } = {},
): ParsedSchedule {
  const { enabled: _, timezone, ...times } = given;
  const { schedule_type, schedule_value } = schedule;
  const as_it_is = asWritten(".time", { schedule_type, schedule_value }) as Record<string, Json>;
  return parseSchedule({
    ...(Object.keys(times).length > 0 ? times : as_it_is),
    timezone: timezone ?? schedule.timezone,
    dst: { gap: schedule.dst_gap, overlap: schedule.dst_overlap },
    exclude: [...schedule.exclude],
    jitterSeconds: schedule.jitter_seconds,
  }, on);
}

function truth(name: string, wish: Json, complaints: Complaint[]): boolean {
  if (typeof wish !== "boolean") {
    complaints.push({
      key: name,
      reason: `${name} must be true or false: found ${shown(wish)}`,
      fix: "write one of them",
      says: { code: "truth" },
    });
  }
  return wish === true;
}

function noValue(name: string): Complaint {
  return {
    key: name,
    reason: `${name} cannot be none`,
    fix: "give a value, or reset it to what the file says",
    says: { code: "no_value" },
  };
}

function unknownOption(name: string): Complaint {
  const schedule = name.startsWith("schedule.");
  const words = schedule ? [...KIND_OPTIONS, "timezone", "enabled"] : Object.keys(OF_JOB);
  const like = wordLike(schedule ? lastPart(name) : name, words);
  const all = schedule
    ? `of a schedule these can be: ${words.join(", ")}`
    : `these can be: ${words.join(", ")}, and schedule.ID.dailyAt and the like`;
  return {
    key: name,
    reason: `${name} is nothing that can be set beside the file`,
    fix: like ? `did you mean ${schedule ? name.slice(0, name.lastIndexOf(".") + 1) : ""}${like}?` : all,
    says: { code: "unknown", words },
  };
}
