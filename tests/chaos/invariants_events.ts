/** That events of which a rule makes fewer runs than one each are all accounted for. */
import type { Found, Invariant } from "./invariants.ts";

/** Each event with each job that has a rule for it. */
const RULED = `
  ruled as (
    select e.id as event_id, e.payload_json, d.id as job_definition_id, d.name, d.event_rules -> e.event_type as rule
      from event e join job_definition d on d.event_types @> array[e.event_type] and d.event_rules ? e.event_type
     where e.processed_at is not null)`;

export const EVENT_INVARIANTS: Invariant[] = [
  {
    invariant: "ruled events",
    says: "each has a run, or is told as the one in whose place another came",
    violations: (sql) =>
      sql<Found[]>`
        with ${sql.unsafe(RULED)}
        select null::bigint as job_run_id, 'event ' || event_id || ' has ' || runs || ' runs of "' || name || '" and is ' || absorbed
                 || ' times told as absorbed' as detail
          from (select u.*, (select count(*) from job_run r where r.event_id = u.event_id and r.job_definition_id = u.job_definition_id) as runs,
                       (select count(*) from event_suppressed a where a.event_id = u.event_id and a.job_definition_id = u.job_definition_id) as absorbed
                  from ruled u) c
         where runs + absorbed <> 1`,
  },
  {
    invariant: "ruled events",
    says:
      "in the place of a debounced one a later one came, in that of a throttled one an earlier one, of the same key",
    violations: (sql) =>
      sql<Found[]>`
        select a.job_run_id, 'event ' || a.event_id || ' was ' || a.outcome || ', and its run is that of '
                 || coalesce('event ' || r.event_id || ' with args ' || r.args_json, 'none') as detail
          from event_suppressed a join event e on e.id = a.event_id join job_definition d on d.id = a.job_definition_id
               left join job_run r on r.id = a.job_run_id
         where r.event_id is null or (a.outcome = 'debounced') <> (r.event_id > a.event_id)
            or fill_template(d.event_rules -> e.event_type ->> 'key', e.payload_json)
               is distinct from fill_template(d.event_rules -> e.event_type ->> 'key', r.args_json)`,
  },
  {
    invariant: "ruled events",
    says: "a run has the payload of the event that it is for",
    violations: (sql) =>
      sql<Found[]>`
        with ${sql.unsafe(RULED)}
        select r.id as job_run_id, 'it is for event ' || event_id || ' and has args ' || r.args_json || ', not ' || payload_json as detail
          from ruled join job_run r using (event_id, job_definition_id) where r.args_json <> payload_json`,
  },
  {
    invariant: "ruled events",
    says: "runs of a throttled key are born as far apart as its rule says",
    violations: (sql) =>
      sql<Found[]>`
        with ${sql.unsafe(RULED)}
        select id as job_run_id, 'it was born ' || round(extract(epoch from apart) * 1000) || ' ms after another of "' || event_key || '"' as detail
          from (select r.id, r.event_key, (rule ->> 'throttle_seconds')::float8 as least_s,
                       r.created_at - lag(r.created_at) over (partition by r.job_definition_id, r.event_key order by r.id) as apart
                  from ruled join job_run r using (event_id, job_definition_id) where rule ? 'throttle_seconds') t
         where apart < least_s * interval '1 s'`,
  },
];
