/**
 * How runs come to be: from slots of schedules, from enqueue, (events.ts) from events and (bulk_dispatch.ts) from bulks. The only file that
 * inserts into job_run; states.ts moves what was created here.
 *
 * An idempotency key, unique as long as its run is kept (run_retention.ts), is what makes a new run exactly-once, and nothing else does. Every
 * creation has one but for an enqueue whose caller gave none, which makes a run each time it is sent:
 *
 *   time:{job_schedule_id}:{slot}   event:{event_id}:{job_definition_id}   enqueue:{job_definition_id}:{caller's key}
 *   bulk:{bulk_id}:{seq}   after:{group_id}:{job_definition_id}   child:{parent run}:{key of its step}
 *
 * A run of a job that others come `after` begins a group, whose id is its own; one that is run again stays in its group (events/followers.ts).
 *
 * Runs of a definition that is not `allow` share a serial key, so that two of them are never live at once.
 *
 * A run that is not yet due, or that is plainly behind another of its serial key or limit key, is created `held` (key_queues.ts).
 * "Plainly" is as this statement sees it, so each such creation leaves a key_recheck behind it: if what it saw has changed
 * meanwhile, the leader lets it go.
 */
import type { Actor } from "../access/audit.ts";
import { type Db, json } from "../postgres/connection.ts";
import type { Demands } from "../definitions/definition_rows.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { named } from "./fast_path.ts";
import { notAsleep } from "./key_queues.ts";
import { matches, type RunFilter } from "./run_filter.ts";
import { inStates, NOT_ENDED } from "./run_states.ts";

export interface NewRun {
  job_name: string;
  args: unknown;
  /** Unique per job. Without one, the same creation sent twice makes two runs. */
  idempotency_key?: string;
  priority?: number;
  run_at?: Date;
  serial_key?: string;
  node?: string;
  rerun_of?: number;
  /** What comes after it in its group is to run again as well; of all in one call, or of none. */
  repeats_followers?: boolean;
}

/** What came of a new run: its run, old or new; or no run, since no such job takes runs. */
export interface CreatedRun {
  job_run_id: number | undefined;
  /** False: the key was used before, and this is the run of that time. */
  is_new: boolean;
}

/** Enqueues runs in one statement, on the pool or inside the caller's transaction; answers in the order of the new runs. */
export async function createRuns(sql: Db, new_runs: NewRun[]): Promise<CreatedRun[]> {
  return await insertRuns(sql, new_runs) as CreatedRun[];
}

/** The same for runs of one job that were checked by these demands. Undefined: it has others by now, and nothing was done. */
export async function createCheckedRuns(sql: Db, new_runs: NewRun[], by: Demands): Promise<CreatedRun[] | undefined> {
  return await insertRuns(sql, new_runs, by);
}

