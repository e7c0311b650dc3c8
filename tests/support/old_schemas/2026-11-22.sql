
set client_min_messages = warning;

create table if not exists leader_term (
  id int primary key check (id = 1),
  epoch bigint not null check (epoch >= 0),
  worker_id text,
  lease_until timestamptz not null,
  acquired_at timestamptz
);
create unique index if not exists leader_term_epoch on leader_term (epoch);
insert into leader_term values (1, 0, null, '-infinity', null) on conflict do nothing;
alter table leader_term add column if not exists tick bigint not null default 0;
alter table leader_term add column if not exists degrade_epoch bigint;
alter table leader_term add column if not exists resigned_at timestamptz;
alter table leader_term add column if not exists failovers bigint not null default 0;

create table if not exists scheduler_settings (
  name text primary key,
  value jsonb not null,
  updated_at timestamptz not null default clock_timestamp(),
  updated_by text not null default 'system'
);

create table if not exists node (
  node_id text primary key check (node_id <> ''),
  is_active boolean not null default true,
  status text not null default 'unavailable' check (status in ('available', 'busy', 'unavailable')),
  labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object'),
  max_concurrent int check (max_concurrent >= 0),
  checked_at timestamptz,
  check_result jsonb,
  created_at timestamptz not null default clock_timestamp()
);
alter table node add column if not exists check_parts jsonb;
alter table node add column if not exists next_check_at timestamptz not null default clock_timestamp();
alter table node add column if not exists failed_checks int not null default 0;
alter table node add column if not exists status_at timestamptz not null default clock_timestamp();
alter table node add column if not exists inactive_by text;
alter table node add column if not exists inactive_reason text;
create index if not exists node_checks on node (next_check_at) where is_active;

create table if not exists worker (
  worker_id text primary key,
  node_id text not null references node,
  state text not null default 'ACTIVE' check (state in ('ACTIVE', 'DRAINING', 'DETACHED', 'DEAD')),
  lease_until timestamptz not null,
  pid int not null,
  process_started text not null,
  grpc_host text not null,
  grpc_port int not null check (grpc_port between 0 and 65535),
  tls_fingerprint text,
  tls_former_fingerprint text,
  tls_trust_digest text,
  slots int not null check (slots > 0),
  version text not null default '',
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  dead_epoch bigint
);
alter table worker add column if not exists detached_by text;
alter table worker add column if not exists detach_reason text;
alter table worker add column if not exists subleader boolean not null default false;
alter table worker add column if not exists host text not null default '';
alter table worker add column if not exists tls_former_fingerprint text;
alter table worker add column if not exists tls_trust_digest text;
alter table worker add column if not exists seen_at timestamptz not null default clock_timestamp();
alter table worker add column if not exists tls_not_after timestamptz;
alter table worker add column if not exists clock_skew_ms int;
create index if not exists worker_alive on worker (lease_until) where state <> 'DEAD';

create table if not exists resource (
  name text primary key,
  capacity int not null check (capacity >= 0)
);

create table if not exists job_definition (
  id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  command_name text not null,
  type text not null check (type in ('time', 'event', 'demand')),
  enabled boolean not null default true,
  removed_at timestamptz,
  description text not null default '',
  event_types text[] not null default '{}',
  args_schema json,
  default_args_json jsonb not null default '{}',
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,
  on_failure text not null default 'continue' check (on_failure in ('continue', 'block')),
  node text,
  resources jsonb not null default '{}' check (jsonb_typeof(resources) = 'object'),
  timeout_seconds int not null default 3600 check (timeout_seconds between 1 and 604800),
  kill_grace_seconds int not null default 10 check (kill_grace_seconds between 0 and 300),
  max_retries int not null default 0 check (max_retries >= 0),
  retry_backoff_seconds numeric not null default 30 check (retry_backoff_seconds >= 0),
  retry_factor numeric not null default 2 check (retry_factor >= 1),
  retry_jitter numeric not null default 0.1 check (retry_jitter between 0 and 1),
  retry_on jsonb not null default '{}',
  max_interruptions int not null default 3 check (max_interruptions >= 0),
  concurrency_policy text not null default 'allow' check (concurrency_policy in ('allow', 'forbid', 'replace', 'queue_one')),
  concurrency_limit int check (concurrency_limit > 0),
  concurrency_key text,
  rate_count int check (rate_count > 0),
  rate_seconds numeric check (rate_seconds > 0),
  rate_next_at timestamptz not null default '-infinity',
  paused_at timestamptz,
  paused_by text,
  memory_mb int not null default 512 check (memory_mb between 64 and 65536),
  permissions jsonb not null default '{}',
  isolation_reuse int not null default 0 check (isolation_reuse >= 0),
  digest text not null,
  created_at timestamptz not null default clock_timestamp(),
  synced_at timestamptz not null default clock_timestamp(),
  constraint removed_is_disabled check (removed_at is null or not enabled),
  constraint rate_is_whole check ((rate_count is null) = (rate_seconds is null)),
  constraint key_has_limit check (concurrency_key is null or concurrency_limit is not null)
);
alter table job_definition add column if not exists event_rules jsonb not null default '{}' check (jsonb_typeof(event_rules) = 'object');
do $$
begin
  if exists (select from pg_attribute where attrelid = 'job_definition'::regclass and attname = 'args_schema' and atttypid = 'jsonb'::regtype) then
    alter table job_definition alter column args_schema type json using args_schema::json;
  end if;
