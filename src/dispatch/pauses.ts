/**
 * What people stop, and let go again: all dispatch (a setting), a job, one of its schedules, a serial key. What runs goes on; what waits, waits,
 * and says so (`wait_reason`). Each act and its audit row are one statement; repeating it changes nothing.
 *
 * A paused job keeps its schedules, and so does a paused schedule its place. Slots that pass meanwhile are dealt with at
 * the resume, by the misfire rule of each.
 */
import type { Actor } from "../access/audit.ts";
import type { Db } from "../postgres/connection.ts";
import type { Waits } from "../runs/wait_reason.ts";
import { inStates, MAY_START, NOT_ENDED } from "../runs/run_states.ts";
import { ENGLISH } from "../locale/english.ts";
import { waitLine } from "../locale/wait_text.ts";

/** Pauses or resumes a job. Undefined: there is no such job; `changed` false: it was so already. */
export async function pauseJob(
  sql: Db,
  name: string,
  wish: Actor & { paused: boolean },
): Promise<{ changed: boolean; paused_by: string | null } | undefined> {
  const [row] = await sql<{ changed: boolean; paused_by: string | null }[]>`
    with moved as (
      update job_definition set paused_at = case when ${wish.paused} then clock_timestamp() end,
             paused_by = case when ${wish.paused} then ${wish.actor} end,
             paused_reason = case when ${wish.paused} then ${wish.reason} end
       where name = ${name} and (paused_at is not null) <> ${wish.paused} returning name),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${wish.actor}, case when ${wish.paused} then 'job.pause' else 'job.resume' end, 'job', name, ${wish.reason} from moved),
    rung as (select pg_notify('scheduler', 'resume') from moved)
    select exists (select from moved) as changed, d.paused_by from job_definition d left join rung on true where d.name = ${name}`;
  return row;
}

/** Pauses or resumes a schedule, or all of a job's when none is named; answers with those that there are, by name. */
export async function pauseSchedules(
  sql: Db,
  which: { job_name: string; schedule_id?: string },
  wish: Actor & { paused: boolean },
): Promise<{ schedule_id: string; changed: boolean }[]> {
  return await sql<{ schedule_id: string; changed: boolean }[]>`
    with meant as (
      select s.id, d.name, s.schedule_id from job_schedule s join job_definition d on d.id = s.job_definition_id
       where d.name = ${which.job_name} and d.removed_at is null
         and (${which.schedule_id ?? null}::text is null or s.schedule_id = ${which.schedule_id ?? null})),
    moved as (
      update job_schedule s set paused_at = case when ${wish.paused} then clock_timestamp() end,
             paused_by = case when ${wish.paused} then ${wish.actor} end,
             paused_reason = case when ${wish.paused} then ${wish.reason} end
        from meant where s.id = meant.id and (s.paused_at is not null) <> ${wish.paused} returning s.id),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${wish.actor}, case when ${wish.paused} then 'schedule.pause' else 'schedule.resume' end, 'schedule',
             name || '/' || schedule_id, ${wish.reason} from meant join moved using (id)),
    rung as (select pg_notify('scheduler', 'resume') from moved limit 1)
    select m.schedule_id, moved.id is not null as changed
      from meant m left join moved using (id) left join rung on true order by m.schedule_id`;
}

export interface Pause {
  paused_at: Date;
  paused_by: string;
  /** As whoever paused it said it. */
  paused_reason: string | null;
}

/** The jobs that are paused, by name. */
export async function readPaused(sql: Db): Promise<Map<string, Pause>> {
  const rows = await sql<({ name: string } & Pause)[]>`
    select name, paused_at, paused_by, paused_reason from job_definition where paused_at is not null`;
  return new Map(rows.map(({ name, ...paused }) => [name, paused]));
}

/** Stops a serial key: its next run waits. False: it was stopped already. */
export async function stopKey(sql: Db, serial_key: string, by: Actor): Promise<boolean> {
  const rows = await sql`
    with stopped as (
      insert into serial_key_pause (serial_key, stopped_by, reason) values (${serial_key}, ${by.actor}, ${by.reason})
      on conflict do nothing returning serial_key),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${by.actor}, 'serial_key.stop', 'serial_key', serial_key, ${by.reason} from stopped)
    select from stopped`;
  return rows.length > 0;
}

/** Lets a serial key go on, whoever stopped it. False: it was not stopped. */
export async function freeKey(sql: Db, serial_key: string, by: Actor): Promise<boolean> {
  const rows = await sql`
    with freed as (delete from serial_key_pause where serial_key = ${serial_key} returning *),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'serial_key.free', 'serial_key', serial_key,
             jsonb_build_object('stopped_by', stopped_by, 'reason', reason, 'job_run_id', job_run_id), ${by.reason} from freed)
    select from freed`; // a trigger has those looked at that waited for it
  return rows.length > 0;
}

export interface StoppedKey {
  serial_key: string;
  job_run_id: number | null;
  stopped_at: Date;
  stopped_by: string;
  reason: string | null;
  /** Runs that wait behind it. */
  waiting: number;
}

