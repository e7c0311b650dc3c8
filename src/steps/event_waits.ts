/**
 * Runs that wait for an event (`waitForEvent`). The statement in which the leader takes events (events/events.ts) writes a message for each
 * wait that wants one of them, the first, and the message wakes the run. A wait that is committed too late for that statement
 * finds the event by itself, since the look comes after its commit (arrivals.ts): so none is missed.
 */
import type { Db, Fragment } from "../postgres/connection.ts";

/** Parts of a `with` after `taken` (id, event_type, payload_json, created_at). When it was emitted decides whether it came before the wait's limit. */
export function messagesOfEvents(sql: Db): Fragment {
  return sql`wanted_by as materialized (
      select s.job_run_id, s.key, t.id, t.event_type, t.payload_json, t.created_at
        from taken t cross join lateral (
          select * from run_step w where w.waits_for = t.event_type and w.kind = 'event' and w.state = 'WAITING' offset 0) s
       where event_matches(jsonb_build_object('where', coalesce(s.event_where, '{}')), t.payload_json)
         and t.created_at <= coalesce(s.until, 'infinity')),
    awaited as (
      select distinct on (w.job_run_id, w.key) w.* from wanted_by w
       where not exists (
         select from run_message m where m.job_run_id = w.job_run_id and m.name = w.event_type and m.for_key = w.key and m.taken_by is null)
       order by w.job_run_id, w.key, w.id),
    told as (
      insert into run_message (job_run_id, name, for_key, payload, dedupe_key, sent_by, sent_at)
      select a.job_run_id, a.event_type, a.key, a.payload_json, 'event:' || a.id || ':' || a.key, 'event ' || a.id, a.created_at
        from awaited a cross join lateral (
          select from job_run o where o.id = a.job_run_id and o.finished_at is null and o.created_at <= a.created_at offset 0) r
      on conflict (job_run_id, dedupe_key) where dedupe_key is not null do nothing)`;
}

/** How many waits there are for events of a type. */
export function openWaits(sql: Db, event_type: Fragment): Fragment {
  return sql`(select count(*) from run_step s where s.waits_for = ${event_type} and s.kind = 'event' and s.state = 'WAITING')`;
}