/** `by`: what the job is to ask for still. Undefined: it asks for something else. */
async function insertRuns(sql: Db, new_runs: NewRun[], by?: Demands): Promise<CreatedRun[] | undefined> {
  const holds = by
    ? sql`(d.args_schema::text, d.node, d.resources) is not distinct from (${by.args_schema}::text, ${by.node}::text, ${
      json(sql, by.resources)
    }::jsonb)`
    : sql`true`;
  const asked = new_runs.map((new_run, place) => ({ ...new_run, place, args: new_run.args ?? {} }));
  const rows = await sql<
    { place: number; id: number | null; old_id: number | null; known: boolean; changed: boolean }[]
  >`
    with ask as (
      select a.place, case when ${holds} then d.id end as job_definition_id, d.id is not null and not ${holds} as changed,
             'enqueue' as source, 'enqueue:' || d.id || ':' || a.idempotency_key as key, a.args,
             coalesce(a.priority, d.priority) as priority, coalesce(a.run_at, ${now(sql)}) as due_at,
             (select o.scheduled_for from job_run o where o.id = a.rerun_of) as slot,
             coalesce(a.node, fill_template(d.node, a.args)) as node, a.rerun_of, a.serial_key as own_serial_key,
             null::bigint as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id, null::bigint as leader_epoch
        from jsonb_to_recordset(${json(sql, asked)}) as a(place int, job_name text, args jsonb, idempotency_key text,
               priority int, run_at timestamptz, serial_key text, node text, rerun_of bigint)
        left join job_definition d on d.name = a.job_name and d.removed_at is null),
    ${insertingRuns(sql, { repeats_followers: new_runs.some((one) => one.repeats_followers) })}${
    new_runs.length === 1 ? sql`, ${named(sql)}` : sql``
  }
    select ask.place, born.id, ask.job_definition_id is not null as known, ask.changed,
           case when born.id is null then (select old.id from job_run old where old.idempotency_key = ask.key) end as old_id
      from ask left join lined using (place) left join born on born.id = lined.id ${
    new_runs.length === 1 ? sql`, named` : sql``
  } order by ask.place`;
  if (rows.some((row) => row.changed)) return undefined;
  // A key that another transaction committed after this statement began is neither created nor visible, nor is one that is given twice: ask again.
  const unseen = rows.filter((row) => row.known && row.id === null && row.old_id === null);
  const found = unseen.length === 0 ? [] : await createRuns(sql, unseen.map((row) => new_runs[row.place] as NewRun));
  const later = new Map(unseen.map((row, place) => [row.place, found[place]]));
  return rows.map(({ place, id, old_id }) =>
    later.get(place) ?? { job_run_id: id ?? old_id ?? undefined, is_new: id !== null }
  );
}

/**
 * Runs again what has ended, with the same args, linked to the first by `rerun_of`; audited in the same statement. Its key and node are those
 * of its job and args as they are now, unless it was given its own. A run
 * that was run again already under the same `wish` is left out, and so is one that the wish itself has made: a wish that is repeated adds
 * nothing, also when its runs have ended meanwhile, and one that takes several statements does not go on with its own.
 */
export async function rerunWhere(
  sql: Db,
  filter: RunFilter,
  by: Actor & { most: number; wish: string },
): Promise<{ id: number; rerun_of: number }[]> {
  return await sql<{ id: number; rerun_of: number }[]>`
    with ask as (
      select row_number() over (order by r.id) as place, d.id as job_definition_id, 'enqueue' as source,
             'rerun:' || ${by.wish}::text || ':' || r.id as key, r.args_json as args, r.priority, ${now(sql)} as due_at,
             r.scheduled_for as slot, coalesce(${ownNode(sql)}, fill_template(d.node, r.args_json)) as node,
             r.id as rerun_of, ${
    ownSerialKey(sql)
  } as own_serial_key, null::bigint as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id,
             null::bigint as leader_epoch
        from job_run r join job_definition d on d.id = r.job_definition_id
       where d.removed_at is null and r.finished_at is not null and ${matches(sql, filter)}
         and not exists (select from job_run again where again.idempotency_key = 'rerun:' || ${by.wish}::text || ':' || r.id)
         and (r.rerun_of is null or r.idempotency_key is distinct from 'rerun:' || ${by.wish}::text || ':' || r.rerun_of)
       order by r.id limit ${by.most}),
    ${insertingRuns(sql)},
    fresh as (select id, lined.rerun_of from born join lined using (id)),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'run.retry', 'run', rerun_of::text, jsonb_build_object('rerun', id), ${by.reason} from fresh)
    select id, rerun_of from fresh order by id`;
}

/** What an enqueue gave run `r` of definition `d` that does not follow from its job and args; null: nothing. No other creation gives any. */
function ownNode(sql: Db) {
  return sql`case when r.source = 'enqueue' and r.node is distinct from fill_template(d.node, r.args_json) then r.node end`;
}

function ownSerialKey(sql: Db) {
  return sql`case when r.source = 'enqueue' and r.serial_key is distinct from fill_template(d.serial_key, r.args_json)
                   and r.serial_key is distinct from 'job:' || d.name then r.serial_key end`;
}