end $$;
create index if not exists job_definition_events on job_definition using gin (event_types);

create table if not exists job_schedule (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition on delete cascade,
  schedule_id text not null,
  schedule_type text not null check (schedule_type in ('every_n_minutes', 'hourly_at_minute', 'daily_at', 'cron')),
  schedule_value text not null,
  timezone text not null default 'UTC',
  args_json jsonb not null default '{}',
  misfire jsonb not null default '{"policy": "last"}',
  dst_gap text not null default 'after' check (dst_gap in ('after', 'before', 'skip')),
  dst_overlap text not null default 'first' check (dst_overlap in ('first', 'second', 'both')),
  enabled boolean not null default true,
  last_slot timestamptz not null default clock_timestamp(),
  next_slot timestamptz,
  unique (job_definition_id, schedule_id)
);
alter table job_schedule add column if not exists exclude text[] not null default '{}';
alter table job_schedule add column if not exists jitter_seconds int not null default 0 check (jitter_seconds >= 0);
alter table job_schedule add column if not exists paused_at timestamptz;
alter table job_schedule add column if not exists paused_by text;
create index if not exists job_schedule_due on job_schedule (next_slot) where enabled and next_slot is not null;

create table if not exists job_override (
  job_definition_id bigint not null references job_definition on delete cascade,
  name text not null,
  value jsonb not null check (jsonb_typeof(value) = 'object'),
  file_value jsonb,
  set_at timestamptz not null default clock_timestamp(),
  set_by text not null,
  reason text not null,
  primary key (job_definition_id, name)
);

create table if not exists event (
  id bigint generated always as identity primary key,
  event_type text not null check (event_type <> ''),
  payload_json jsonb not null default '{}',
  dedupe_key text unique,
  created_at timestamptz not null default clock_timestamp(),
  processed_at timestamptz
);
create index if not exists event_unprocessed on event (id) where processed_at is null;
create index if not exists event_of_type on event (event_type, id);
create index if not exists event_recent on event (created_at);

create table if not exists webhook (
  name text primary key check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  event_type text not null check (event_type <> ''),
  signature text not null check (signature in ('dandori', 'github')),
  secret text not null,
  rate_per_minute int not null check (rate_per_minute > 0),
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null,
  delivered_at timestamptz,
  window_at timestamptz not null default '-infinity',
  window_count int not null default 0
);

