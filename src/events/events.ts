/**
 * Events: what happened elsewhere, and what becomes of it. Each starts a run of every job that names its type, unless the job
 * has a rule for it (`on: { type, ... }`):
 *
 *   where     only payloads with these values
 *   debounce  one run, a while after the last event of a key, with its payload; each further event puts it off
 *   throttle  no run while the last one of the key was created less than a window ago
 *
 * An event that a rule left without a run of its own has a row in `event_suppressed`, which names the run there is instead.
 */
import type { Actor } from "../access/audit.ts";
import { insertingRuns, now } from "../runs/create_runs.ts";
import { type Db, json } from "../postgres/connection.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { messagesOfEvents, openWaits } from "../steps/event_waits.ts";
import type { RunState } from "../runs/run_states.ts";

export interface EventAsked {
  event_type: string;
  payload: unknown;
  dedupe_key?: string;
}

/** Emits one; gives its id. */
export async function emitEvent(sql: Db, event: EventAsked): Promise<number> {
  const [id] = await emitEvents(sql, [event]);
  return id as number;
}

/**
 * Emits events, all or none; the SQL function is the same one that other programs call. Gives their ids in their order, also where the key was
 * used before.
 */
export async function emitEvents(sql: Db, events: EventAsked[]): Promise<number[]> {
  const asked = events.map(({ event_type, payload, dedupe_key }) => ({
    event_type,
    payload: payload ?? {},
    dedupe_key,
  }));
  const rows = await sql<{ id: number }[]>`
    select emit_event(e.event_type, e.payload, e.dedupe_key) as id
      from jsonb_to_recordset(${json(sql, asked)}) as e(event_type text, payload jsonb, dedupe_key text)`;
  return rows.map(({ id }) => id);
}

/**
 * The same as somebody's act, with its audit in the same statement. `is_new` false: the key was used before, so there was
 * nothing to note. (What the function adds is not visible to the statement that calls it.)
 */
export async function emitEventBy(
  sql: Db,
  event: EventAsked,
  by: Actor,
): Promise<{ id: number; is_new: boolean }> {
  const [row] = await sql<{ id: number; is_new: boolean }[]>`
    with emitted as materialized (
      select emit_event(${event.event_type}, ${json(sql, event.payload ?? {})}, ${event.dedupe_key ?? null}) as id),
    fresh as materialized (
      select id from emitted where not exists (select from event e where e.id = emitted.id)),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'event.emit', 'event', id::text,
             jsonb_build_object('event_type', ${event.event_type}::text, 'dedupe_key', ${
    event.dedupe_key ?? null
  }::text), ${by.reason}
        from fresh)
    select id, exists (select from fresh) as is_new from emitted`;
  return row as { id: number; is_new: boolean };
}

/** A job that is on and names a type, its schema as text, and whether its rule's condition wants a payload. */
export interface Listener {
  job_name: string;
  args_schema: string | null;
  is_wanted: boolean;
}

export async function readListeners(sql: Db, event: Pick<EventAsked, "event_type" | "payload">): Promise<Listener[]> {
  return await sql<Listener[]>`
    select d.name as job_name, d.args_schema::text as args_schema,
           event_matches(coalesce(d.event_rules -> ${event.event_type}, '{}'), ${
    json(sql, event.payload ?? {})
  }) as is_wanted
      from job_definition d where d.event_types @> array[${event.event_type}::text] and d.enabled and d.removed_at is null order by d.name`;
}

/** How many events were dealt with, how many runs they started, and how many of them rules left without one of their own. */
export interface EventsTaken {
  events: number;
  runs: number;
  absorbed: number;
  /** Some were left for the next time. */
  more: boolean;
}

/** Of one statement, but for its first event: a thousand jobs may wait for one type, and payloads be large. */
const RUNS_AT_ONCE = 5_000;
const BYTES_AT_ONCE = 8_000_000;

/**
 * Events become runs, exactly once, in one statement. Never a cursor "id > last": ids are not committed in their order.
 * An event that no job waits for is marked processed all the same.
 *
 * A debounced run is one that is not due yet; only the leader lets such runs go, so between its statements none can slip
 * away while it is put off. The window of a throttle is counted from the newest run's row. `skip_locked`: types of events that put off a run whose
 * row somebody keeps wait until that is free.
 */