/** What repeats of these runs would need: of each job its resources, and the nodes or labels, '' for any. Jobs that are gone are left out. */
export async function needsOfRepeats(
  sql: Db,
  ids: readonly number[],
): Promise<{ job_name: string; resources: Record<string, number>; selectors: string[] }[]> {
  return await sql<{ job_name: string; resources: Record<string, number>; selectors: string[] }[]>`
    select d.name as job_name, d.resources,
           array_agg(distinct coalesce(${ownNode(sql)}, fill_template(d.node, r.args_json), '')) as selectors
      from job_run r join job_definition d on d.id = r.job_definition_id
     where r.id = any(${[...ids]}::bigint[]) and d.removed_at is null group by d.id order by d.name`;
}

/** The same of one run: what a repeat of it with other args keeps. */
export async function givenOwn(sql: Db, job_run_id: number): Promise<{ node?: string; serial_key?: string }> {
  const [row] = await sql<{ node: string | null; serial_key: string | null }[]>`
    select ${ownNode(sql)} as node, ${ownSerialKey(sql)} as serial_key
      from job_run r join job_definition d on d.id = r.job_definition_id where r.id = ${job_run_id}`;
  return { node: row?.node ?? undefined, serial_key: row?.serial_key ?? undefined };
}

/** The slots of one schedule that the calendar chose, and how far it looked. */
export interface SlotPlan {
  job_schedule_id: number;
  /** As it was read; another value means that somebody changed the schedule, and nothing is done. ISO 8601. */
  next_slot_was: string;
  slots: string[];
  /** When the run of each slot may start; undefined: at its slot. */
  starts?: string[];
  last_slot: string;
  next_slot: string | null;
}

/** Inserts the runs of slots and advances their schedules, as one statement: a slot is neither lost nor made twice. */
export async function createSlotRuns(
  sql: Db,
  term: Term,
  plans: SlotPlan[],
): Promise<{ id: number; job_name: string }[]> {
  return await sql<{ id: number; job_name: string }[]>`
    with ${fence(sql, term)},
    plan as (
      select * from jsonb_to_recordset(${json(sql, plans)}) as p(job_schedule_id bigint, next_slot_was timestamptz,
             slots timestamptz[], starts timestamptz[], last_slot timestamptz, next_slot timestamptz)),
    advanced as (
      update job_schedule s set last_slot = plan.last_slot, next_slot = plan.next_slot
        from plan, fence
       where s.id = plan.job_schedule_id and s.enabled and s.paused_at is null and s.next_slot = plan.next_slot_was
      returning s.id, s.job_definition_id, s.args_json, plan.slots, plan.starts),
    ask as (
      select row_number() over (order by slot, a.id) as place, d.id as job_definition_id, 'schedule' as source,
             'time:' || a.id || ':' || to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as key,
             d.default_args_json || a.args_json as args, d.priority, coalesce(s.start, s.slot) as due_at, s.slot,
             fill_template(d.node, d.default_args_json || a.args_json) as node, null::bigint as rerun_of, null as own_serial_key,
             a.id as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id, fence.epoch as leader_epoch
        from advanced a cross join unnest(a.slots, a.starts) as s(slot, start) join job_definition d on d.id = a.job_definition_id and d.enabled, fence),
    ${insertingRuns(sql)}
    select born.id, d.name as job_name from born join job_definition d on d.id = born.job_definition_id order by born.id`;
}

/** The same for all that one statement bears, so that they go in the order of their ids: asked for row by row it is the order in which a plan has them. */
export function now(sql: Db) {
  return sql`(select clock_timestamp())`;
}

/** What `ask` has besides the columns of all. */
export interface AskedColumns {
  /** event_key */
  event_keys?: boolean;
  /** group_id, repeats_followers, and `skipped`: why it is created SKIPPED, or null. */
  followers?: boolean;
  /** parent_run_id, parent_key, depth. */
  children?: boolean;
  /** Not of a column: none of them begins a group. */
  alone?: boolean;
  /** Not of a column, unless there are followers: all of them repeat theirs. */
  repeats_followers?: boolean;
}

