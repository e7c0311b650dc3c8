/** Options of a job that are set beside its file, and reset: from the command line and the API. */
import { asWritten, type JobOption, optionsOf } from "../job_options/overridable.ts";
import { type OverrideAnswer, resetOverrides, setOverrides } from "../sync/overrides.ts";
import { wordLike } from "../platform/shown.ts";
import { complaintLine } from "../job_options/complaint.ts";
import type { Json } from "../job.ts";
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { readDefinition, readDefinitions } from "../definitions/definition_rows.ts";
import { readOverrides } from "../definitions/override_rows.ts";
import { Refused } from "./args.ts";
import { z } from "zod";
import { action, anyJson, jobName, text } from "./action.ts";

/** One option, in the words of a job file. */
export interface Changed {
  name: string;
  before: Json;
  value: Json;
  file_value: Json;
}

/** All that can be set beside the file, as it holds, with what the file says. @throws Refused when there is no such job. */
export async function jobOptions(sql: Sql, name: string): Promise<JobOption[]> {
  const definition = await readDefinition(sql, name);
  if (!definition) throw await noSuchJob(sql, name);
  return optionsOf(definition, await readOverrides(sql, definition.id));
}

/** Sets all of them or none; they hold until they are reset. @throws Refused with every problem. */
async function setJobOptions(
  sql: Sql,
  name: string,
  values: { readonly [option: string]: Json },
  by: Actor,
): Promise<Changed[]> {
  return await changedBy(sql, { verb: "set", name }, await setOverrides(sql, name, values, by));
}

/** What the file says holds again. "schedule.nightly" means all of that schedule. @throws Refused with every problem. */
async function resetJobOptions(
  sql: Sql,
  name: string,
  names: readonly string[] | "all",
  by: Actor,
): Promise<Changed[]> {
  return await changedBy(sql, { verb: "reset", name }, await resetOverrides(sql, name, names, by));
}

async function changedBy(
  sql: Sql,
  { verb, name }: { verb: "set" | "reset"; name: string },
  answer: OverrideAnswer | undefined,
): Promise<Changed[]> {
  if (!answer) throw await noSuchJob(sql, name);
  if (!answer.ok) {
    const { complaints } = answer;
    const said = complaints.map(complaintLine).join("\n  ");
    throw new Refused(`Cannot ${verb} this of job "${name}": ${said}`, { says: { code: "options", complaints } });
  }
  return answer.changed.map(({ name: option, before, value, file_value }) => {
    const written = (columns: typeof value) => columns && asWritten(option, columns);
    return { name: option, before: written(before), value: written(value), file_value: written(file_value) };
  });
}

/** Refuses a name that no job has or had. */
export async function existingJob(sql: Sql, name: string): Promise<void> {
  if (!await readDefinition(sql, name)) throw await noSuchJob(sql, name);
}

/** Says which one it might be. */
export async function noSuchJob(sql: Sql, name: string): Promise<Refused> {
  const like = wordLike(name, (await readDefinitions(sql)).map((job) => job.name));
  const hint = like ? `did you mean "${like}"?` : "see `deno task jobs ls`";
  return new Refused(`Cannot find job "${name}": none of that name was ever synced; ${hint}`, {
    why: "not_found",
    says: { code: "none", what: name },
  });
}

const optionName = text(200).meta({ example: "schedule.nightly.dailyAt" });

export const setOptions = action({
  name: "job.set",
  does: "set options of a job beside its file, all or none; they hold until they are reset, whatever is synced",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    name: jobName,
    values: z.record(optionName, anyJson).meta({
      description: "As a job's file has them; null: none of it",
      example: { priority: "admin.high", "retry.max": 5, "schedule.nightly.dailyAt": "03:00" },
    }),
  }),
  audit: ["job.set"],
  run: ({ sql, by }, { name, values }) => setJobOptions(sql, name, values as Record<string, Json>, by),
});

export const resetOptions = action({
  name: "job.reset",
  does: "let what the file says hold again, of some options or of all",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    name: jobName,
    names: z.array(optionName).min(1).meta({ description: "Without it all that are set" }).optional(),
  }),
  audit: ["job.reset"],
  run: ({ sql, by }, { name, names }) => resetJobOptions(sql, name, names ?? "all", by),
});
