/**
 * Definitions of jobs and their schedules, as they were last synced: the only file that changes `job_definition` and
 * `job_schedule`, but for the slots that create_runs.ts moves on together with the runs it makes, and what people pause (pauses.ts).
 *
 * A definition is never deleted: when its file is gone it is disabled, and its runs keep their history.
 */
import type { ScheduleType } from "../schedule_kinds/kinds.ts";
import type { Json, Permissions } from "../job.ts";
import { type Db, json, type TransactionSql } from "../postgres/connection.ts";

/** What to do with slots that passed while nobody planned; see `planSlots`. */
export type Misfire =
  | { policy: "skip" }
  | { policy: "last" }
  | { policy: "all"; within_seconds: number | null; max: number };

/** When a schedule fires: columns of `job_schedule`. */
export interface ScheduleSpec {
  schedule_type: ScheduleType;
  schedule_value: string;
  timezone: string;
  misfire: Misfire;
  dst_gap: "after" | "before" | "skip";
  dst_overlap: "first" | "second" | "both";
  /** Days without slots, on the zone's calendar: "2026-12-31", "12-25", or inclusive ranges such as "12-29/01-03". */
  exclude: readonly string[];
  /** A run starts so much after its slot at most, each at its own moment; see `startOf`. */
  jitter_seconds: number;
}

/** What a job file says of one schedule. */
export interface ScheduleSetting extends ScheduleSpec {
  schedule_id: string;
  args_json: { readonly [key: string]: Json | undefined };
}

export interface StoredSchedule extends ScheduleSetting {
  id: number;
  enabled: boolean;
  paused_at: string | null;
  paused_by: string | null;
  paused_reason: string | null;
  last_slot: Temporal.Instant;
  next_slot: Temporal.Instant | null;
}

/** Which events of a type count, and how they become runs (events.ts). */
export interface EventRule {
  where?: Record<string, Scalar | Scalar[]>;
  key?: string;
  debounce_seconds?: number;
  max_wait_seconds?: number;
  throttle_seconds?: number;
}

type Scalar = string | number | boolean | null;

/** What a job file says of its job: columns of `job_definition`. */
export interface DefinitionSetting {
  name: string;
  /** The file, relative to the jobs folder, with "/" between its parts. */
  command_name: string;
  type: "time" | "event" | "demand";
  description: string;
  event_types: string[];
  /** By type; one that has none starts a run for each event. */
  event_rules: Record<string, EventRule>;
  args_schema: Json;
  priority: number;
  serial_key: string | null;
  node: string | null;
  timeout_seconds: number;
  kill_grace_seconds: number;
  max_retries: number;
  retry_backoff_seconds: number;
  retry_factor: number;
  retry_jitter: number;
  retry_on: Record<string, { max: number; backoffSeconds?: number; otherNode?: boolean }>;
  max_interruptions: number;
  concurrency_policy: "allow" | "forbid" | "replace" | "queue_one";
  concurrency_limit: number | null;
  concurrency_key: string | null;
  rate_count: number | null;
  rate_seconds: number | null;
  /** What a run takes of each resource. */
  resources: Record<string, number>;
  on_failure: "continue" | "block";
  memory_mb: number;
  permissions: Permissions;
  isolation_reuse: number;
  /** What may be sent to its runs, by name. */
  messages: Record<string, DeclaredMessage>;
  /** It runs once the runs of these jobs in one group have ended. */
  after_jobs: string[];
  after_when: "success" | "failure" | "end";
  on_change: "continue" | "fail" | "restart";
  deadline_seconds: number | null;
  digest: string;
}

export interface DeclaredMessage {
  /** JSON Schema of its payload; null: its library has no such, and any payload is taken. */
  schema: Json;
  /** Tokens of scope emit may send it. */
  from?: "emit";
}

export interface StoredDefinition extends DefinitionSetting {
  id: number;
  enabled: boolean;
  removed_at: Temporal.Instant | null;
  schedules: StoredSchedule[];
}

/** A definition to be stored. */
export interface SavedDefinition extends DefinitionSetting {
  /** Whether it is on when it is new or its file is back; otherwise it stays as the operator left it. */
  enable: boolean;
}

/** A schedule to be stored. */
export interface SavedSchedule extends ScheduleSetting {
  job_name: string;
  /** New, or at other times than before: it counts from here, so that nothing fires for the past. Undefined: it goes on. */
  starts?: { last_slot: Temporal.Instant; next_slot: Temporal.Instant | null };
  /** Switches it on, or says that a new one is on; otherwise it stays as the operator left it. */
  enable: boolean;
}

