/** What is promised of waits, messages, children, bulks and groups: nothing that comes is lost, or counts twice. W7 to W10 and W13. */
import type { Found, Invariant } from "./invariants.ts";

/** What ended each wait, and when that came. */
const CAME = `
  came as (
    select s.job_run_id, s.key, s.until as at from run_step s where s.kind = 'sleep' and s.state = 'DONE' and s.until is not null
    union all
    select m.job_run_id, m.taken_by, m.sent_at from run_message m where m.taken_by is not null
    union all
    select s.job_run_id, s.key, c.finished_at from run_step s join job_run c on c.id = s.child_run_id where s.kind = 'call' and s.seq is not null
    union all
    select s.job_run_id, s.key, b.finished_at from run_step s join bulk b on b.id = s.child_bulk_id where s.kind = 'bulk' and s.seq is not null)`;

export const WAIT_INVARIANTS: Invariant[] = [
  {
    invariant: "W7",
    says: "a suspended run for which something has come starts soon, once, and no check is left of what has come",
    violations: (sql, { steps, clock }) =>
      sql<Found[]>`
        with ${sql.unsafe(CAME)},
        slept as (select job_run_id, at as from_at, lead(at) over w as until_at, from_state, to_state, lead(to_state) over w as next
                    from job_run_event where to_state <> from_state window w as (partition by job_run_id order by seq))
        select s.job_run_id, '"' || c.key || '" had what it waited for, and the run started ' || round(extract(epoch from s.until_at - c.at) * 1000) || ' ms later' as detail
          from slept s join came c on c.job_run_id = s.job_run_id and c.at >= s.from_at and c.at < s.until_at
         where s.to_state = 'SUSPENDED' and c.at > ${clock?.zero.toISOString() ?? null}::timestamptz + ${
        steps?.healed_ms ?? null
      }::float8 * interval '1 ms'
           and s.until_at > c.at + ${steps?.wake_within_ms ?? null}::float8 * interval '1 ms'
        union all
        select job_run_id, 'after it was SUSPENDED it became ' || next from slept
         where to_state = 'SUSPENDED' and next not in ('ASSIGNED', 'FAILED', 'CANCELED', 'TIMED_OUT')
        union all
        select w.job_run_id, 'a check of it is left' from wake_check w join job_run r on r.id = w.job_run_id where r.finished_at is null`,
  },
  {
    invariant: "W8",
    says: "a message is taken by one wait, those of one name in the order in which they came",
    violations: (sql) =>
      sql<Found[]>`
        select s.job_run_id, '"' || s.key || '" is DONE and took ' || count(m.id) || ' messages' as detail
          from run_step s left join run_message m on m.job_run_id = s.job_run_id and m.taken_by = s.key
         where s.kind = 'message' and s.state = 'DONE' group by s.job_run_id, s.key having count(m.id) <> 1
        union all
        select m.job_run_id, 'message ' || m.id || ' went to "' || m.taken_by || '", which is ' || coalesce(s.state, 'not there')
          from run_message m left join run_step s on s.job_run_id = m.job_run_id and s.key = m.taken_by
         where m.taken_by is not null and s.state is distinct from 'DONE'
        union all
        select job_run_id, 'message ' || id || ' was taken after ' || before || ', which came later' from (
          select m.*, lag(m.id) over (partition by m.job_run_id, m.name order by s.seq) as before
            from run_message m join run_step s on s.job_run_id = m.job_run_id and s.key = m.taken_by) t
         where id < before
        union all
        select m.job_run_id, 'message ' || m.id || ' was passed over for ' || t.id from run_message m
          join run_message t on t.job_run_id = m.job_run_id and t.name = m.name and t.id > m.id and t.taken_by is not null
         where m.taken_by is null and m.for_key is null and t.for_key is null`,
  },
  {
    invariant: "W9",
    says: "each request of a child has one, whose end is what the code is told; none goes on awaited by nobody",
    violations: (sql) =>
      sql<Found[]>`
        select s.job_run_id, '"' || s.key || '" is ' || s.state || ' by run ' || coalesce(s.child_run_id::text, '-') || ', which is ' || coalesce(c.state, 'not there')
                 || coalesce(' of run ' || c.parent_run_id || ' for "' || c.parent_key || '"', '') as detail
          from run_step s left join job_run c on c.id = s.child_run_id
         where s.kind = 'call' and s.seq is not null and s.child_run_id is not null
           and ((c.parent_run_id, c.parent_key) is distinct from (s.job_run_id, s.key) or (s.state = 'DONE') <> (c.state = 'SUCCEEDED') or c.finished_at is null)
        union all
        select d.job_run_id, '"' || d.key || '" was told ' || coalesce(d.value::text, '-') || ', and run ' || c.id || ' came to ' || coalesce(c.result::text, '-')
          from delivery d join run_step s on (s.job_run_id, s.key) = (d.job_run_id, d.key) join job_run c on c.id = s.child_run_id
         where s.kind = 'call' and d.outcome = 'DONE' and coalesce(d.value, 'null') <> coalesce(c.result, 'null')
        union all
        select parent_run_id, '"' || parent_key || '" has ' || count(*) || ' children' from job_run
         where parent_key is not null and bulk_id is null group by parent_run_id, parent_key having count(*) > 1
        union all
        select p.id, 'it has ended, and run ' || c.id || ', which it awaited, is ' || c.state || ' and may go on'
          from job_run p join job_run c on c.parent_run_id = p.id
         where p.finished_at is not null and c.parent_key is not null and c.finished_at is null and c.cancel_requested_at is null
        union all
        select c.id, 'run ' || c.parent_run_id || ' has no step that asked for it' from job_run c
         where c.idempotency_key like 'child:%' and not exists (select from run_step s where s.job_run_id = c.parent_run_id
                 and 'child:' || s.job_run_id || ':' || s.key = c.idempotency_key)`,
  },
  {
    invariant: "W10",
    says: "a bulk that a body calls is made once, each item has one run, and the code is told what came of it",
    violations: (sql) =>
      sql<Found[]>`
        select parent_run_id as job_run_id, '"' || parent_key || '" has ' || count(*) || ' bulks' as detail from bulk
         where parent_key is not null group by parent_run_id, parent_key having count(*) > 1
        union all
        select b.parent_run_id, 'bulk ' || b.id || ' has ' || i.items || ' items and ' || i.runs || ' runs' from bulk b
         cross join lateral (select (select count(*) from bulk_item where bulk_id = b.id) as items,
                                    (select count(*) from job_run where bulk_id = b.id) as runs) i
         where b.parent_key is not null and b.state = 'FINISHED' and i.items <> i.runs
        union all
        select d.job_run_id, '"' || d.key || '" was told ' || coalesce(d.value::text, '-') || ', and bulk ' || b.id || ' ended with ' || b.succeeded || ' and ' || b.failed
          from delivery d join run_step s on (s.job_run_id, s.key) = (d.job_run_id, d.key) join bulk b on b.id = s.child_bulk_id
         where d.outcome = 'DONE' and d.value is distinct from jsonb_build_array(b.succeeded, b.failed)`,
  },
  {
    invariant: "W13",
    says: "one run per group and job, when all it comes after have ended, and SKIPPED where its rule is not met",
    violations: (sql) =>
      sql<Found[]>`
        with named as (
          select r.id, r.group_id, r.job_definition_id, r.created_at, r.state, d.after_when, n.name, m.ok, m.ended_at
            from job_run r join job_definition d on d.id = r.job_definition_id cross join lateral unnest(d.after_jobs) as n(name)
            left join lateral (select bool_and(m.state = 'SUCCEEDED') as ok, case when bool_and(m.finished_at is not null) then max(m.finished_at) end as ended_at
                                 from job_run m join job_definition md on md.id = m.job_definition_id
                                where m.group_id = r.group_id and md.name = n.name) m on true
           where r.source = 'after'),
        judged as (
          select id, created_at, state, after_when, bool_and(coalesce(ok, false)) as all_ok,
                 case when bool_and(ended_at is not null) then max(ended_at) end as ended_at from named group by 1, 2, 3, 4)
        select id as job_run_id, 'it was made before all that it comes after had ended' as detail from judged
         where ended_at is null or created_at < ended_at
        union all
        select id, 'it is ' || state || ', and what it comes after ' || case when all_ok then 'has' else 'has not' end || ' all succeeded' from judged
         where (state = 'SKIPPED') <> (case after_when when 'success' then not all_ok when 'failure' then all_ok else false end)
        union all
        select max(id), 'its group has ' || count(*) || ' runs of definition ' || job_definition_id from job_run
         where source = 'after' group by group_id, job_definition_id having count(*) > 1
        union all
        select m.id, 'it has ended, and nothing of "' || f.name || '" came after it' from job_run m
          join job_definition d on d.id = m.job_definition_id join job_definition f on f.after_jobs = array[d.name] and f.enabled and f.removed_at is null
         where m.group_id is not null and m.finished_at is not null
           and not exists (select from job_run r where r.group_id = m.group_id and r.job_definition_id = f.id)`,
  },
];