/**
 * From `ask` (place, job_definition_id, source, key, args, priority, due_at, slot, node, rerun_of, own_serial_key, job_schedule_id,
 * event_id, bulk_id, leader_epoch) to `born`: the keys of each run, its place in their lines, its id, and the row. Among those asked for
 * together the first of each key is let go, if nobody has the key yet.
 */
export function insertingRuns(sql: Db, asked: AskedColumns = {}) {
  const { event_keys = false, followers = false, children = false, alone = false, repeats_followers = false } = asked;
  const event_key = event_keys ? sql`event_key` : sql`null`;
  const parent = children ? sql`parent_run_id, parent_key, depth` : sql`null::bigint, null, 0`;
  const skipped = followers ? sql`skipped is not null` : sql`false`;
  const ended = followers
    ? sql`case when ${skipped} then 'SKIPPED' else 'PENDING' end, case when ${skipped} then clock_timestamp() end,
          case when ${skipped} then pg_current_xact_id() end, case when ${skipped} then 'After' end, skipped, repeats_followers`
    : sql`'PENDING', null, null, null, null, ${repeats_followers}`;
  return sql`keyed as materialized (
      select ask.*, ask.due_at > clock_timestamp() as early, d.concurrency_limit, d.has_followers,
             case when d.concurrency_policy <> 'allow' then 'job:' || d.name
                  else coalesce(ask.own_serial_key, fill_template(d.serial_key, ask.args)) end as serial_key,
             d.id || ':' || fill_template(d.concurrency_key, ask.args) as limit_key
        from ask join job_definition d on d.id = ask.job_definition_id),
    placed as (
      select k.*, not k.early and (
          (k.serial_key is not null and (
            row_number() over (partition by k.serial_key order by k.early, k.priority, k.due_at, k.place) > 1
            or exists (select from job_run o where o.serial_key = k.serial_key
                        and ${inStates(sql, NOT_ENDED, sql`o.state`)})
            or (k.bulk_id is null and exists (select from bulk b where b.serial_key = k.serial_key and b.finished_at is null))))
          or (k.limit_key is not null and
            row_number() over (partition by k.limit_key order by k.early, k.priority, k.due_at, k.place) + (
              select count(*) from (select from job_run o where o.limit_key = k.limit_key
                and ${inStates(sql, NOT_ENDED, sql`o.state`)} and ${
    notAsleep(sql, sql`o`)
  } limit k.concurrency_limit) live)
            > k.concurrency_limit)) as behind
        from keyed k),
    lined as materialized (select nextval('job_run_id_seq') as id, p.* from (select * from placed order by place) p),
    born as (
      insert into job_run (id, job_definition_id, job_schedule_id, event_id, source, idempotency_key, args_json, priority,
                           scheduled_for, due_at, serial_key, limit_key, node, rerun_of, bulk_id, leader_epoch, held, wakes_at, event_key, group_id,
                           state, finished_at, ended_xid, error_name, error_summary, repeats_followers, parent_run_id, parent_key, depth) overriding system value
      select id, job_definition_id, job_schedule_id, event_id, source, key, args, priority, coalesce(slot, due_at), due_at, serial_key, limit_key,
             nullif(node, ''), rerun_of, bulk_id, leader_epoch, (early or behind) and not ${skipped},
             case when early then due_at end, ${event_key}, ${
    followers ? sql`group_id` : groupOf(sql, alone)
  }, ${ended}, ${parent}
        from lined order by place
      on conflict (idempotency_key) where idempotency_key is not null do nothing
      returning id, idempotency_key, job_definition_id),
    checked as (
      insert into key_recheck (line)
      select 'serial:' || serial_key from lined where behind and serial_key is not null
      union select 'limit:' || limit_key from lined where behind and limit_key is not null)`;
}

/** Of a run that is no follower. One that is run again stays in the group of the first; an item of a bulk is in none, unless it is a slot's. */
function groupOf(sql: Db, alone: boolean) {
  if (alone) return sql`null::bigint`;
  return sql`case when bulk_id is not null and job_schedule_id is null then null
    else coalesce(case when rerun_of is not null then (select o.group_id from job_run o where o.id = lined.rerun_of) end, case when has_followers then id end) end`;
}