/** Some columns of a row, by name. */
export type Columns = { readonly [column: string]: Json };

/** What the database's clock says. */
export async function databaseNow(sql: Db): Promise<Temporal.Instant> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  return (row as { now: Date }).now.toTemporalInstant();
}

/** All definitions with their schedules, removed ones too, by name. */
export async function readDefinitions(sql: Db): Promise<StoredDefinition[]> {
  return await definitionsWhere(sql, null);
}

/** The definition of a job, removed or not. */
export async function readDefinition(sql: Db, name: string): Promise<StoredDefinition | undefined> {
  return (await definitionsWhere(sql, name))[0];
}

/** What a run is held against before it is taken: its job's schema, as text, and what the job says of where it runs. */
export interface Demands extends Pick<DefinitionSetting, "node" | "resources"> {
  args_schema: string | null;
}

/** Undefined: no such job takes runs. */
export async function readDemands(sql: Db, name: string): Promise<Demands | undefined> {
  const [row] = await sql<Demands[]>`
    select args_schema::text as args_schema, node, resources from job_definition where name = ${name} and removed_at is null`;
  return row;
}

/** How many runs of each definition are to start yet, those that are suspended again; definitions without any are left out. */
export async function countWaitingRuns(sql: Db, job_definition_ids: number[]): Promise<Map<number, number>> {
  if (job_definition_ids.length === 0) return new Map();
  const rows = await sql<{ job_definition_id: number; runs: number }[]>`
    select job_definition_id, count(*)::int as runs from job_run
     where state in ('PENDING', 'ASSIGNED', 'SUSPENDED', 'RETRYING', 'ORPHANED')
       and job_definition_id in (select value::bigint from jsonb_array_elements_text(${json(sql, job_definition_ids)}))
     group by job_definition_id`;
  return new Map(rows.map((row) => [row.job_definition_id, row.runs]));
}

/** The jobs that come after this one. */
export async function readFollowers(sql: Db, name: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from job_definition where after_jobs @> array[${name}::text] and removed_at is null order by name collate "C"`;
  return rows.map((row) => row.name);
}

/** Lets one sync at a time change definitions; released at the end of the transaction. */
export async function lockDefinitions(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtext('dandori sync'))`;
}

/**
 * Stores definitions, new ones and changed ones, with all of their schedules: those not named are deleted. A definition
 * that was removed is switched on again; one that an operator switched off stays off.
 */
export async function saveDefinitions(
  tx: TransactionSql,
  definitions: SavedDefinition[],
  schedules: SavedSchedule[],
): Promise<void> {
  if (definitions.length === 0) return;
  await tx`
    insert into job_definition as d (name, command_name, type, description, event_types, event_rules, args_schema, priority,
      serial_key, node, timeout_seconds, kill_grace_seconds, max_retries, retry_backoff_seconds, retry_factor,
      retry_jitter, retry_on, max_interruptions, concurrency_limit, concurrency_key, rate_count, rate_seconds, resources, on_failure,
      concurrency_policy, memory_mb, permissions, isolation_reuse, messages, after_jobs, after_when, on_change, deadline_seconds,
      digest, enabled)
    select name, command_name, type, description, event_types, event_rules, args_schema, priority,
      serial_key, node, timeout_seconds, kill_grace_seconds, max_retries, retry_backoff_seconds, retry_factor,
      retry_jitter, retry_on, max_interruptions, concurrency_limit, concurrency_key, rate_count, rate_seconds, resources, on_failure,
      concurrency_policy, memory_mb, permissions, isolation_reuse, messages, after_jobs, after_when, on_change, deadline_seconds,
      digest, enable
      from json_to_recordset(${
    JSON.stringify(definitions)
  }::text::json) as f(name text, command_name text, type text, description text,
        event_types text[], event_rules jsonb, args_schema json, priority int, serial_key text, node text, timeout_seconds int,
        kill_grace_seconds int, max_retries int, retry_backoff_seconds numeric, retry_factor numeric,
        retry_jitter numeric, retry_on jsonb, max_interruptions int, concurrency_limit int, concurrency_key text, rate_count int,
        rate_seconds numeric, resources jsonb, on_failure text, concurrency_policy text, memory_mb int, permissions jsonb,
        isolation_reuse int, messages json, after_jobs text[], after_when text, on_change text, deadline_seconds bigint,
        digest text, enable boolean)
     order by name
    on conflict (name) do update set
      command_name = excluded.command_name, type = excluded.type, description = excluded.description,
      event_types = excluded.event_types, event_rules = excluded.event_rules, args_schema = excluded.args_schema, priority = excluded.priority,
      serial_key = excluded.serial_key, node = excluded.node, timeout_seconds = excluded.timeout_seconds,
      kill_grace_seconds = excluded.kill_grace_seconds, max_retries = excluded.max_retries,
      retry_backoff_seconds = excluded.retry_backoff_seconds, retry_factor = excluded.retry_factor,
      retry_jitter = excluded.retry_jitter, retry_on = excluded.retry_on,
      max_interruptions = excluded.max_interruptions, concurrency_limit = excluded.concurrency_limit,
      concurrency_key = excluded.concurrency_key, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
      resources = excluded.resources, on_failure = excluded.on_failure,
      concurrency_policy = excluded.concurrency_policy, memory_mb = excluded.memory_mb,
      permissions = excluded.permissions, isolation_reuse = excluded.isolation_reuse, digest = excluded.digest,
      messages = excluded.messages, after_jobs = excluded.after_jobs, after_when = excluded.after_when,
      on_change = excluded.on_change, deadline_seconds = excluded.deadline_seconds,
      enabled = case when d.removed_at is null then d.enabled else excluded.enabled end, removed_at = null, synced_at = clock_timestamp()`;
  await saveSchedules(tx, definitions.map((definition) => definition.name), schedules);
}

