/** `jobs`: what each job is, and options of it that are set beside its file (sync/overrides.ts). */
import { askedBy, type JobOption, optionsOf } from "../../job_options/overridable.ts";
import { commitText } from "../../sync/confirmation.ts";
import { kindNamed } from "../../schedule_kinds/kinds.ts";
import { scheduleText } from "../../sync/plan.ts";
import { noSuchJob, resetOptions, setOptions } from "../../actions/job_actions.ts";
import type { Json } from "../../job.ts";
import {
  readDefinition,
  readDefinitions,
  readFollowers,
  type StoredDefinition,
} from "../../definitions/definition_rows.ts";
import { type JobView, listJobs } from "../../runs/job_view.ts";
import { readOverrides } from "../../definitions/override_rows.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { printArgs, printMessages } from "./args_table.ts";
import { CommandError, EXIT, pausedText, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { timeText } from "../times.ts";

export async function listCommand(options: JsonOption & { all?: boolean }): Promise<void> {
  const [views, definitions] = await withDb(async (sql) => [await listJobs(sql), await readDefinitions(sql)] as const);
  const jobs = views.filter((job) => options.all || job.removed_at === null);
  if (options.json) return printJson(jobs);
  const starts = new Map(definitions.map((one) => [one.name, startsText(one)]));
  printTable(
    ["job", "state", "priority", "waiting", "running", "starts", "next", "overrides"],
    jobs.map((job) => [
      job.name,
      stateText(job),
      job.priority,
      job.waiting,
      job.running,
      starts.get(job.name),
      job.next_slot,
      job.overrides || null,
    ]),
    "no job is synced; create one: deno task new NAME, then deno task sync",
  );
}

export async function showCommand(name: string, options: JsonOption): Promise<void> {
  await withDb(async (sql) => {
    const [job] = await listJobs(sql, name);
    const definition = await readDefinition(sql, name);
    if (!job || !definition) throw await noSuchJob(sql, name);
    const followers = await readFollowers(sql, name);
    const parts = optionsOf(definition, await readOverrides(sql, definition.id));
    const asked = askedBy(definition);
    if (options.json) {
      const file = Object.fromEntries(asked);
      const { args_schema, messages, after_jobs, after_when, on_change, deadline_seconds } = definition;
      return printJson({
        ...job,
        schedules: definition.schedules.map(scheduleView),
        args_schema,
        messages,
        after_jobs,
        after_when,
        followers,
        on_change,
        deadline_seconds,
        options: parts,
        file,
      });
    }
    say(`${job.name}: ${job.description || "no description"}`);
    say(
      `  ${job.command_name}, ${stateText(job)}, ${job.waiting} waiting, ${job.running} running${
        job.suspended > 0 ? `, ${job.suspended} suspended` : ""
      }`,
    );
    say(`  starts ${startsText(definition)}${job.next_slot ? `; next ${timeText(job.next_slot)}` : ""}`);
    say(`  ${syncedText(job)}`);
    for (const [name, text] of [...asked, ["permissions", permissionText(job)]]) {
      say(`  ${name}: ${text}`);
    }
    if (followers.length > 0) say(`  followed by: ${followers.join(", ")}`);
    say("");
    printArgs(definition.args_schema);
    printMessages(definition.messages);
    say("");
    printTable(
      ["option", "value", "in the file", "set by", "at", "reason"],
      parts.map(({ name, value, file_value, override }) => [
        name,
        valueText(value),
        override ? valueText(file_value ?? null) : null,
        override?.set_by,
        override?.set_at,
        override?.reason,
      ]),
      "",
    );
    if (parts.some((one) => one.override)) say(`\nremove an override: deno task jobs reset ${job.name} [OPTION]`);
  });
}

export async function setCommand(name: string, wishes: string[], options: Reasoned): Promise<void> {
  const values = wishesFrom(wishes);
  const changed = await act(setOptions, { name, values }, options);
  if (options.json) return printJson({ job: name, changed });
  if (changed.length === 0) {
    say(`nothing changed: these overrides are already set; see \`deno task jobs show ${name}\``);
  }
  for (const { name: option, before, value } of changed) {
    say(`${name}: ${option} ${valueText(before)} -> ${valueText(value)}, until it is reset`);
  }
}

export async function resetCommand(name: string, names: string[], options: Reasoned): Promise<void> {
  const changed = await act(resetOptions, { name, ...names.length > 0 && { names } }, options);
  if (options.json) return printJson({ job: name, changed });
  if (changed.length === 0) say("nothing to reset: the job has no overrides");
  for (const { name: option, before, file_value } of changed) {
    say(`${name}: ${option} ${valueText(before)} -> ${valueText(file_value)}, as the file says`);
  }
}

/** `["priority=120", "rate=60/60"]`: values are JSON where they can be, else texts; `none` clears. */
function wishesFrom(wishes: string[]): Record<string, Json> {
  const values: Record<string, Json> = {};
  for (const wish of wishes) {
    const [, name, text] = /^([^=]+)=(.*)$/s.exec(wish) ?? [];
    if (name === undefined || text === undefined) {
      throw new CommandError(`Cannot use "${wish}": write OPTION=VALUE, such as priority=admin.high`, EXIT.usage);
    }
    if (Object.hasOwn(values, name)) {
      throw new CommandError(`Cannot set ${name}: it is given twice; give each option once`, EXIT.usage);
    }
    values[name] = valueFrom(name, text);
  }
  return values;
}

function valueFrom(name: string, text: string): Json {
  if (text === "none") return null;
  const [, count, seconds = "1"] = name === "rate" ? /^(\d+)(?:\/(\d+(?:\.\d+)?))?$/.exec(text) ?? [] : [];
  if (count !== undefined) return { count: Number(count), seconds: Number(seconds) };
  if (name === "node") return text;
  const kind = name.startsWith("schedule.") ? kindNamed(name.slice(name.lastIndexOf(".") + 1)) : undefined;
  if (kind) return kind.typed(text);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function stateText(job: JobView): string {
  if (job.removed_at) return "removed";
  const parts = [...(job.enabled ? [] : ["off"]), ...(job.paused_at ? [pausedText(job)] : [])];
  return parts.join(", ") || "on";
}

function syncedText(job: JobView): string {
  const from = job.git_commit === null ? "" : ` from ${commitText(job)}`;
  const by = job.synced_by === null ? "" : ` by ${job.synced_by} on ${job.machine}`;
  return `synced ${timeText(job.synced_at)}${from}${by}`;
}

function permissionText({ permissions }: JobView): string {
  const { unsafe = {}, ...safe } = permissions;
  const all = [...Object.entries(safe), ...Object.entries(unsafe).map(([name, value]) => [`unsafe.${name}`, value])];
  return all.map(([name, value]) => `${name} ${value === true ? "anything" : value}`).join("; ") || "none";
}

function startsText({ schedules, event_types, after_jobs, after_when }: StoredDefinition): string {
  const times = schedules.map((one) => `${scheduleText(one).split(", ")[0]}${one.enabled ? "" : " (off)"}`);
  const events = event_types.map((type) => `on ${type}`);
  const after = after_jobs.length > 0 ? [`after ${after_jobs.join(", ")} (${after_when})`] : [];
  return [...times, ...events, ...after].join("; ") || "on demand";
}

function scheduleView({ id: _, last_slot, next_slot, ...schedule }: StoredDefinition["schedules"][number]) {
  return { ...schedule, last_slot: String(last_slot), next_slot: next_slot && String(next_slot) };
}

function valueText(value: JobOption["value"]): string {
  if (value === null || value === undefined) return "none";
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, one]) => `${key} ${typeof one === "object" ? JSON.stringify(one) : one}`)
    .join(", ");
}
