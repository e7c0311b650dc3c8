/** What is promised of steps: done once, told once, by who owns the run, in one order. W1 to W5, W11, W12 and W14 as the design numbers them. */
import type { Found, Invariant } from "./invariants.ts";

/** Runs that need not undo: put away, closed by force, or ended since they could not go on as they were. */
const NOT_UNDONE = `('UndoFailed', 'Quarantined', 'Diverged', 'Missing')`;

export const STEP_INVARIANTS: Invariant[] = [
  {
    invariant: "W1",
    says: "a step whose row is DONE ran to its end, and never again",
    violations: (sql) =>
      sql<Found[]>`
        select s.job_run_id, '"' || s.key || '" is DONE, and no body of it returned ' || coalesce(s.result::text, 'nothing') as detail
          from run_step s
         where s.kind = 'step' and s.state = 'DONE' and exists (select from delivery d where d.job_run_id = s.job_run_id)
           and not exists (select from step_body b where (b.job_run_id, b.key) = (s.job_run_id, s.key) and b.ended_ms is not null
                             and coalesce(b.value, 'null') = coalesce(s.result, 'null'))
        union all
        select s.job_run_id, '"' || s.key || '" was DONE in attempt ' || s.attempt || ' and had a body in attempt ' || b.attempt || ' after it'
          from run_step s join step_body b on (b.job_run_id, b.key) = (s.job_run_id, s.key)
         where s.kind in ('step', 'undo') and s.state = 'DONE' and (b.attempt > s.attempt or (b.attempt = s.attempt and exists (
                 select from step_body o where (o.job_run_id, o.key, o.attempt) = (b.job_run_id, b.key, b.attempt) and o.line < b.line
                    and o.ended_ms is not null and (s.kind = 'undo' or coalesce(o.value, 'null') = coalesce(s.result, 'null')))))`,
  },
  {
    invariant: "W2",
    says: "two bodies of one step do not overlap, and differ in their attempt or try",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, '"' || key || '" began ' || round((reached - began_ms)::numeric, 1) || ' ms before another body of it had ended' as detail
          from (select *, max(coalesce(ended_ms, began_ms)) over (partition by job_run_id, key order by line
                               rows between unbounded preceding and 1 preceding) as reached from step_body) b
         where reached > began_ms
        union all
        select job_run_id, '"' || key || '" had ' || count(*) || ' bodies in try ' || tries || ' of fence ' || fence
          from step_body group by job_run_id, key, fence, tries having count(*) > 1`,
  },
  {
    invariant: "W3",
    says: "what code is told is what was recorded, in its order and without gaps, the same in every execution",
    violations: (sql) =>
      sql<Found[]>`
        select d.job_run_id, 'as number ' || d.place || ' attempt ' || coalesce(d.attempt::text, '?') || ' was told "' || d.key || '" ' || d.outcome || ' '
                 || coalesce(d.value::text, '-') || ', its journal has ' || coalesce('"' || s.key || '" ' || s.state || ' ' || coalesce(s.result::text, '-'), 'nothing') as detail
          from delivery d left join journal s on (s.job_run_id, s.place) = (d.job_run_id, d.place)
         where s.key is distinct from d.key or (d.outcome = 'DONE') <> (s.state = 'DONE' or (s.state = 'TIMED_OUT' and s.kind = 'message'))
            or (d.outcome = 'DONE' and s.kind in ('step', 'message') and coalesce(d.value, 'null') <> coalesce(s.result, 'null'))
        union all
        select job_run_id, 'number ' || place || ' was told in ' || count(distinct row(key, outcome, value)) || ' ways' from delivery
         group by job_run_id, place having count(distinct row(key, outcome, value)) > 1
        union all
        select id, 'it ended ' || error_name || ': ' || left(error_summary, 200) from job_run r
         where (error_name = 'Diverged' or error_summary like 'Uncaught outside of run()%') and exists (select from delivery d where d.job_run_id = r.id)
        union all
        select job_run_id, 'fence ' || fence || ' was told ' || count(*) || ' answers, the last as number ' || max(place) from delivery
         group by job_run_id, fence having count(*) <> max(place)`,
  },
  {
    invariant: "W4",
    says: "no row is written by an attempt that did not own the run then",
    violations: (sql) =>
      sql<Found[]>`
        select s.job_run_id, '"' || s.key || '" was written by attempt ' || s.attempt || coalesce(' after the run had become ' || l.to_state, ', which never ran') as detail
          from run_step s
          left join lateral (select min(v.seq) as seq from job_run_event v where v.job_run_id = s.job_run_id and v.attempt = s.attempt
                                and v.to_state = 'RUNNING' and v.from_state <> 'RUNNING') ran on true
          left join lateral (select v.to_state from job_run_event v where v.job_run_id = s.job_run_id and v.seq > ran.seq
                                and v.to_state not in ('RUNNING', 'ORPHANED') and v.at < coalesce(s.ended_at, s.began_at)
                              order by v.seq limit 1) l on true
         where s.state <> 'CANCELED' and (ran.seq is null or l.to_state is not null)`,
  },
  {
    invariant: "W5",
    says: "nothing new begins in an execution before all that was recorded earlier was told in it",
    violations: (sql) =>
      sql<Found[]>`
        select b.job_run_id, '"' || b.key || '" began in attempt ' || b.attempt || ' before "' || s.key || '" of attempt ' || s.attempt || ' was told' as detail
          from step_body b join journal s on s.job_run_id = b.job_run_id and s.attempt < b.attempt
         where b.key not like 'undo:%'
           and not exists (select from delivery d where (d.job_run_id, d.fence, d.key) = (b.job_run_id, b.fence, s.key) and d.line < b.line)`,
  },
  {
    invariant: "W6",
    says: "a suspended run has no body that does anything",
    violations: (sql, { clock }) =>
      sql<Found[]>`
        select v.job_run_id, 'it was SUSPENDED, and ' || round(extract(epoch from e.at - v.at) * 1000) || ' ms later its attempt ' || v.attempt || ' ' || e.did as detail
          from job_run_event v
          join (select job_run_id, attempt, began_at as at, 'began "' || key || '"' as did from step_body
                union all select job_run_id, attempt, told_at, 'was told "' || key || '"' from delivery) e using (job_run_id, attempt)
         where v.from_state = 'RUNNING' and v.to_state = 'SUSPENDED' and e.at > v.at + ${
        clock?.tolerance_ms ?? 0
      } * interval '1 ms'`,
  },
  {
    invariant: "W11",
    says: "a step that is done once has one body at most, whatever fails",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, '"' || key || '" is to be done once and had ' || count(*) || ' bodies' as detail
          from step_body where once group by job_run_id, key having count(*) > 1`,
  },
  {
    invariant: "W12",
    says: "what has an undo is undone in reverse order before a run ends that has not succeeded, and else not",
    violations: (sql) =>
      sql<Found[]>`
        with undone as (
          select s.job_run_id, s.key, s.seq, u.state, u.seq as undo_seq, u.ended_at, r.state as ended, r.finished_at,
                 lag(u.seq) over (partition by s.job_run_id order by s.seq desc) as before
            from run_step s join job_run r on r.id = s.job_run_id
            left join run_step u on u.job_run_id = s.job_run_id and u.kind = 'undo' and u.key = 'undo:' || substr(s.key, length('step:') + 1)
           where s.kind = 'step' and s.state = 'DONE' and s.has_undo and r.finished_at is not null
             and coalesce(r.error_name, '') not in ${sql.unsafe(NOT_UNDONE)})
        select job_run_id, '"' || key || '" has an undo, the run ended ' || ended || ', and the undo is ' || coalesce(state, 'not there') as detail
          from undone where (ended = 'SUCCEEDED') = (state is not null) or (state is not null and state <> 'DONE')
        union all
        select job_run_id, '"' || key || '" was undone before what came after it' from undone where undo_seq < before
        union all
        select job_run_id, '"' || key || '" was undone after the run had ended' from undone where ended_at > finished_at`,
  },
  {
    invariant: "W14",
    says:
      "each execution has a cause: the first start, a suspension, a failure, an interruption, or one that was given back or never began",
    violations: (sql) =>
      sql<Found[]>`
        select r.id as job_run_id, 'it has ' || r.attempt || ' attempts, ' || r.suspensions || ' suspensions, ' || r.failures || ' failures, '
                 || r.interruptions || ' interruptions, and ' || back.n || ' were given back or never began' as detail
          from job_run r
          cross join lateral (
            select count(*) as n from job_run_event v left join job_run_attempt a using (job_run_id, attempt)
             where v.job_run_id = r.id and v.to_state = 'ORPHANED' and (v.from_state = 'ASSIGNED' or (v.from_state = 'RUNNING' and a.outcome = 'GIVEN_BACK'))) back
         where r.attempt - r.suspensions > 1 + r.failures + r.interruptions + back.n`,
  },
];