/** Switches off definitions whose files are gone, and their schedules. */
export async function removeDefinitions(tx: TransactionSql, names: string[]): Promise<void> {
  if (names.length === 0) return;
  await tx`
    with gone as (
      update job_definition set enabled = false, removed_at = clock_timestamp(), synced_at = clock_timestamp()
       where name in (select jsonb_array_elements_text(${json(tx, names)})) and removed_at is null
      returning id)
    update job_schedule s set enabled = false from gone where s.job_definition_id = gone.id`;
}

/** Notes which jobs have others that come after them: only their runs begin groups. */
export async function noteFollowers(tx: TransactionSql): Promise<void> {
  await tx`
    update job_definition d set has_followers = not d.has_followers
     where d.has_followers <> exists (select from job_definition f where f.after_jobs @> array[d.name] and f.removed_at is null)`;
}

/** Changes columns of one definition: those that an operator may set (sync/overrides.ts). */
export async function changeDefinition(tx: TransactionSql, id: number, columns: Columns): Promise<void> {
  await tx`
    update job_definition d set (enabled, priority, timeout_seconds, max_retries, retry_backoff_seconds, concurrency_policy,
                                 concurrency_limit, rate_count, rate_seconds, node) = (
             select enabled, priority, timeout_seconds, max_retries, retry_backoff_seconds, concurrency_policy,
                    concurrency_limit, rate_count, rate_seconds, node from jsonb_populate_record(d, ${
    json(tx, columns)
  }))
     where d.id = ${id}`;
}

/** The same of one schedule. `starts`: its times are others than before, and it counts from there. */
export async function changeSchedule(
  tx: TransactionSql,
  id: number,
  on: { columns: Columns; starts?: SavedSchedule["starts"] },
): Promise<void> {
  const starts = on.starts &&
    { last_slot: String(on.starts.last_slot), next_slot: on.starts.next_slot?.toString() ?? null };
  await tx`
    update job_schedule s set (enabled, schedule_type, schedule_value, timezone, last_slot, next_slot) = (
             select enabled, schedule_type, schedule_value, timezone, last_slot, next_slot
               from jsonb_populate_record(s, ${json(tx, { ...on.columns, ...starts })}))
     where s.id = ${id}`;
}

/** Switches off the schedules of a job: from here on it has no new slots, and those up to `last_slot` have their runs. */
export async function stopSchedules(sql: Db, job_name: string): Promise<void> {
  await sql`
    update job_schedule s set enabled = false from job_definition d where d.id = s.job_definition_id and d.name = ${job_name}`;
}