create table if not exists bulk (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition,
  state text not null default 'RUNNING' check (state in ('RUNNING', 'PAUSED', 'CANCELED', 'FINISHED')),
  parallel int not null default 10 check (parallel > 0),
  interval_seconds numeric not null default 0 check (interval_seconds >= 0),
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
alter table bulk add column if not exists name text not null default '';
alter table bulk add column if not exists created_by text not null default 'system';
alter table bulk add column if not exists idempotency_key text unique;
alter table bulk add column if not exists max_failures int check (max_failures >= 0);
alter table bulk add column if not exists on_finish bigint references job_definition;
alter table bulk add column if not exists on_failure bigint references job_definition;
alter table bulk add column if not exists retry_of bigint references bulk on delete set null;
alter table bulk add column if not exists changed_by text;
alter table bulk add column if not exists reason text;
alter table bulk add column if not exists next_seq bigint not null default 1;
alter table bulk add column if not exists started_at timestamptz;
alter table bulk add column if not exists fed_at timestamptz;
alter table bulk add column if not exists next_feed_at timestamptz;
alter table bulk add column if not exists failures_from timestamptz not null default '-infinity';
alter table bulk add column if not exists throttle_above numeric check (throttle_above > 0 and throttle_above < 1);
alter table bulk add column if not exists throttled int check (throttled > 0);
alter table bulk add column if not exists throttled_at timestamptz not null default '-infinity';
alter table bulk add column if not exists succeeded bigint;
alter table bulk add column if not exists failed bigint;
alter table bulk add column if not exists running_limit int generated always as (
  case when state = 'RUNNING' then least(parallel, coalesce(throttled, parallel)) else 0 end) stored;
create index if not exists bulk_due on bulk (next_feed_at) where next_feed_at is not null;
create index if not exists bulk_open on bulk (id) where finished_at is null;
create unique index if not exists bulk_serial on bulk (serial_key)
  where serial_key is not null and started_at is not null and finished_at is null;
create index if not exists bulk_keyed on bulk (serial_key, id) where serial_key is not null and finished_at is null;
do $$
begin
  if not exists (select from pg_constraint where conname = 'bulk_finished') then
    alter table bulk add constraint bulk_finished check ((finished_at is not null and state in ('CANCELED', 'FINISHED'))
      or (finished_at is null and state <> 'FINISHED'));
  end if;
end $$;

create or replace function guard_bulk_delete() returns trigger language plpgsql as $$
begin
  raise exception 'bulk % goes on, so its row is kept', old.id
    using hint = 'Cancel it: update bulk set state = ''CANCELED'' where id = ' || old.id || '. When its last run has ended it can be deleted.';
end $$;
create or replace trigger bulk_kept before delete on bulk for each row when (old.finished_at is null) execute function guard_bulk_delete();

create table if not exists bulk_item (
  bulk_id bigint not null references bulk on delete cascade,
  seq bigint not null,
  args_json jsonb not null default '{}',
  job_run_id bigint,
  primary key (bulk_id, seq)
);
alter table bulk_item add column if not exists rerun_of bigint;
alter table bulk_item add column if not exists retried_by bigint;

create table if not exists bulk_recheck (
  id bigint generated always as identity primary key,
  bulk_id bigint not null
);
create or replace function check_bulk() returns trigger language plpgsql as $$
begin
  insert into bulk_recheck (bulk_id) values (new.id);
  if tg_op = 'UPDATE' and new.priority <> old.priority then
    update job_run set priority = new.priority where id = any(array(
      select id from job_run where bulk_id = new.id and state in ('PENDING', 'RETRYING', 'ORPHANED') and priority = old.priority
         for update skip locked));
  end if;
  perform pg_notify('scheduler', 'bulk');
  return null;
end $$;
create or replace trigger bulk_born after insert on bulk for each row execute function check_bulk();
create or replace trigger bulk_changed after update on bulk for each row
  when ((new.state, new.parallel, new.interval_seconds, new.priority, new.serial_key, new.max_failures, new.throttle_above, new.throttled)
    is distinct from (old.state, old.parallel, old.interval_seconds, old.priority, old.serial_key, old.max_failures, old.throttle_above, old.throttled))
  execute function check_bulk();
create or replace function resume_bulk() returns trigger language plpgsql as $$
begin
  new.failures_from := clock_timestamp();
  return new;
end $$;
create or replace trigger bulk_resumed before update on bulk for each row
  when (old.state = 'PAUSED' and new.state = 'RUNNING') execute function resume_bulk();

create sequence if not exists fence_seq;

create table if not exists job_run (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null,
  job_schedule_id bigint,
  event_id bigint,
  bulk_id bigint,
  rerun_of bigint,
  source text not null check (source in ('schedule', 'event', 'enqueue', 'bulk')),
  idempotency_key text collate "C",
  args_json jsonb not null default '{}',
  scheduled_for timestamptz not null default clock_timestamp(),
  due_at timestamptz not null default clock_timestamp(),
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,
  limit_key text,
  node text,
  avoid_node text,
  state text not null default 'PENDING' check (state in
    ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED', 'SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED')),
  held boolean not null default false,
  wakes_at timestamptz,
  version int not null default 0,
  attempt int not null default 1 check (attempt >= 1),
  failures int not null default 0,
  interruptions int not null default 0,
  assigned_worker_id text,
  assigned_at timestamptz,
  leader_epoch bigint,
  started_at timestamptz,
  finished_at timestamptz,
  fence bigint,
  start_token text,
  continuation_state text not null default 'NONE' check (continuation_state in ('NONE', 'CONFIRMING')),
  continuation_check_started_at timestamptz,
  continuation_check_deadline_at timestamptz,
  cancel_requested_at timestamptz,
  cancel_requested_by text,
  cancel_reason text,
  exit_code int,
  error_name text,
  error_summary text,
  result jsonb,
  progress double precision check (progress between 0 and 1),
  progress_message text,
  log_ref text,
  created_at timestamptz not null default clock_timestamp(),
  constraint wakes_from_hold check (wakes_at is null or held),
  constraint held_while_waiting check (not held or state in ('PENDING', 'RETRYING', 'ORPHANED')),
  constraint owned_once_taken check (state not in ('ASSIGNED', 'RUNNING') or assigned_worker_id is not null),
  constraint fenced_once_running check (state <> 'RUNNING' or
    (leader_epoch is not null and start_token is not null and fence is not null and started_at is not null)),
  constraint finished_iff_terminal check (
    (state in ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED')) = (finished_at is not null))
) with (fillfactor = 70);
alter table job_run drop constraint if exists job_run_job_definition_id_fkey, drop constraint if exists job_run_job_schedule_id_fkey,
  drop constraint if exists job_run_event_id_fkey, drop constraint if exists job_run_bulk_id_fkey,
  drop constraint if exists job_run_rerun_of_fkey;
do $$
begin
  if exists (select from pg_attribute where attrelid = 'job_run'::regclass and attname = 'idempotency_key' and attcollation <> '"C"'::regcollation) then
    drop index if exists job_run_idempotency;
    alter table job_run drop constraint if exists job_run_idempotency_key_key, alter column idempotency_key type text collate "C";
  end if;
end $$;
create unique index if not exists job_run_idempotency on job_run (idempotency_key) where idempotency_key is not null;
alter table job_run drop constraint if exists job_run_idempotency_key_key;
create or replace function keep_definition() returns trigger language plpgsql as $$
begin
  if exists (select from job_run where job_definition_id = old.id and finished_at is not null)
     or exists (select from job_run where job_definition_id = old.id and state in ('PENDING', 'RETRYING', 'ORPHANED'))
     or exists (select from job_run where job_definition_id = old.id and state in ('ASSIGNED', 'RUNNING')) then
    raise exception 'job "%" has runs, so its row is kept', old.name
      using hint = 'Remove its file and run `deno task sync`: the job takes no runs from then on, and its history stays.';
  end if;
  return old;
end $$;
create or replace trigger job_definition_kept before delete on job_definition for each row execute function keep_definition();
alter table job_run add column if not exists event_key text;
create index if not exists job_run_event_key on job_run (job_definition_id, event_key, id) where event_key is not null;
create index if not exists job_run_ready on job_run (job_definition_id, (coalesce(node, '')), priority, due_at, id)
  where state in ('PENDING', 'RETRYING', 'ORPHANED') and not held;
create index if not exists job_run_held on job_run (job_definition_id, priority) where held;
create index if not exists job_run_asleep on job_run (wakes_at) where wakes_at is not null;
create index if not exists job_run_slots on job_run (due_at) where state = 'PENDING' and source = 'schedule';
create index if not exists job_run_orphans on job_run (id) where state = 'ORPHANED';
create index if not exists job_run_live on job_run (assigned_worker_id) where state in ('ASSIGNED', 'RUNNING');
create index if not exists job_run_cancel on job_run (id)
  where cancel_requested_at is not null and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED');
create unique index if not exists job_run_serial on job_run (serial_key)
  where serial_key is not null and state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED');
create index if not exists job_run_keyed on job_run (serial_key, priority, due_at, id)
  where serial_key is not null and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED');
create index if not exists job_run_limited on job_run (limit_key, priority, due_at, id)
  where limit_key is not null and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED');
drop index if exists job_run_of_definition;
create index if not exists job_run_waiting on job_run (job_definition_id, scheduled_for) where state in ('PENDING', 'RETRYING', 'ORPHANED');
create index if not exists job_run_past_slots on job_run (job_definition_id, scheduled_for) where finished_at is not null;
create index if not exists job_run_of_event on job_run (event_id) where event_id is not null;
drop index if exists job_run_recent;
create index if not exists job_run_reruns on job_run (rerun_of, id) where rerun_of is not null;
drop index if exists job_run_of_bulk;
create index if not exists job_run_in_bulk on job_run (bulk_id, state, id) where bulk_id is not null;
create index if not exists job_run_bulk_ended on job_run (bulk_id, finished_at)
  where bulk_id is not null and finished_at is not null;
alter table job_run add column if not exists ended_xid xid8;
create index if not exists job_run_ended on job_run (ended_xid, id) where ended_xid is not null;
create index if not exists job_run_past on job_run (job_definition_id, state, id) where finished_at is not null;
create index if not exists job_run_keyed_past on job_run (serial_key, id) where serial_key is not null and finished_at is not null;
create index if not exists job_run_errors on job_run (error_name, id) where error_name is not null;
create index if not exists job_run_of_schedule on job_run (job_schedule_id, scheduled_for) where job_schedule_id is not null;
create index if not exists job_run_behind on job_run (job_definition_id, priority, due_at) where held and wakes_at is null;

create table if not exists run_stat (
  grain_seconds int not null check (grain_seconds in (0, 60, 600, 3600)),
  at timestamptz not null,
  job_definition_id bigint not null,
  succeeded bigint not null default 0,
  failed bigint not null default 0,
  timed_out bigint not null default 0,
  canceled bigint not null default 0,
  skipped bigint not null default 0,
  quarantined bigint not null default 0,
  wait_seconds float8 not null default 0,
  run_seconds float8 not null default 0,
  waits bigint[] not null,
  runs bigint[] not null,
  last_succeeded_at timestamptz,
  last_failed_at timestamptz,
  last_failed_run bigint,
  last_quarantined_at timestamptz,
  last_quarantined_run bigint,
  primary key (grain_seconds, at, job_definition_id)
);
create index if not exists run_stat_of_job on run_stat (grain_seconds, job_definition_id, at);

create table if not exists run_stat_mark (
  id int primary key check (id = 1),
  version bigint not null default 0,
  counted pg_snapshot not null,
  cut pg_snapshot,
  cursor_xid xid8 not null default '0',
  cursor_id bigint not null default 0,
  since timestamptz not null default '-infinity',
  counted_at timestamptz not null default clock_timestamp()
);
insert into run_stat_mark (id, counted) values (1, pg_current_snapshot()) on conflict do nothing;

create table if not exists load_stat (
  kind text not null check (kind in ('queue', 'node')),
  at timestamptz not null,
  subject text not null,
  sampled_at timestamptz not null,
  samples int not null default 1,
  used_now float8 not null,
  used_sum float8 not null,
  used_max float8 not null,
  capacity_now float8 not null default 0,
  capacity_sum float8 not null default 0,
  oldest_seconds float8 not null default 0,
  primary key (kind, at, subject)
);

create table if not exists event_suppressed (
  event_id bigint not null references event on delete cascade,
  job_definition_id bigint not null references job_definition on delete cascade,
  outcome text not null check (outcome in ('debounced', 'throttled')),
  job_run_id bigint references job_run on delete set null,
  at timestamptz not null default clock_timestamp(),
  primary key (event_id, job_definition_id)
);

create index if not exists event_absorbed_run on event_suppressed (job_run_id) where job_run_id is not null;

create table if not exists schedule_watermark (
  job_schedule_id bigint primary key references job_schedule on delete cascade,
  upto timestamptz not null
);

create table if not exists key_recheck (
  id bigint generated always as identity primary key,
  line text not null
);
create or replace function check_lines() returns trigger language plpgsql as $$
begin
  if new.serial_key is not null then
    insert into key_recheck (line) values ('serial:' || new.serial_key);
    if old.finished_at is null and new.state in ('FAILED', 'TIMED_OUT')
       and (select on_failure from job_definition where id = new.job_definition_id) = 'block' then
      insert into serial_key_pause (serial_key, job_run_id, stopped_by, reason)
      values (new.serial_key, new.id, 'system', 'run ' || new.id || ' ended ' || new.state) on conflict do nothing;
    end if;
  end if;
  if new.limit_key is not null then
    insert into key_recheck (line) values ('limit:' || new.limit_key);
  end if;
  if new.bulk_id is not null then
    insert into bulk_recheck (bulk_id) values (new.bulk_id);
  end if;
  return null;
end $$;
create or replace trigger job_run_moved after update on job_run for each row
  when ((new.serial_key is not null or new.limit_key is not null or new.bulk_id is not null)
    and ((old.finished_at is null and new.finished_at is not null) or old.priority <> new.priority
      or (old.state in ('ASSIGNED', 'RUNNING') and new.state not in ('ASSIGNED', 'RUNNING'))))
  execute function check_lines();

create or replace function check_deleted() returns trigger language plpgsql as $$
begin
  insert into key_recheck (line) select 'serial:' || old.serial_key where old.serial_key is not null;
  if tg_table_name = 'job_run' then
    insert into key_recheck (line) select 'limit:' || old.limit_key where old.limit_key is not null;
    insert into bulk_recheck (bulk_id) select old.bulk_id where old.bulk_id is not null;
  end if;
  perform pg_notify('scheduler', tg_table_name);
  return null;
end $$;
create or replace trigger job_run_deleted after delete on job_run for each row
  when (old.finished_at is null and (old.serial_key is not null or old.limit_key is not null or old.bulk_id is not null))
  execute function check_deleted();

create table if not exists priority_change (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition on delete cascade,
  was int not null
);
alter table priority_change add column if not exists until_xid xid8;
create or replace function follow_definition() returns trigger language plpgsql as $$
begin
  if new.priority <> old.priority then
    insert into priority_change (job_definition_id, was) values (new.id, old.priority);
  end if;
  if new.concurrency_limit is distinct from old.concurrency_limit then
    insert into key_recheck (line) select distinct 'limit:' || limit_key from job_run
     where job_definition_id = new.id and held and limit_key is not null;
  end if;
  perform pg_notify('scheduler', 'job_definition');
  return null;
end $$;
create or replace function follow_rate() returns trigger language plpgsql as $$
begin
  new.rate_next_at := case when new.rate_count is null then '-infinity'
    else least(new.rate_next_at, clock_timestamp() + new.rate_seconds / new.rate_count * interval '1 s') end;
  return new;
end $$;
create or replace trigger job_definition_repaced before update on job_definition for each row
  when ((new.rate_count, new.rate_seconds) is distinct from (old.rate_count, old.rate_seconds)) execute function follow_rate();
create or replace trigger job_definition_changed after update on job_definition for each row
  when ((new.priority, new.concurrency_limit, new.node, new.enabled) is distinct from (old.priority, old.concurrency_limit, old.node, old.enabled)
    or (new.rate_count, new.rate_seconds) is distinct from (old.rate_count, old.rate_seconds))
  execute function follow_definition();

create table if not exists serial_key_pause (
  serial_key text primary key,
  job_run_id bigint references job_run on delete set null,
  stopped_at timestamptz not null default clock_timestamp(),
  stopped_by text not null,
  reason text
);
create or replace trigger serial_key_freed after delete on serial_key_pause for each row execute function check_deleted();

create table if not exists queue_block_reason (
  job_definition_id bigint not null references job_definition on delete cascade,
  node text not null,
  reason text not null,
  parts jsonb,
  since timestamptz not null default clock_timestamp(),
  primary key (job_definition_id, node)
);
alter table queue_block_reason add column if not exists parts jsonb;

create table if not exists job_run_attempt (
  job_run_id bigint not null references job_run on delete cascade,
  attempt int not null,
  worker_id text,
  leader_epoch bigint,
  fence bigint,
  started_at timestamptz,
  ended_at timestamptz not null default clock_timestamp(),
  outcome text not null check (outcome in ('FAILED', 'TIMED_OUT', 'LOST', 'GIVEN_BACK')),
  exit_code int,
  error_name text,
  error_summary text,
  primary key (job_run_id, attempt)
);

create table if not exists job_run_log (
  id bigint generated always as identity primary key,
  job_run_id bigint not null references job_run on delete cascade,
  attempt int not null,
  at timestamptz not null default clock_timestamp(),
  level text not null check (level in ('debug', 'info', 'warn', 'error', 'stdout', 'stderr', 'system')),
  message text not null,
  fields jsonb
);
create index if not exists job_run_log_of_run on job_run_log (job_run_id, id);

create table if not exists admin_action_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  actor text not null,
  action text not null,
  target_type text not null,
  target_id text not null,
  before_json jsonb,
  after_json jsonb,
  reason text
);
drop index if exists admin_action_log_recent;
create index if not exists admin_action_log_at on admin_action_log (at, id);
create index if not exists admin_action_log_actor on admin_action_log (actor, at, id);
create index if not exists admin_action_log_action on admin_action_log (action, at, id);
create index if not exists admin_action_log_target on admin_action_log (target_type, target_id, at, id);
create index if not exists admin_action_log_type on admin_action_log (target_type, at, id);
create or replace function keep_audit() returns trigger language plpgsql as $$
begin
  raise exception 'Cannot % admin_action_log: the audit is only added to', lower(tg_op)
    using hint = 'A copy may be archived; to delete rows the owner of the table disables the trigger audit_is_kept';
end $$;
create or replace trigger audit_is_kept before update or delete or truncate on admin_action_log
  for each statement execute function keep_audit();

create table if not exists admin_user (
  id bigint generated always as identity primary key,
  name text not null unique,
  password_hash text not null,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz
);

create table if not exists admin_session (
  token_digest text primary key,
  admin_user_id bigint not null references admin_user on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  address text not null default '',
  user_agent text not null default ''
);
create index if not exists admin_session_of_user on admin_session (admin_user_id);

create table if not exists admin_login_attempt (
  id bigint generated always as identity primary key,
  name text not null,
  address text not null,
  at timestamptz not null default clock_timestamp()
);
create index if not exists admin_login_attempt_recent on admin_login_attempt (at);

create table if not exists api_token (
  id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  token_digest text not null unique,
  scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['read', 'emit', 'operate', 'admin']),
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  used_at timestamptz
);

create table if not exists alert (
  id bigint generated always as identity primary key,
  kind text not null,
  subject text not null,
  message text not null,
  detail jsonb not null default '{}',
  opened_at timestamptz not null default clock_timestamp(),
  opened_by text not null,
  closed_at timestamptz,
  acked_at timestamptz,
  acked_by text,
  ack_reason text
);
create unique index if not exists alert_open on alert (kind, subject) where closed_at is null;
create index if not exists alert_acked on alert (kind, subject, acked_at) where acked_at is not null;
create index if not exists alert_recent on alert (opened_at);

create table if not exists alert_delivery (
  id bigint generated always as identity primary key,
  alert_id bigint references alert on delete cascade,
  what text not null check (what in ('opened', 'closed', 'test')),
  created_at timestamptz not null default clock_timestamp(),
  attempts int not null default 0,
  next_try_at timestamptz not null default clock_timestamp(),
  claim uuid,
  claimed_by text,
  delivered_at timestamptz,
  given_up_at timestamptz,
  last_error text
);
create index if not exists alert_delivery_due on alert_delivery (next_try_at) where delivered_at is null and given_up_at is null;
create index if not exists alert_delivery_of on alert_delivery (alert_id);

create or replace function ring_scheduler() returns trigger language plpgsql as $$
begin
  perform pg_notify('scheduler', tg_table_name);
  return null;
end $$;
create or replace trigger job_run_born after insert on job_run for each statement execute function ring_scheduler();
create or replace trigger event_born after insert on event for each statement execute function ring_scheduler();

create or replace function fill_template(template text, args jsonb) returns text language plpgsql immutable strict as $$
declare
  filled text := '';
  part text[];
begin
  if position('{' in template) = 0 then
    return template;
  end if;

  for part in select regexp_matches(template, '\{([^{}]+)\}|([^{]+|\{)', 'g') loop
    filled := filled || coalesce(part[2], args #>> string_to_array(part[1], '.'), '');
  end loop;
  return case when length(filled) <= 500 then filled else left(filled, 450) || ':' || md5(filled) end;
end $$;

create or replace function event_matches(rule jsonb, payload jsonb) returns boolean language sql immutable as $$
  select not exists (
    select from jsonb_each(rule -> 'where') w
     where not case jsonb_typeof(w.value)
       when 'array' then exists (select from jsonb_array_elements(w.value) one
                                  where one = coalesce(payload #> string_to_array(w.key, '.'), 'null'))
       else w.value = coalesce(payload #> string_to_array(w.key, '.'), 'null') end)
$$;

create or replace function emit_event(event_type text, payload jsonb default '{}', dedupe_key text default null)
returns bigint language plpgsql as $$
declare
  event_id bigint;
  known_type text;
begin
  if coalesce(emit_event.event_type, '') = '' then
    raise exception 'Cannot emit an event without a type: give a name such as "order.placed"' using errcode = 'check_violation';
  end if;
  insert into event (event_type, payload_json, dedupe_key)
  values (emit_event.event_type, coalesce(emit_event.payload, '{}'), emit_event.dedupe_key)
  on conflict on constraint event_dedupe_key_key do nothing
  returning id into event_id;
  if event_id is null then
    select e.id, e.event_type into event_id, known_type from event e where e.dedupe_key = emit_event.dedupe_key;
    if known_type <> emit_event.event_type then
      raise exception 'Cannot emit "%": the dedupe key "%" belongs to event % of type "%"; put the type into the key',
        emit_event.event_type, emit_event.dedupe_key, event_id, known_type using errcode = 'unique_violation';
    end if;
  end if;
  return event_id;
end $$;

create or replace function behind_run(o job_run) returns jsonb language sql immutable as $$
  select jsonb_build_object('code', 'behind_run', 'run_id', o.id, 'serial_key', o.serial_key,
           'text', 'it is behind run ' || o.id || ' of serial key "' || o.serial_key || '"')
$$;

create or replace function wait_reason_parts(r job_run) returns jsonb language plpgsql stable as $$
declare
  said jsonb;
begin
  if r.state not in ('PENDING', 'RETRYING', 'ORPHANED') then
    return null;
  elsif r.cancel_requested_at is not null then
    return jsonb_build_object('code', 'canceling', 'by', r.cancel_requested_by,
      'text', 'it is about to be canceled, as ' || r.cancel_requested_by || ' asked');
  elsif r.due_at > clock_timestamp() then
    return jsonb_build_object('code', case r.state when 'RETRYING' then 'retry_at' else 'due_at' end, 'at', r.due_at,
      'text', (case r.state when 'RETRYING' then 'it is tried again at ' else 'it is due at ' end)
        || to_char(r.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
  elsif not exists (select from worker where state <> 'DEAD' and lease_until > clock_timestamp()) then
    return jsonb_build_object('code', 'no_worker', 'text', 'no worker is alive; start one: deno task worker, or all of it: deno task dev');
  elsif not exists (select from leader_term where lease_until > clock_timestamp()) then
    return jsonb_build_object('code', 'no_leader', 'text', 'there is no leader; one is being elected');
  end if;
  if r.serial_key is not null then
    said := coalesce(
      (select jsonb_build_object('code', 'key_stopped', 'serial_key', s.serial_key, 'by', s.stopped_by, 'reason', s.reason,
                'text', 'serial key "' || s.serial_key || '" is stopped by ' || s.stopped_by || coalesce(': ' || s.reason, '') ||
                  '; let it go: deno task queue unblock "' || s.serial_key || '"')
         from serial_key_pause s where s.serial_key = r.serial_key and r.state = 'PENDING'),
      (select behind_run(o) from job_run o
        where o.serial_key = r.serial_key and o.id <> r.id and o.state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')),
      (select behind_run(o) from job_run o
        where o.serial_key = r.serial_key and r.state = 'PENDING' and o.state = 'PENDING' and o.due_at <= clock_timestamp()
          and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) order by o.priority, o.due_at, o.id limit 1));
    if said is not null then
      return said;
    end if;
  end if;
  if r.limit_key is not null then
    select jsonb_build_object('code', 'key_limit', 'key', split_part(r.limit_key, ':', 2), 'running', count(o.id), 'limit', d.concurrency_limit,
             'text', 'limit: ' || count(o.id) || ' of at most ' || d.concurrency_limit || ' runs of "' || split_part(r.limit_key, ':', 2)
               || '" are active') into said from job_definition d
      join job_run o on o.limit_key = r.limit_key and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')
       and o.state in ('ASSIGNED', 'RUNNING')
     where d.id = r.job_definition_id group by d.concurrency_limit having count(o.id) >= d.concurrency_limit;
    if said is not null then
      return said;
    end if;
  end if;
  if r.bulk_id is not null then
    select case b.state
             when 'PAUSED' then jsonb_build_object('code', 'bulk_paused', 'bulk_id', b.id, 'by', b.changed_by, 'reason', b.reason,
               'text', 'bulk ' || b.id || ' is paused' || coalesce(' by ' || b.changed_by, '') || coalesce(': ' || b.reason, '')
                 || '; resume it: deno task bulk resume ' || b.id)
             when 'CANCELED' then jsonb_build_object('code', 'bulk_canceled', 'bulk_id', b.id, 'text', 'bulk ' || b.id || ' is canceled')
             else jsonb_build_object('code', 'bulk_full', 'bulk_id', b.id, 'running', count(o.id), 'limit', b.running_limit,
               'text', 'bulk ' || b.id || ' runs ' || count(o.id) || ' of at most ' || b.running_limit || ' at once') end into said
      from bulk b left join job_run o on o.bulk_id = b.id and o.state in ('ASSIGNED', 'RUNNING')
     where b.id = r.bulk_id group by b.id having count(o.id) >= b.running_limit;
    if said is not null then
      return said;
    end if;
  end if;
  return coalesce(
    (select coalesce(w.parts, '{}') || jsonb_build_object('text', w.reason)
       from queue_block_reason w where w.job_definition_id = r.job_definition_id and w.node = coalesce(r.node, '')),
    jsonb_build_object('code', 'next', 'text', 'it is next as soon as those before it have started'));
end $$;

create or replace function wait_reason(r job_run) returns text language sql stable as $$ select wait_reason_parts(r)->>'text' $$;
