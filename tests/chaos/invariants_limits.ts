/** That no more runs are ASSIGNED or RUNNING at once, or become so in a time, than a limit allows, whatever it is a limit of. */
import type { Db } from "../../src/postgres/connection.ts";
import type { Found, Invariant } from "./invariants.ts";

/** One more, one less or as many as before, by the transition `v`. */
function step(sql: Db) {
  return sql`((v.to_state in ('ASSIGNED', 'RUNNING'))::int - coalesce(v.from_state in ('ASSIGNED', 'RUNNING'), false)::int)`;
}

export const LIMIT_INVARIANTS: Invariant[] = [
  {
    invariant: "limits",
    says: "as many runs of a limit key at once as the job allows",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ' || to_state || ' as number ' || active || ' of "' || limit_key || '", of which ' || most || ' may be' as detail
          from (select v.job_run_id, v.to_state, v.from_state, r.limit_key, d.concurrency_limit as most,
                       sum(${step(sql)}) over (partition by r.limit_key order by v.seq) as active
                  from job_run_event v join job_run r on r.id = v.job_run_id join job_definition d on d.id = r.job_definition_id
                 where r.limit_key is not null) l
         where active > most and to_state = 'ASSIGNED'`,
  },
  {
    invariant: "parallel",
    says: "no more runs of a bulk at once than it was ever allowed",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ' || to_state || ' as number ' || going || ' of bulk ' || bulk_id || ', of which ' || most || ' may be' as detail
          from (select v.job_run_id, v.to_state, r.bulk_id,
                       sum(${step(sql)}) over (partition by r.bulk_id order by v.seq) as going,
                       (select max((l.after_json ->> 'parallel')::int) from admin_action_log l
                         where l.target_type = 'bulk' and l.target_id = r.bulk_id::text) as most
                  from job_run_event v join job_run r on r.id = v.job_run_id
                 where r.bulk_id is not null) g
         where going > most and to_state = 'ASSIGNED'`,
  },
  {
    invariant: "resources",
    says: "no more of a resource in use at once than there is",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ' || to_state || ' when ' || used || ' of "' || name || '" were in use, of which there are ' || capacity as detail
          from (select v.job_run_id, v.to_state, n.name, c.capacity,
                       sum(n.needed::int * ${step(sql)}) over (partition by n.name order by v.seq) as used
                  from job_run_event v join job_run r on r.id = v.job_run_id join job_definition d on d.id = r.job_definition_id
                  cross join lateral jsonb_each_text(d.resources) as n(name, needed) join resource c on c.name = n.name) u
         where used > capacity and to_state = 'ASSIGNED'`,
  },
  {
    invariant: "rates",
    says:
      "no more runs given away in any time than the job's rate allows, but for a tenth of its time, at most a second, that is made up for",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ASSIGNED ' || round((ahead - made_up) * 1000, 1) || ' ms before the rate of "' || name || '" allowed it' as detail
          from (select s.*, max(asked_s - place * each_s) over (partition by name order by place rows between unbounded preceding and 1 preceding)
                              - (at_s - place * each_s) as ahead
                  from (select v.job_run_id, d.name, d.rate_seconds / d.rate_count as each_s, least(1, d.rate_seconds / 10) as made_up,
                               extract(epoch from v.asked_at) as asked_s, extract(epoch from v.at) as at_s,
                               row_number() over (partition by d.id order by v.seq) as place
                          from job_run_event v join job_run r on r.id = v.job_run_id join job_definition d on d.id = r.job_definition_id
                         where d.rate_count is not null and v.to_state = 'ASSIGNED' and v.from_state <> 'ASSIGNED') s) t
         where ahead > made_up`,
  },
  {
    invariant: "nodes",
    says: "no more runs at once on a node than its max_concurrent",
    violations: (sql) =>
      sql<Found[]>`
        with place as (
          select v.*, lag(worker_id) over (partition by job_run_id order by seq) as worker_before from job_run_event v),
        step as (
          select seq, job_run_id, worker_id, 1 as more from place where to_state in ('ASSIGNED', 'RUNNING')
          union all
          select seq, job_run_id, worker_before, -1 from place where from_state in ('ASSIGNED', 'RUNNING'))
        select g.job_run_id, 'it became ASSIGNED as number ' || going || ' on node ' || node_id || ', where ' || max_concurrent || ' may be' as detail
          from (select s.seq, s.job_run_id, s.more, w.node_id, n.max_concurrent,
                       sum(s.more) over (partition by w.node_id order by s.seq, s.more) as going
                  from step s join worker w using (worker_id) join node n using (node_id)) g
          join place v using (seq)
         where going > max_concurrent and v.to_state = 'ASSIGNED' and g.more > 0`,
  },
];