export async function takeEvents(sql: Db, term: Term, { most = 500, skip_locked = false } = {}): Promise<EventsTaken> {
  const [row] = await sql<EventsTaken[]>`
    with ${fence(sql, term)},
    ${firstEvents(sql, { most, skip_locked })},
    taken as (
      select e.id, e.event_type, e.payload_json, e.created_at from event e, fence
       where e.id = any(array(select id from few)) and e.processed_at is null order by e.id for update of e skip locked),
    hit as materialized (
      select t.id as event_id, t.payload_json as args, d.id as job_definition_id, d.name, d.priority, d.node,
             (rule ->> 'debounce_seconds')::float8 * interval '1 s' as debounce,
             (rule ->> 'max_wait_seconds')::float8 * interval '1 s' as max_wait,
             (rule ->> 'throttle_seconds')::float8 * interval '1 s' as throttle,
             case when rule ?| '{debounce_seconds,throttle_seconds}'
                  then case when length(t.event_type) <= 100 then t.event_type else md5(t.event_type) end || ':' || coalesce(fill_template(rule ->> 'key', t.payload_json), '') end as event_key
        from taken t join job_definition d on d.event_types @> array[t.event_type] and d.enabled
        cross join lateral (select d.event_rules -> t.event_type as rule) r
       where event_matches(rule, t.payload_json)),
    ranked as materialized (
      select h.*, last.id as last_id, last.event_id as last_event_id,
             h.debounce is not null and last.state = 'PENDING' and last.held and last.wakes_at is not null
               and last.cancel_requested_at is null as waits,
             h.throttle is not null and (last.created_at > clock_timestamp() - h.throttle
               or row_number() over (partition by h.job_definition_id, h.event_key order by h.event_id) > 1) as throttled,
             first_value(h.event_id) over (partition by h.job_definition_id, h.event_key order by h.event_id) as first_of_key,
             max(h.event_id) over (partition by h.job_definition_id, h.event_key) as last_of_key
        from hit h left join lateral (
          select * from job_run o where o.job_definition_id = h.job_definition_id and o.event_key = h.event_key
           order by o.id desc limit 1) last on h.event_key is not null),
    put_off as (
      update job_run r set args_json = k.args, event_id = k.event_id, version = r.version + 1,
             due_at = least(clock_timestamp() + k.debounce, r.created_at + k.max_wait),
             wakes_at = least(clock_timestamp() + k.debounce, r.created_at + k.max_wait),
             serial_key = case when d.concurrency_policy <> 'allow' then 'job:' || d.name else fill_template(d.serial_key, k.args) end,
             limit_key = d.id || ':' || fill_template(d.concurrency_key, k.args), node = nullif(fill_template(d.node, k.args), '')
        from ranked k join job_definition d on d.id = k.job_definition_id, fence
       where r.id = any(array(select last_id from ranked where waits and event_id = last_of_key)) and r.id = k.last_id
         and k.event_id = k.last_of_key and r.state is not distinct from 'PENDING' and r.held and r.cancel_requested_at is null
      returning r.id, r.job_definition_id, r.event_key),
    ask as (
      select row_number() over (order by k.event_id, k.job_definition_id) as place, k.job_definition_id, 'event' as source,
             'event:' || k.event_id || ':' || k.job_definition_id as key, k.args, k.priority,
             ${now(sql)} + coalesce(k.debounce, interval '0') as due_at, null::timestamptz as slot,
             fill_template(k.node, k.args) as node, null::bigint as rerun_of, null as own_serial_key,
             null::bigint as job_schedule_id, k.event_id, null::bigint as bulk_id, fence.epoch as leader_epoch, k.event_key
        from ranked k, fence
       where not coalesce(k.throttled, false) and (k.debounce is null or k.event_id = k.last_of_key)
         and not exists (select from put_off p where p.job_definition_id = k.job_definition_id and p.event_key = k.event_key and k.debounce is not null)),
    ${insertingRuns(sql, { event_keys: true })},
    absorbed as (
      insert into event_suppressed (event_id, job_definition_id, outcome, job_run_id)
      select k.event_id, k.job_definition_id, case when k.throttled then 'throttled' else 'debounced' end,
             coalesce(p.id, b.id, case when k.throttled then k.last_id end)
        from ranked k
        left join put_off p on p.job_definition_id = k.job_definition_id and p.event_key = k.event_key and k.debounce is not null
        left join born b on b.idempotency_key = 'event:' || case when k.throttled then k.first_of_key else k.last_of_key end || ':' || k.job_definition_id
       where k.throttled or (k.debounce is not null and k.event_id <> k.last_of_key)
      union all
      select k.last_event_id, k.job_definition_id, 'debounced', p.id
        from ranked k join put_off p on p.id = k.last_id where k.event_id = k.last_of_key and k.last_event_id is not null
      on conflict do nothing returning 1),
    ${messagesOfEvents(sql)},
    marked as (
      update event e set processed_at = clock_timestamp() from taken t where e.id = t.id returning 1)
    select (select count(*) from marked)::int as events, (select count(*) from born)::int as runs,
           (select count(*) from absorbed)::int as absorbed,
           (select count(*) from first) = ${most} or (select count(*) from few) < (select count(*) from first) as more`;
  return row ?? { events: 0, runs: 0, absorbed: 0, more: false };
}