export async function listStoppedKeys(sql: Db): Promise<StoppedKey[]> {
  return await sql<StoppedKey[]>`
    select s.*, (select count(*)::int from job_run r where r.serial_key = s.serial_key
                  and ${inStates(sql, NOT_ENDED, sql`r.state`)} and r.state = 'PENDING') as waiting
      from serial_key_pause s order by s.stopped_at, s.serial_key`;
}

export interface QueueLine {
  job_name: string;
  priority: number;
  waiting: number;
  running: number;
  oldest_due_at: Date | null;
  paused_by: string | null;
  paused_reason: string | null;
  /** Why nothing of it starts now, for each place that it names; empty: nothing keeps it. */
  reasons: string[];
  /** The same for programs. */
  waits: Waits[];
  /** Of those that wait: behind their serial key, or beyond their job's limit. */
  held: number;
  /** Of those that wait: not due yet, or not yet to be tried again. */
  later: number;
  /** Begun, and waiting for a time, a message or another run: these want no worker. */
  suspended: number;
}

/** What waits, job by job, the longest waiting first. Jobs without work are left out, unless they are paused. */
export async function readQueue(sql: Db): Promise<QueueLine[]> {
  const lines = await sql<Omit<QueueLine, "reasons">[]>`
    select d.name as job_name, d.priority, coalesce(r.waiting, 0)::int as waiting, coalesce(r.running, 0)::int as running,
           r.oldest_due_at, d.paused_by, d.paused_reason,
           coalesce(r.held, 0)::int as held, coalesce(r.later, 0)::int as later, coalesce(r.suspended, 0)::int as suspended, w.waits
      from job_definition d left join (
        select job_definition_id, count(*) filter (where waits) as waiting, count(*) filter (where running) as running, count(*) filter (where suspended) as suspended,
               count(*) filter (where held) as held, count(*) filter (where later) as later, min(greatest(due_at, woken_at)) filter (where waits) as oldest_due_at
          from (select job_definition_id, due_at, woken_at, true as waits, false as running, false as held, false as later, false as suspended from job_run
                 where ${inStates(sql, MAY_START)} and not held
                union all select job_definition_id, due_at, woken_at, true, false, true, false, false from job_run where held and wakes_at is null
                union all select job_definition_id, due_at, woken_at, state <> 'SUSPENDED', false, false, state <> 'SUSPENDED', state = 'SUSPENDED' from job_run where wakes_at is not null
                union all select job_definition_id, due_at, woken_at, false, true, false, false, false from job_run where state in ('ASSIGNED', 'RUNNING')) open
         group by job_definition_id) r
        on r.job_definition_id = d.id
      cross join lateral (
        select coalesce(jsonb_agg(l.reason order by l.node), '[]') as waits
          from queue_block_reason l where l.job_definition_id = d.id) w
     where r.job_definition_id is not null or d.paused_at is not null
     order by r.oldest_due_at nulls last, d.name`;
  return lines.map((line) => ({ ...line, reasons: line.waits.map((waits) => waitLine(ENGLISH, waits)) }));
}

/** How many runs of a job, of a serial key or of everything wait, and how many are with a worker. */
export async function countOpen(
  sql: Db,
  { job_name, serial_key }: { job_name?: string; serial_key?: string },
): Promise<{ waiting: number; running: number }> {
  if (serial_key === undefined) {
    const lines = (await readQueue(sql)).filter((line) => job_name === undefined || line.job_name === job_name);
    const sum = (of: (line: QueueLine) => number) => lines.reduce((all, line) => all + of(line), 0);
    return { waiting: sum((line) => line.waiting), running: sum((line) => line.running) };
  }
  const [row] = await sql<{ waiting: number; running: number }[]>`
    select count(*) filter (where state not in ('ASSIGNED', 'RUNNING'))::int as waiting,
           count(*) filter (where state in ('ASSIGNED', 'RUNNING'))::int as running
      from job_run where serial_key = ${serial_key} and ${inStates(sql, NOT_ENDED)}`;
  return row as { waiting: number; running: number };
}

/** Says how much there is of something; undefined takes it away. False: nothing changed. */
export async function setResource(sql: Db, name: string, capacity: number | undefined, by: Actor): Promise<boolean> {
  const changed = capacity === undefined
    ? sql`delete from resource where name = ${name} returning name, capacity as before, null::int as after`
    : sql`insert into resource as s (name, capacity) values (${name}, ${capacity})
          on conflict (name) do update set capacity = excluded.capacity where s.capacity <> excluded.capacity
          returning name, (select capacity from resource where name = ${name}) as before, capacity as after`; // as it was
  const rows = await sql`
    with changed as (${changed}),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${by.actor}, 'resource.set', 'resource', name, to_jsonb(before), to_jsonb(after), ${by.reason} from changed),
    rung as (select pg_notify('scheduler', 'resource') from changed)
    select from changed left join rung on true`;
  return rows.length > 0;
}

/** How much there is of each resource. */
export async function readCapacities(sql: Db): Promise<Map<string, number>> {
  const rows = await sql<{ name: string; capacity: number }[]>`select name, capacity from resource`;
  return new Map(rows.map(({ name, capacity }) => [name, capacity]));
}
