/** That bulks end, with each item once, and one after another where they share a key. */
import type { Found, Invariant } from "./invariants.ts";

export const BULK_INVARIANTS: Invariant[] = [
  {
    invariant: "bulks",
    says:
      "at rest every bulk has ended; each item of one that was not canceled has a run, and the counts are those of the runs",
    violations: (sql) =>
      sql<Found[]>`
        select null::bigint as job_run_id, 'bulk ' || id || ' is still ' || state as detail from bulk where finished_at is null
        union all
        select i.job_run_id, 'item ' || i.seq || ' of bulk ' || b.id || ' has no run, and the bulk is FINISHED'
          from bulk b join bulk_item i on i.bulk_id = b.id left join job_run r on r.id = i.job_run_id and r.bulk_id = b.id
         where b.state = 'FINISHED' and r.id is null
        union all
        select null, 'bulk ' || b.id || ' says ' || b.succeeded || ' succeeded and ' || b.failed || ' failed, its runs say '
                 || r.succeeded || ' and ' || r.failed
          from bulk b cross join lateral (
            select count(*) filter (where state = 'SUCCEEDED') as succeeded, count(*) filter (where state in ('FAILED', 'TIMED_OUT')) as failed
              from job_run where bulk_id = b.id) r
         where b.finished_at is not null and (b.succeeded, b.failed) is distinct from (r.succeeded, r.failed)`,
  },
  {
    invariant: "bulks in line",
    says: "bulks that share a serial key run one after another, in the order in which they were made",
    violations: (sql) =>
      sql<Found[]>`
        select null::bigint as job_run_id, 'bulk ' || b.id || ' began before bulk ' || a.id || ' of "' || b.serial_key || '" had ended' as detail
          from bulk a join bulk b on b.serial_key = a.serial_key and b.id > a.id
         where b.started_at < coalesce(a.finished_at, 'infinity')`,
  },
];
