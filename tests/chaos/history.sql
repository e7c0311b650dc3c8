-- The history that only chaos tests keep. Every transition of a run is recorded with what was true when it was made,
-- and what the table of states forbids is refused: the row stays as it was, and job_run_refusal says what was tried.
-- About a millisecond for each transition, so this is no part of schema.sql. Applying it again changes nothing.

set client_min_messages = warning;

create table if not exists job_run_event (
  seq bigint generated always as identity primary key,  -- rises in real time; of one run, in the order of its versions
  job_run_id bigint not null,
  version int not null,
  from_state text,                    -- null: created
  to_state text not null,             -- the same as from_state: only a request was written into the row
  attempt int not null,
  worker_id text,
  leader_epoch bigint,
  fence bigint,
  start_token text,
  serial_key text,
  priority int not null,
  due_at timestamptz not null,
  failures int not null,
  interruptions int not null,
  cancel_requested boolean not null,
  error_name text,
  by_leader boolean not null,         -- the statement began with the fence of a term
  term_epoch bigint not null,         -- what leader_term said when the statement had done its work
  owner_state text,                   -- of the worker that owned the run before
  program text not null,
  asked_at timestamptz not null,      -- when the statement reached Postgres; it may have waited for a lock since
  at timestamptz not null
);
create index if not exists job_run_event_of_run on job_run_event (job_run_id, seq);
create index if not exists job_run_event_of_key on job_run_event (serial_key, seq) where serial_key is not null;

create table if not exists job_run_refusal (
  seq bigint generated always as identity primary key,
  job_run_id bigint not null,
  reason text not null,
  query text not null,
  at timestamptz not null default clock_timestamp()
);

create table if not exists leader_term_event (
  seq bigint generated always as identity primary key,
  epoch bigint not null,
  old_epoch bigint not null,
  worker_id text,
  old_worker_id text,
  lease_until timestamptz not null,
  at timestamptz not null
);
create index if not exists leader_term_event_of_epoch on leader_term_event (epoch, at);

create table if not exists worker_event (
  seq bigint generated always as identity primary key,
  worker_id text not null,
  from_state text,
  to_state text not null,
  old_lease_until timestamptz,
  dead_epoch bigint,
  by_leader boolean not null,
  term_epoch bigint not null,
  at timestamptz not null
);
create index if not exists worker_event_of_worker on worker_event (worker_id, seq);

create table if not exists legal_transition (from_state text, to_state text, primary key (from_state, to_state));
insert into legal_transition values
  ('PENDING', 'ASSIGNED'), ('PENDING', 'SKIPPED'), ('PENDING', 'CANCELED'), ('PENDING', 'FAILED'),
  ('ASSIGNED', 'RUNNING'), ('ASSIGNED', 'ORPHANED'), ('ASSIGNED', 'CANCELED'), ('ASSIGNED', 'FAILED'), ('ASSIGNED', 'TIMED_OUT'),
  ('RUNNING', 'SUCCEEDED'), ('RUNNING', 'FAILED'), ('RUNNING', 'TIMED_OUT'), ('RUNNING', 'CANCELED'),
  ('RUNNING', 'RETRYING'), ('RUNNING', 'ORPHANED'), ('RUNNING', 'SUSPENDED'),
  ('SUSPENDED', 'ASSIGNED'), ('SUSPENDED', 'CANCELED'), ('SUSPENDED', 'FAILED'), ('SUSPENDED', 'TIMED_OUT'),
  ('ORPHANED', 'ASSIGNED'), ('ORPHANED', 'SUCCEEDED'), ('ORPHANED', 'FAILED'), ('ORPHANED', 'TIMED_OUT'),
  ('ORPHANED', 'CANCELED'), ('ORPHANED', 'RETRYING'),
  ('RETRYING', 'ASSIGNED'), ('RETRYING', 'CANCELED'), ('RETRYING', 'FAILED'), ('RETRYING', 'TIMED_OUT')
on conflict do nothing;

