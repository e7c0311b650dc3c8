/**
 * The invariants of the protocol as SQL, one statement each; a row is a violation. `effect` is the ledger of bodies and
 * `creation` what was asked for (checker.ts); job_run_event, worker_event and leader_term_event are the history.
 */
import type { Db } from "../../src/postgres/connection.ts";
import type { Evidence } from "./checker.ts";
import { NEW_RUN_INVARIANTS } from "./invariants_births.ts";
import { BULK_INVARIANTS } from "./invariants_bulks.ts";
import { EVENT_INVARIANTS } from "./invariants_events.ts";
import { LEADER_INVARIANTS } from "./invariants_leader.ts";
import { LIMIT_INVARIANTS } from "./invariants_limits.ts";
import { STEP_INVARIANTS } from "./invariants_steps.ts";
import { WAIT_INVARIANTS } from "./invariants_waits.ts";

export interface Found {
  detail: string;
  job_run_id: number | null;
}

export interface Invariant {
  invariant: string;
  /** What is promised. */
  says: string;
  violations(sql: Db, evidence: Evidence): Promise<Found[]>;
}

const BODY_INVARIANTS: Invariant[] = [
  {
    invariant: "I1",
    says: "no two bodies of one run overlap in time",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'attempt ' || attempt || ' began ' || round((reached - started_ms)::numeric, 1)
                 || ' ms before an earlier body of the run had ended' as detail
          from (select *, max(coalesce(ended_ms, started_ms)) over (partition by job_run_id order by n
                               rows between unbounded preceding and 1 preceding) as reached from effect where not exempt) e
         where reached > started_ms`,
  },
  {
    invariant: "I2",
    says: "no attempt of a run is executed twice",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'attempt ' || attempt || ' had ' || count(*) || ' bodies' as detail
          from effect group by job_run_id, attempt having count(*) > 1`,
  },
  {
    invariant: "I3",
    says: "no body without its transition to RUNNING",
    violations: (sql) =>
      sql<Found[]>`
        select e.job_run_id, 'attempt ' || e.attempt || ' with fence ' || coalesce(e.fence::text, 'none') || ' on ' || coalesce(e.worker_id, '?')
                 || ' had a body and never became RUNNING so' as detail
          from effect e
         where not exists (select from job_run_event v where v.job_run_id = e.job_run_id and v.to_state = 'RUNNING' and v.attempt = e.attempt
                             and v.fence = e.fence and v.worker_id = coalesce(e.worker_id, v.worker_id))`,
  },
  {
    invariant: "outlived",
    says: "a run leaves RUNNING only when its body is gone, also when its worker is dead",
    violations: (sql, { clock }) =>
      sql<Found[]>`
        select v.job_run_id, 'it became ' || v.to_state || ', and the body of attempt ' || v.attempt || ' ended '
                 || round(extract(epoch from e.ended_at - v.at) * 1000, 1) || ' ms later' as detail
          from job_run_event v join effect e using (job_run_id, attempt, fence)
         where v.from_state = 'RUNNING' and v.to_state <> 'RUNNING' and not e.exempt and v.error_name is distinct from 'Missing'
           and v.at < e.ended_at - ${clock?.tolerance_ms ?? 0} * interval '1 ms'`,
  },
  {
    invariant: "early",
    says: "no body begins before its run is due",
    violations: (sql, { clock }) =>
      sql<Found[]>`
        select e.job_run_id, 'the body of attempt ' || e.attempt || ' began ' || round(extract(epoch from v.due_at - e.started_at) * 1000, 1)
                 || ' ms before it was due' as detail
          from effect e join job_run_event v using (job_run_id, attempt, fence)
         where v.to_state = 'RUNNING' and v.from_state <> 'RUNNING'
           and e.started_at < v.due_at - ${clock?.tolerance_ms ?? 0} * interval '1 ms'`,
  },
  {
    invariant: "I8",
    says: "no two bodies of one serial key overlap in time",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'its body began ' || round((reached - started_ms)::numeric, 1) || ' ms before another of "' || serial_key
                 || '" had ended' as detail
          from (select *, max(coalesce(ended_ms, started_ms)) over (partition by serial_key order by n
                               rows between unbounded preceding and 1 preceding) as reached
                  from effect where serial_key is not null and not exempt) e
         where reached > started_ms`,
  },
  {
    invariant: "I10",
    says: "a failure that may be retried is, and one that may not is not",
    violations: (sql) =>
      sql<Found[]>`
        select v.job_run_id, 'attempt ' || v.attempt || ' failed and became ' || v.to_state || ' with ' || v.failures || ' of '
                 || d.max_retries || ' retries used, though its failure was ' || case when e.retryable then '' else 'not ' end || 'to be retried' as detail
          from job_run_event v join effect e using (job_run_id, attempt) join job_run r on r.id = v.job_run_id
               join job_definition d on d.id = r.job_definition_id
         where e.outcome in ('FAILED', 'TIMED_OUT') and e.retryable is not null and not v.by_leader and v.error_name is distinct from 'Missing'
           and v.from_state in ('RUNNING', 'ORPHANED') and e.fence = v.fence
           and ((v.to_state in ('FAILED', 'TIMED_OUT') and e.retryable and v.failures <= d.max_retries and not v.cancel_requested)
             or (v.to_state = 'RETRYING' and not e.retryable))`,
  },
  {
    invariant: "I14",
    says: "a success that was not recorded is explained",
    violations: (sql) =>
      sql<Found[]>`
        select e.job_run_id, 'attempt ' || e.attempt || ' succeeded, the run is ' || r.state || ', and nothing says why' as detail
          from effect e join job_run r on r.id = e.job_run_id
         where e.outcome = 'SUCCEEDED' and not e.exempt
           and not exists (select from job_run_event v where v.job_run_id = e.job_run_id and v.attempt = e.attempt
                            and (v.to_state in ('SUCCEEDED', r.ending) or (v.from_state <> v.to_state and v.to_state in ('CANCELED', 'FAILED')
                                 and (v.by_leader or v.error_name = 'Missing'))))
           and not exists (select from job_run_attempt a where a.job_run_id = e.job_run_id and a.attempt = e.attempt
                            and a.outcome in ('LOST', 'GIVEN_BACK'))`,
  },
  {
    invariant: "audit",
    says: "a result is called late only when it was not recorded",
    violations: (sql) =>
      sql<Found[]>`
        select v.job_run_id, 'attempt ' || v.attempt || ' is called late in the audit, and it made the run ' || v.to_state as detail
          from admin_action_log l join job_run_event v
            on v.job_run_id::text = l.target_id and v.attempt = (l.after_json ->> 'attempt')::int
         where l.action = 'run.late_result' and not v.by_leader and v.error_name is distinct from 'Missing'
           and v.from_state in ('RUNNING', 'ORPHANED') and v.to_state in ('SUCCEEDED', 'FAILED', 'TIMED_OUT', 'CANCELED', 'RETRYING')`,
  },
  {
    invariant: "repeats",
    says: "a body that ran again has a recorded cause",
    violations: (sql) =>
      sql<Found[]>`
        select e.job_run_id, 'attempt ' || e.attempt || ' was followed by another and nothing says why' as detail
          from effect e
         where exists (select from effect l where l.job_run_id = e.job_run_id and l.attempt > e.attempt)
           and not exists (select from job_run_attempt a where a.job_run_id = e.job_run_id and a.attempt = e.attempt)`,
  },
  {
    invariant: "fences",
    says: "fences rise strictly with every start of a run and of a serial key",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'fence ' || fence || ' came after ' || before || ' of the same ' || which as detail from (
          select job_run_id, fence, 'run' as which, lag(fence) over (partition by job_run_id order by seq) as before
            from job_run_event where to_state = 'RUNNING' and from_state <> 'RUNNING'
          union all
          select job_run_id, fence, 'serial key', lag(fence) over (partition by serial_key order by seq)
            from job_run_event where to_state = 'RUNNING' and from_state <> 'RUNNING' and serial_key is not null
          union all
          select job_run_id, fence, 'run, by its bodies', lag(fence) over (partition by job_run_id order by n) from effect) f
         where fence <= before`,
  },
];

