/** What a leader may do: write under its own term, and bury only whom it may. */
import type { Found, Invariant } from "./invariants.ts";

export const LEADER_INVARIANTS: Invariant[] = [
  {
    invariant: "I7",
    says: "no leader writes below a newer epoch",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ' || to_state || ' under epoch ' || leader_epoch || ' when the term was ' || term_epoch as detail
          from job_run_event where by_leader and from_state is distinct from to_state and leader_epoch <> term_epoch
        union all
        select null, worker_id || ' was buried under epoch ' || dead_epoch || ' when the term was ' || term_epoch
          from worker_event where by_leader and to_state = 'DEAD' and dead_epoch <> term_epoch`,
  },
  {
    invariant: "terms",
    says: "the epoch never falls, and rises whenever somebody else gets the seat",
    violations: (sql) =>
      sql<Found[]>`
        select null::bigint as job_run_id, 'epoch ' || old_epoch || ' of ' || coalesce(old_worker_id, 'nobody') || ' became ' || epoch || ' of '
                 || coalesce(worker_id, 'nobody') as detail
          from leader_term_event
         where epoch < old_epoch or (epoch = old_epoch and worker_id is distinct from old_worker_id and worker_id is not null)`,
  },
  {
    invariant: "burials",
    says: "a leader buries only whose lease is over, and only after one worker lease of its own contact with Postgres",
    violations: (sql, { worker_lease_ms, leader_lease_ms }) =>
      sql<Found[]>`
        with buried as (select * from worker_event where by_leader and to_state = 'DEAD'),
        heard as (
          select epoch, at, lag(at) over (partition by epoch order by at) as before from leader_term_event)
        select null::bigint as job_run_id, worker_id || ' was buried before its lease was over' as detail from buried where old_lease_until > at
        union all
        select null, b.worker_id || ' was buried ' || round(extract(epoch from b.at - taken.at) * 1000) || ' ms after the leader had got its term'
          from buried b, lateral (select min(at) as at from leader_term_event t where t.epoch = b.dead_epoch) taken
         where b.at - taken.at < ${worker_lease_ms} * interval '1 ms'
        union all
        select null, b.worker_id || ' was buried ' || round(extract(epoch from b.at - h.at) * 1000) || ' ms after the leader had not reached Postgres for '
                 || round(extract(epoch from h.at - h.before) * 1000) || ' ms'
          from buried b join heard h on h.epoch = b.dead_epoch and h.at <= b.at and h.at > b.at - ${worker_lease_ms} * interval '1 ms'
         where h.at - h.before > ${worker_lease_ms / 2 + leader_lease_ms} * interval '1 ms'`,
  },
];