-- Why the table of states forbids this; null when it does not.
create or replace function why_refused(o job_run, n job_run) returns text language sql stable as $$
  select case
    when o.finished_at is not null then 'it had ended as ' || o.state
    when o.state in ('ASSIGNED', 'RUNNING') and n.version = o.version + 1 and n.attempt = greatest(1, o.attempt - 1)
      and (n.state = 'PENDING') = (o.attempt = 1) and n.state in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED')
      and n.assigned_worker_id is null and n.start_token is null then null -- refused for other code: as before its assignment
    when n.version not in (o.version, o.version + 1) then 'version ' || o.version || ' became ' || n.version
    when n.version = o.version and (n.state, n.attempt, n.assigned_worker_id, n.start_token, n.fence, n.leader_epoch)
      is distinct from (o.state, o.attempt, o.assigned_worker_id, o.start_token, o.fence, o.leader_epoch) then 'it moved and kept its version'
    when n.leader_epoch < o.leader_epoch then 'epoch ' || o.leader_epoch || ' became ' || n.leader_epoch
    when n.state <> o.state and not exists (select from legal_transition l where (l.from_state, l.to_state) = (o.state, n.state))
      then o.state || ' may not become ' || n.state
    when n.attempt <> o.attempt + (n.state = 'ASSIGNED' and o.state in ('ORPHANED', 'RETRYING', 'SUSPENDED'))::int
      then 'attempt ' || o.attempt || ' became ' || n.attempt || ' on the way to ' || n.state
    when n.suspensions <> o.suspensions + (n.state = 'ASSIGNED' and o.state = 'SUSPENDED')::int
      then 'suspensions went from ' || o.suspensions || ' to ' || n.suspensions || ' on the way to ' || n.state
    when n.assigned_worker_id is distinct from o.assigned_worker_id and (o.state = n.state or n.state <> 'ASSIGNED')
      then 'its worker changed on the way to ' || n.state
    when (n.start_token, n.fence) is distinct from (o.start_token, o.fence) and (o.state = n.state or n.state not in ('ASSIGNED', 'RUNNING'))
      then 'its token changed on the way to ' || n.state
  end
$$;

create or replace function guard_job_run() returns trigger language plpgsql as $$
declare
  reason text := why_refused(old, new);
begin
  if reason is null then
    return new;
  end if;
  insert into job_run_refusal (job_run_id, reason, query) values (old.id, reason, left(current_query(), 2000));
  return null;
end $$;
create or replace trigger chaos_guard before update on job_run for each row execute function guard_job_run();

create or replace function record_job_run() returns trigger language plpgsql as $$
declare
  was job_run;
begin
  if tg_op = 'UPDATE' then
    was := old;
    if new.version = old.version then
      return null;
    end if;
  end if;
  insert into job_run_event (job_run_id, version, from_state, to_state, attempt, worker_id, leader_epoch, fence, start_token, serial_key,
                             priority, due_at, failures, interruptions, cancel_requested, error_name, by_leader, term_epoch, owner_state,
                             program, asked_at, at)
  select new.id, new.version, was.state, new.state, new.attempt, new.assigned_worker_id, new.leader_epoch, new.fence, new.start_token,
         new.serial_key, new.priority, new.due_at, new.failures, new.interruptions, new.cancel_requested_at is not null, new.error_name,
         position('fence as materialized' in current_query()) > 0, t.epoch,
         (select w.state from worker w where w.worker_id = was.assigned_worker_id),
         coalesce(current_setting('application_name', true), ''), statement_timestamp(), clock_timestamp()
    from leader_term t;
  return null;
end $$;
create or replace trigger chaos_record after insert or update on job_run for each row execute function record_job_run();

create or replace function record_leader_term() returns trigger language plpgsql as $$
begin
  insert into leader_term_event (epoch, old_epoch, worker_id, old_worker_id, lease_until, at)
  values (new.epoch, old.epoch, new.worker_id, old.worker_id, new.lease_until, clock_timestamp());
  return null;
end $$;
create or replace trigger chaos_record after update on leader_term for each row execute function record_leader_term();

create or replace function record_worker() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and new.state = old.state then
    return null;
  end if;
  insert into worker_event (worker_id, from_state, to_state, old_lease_until, dead_epoch, by_leader, term_epoch, at)
  select new.worker_id, case when tg_op = 'UPDATE' then old.state end, new.state, case when tg_op = 'UPDATE' then old.lease_until end,
         new.dead_epoch, position('fence as materialized' in current_query()) > 0, t.epoch, clock_timestamp()
    from leader_term t;
  return null;
end $$;
create or replace trigger chaos_record after insert or update on worker for each row execute function record_worker();