function keptTypes(sql: Db) {
  const put_off =
    sql`select id from job_run where event_key is not null and state = 'PENDING' and held and wakes_at is not null`;
  return sql`
    select unnest(d.event_types) from job_run r join job_definition d on d.id = r.job_definition_id
     where r.id in (${put_off}) and r.id not in (select id from (${put_off} ${skipLocked(sql)}) free)`;
}

/** Of the events that wait, `first`, and `few` of them whose runs one statement can bear. */
function firstEvents(sql: Db, { most, skip_locked }: { most: number; skip_locked: boolean }) {
  const waits = skip_locked ? sql`event_type in (${keptTypes(sql)})` : sql`false`;
  return sql`
    first as materialized (
      select id, event_type, pg_column_size(payload_json)::bigint as bytes from event
       where processed_at is null and not (${waits}) order by id limit ${most}),
    wanted as materialized (
      select t.event_type, (select count(*) from job_definition d where d.event_types @> array[t.event_type] and d.enabled)
               + ${openWaits(sql, sql`t.event_type`)} as jobs
        from (select distinct event_type from first) t),
    few as materialized (
      select id from (
        select id, row_number() over w as place, sum(jobs) over w as runs, sum(jobs * bytes) over w as bytes
          from first join wanted using (event_type) window w as (order by id)) s
       where place = 1 or (runs <= ${RUNS_AT_ONCE} and bytes <= ${BYTES_AT_ONCE}))`;
}

export interface EventView {
  id: number;
  event_type: string;
  payload: unknown;
  dedupe_key: string | null;
  created_at: Date;
  /** Null: the leader has not come to it yet. */
  processed_at: Date | null;
  /** What came of it; none: no job waits for it, or none for such a payload. */
  outcomes: EventOutcome[];
}

/** A run of its own, or that of another event in its place. */
export interface EventOutcome {
  job_name: string;
  outcome: "run" | "debounced" | "throttled";
  job_run_id: number | null;
  state: RunState | null;
}

/** The newest first, with ids below `before` or, the newest of them first as well, just above `after`; or the one of this id. */
export async function listEvents(
  sql: Db,
  wanted: { id?: number; event_type?: string; unprocessed?: boolean; before?: number; after?: number; most: number },
): Promise<EventView[]> {
  const { id, event_type, unprocessed, before, after, most } = wanted;
  const events = await sql<EventView[]>`
    select e.id, e.event_type, e.payload_json as payload, e.dedupe_key, e.created_at, e.processed_at, coalesce((
             select jsonb_agg(jsonb_build_object('job_name', d.name, 'outcome', o.outcome, 'job_run_id', o.job_run_id, 'state', r.state)
                              order by d.name)
               from (select r.job_definition_id, 'run' as outcome, r.id as job_run_id from job_run r where r.event_id = e.id
                     union all select a.job_definition_id, a.outcome, a.job_run_id from event_suppressed a where a.event_id = e.id) o
               join job_definition d on d.id = o.job_definition_id left join job_run r on r.id = o.job_run_id), '[]') as outcomes
      from event e
     where ${id === undefined ? sql`true` : sql`e.id = ${id}`}
       and ${event_type === undefined ? sql`true` : sql`e.event_type = ${event_type}`}
       and ${unprocessed ? sql`e.processed_at is null` : sql`true`}
       and ${before === undefined ? sql`true` : sql`e.id < ${before}`}
       and ${after === undefined ? sql`true` : sql`e.id > ${after}`}
     order by e.id ${after === undefined ? sql`desc` : sql``} limit ${most}`;
  return after === undefined ? events : events.toReversed();
}
