/**
 * The look: what has come for the open waits of runs. It changes nothing. A row that says what the code was given is written later, by
 * the body through commitSteps, and takes the message; until then each look finds the same.
 *
 *   sleep    its end has passed
 *   message  the oldest of its name that no wait has taken, one for each wait; sent before the limit, it wins over the limit
 *   event    the first since the run was created that its `where` wants, emitted before the limit
 *   call     its run has ended: the result, or the error with which the body makes a ChildFailed
 *   bulk     it has ended
 *
 * All is read in one statement, so of one snapshot, and `wakes` with it. Who suspends a run by these `wakes` (suspend_runs.ts) finds them
 * changed when the leader has acted on anything that came later; what it has not acted on yet wakes the run.
 * A wait that changed code does not ask for any more is answered as well: who looks leaves out what it has passed on.
 *
 * The rows of each run are asked for by themselves (`offset 0`): where the table was analyzed with few rows, a join read all of it.
 */
import type { Json } from "../job.ts";
import type { Db } from "../postgres/connection.ts";
import type { Arrival } from "../sandbox/frames/step_frames.ts";
import { english } from "../locale/english.ts";

export interface Arrivals {
  job_run_id: number;
  wakes: number;
  arrivals: Arrival[];
}

/** More than passes between the stamp of a wait and its commit. */
const COMMIT_SECONDS = 60;
/** Ids of events are in the order of their times but for such differences. */
const ORDER_SECONDS = 2;

interface FoundRow {
  what: "run" | "came" | "wait" | "message";
  job_run_id: number;
  wakes: number;
  key: string;
  outcome: Arrival["outcome"];
  result: Json;
  error_name: string | null;
  error_summary: string | null;
  message_id: number | null;
  sent_by: string | null;
  child_run_id: number | null;
  child_bulk_id: number | null;
  /** Of a wait: its limit; of a message: when it was sent. In microseconds, which a number holds exactly. */
  at_us: number | null;
  /** The limit has passed. */
  is_over: boolean;
  waits_for: string | null;
  for_message: boolean;
}

/** Of each run that is there, in one statement. */
export async function findArrivals(sql: Db, job_run_ids: number[]): Promise<Arrivals[]> {
  if (job_run_ids.length === 0) return [];
  const rows = await sql<FoundRow[]>`
    with clock as materialized (select clock_timestamp() as now),
    run as materialized (select r.id, r.wakes, r.created_at from job_run r where r.id = any(${job_run_ids}::bigint[])),
    open as materialized (
      select s.*, r.created_at, coalesce(s.until <= clock.now, false) as is_over
        from clock, run r cross join lateral (
          select * from run_step where job_run_id = r.id and seq is null and state = 'WAITING' offset 0) s),
    came as (
      select o.job_run_id, o.key, 'DONE' as outcome, null::jsonb as result, null as error_name, null as error_summary,
             null::bigint as message_id, null as sent_by, null::bigint as child_run_id, null::bigint as child_bulk_id
        from open o where o.kind = 'sleep' and o.is_over
      union all ${endedChildren(sql)} union all ${endedBulks(sql)} union all ${events(sql)})
    select 'run' as what, id as job_run_id, wakes, null as key, null as outcome, null::jsonb as result, null as error_name,
           null as error_summary, null::bigint as message_id, null as sent_by, null::bigint as child_run_id, null::bigint as child_bulk_id,
           null::float8 as at_us, false as is_over, null as waits_for, false as for_message from run
    union all select 'came', c.job_run_id, null, c.key, c.outcome, c.result, c.error_name, c.error_summary, c.message_id, c.sent_by,
           c.child_run_id, c.child_bulk_id, null, false, null, false from came c
    union all select 'wait', o.job_run_id, null, o.key, null, null, null, null, null, null, null, null, ${
    us(sql, sql`o.until`)
  },
           o.is_over, o.waits_for, o.kind = 'message' from (select * from open where kind in ('message', 'event') order by job_run_id, began_at, key) o
    union all select 'message', g.job_run_id, null, null, null, m.payload, null, null, m.id, m.sent_by, null, null,
           ${us(sql, sql`m.sent_at`)}, false, g.waits_for, true
      from (select job_run_id, waits_for, count(*) as waits from open where kind = 'message' group by 1, 2) g
      cross join lateral (
        select m.* from run_message m where m.job_run_id = g.job_run_id and m.name = g.waits_for and m.taken_by is null and m.for_key is null
         order by m.id limit g.waits) m`;
  const of_run = Map.groupBy(rows, ({ job_run_id }) => job_run_id);
  return [...of_run.values()].flatMap((found) => {
    const run = found.find(({ what }) => what === "run");
    if (!run) return [];
    const came = found.filter(({ what }) => what === "came").map(arrivalOf);
    return { job_run_id: run.job_run_id, wakes: run.wakes, arrivals: [...came, ...answersTo(found, came)] };
  });
}

function us(sql: Db, time: ReturnType<typeof events>) {
  return sql`(extract(epoch from ${time}) * 1000000)::float8`;
}

