/** That every slot, event and enqueue has exactly one run. Keys are those of new runs.ts. */
import type { Found, Invariant } from "./invariants.ts";

export const NEW_RUN_INVARIANTS: Invariant[] = [
  {
    invariant: "I5",
    says: "of each schedule's slots none is missing and none is doubled",
    violations: (sql) =>
      sql<Found[]>`
        select null::bigint as job_run_id, 'slot ' || b.idempotency_key || ' has no run' as detail from birth b
         where b.idempotency_key like 'time:%' and not exists (select from job_run r where r.idempotency_key = b.idempotency_key)
        union all
        select max(id), 'schedule ' || job_schedule_id || ' has ' || count(*) || ' runs for the slot ' || scheduled_for
          from job_run where job_schedule_id is not null group by job_schedule_id, scheduled_for having count(*) > 1`,
  },
  {
    invariant: "I6",
    says: "each event has one run for each job that waits for it, and each enqueue has one",
    violations: (sql) =>
      sql<Found[]>`
        select null::bigint as job_run_id, b.idempotency_key || ' has no run' as detail from birth b
         where b.idempotency_key not like 'time:%' and not exists (select from job_run r where r.idempotency_key = b.idempotency_key)
        union all
        select null, 'event ' || id || ' was never processed' from event where processed_at is null
        union all
        select max(id), 'event ' || event_id || ' has ' || count(*) || ' runs of definition ' || job_definition_id
          from job_run where event_id is not null group by event_id, job_definition_id having count(*) > 1
        union all
        select max(id), idempotency_key || ' has ' || count(*) || ' runs' from job_run
         where idempotency_key is not null group by idempotency_key having count(*) > 1`,
  },
  {
    invariant: "I6",
    says: "no run that nobody asked for",
    violations: async (sql, { only_these_new_runs }) =>
      only_these_new_runs
        ? await sql<Found[]>`
          select id as job_run_id, 'nobody asked for ' || coalesce(idempotency_key, 'it') as detail from job_run r
           where not exists (select from birth b where b.idempotency_key = r.idempotency_key)
             and r.parent_run_id is null and r.source <> 'after' -- by whom these were asked for, W9, W10 and W13 judge
             and not exists (select from bulk p where p.id = r.bulk_id and p.parent_key is not null)
             and not exists (select from event e join job_definition d on d.event_rules ? e.event_type
                              where r.idempotency_key = 'event:' || e.id || ':' || d.id)`
        : [],
  },
];
