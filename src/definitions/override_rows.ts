/**
 * What operators have changed about jobs beside their files: the only file that changes `job_override`. The effective values
 * are in the columns of the definition or schedule (definition_rows.ts); whoever changes both does it in one transaction, under
 * `lockDefinitions`.
 */
import { type Db, json, type TransactionSql } from "../postgres/connection.ts";
import type { Columns } from "./definition_rows.ts";
import type { Actor } from "../access/audit.ts";

export interface Override {
  job_definition_id: number;
  /** The option, in the words of a job file: "priority", "retry.max", "schedule.nightly.time". */
  name: string;
  /** The columns that it sets. */
  value: Columns;
  /** The same columns as the file has them; null: the file has no such schedule any more. */
  file_value: Columns | null;
  set_at: Date;
  set_by: string;
  reason: string;
}

/** All overrides, or those of one job, in the order of their names. */
export async function readOverrides(sql: Db, job_definition_id: number | null = null): Promise<Override[]> {
  return await sql<Override[]>`
    select * from job_override where ${job_definition_id}::bigint is null or job_definition_id = ${job_definition_id}
     order by job_definition_id, name`;
}

/** One option that is set, or reset; `before` is what held until now. */
export interface OverrideChange {
  name: string;
  before: Columns | null;
  /** Null: what the file says holds again. */
  value: Columns | null;
  file_value: Columns | null;
}

/** Stores what is set, deletes what is reset, and audits each under the job's name. */
export async function changeOverrides(
  tx: TransactionSql,
  job: { id: number; name: string },
  changes: OverrideChange[],
  by: Actor,
): Promise<void> {
  await tx`
    with change as (
      select * from jsonb_to_recordset(${
    json(tx, changes)
  }) as c(name text, before jsonb, value jsonb, file_value jsonb)),
    gone as (
      delete from job_override o using change c where o.job_definition_id = ${job.id} and o.name = c.name and c.value is null),
    stored as (
      insert into job_override (job_definition_id, name, value, file_value, set_by, reason)
      select ${job.id}, name, value, file_value, ${by.actor}, ${by.reason} from change where value is not null
      on conflict (job_definition_id, name) do update set value = excluded.value, set_at = clock_timestamp(),
        set_by = excluded.set_by, reason = excluded.reason)
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    select ${by.actor}, case when value is null then 'job.reset' else 'job.set' end, 'job', ${job.name},
           jsonb_build_object(name, before), jsonb_build_object(name, coalesce(value, file_value)), ${by.reason}
      from change order by name`;
}

/** What files say now where something else holds. */
export async function noteFileValues(
  tx: TransactionSql,
  values: Pick<Override, "job_definition_id" | "name" | "file_value">[],
): Promise<void> {
  if (values.length === 0) return;
  await tx`
    update job_override o set file_value = f.file_value
      from jsonb_to_recordset(${json(tx, values)}) as f(job_definition_id bigint, name text, file_value jsonb)
     where o.job_definition_id = f.job_definition_id and o.name = f.name`;
}