/** A run that was called and has ended; one that was deleted has failed. */
function endedChildren(sql: Db) {
  return sql`
    select o.job_run_id, o.key, case c.state when 'SUCCEEDED' then 'DONE' else 'FAILED' end,
           case c.state when 'SUCCEEDED' then c.result end,
           case when c.id is null then 'Deleted' when c.state <> 'SUCCEEDED' then coalesce(c.error_name, c.state) end,
           case when c.id is null then 'its row was deleted' when c.state <> 'SUCCEEDED' then coalesce(c.error_summary, 'it ended ' || c.state) end,
           null, null, o.child_run_id, null
      from open o left join lateral (select * from job_run r where r.id = o.child_run_id offset 0) c on true
     where o.kind = 'call' and o.child_run_id is not null and (c.id is null or c.finished_at is not null)`;
}

/** As children: what came of its items is in its counts. Canceled, it has not done what it was for. */
function endedBulks(sql: Db) {
  return sql`
    select o.job_run_id, o.key, case b.state when 'FINISHED' then 'DONE' else 'FAILED' end,
           case b.state when 'FINISHED' then jsonb_build_object('succeeded', b.succeeded, 'failed', b.failed) end,
           case when b.id is null then 'Deleted' when b.state <> 'FINISHED' then 'Canceled' end,
           case when b.id is null then 'its row was deleted' when b.state <> 'FINISHED'
             then concat_ws(': ', 'canceled by ' || coalesce(b.changed_by, 'someone'), b.reason) end,
           null, null, null, o.child_bulk_id
      from open o left join lateral (select * from bulk u where u.id = o.child_bulk_id offset 0) b on true
     where o.kind = 'bulk' and o.child_bulk_id is not null and (b.id is null or b.finished_at is not null)`;
}

/**
 * The first event for each wait. The leader writes a message for each event that it takes while the wait is open (event_waits.ts).
 * Those before are looked for among all events since the run was created, up to the time at which the leader can have known the wait; and
 * not again once the run was suspended, since the look before that has found none.
 */
function events(sql: Db) {
  const first_at = sql`o.created_at - ${ORDER_SECONDS} * interval '1 s'`;
  const last_at = sql`o.began_at + ${COMMIT_SECONDS} * interval '1 s'`;
  return sql`
    select o.job_run_id, o.key, 'DONE', e.payload, null, null, e.message_id, e.sent_by, null, null
      from (select * from open where kind = 'event') o
      cross join lateral (
        select * from (
          (select split_part(m.dedupe_key, ':', 2)::bigint as event_id, m.id as message_id, m.payload, m.sent_by, m.sent_at as at
             from run_message m
            where m.job_run_id = o.job_run_id and m.name = o.waits_for and m.for_key = o.key and m.taken_by is null order by m.id limit 1)
          union all
          (select e.id, null, e.payload_json, 'event ' || e.id, e.created_at from event e
            where e.event_type = o.waits_for and e.created_at >= o.created_at
              and e.id between (select id from event where created_at >= ${first_at} order by created_at limit 1)
                           and (select id from event where created_at <= ${last_at} order by created_at desc limit 1)
              and event_matches(jsonb_build_object('where', coalesce(o.event_where, '{}')), e.payload_json)
              and not exists (select from job_run_attempt a
                               where a.job_run_id = o.job_run_id and a.attempt >= o.attempt and a.outcome = 'SUSPENDED')
            order by e.id limit 1)) found
         where found.at <= coalesce(o.until, 'infinity') order by found.event_id limit 1) e`;
}

/** Of each wait for a message or an event that was not answered by `came`: the next message of its name, or that its limit has passed. */
function answersTo(found: FoundRow[], came: Arrival[]): Arrival[] {
  const messages = Map.groupBy(found.filter(({ what }) => what === "message"), ({ waits_for }) => waits_for);
  return found.filter(({ what }) => what === "wait").flatMap((wait): Arrival[] => {
    const { key, waits_for, at_us, is_over, for_message } = wait;
    if (came.some((arrival) => arrival.key === key)) return [];
    const of_name = for_message ? messages.get(waits_for) : undefined;
    const place = of_name?.findIndex((message) => (message.at_us as number) <= (at_us ?? Infinity)) ?? -1;
    if (place < 0) return is_over ? [{ key, outcome: "TIMED_OUT" }] : [];
    const [message] = (of_name as FoundRow[]).splice(place, 1) as [FoundRow];
    return [{ ...arrivalOf(message), key, outcome: "DONE" }];
  });
}

function arrivalOf(row: FoundRow): Arrival {
  const { key, outcome, result, error_name, error_summary, message_id, sent_by, child_run_id, child_bulk_id } = row;
  const arrival: Arrival = { key, outcome };
  if (outcome !== "FAILED" && (result !== null || message_id !== null || child_run_id !== null)) {
    arrival.result = result;
  }
  if (error_name !== null) arrival.error_name = error_name;
  if (error_summary !== null) arrival.error_summary = english(error_summary);
  if (message_id !== null) arrival.message_id = message_id;
  if (sent_by !== null) arrival.sent_by = sent_by;
  if (child_run_id !== null) arrival.child_run_id = child_run_id;
  if (child_bulk_id !== null) arrival.child_bulk_id = child_bulk_id;
  return arrival;
}
