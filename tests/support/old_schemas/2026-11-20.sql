
set client_min_messages = warning;

create table if not exists leader_term (
  id int primary key check (id = 1),
  epoch bigint not null check (epoch >= 0),
  worker_id text,
  lease_until timestamptz not null,
  acquired_at timestamptz
);
insert into leader_term values (1, 0, null, '-infinity', null) on conflict do nothing;

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
  slots int not null check (slots > 0),
  version text not null default '',
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  dead_epoch bigint
);
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
  args_schema jsonb,
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
create index if not exists job_schedule_due on job_schedule (next_slot) where enabled and next_slot is not null;

create table if not exists event (
  id bigint generated always as identity primary key,
  event_type text not null check (event_type <> ''),
  payload_json jsonb not null default '{}',
  dedupe_key text unique,
  created_at timestamptz not null default clock_timestamp(),
  processed_at timestamptz
);
create index if not exists event_unprocessed on event (id) where processed_at is null;
create index if not exists event_recent on event (created_at);

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
create table if not exists bulk_item (
  bulk_id bigint not null references bulk on delete cascade,
  seq bigint not null,
  args_json jsonb not null default '{}',
  job_run_id bigint,
  primary key (bulk_id, seq)
);

create sequence if not exists fence_seq;

create table if not exists job_run (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition,
  job_schedule_id bigint references job_schedule on delete set null,
  event_id bigint references event on delete set null,
  bulk_id bigint references bulk on delete set null,
  rerun_of bigint references job_run on delete set null,
  source text not null check (source in ('schedule', 'event', 'enqueue', 'bulk')),
  idempotency_key text unique,
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
create index if not exists job_run_ready on job_run (job_definition_id, (coalesce(node, '')), priority, due_at, id)
  where state in ('PENDING', 'RETRYING', 'ORPHANED') and not held;
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
create index if not exists job_run_of_definition on job_run (job_definition_id, scheduled_for desc);
create index if not exists job_run_recent on job_run (created_at);

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
  return null;
end $$;
create or replace trigger job_run_moved after update on job_run for each row
  when ((new.serial_key is not null or new.limit_key is not null)
    and ((old.finished_at is null and new.finished_at is not null) or old.priority <> new.priority
      or (old.state in ('ASSIGNED', 'RUNNING') and new.state not in ('ASSIGNED', 'RUNNING'))))
  execute function check_lines();

create table if not exists serial_key_pause (
  serial_key text primary key,
  job_run_id bigint references job_run on delete set null,
  stopped_at timestamptz not null default clock_timestamp(),
  stopped_by text not null,
  reason text
);

create table if not exists queue_block_reason (
  job_definition_id bigint not null references job_definition on delete cascade,
  node text not null,
  reason text not null,
  since timestamptz not null default clock_timestamp(),
  primary key (job_definition_id, node)
);

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
create index if not exists admin_action_log_recent on admin_action_log (at);

create table if not exists admin_user (
  id bigint generated always as identity primary key,
  name text not null unique,
  password_hash text not null,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz
);

create or replace function ring_scheduler() returns trigger language plpgsql as $$
begin
  perform pg_notify('scheduler', tg_table_name);
  return null;
end $$;
create or replace trigger job_run_born after insert on job_run for each statement execute function ring_scheduler();
create or replace trigger event_born after insert on event for each statement execute function ring_scheduler();

create or replace function fill_template(template text, args jsonb) returns text language plpgsql immutable as $$
declare
  field text;
begin
  if template is null or position('{' in template) = 0 then
    return template;
  end if;
  for field in select distinct m[1] from regexp_matches(template, '\{([^{}]+)\}', 'g') m loop
    template := replace(template, '{' || field || '}', coalesce(args #>> string_to_array(field, '.'), ''));
  end loop;
  return case when length(template) <= 500 then template else left(template, 450) || ':' || md5(template) end;
end $$;

create or replace function emit_event(event_type text, payload jsonb default '{}', dedupe_key text default null)
returns bigint language plpgsql as $$
declare
  event_id bigint;
begin
  if coalesce(emit_event.event_type, '') = '' then
    raise exception 'Cannot emit an event without a type: give a name such as "order.placed"' using errcode = 'check_violation';
  end if;
  insert into event (event_type, payload_json, dedupe_key)
  values (emit_event.event_type, coalesce(emit_event.payload, '{}'), emit_event.dedupe_key)
  on conflict on constraint event_dedupe_key_key do nothing
  returning id into event_id;
  if event_id is null then
    select e.id into event_id from event e where e.dedupe_key = emit_event.dedupe_key;
  end if;
  return event_id;
end $$;

create or replace function wait_reason(r job_run) returns text language sql stable as $$
  select case
    when r.state not in ('PENDING', 'RETRYING', 'ORPHANED') then null
    when r.cancel_requested_at is not null then 'it is about to be canceled, as ' || r.cancel_requested_by || ' asked'
    when r.due_at > clock_timestamp() then
      (case r.state when 'RETRYING' then 'it is tried again at ' else 'it is due at ' end)
        || to_char(r.due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    when not exists (select from worker where state <> 'DEAD' and lease_until > clock_timestamp()) then
      'no worker is alive; start one: deno task worker, or all of it: deno task dev'
    when not exists (select from leader_term where lease_until > clock_timestamp()) then 'there is no leader; one is being elected'
    else coalesce(
      (select 'serial key "' || s.serial_key || '" is stopped by ' || s.stopped_by || coalesce(': ' || s.reason, '')
         from serial_key_pause s where s.serial_key = r.serial_key and r.state = 'PENDING'),
      (select 'it is behind run ' || o.id || ' of serial key "' || o.serial_key || '"' from job_run o
        where o.serial_key = r.serial_key and o.id <> r.id and o.state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')),
      (select 'it is behind run ' || o.id || ' of serial key "' || o.serial_key || '"' from job_run o
        where o.serial_key = r.serial_key and r.state = 'PENDING' and o.state = 'PENDING' and o.due_at <= clock_timestamp()
          and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) order by o.priority, o.due_at, o.id limit 1),
      (select 'limit: ' || count(o.id) || ' of at most ' || d.concurrency_limit || ' runs of "' || split_part(r.limit_key, ':', 2)
                || '" are active' from job_definition d
         join job_run o on o.limit_key = r.limit_key and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')
          and o.state in ('ASSIGNED', 'RUNNING')
        where d.id = r.job_definition_id group by d.concurrency_limit having count(o.id) >= d.concurrency_limit),
      (select w.reason from queue_block_reason w where w.job_definition_id = r.job_definition_id and w.node = coalesce(r.node, '')),
      'it is next as soon as those before it have started')
  end
$$;