const ROW_INVARIANTS: Invariant[] = [
  {
    invariant: "I4",
    says: "at rest every run has ended",
    violations: (sql) =>
      sql<Found[]>`
        select id as job_run_id, 'it is still ' || state as detail from job_run where finished_at is null`,
  },
  {
    invariant: "I8",
    says: "one run of a serial key between ASSIGNED and its end",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'it became ' || to_state || ' while another run held "' || serial_key || '"' as detail
          from (select *, sum((to_state in ('ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED'))::int
                              - coalesce(from_state in ('ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED'), false)::int)
                            over (partition by serial_key order by seq) as holders
                  from job_run_event where serial_key is not null) h
         where holders > 1`,
  },
  {
    invariant: "I9",
    says: "runs of a serial key start in the order of priority, due time and id",
    violations: (sql, { leader_lease_ms }) =>
      sql<Found[]>`
        select b.job_run_id, 'it was assigned before run ' || a.id || ' of "' || b.serial_key || '", which came first and was waiting' as detail
          from job_run_event b
          join job_run a on a.serial_key = b.serial_key and a.id <> b.job_run_id
          join job_run_event born on born.job_run_id = a.id and born.from_state is null
          join lateral (select v.to_state, v.cancel_requested, v.priority, v.at from job_run_event v
                         where v.job_run_id = a.id and v.seq < b.seq order by v.seq desc limit 1) was on true
         where b.from_state = 'PENDING' and b.to_state = 'ASSIGNED' and was.to_state = 'PENDING' and not was.cancel_requested
           and (was.priority, born.due_at, a.id) < (b.priority, b.due_at, b.job_run_id)
           -- what a leader has read it may act on as long as it trusts its term, and the statement is under way for a while
           and greatest(born.due_at, was.at) < b.asked_at - ${2 * leader_lease_ms} * interval '1 ms'`,
  },
  {
    invariant: "I11",
    says: "budgets are kept, and interruptions are never charged to the user's retries",
    violations: (sql) =>
      sql<Found[]>`
        select v.job_run_id, detail from (
          select *, lag(failures, 1, 0) over w as failures_before, lag(interruptions, 1, 0) over w as interruptions_before
            from job_run_event window w as (partition by job_run_id order by seq)) v
          join job_run r on r.id = v.job_run_id join job_definition d on d.id = r.job_definition_id
          left join job_run_attempt a on a.job_run_id = v.job_run_id and a.attempt = v.attempt
          cross join lateral (select case
            when v.failures <> v.failures_before and (v.from_state not in ('RUNNING', 'ORPHANED') or v.to_state not in ('RETRYING', 'FAILED', 'TIMED_OUT', 'SUSPENDED')
              or v.by_leader or v.failures <> v.failures_before + 1) then 'failures went from ' || v.failures_before || ' to ' || v.failures
                || ' when it became ' || v.to_state
            when v.to_state = 'RETRYING' and v.from_state <> 'RETRYING' and v.failures = v.failures_before then 'it is retried and was charged nothing'
            when v.interruptions <> v.interruptions_before and (v.from_state <> 'RUNNING' or v.to_state <> 'ORPHANED')
              then 'it was charged an interruption when it became ' || v.to_state
            when v.from_state = 'RUNNING' and v.to_state = 'ORPHANED'
              and v.interruptions - v.interruptions_before <> (a.outcome is distinct from 'GIVEN_BACK')::int
              then 'attempt ' || v.attempt || ' was ' || coalesce(a.outcome, 'not kept') || ' and charged ' || v.interruptions - v.interruptions_before
            when v.failures > d.max_retries + 1 then v.failures || ' failures with ' || d.max_retries || ' retries allowed'
            when v.interruptions > d.max_interruptions + 1 then v.interruptions || ' interruptions with ' || d.max_interruptions || ' allowed'
            end as detail) judged
         where detail is not null`,
  },
  {
    invariant: "I12",
    says: "the history has no gap, and ends where the row is",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'version ' || version || ' (' || coalesce(from_state, 'born') || ' -> ' || to_state || ') follows version '
                 || coalesce(before::text, 'nothing') || coalesce(' in ' || was, '') as detail
          from (select *, lag(version) over w as before, lag(to_state) over w as was from job_run_event
                window w as (partition by job_run_id order by seq)) v
         where version <> coalesce(before + 1, 0) or from_state is distinct from was
        union all
        select r.id, 'its row is ' || r.state || ' version ' || r.version || ', its history ends otherwise' from job_run r
         where not exists (select from job_run_event v where v.job_run_id = r.id and v.version = r.version and v.to_state = r.state
                             and not exists (select from job_run_event l where l.job_run_id = r.id and l.seq > v.seq))`,
  },
  {
    invariant: "I13",
    says: "no live run belongs to a dead worker",
    violations: (sql) =>
      sql<Found[]>`
        select r.id as job_run_id, 'it is ' || r.state || ' and belongs to ' || r.assigned_worker_id || ', which is '
                 || coalesce(w.state, 'not known') as detail
          from job_run r left join worker w on w.worker_id = r.assigned_worker_id
         where r.state in ('ASSIGNED', 'RUNNING') and coalesce(w.state, 'DEAD') = 'DEAD'`,
  },
  {
    invariant: "transitions",
    says: "nothing moves but by the table of states, and by whom it names",
    violations: (sql) =>
      sql<Found[]>`
        select job_run_id, 'refused: ' || reason || ', by ' || left(regexp_replace(query, '\\s+', ' ', 'g'), 200) as detail from job_run_refusal
        union all
        select job_run_id, from_state || ' -> ' || to_state || ' was made by ' || case when by_leader then 'the leader' else 'somebody else' end
          from job_run_event
         where from_state <> to_state and error_name is distinct from 'Missing'
           and ((to_state in ('ASSIGNED', 'SKIPPED') and not by_leader)
             or (to_state in ('RUNNING', 'SUSPENDED', 'SUCCEEDED', 'RETRYING') and by_leader)
             or (to_state = 'TIMED_OUT' and by_leader <> (error_name is not distinct from 'DeadlinePassed'))
             or (from_state in ('PENDING', 'SUSPENDED', 'RETRYING') and not by_leader))
        union all
        select job_run_id, 'the leader made it ' || to_state || ' while it was RUNNING on a worker that was ' || owner_state
          from job_run_event where from_state = 'RUNNING' and to_state <> 'RUNNING' and by_leader and owner_state <> 'DEAD'`,
  },
];

export const INVARIANTS: Invariant[] = [
  ...BODY_INVARIANTS,
  ...NEW_RUN_INVARIANTS,
  ...EVENT_INVARIANTS,
  ...ROW_INVARIANTS,
  ...LIMIT_INVARIANTS,
  ...BULK_INVARIANTS,
  ...LEADER_INVARIANTS,
  ...STEP_INVARIANTS,
  ...WAIT_INVARIANTS,
];