async function saveSchedules(tx: TransactionSql, job_names: string[], schedules: SavedSchedule[]): Promise<void> {
  const rows = schedules.map(({ starts, ...schedule }) => ({
    ...schedule,
    restarts: starts !== undefined,
    last_slot: starts?.last_slot.toString() ?? null,
    next_slot: starts?.next_slot?.toString() ?? null,
  }));
  await tx`
    delete from job_schedule s using job_definition d
     where d.id = s.job_definition_id and d.name in (select jsonb_array_elements_text(${json(tx, job_names)}))
       and not exists (select from jsonb_to_recordset(${json(tx, rows)}) as f(job_name text, schedule_id text)
                        where f.job_name = d.name and f.schedule_id = s.schedule_id)`;
  await tx`
    with file as (
      select * from jsonb_to_recordset(${json(tx, rows)}) as f(job_name text, schedule_id text, schedule_type text,
        schedule_value text, timezone text, args_json jsonb, misfire jsonb, dst_gap text, dst_overlap text,
        exclude text[], jitter_seconds int,        last_slot timestamptz, next_slot timestamptz, restarts boolean, enable boolean)),
    known as (
      update job_schedule s set
        schedule_type = file.schedule_type, schedule_value = file.schedule_value, timezone = file.timezone,
        args_json = file.args_json, misfire = file.misfire, dst_gap = file.dst_gap, dst_overlap = file.dst_overlap,
        exclude = file.exclude, jitter_seconds = file.jitter_seconds,
        last_slot = case when file.restarts then file.last_slot else s.last_slot end,
        next_slot = case when file.restarts then file.next_slot else s.next_slot end,
        enabled = s.enabled or file.enable
        from file join job_definition d on d.name = file.job_name
       where s.job_definition_id = d.id and s.schedule_id = file.schedule_id
      returning s.job_definition_id, s.schedule_id)
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone, args_json, misfire,
                              dst_gap, dst_overlap, exclude, jitter_seconds, last_slot, next_slot, enabled)
    select d.id, file.schedule_id, file.schedule_type, file.schedule_value, file.timezone, file.args_json, file.misfire,
           file.dst_gap, file.dst_overlap, file.exclude, file.jitter_seconds, coalesce(file.last_slot, clock_timestamp()), file.next_slot,
           file.enable
      from file join job_definition d on d.name = file.job_name
     where not exists (select from known where known.job_definition_id = d.id and known.schedule_id = file.schedule_id)
     order by d.id, file.schedule_id`;
}

type Times = { last_slot: string; next_slot: string | null };
type DefinitionRow = Omit<StoredDefinition, "removed_at" | "schedules"> & {
  removed_at: Date | null;
  schedules: (Omit<StoredSchedule, keyof Times> & Times)[];
};

/** In the order in which texts compare here, whatever language the database has: pages of a list are cut by it. */
async function definitionsWhere(sql: Db, name: string | null): Promise<StoredDefinition[]> {
  const rows = await sql<DefinitionRow[]>`
    select d.id, d.name, d.command_name, d.type, d.enabled, d.removed_at, d.description, d.event_types, d.event_rules, d.args_schema,
           d.priority, d.serial_key, d.node, d.timeout_seconds, d.kill_grace_seconds, d.max_retries,
           d.retry_backoff_seconds::float8, d.retry_factor::float8, d.retry_jitter::float8, d.retry_on,
           d.max_interruptions, d.concurrency_limit, d.concurrency_key, d.rate_count, d.rate_seconds::float8, d.resources,
           d.on_failure, d.concurrency_policy, d.memory_mb, d.permissions, d.isolation_reuse, d.messages, d.after_jobs, d.after_when,
           d.on_change, d.deadline_seconds::int, d.digest,
           coalesce((
             select jsonb_agg(to_jsonb(s) - 'job_definition_id' || jsonb_build_object(
                      'last_slot', to_char(s.last_slot at time zone 'UTC', ${ISO}),
                      'next_slot', to_char(s.next_slot at time zone 'UTC', ${ISO})) order by s.id)
               from job_schedule s where s.job_definition_id = d.id), '[]') as schedules
      from job_definition d where ${name}::text is null or d.name = ${name} order by d.name collate "C"`;
  return rows.map((row) => ({
    ...row,
    removed_at: row.removed_at?.toTemporalInstant() ?? null,
    schedules: row.schedules.map((schedule) => ({
      ...schedule,
      last_slot: Temporal.Instant.from(schedule.last_slot),
      next_slot: schedule.next_slot === null ? null : Temporal.Instant.from(schedule.next_slot),
    })),
  }));
}

const ISO = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';

/** What the process of a job must be given before a run of it is known; undefined: no definition has this code any more. */
export async function readBodyPlan(
  sql: Db,
  command_name: string,
  digest: string,
): Promise<{ permissions: unknown; memory_mb: number } | undefined> {
  const [row] = await sql<{ permissions: unknown; memory_mb: number }[]>`
    select permissions, memory_mb from job_definition where command_name = ${command_name} and digest = ${digest} limit 1`;
  return row;
}
