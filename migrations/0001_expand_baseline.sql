-- Dandori's tables, in the order in which a run flows through them, each with its indexes and triggers. Postgres 15 or newer.
-- This is the schema of a new database; one that has rows gets what is new from migrations/, and a test compares the two.
-- The constraints repeat the rules of the code, so that a mistake there cannot store nonsense. The database stamps all times
-- (clock_timestamp: the instant itself, not the start of the transaction); its clock alone decides what is due.

-- What the database has: one row for each file of migrations/ that it contains. Workers read it when they start.
create table schema_migration (
  version int primary key check (version > 0),
  name text not null,
  kind text not null check (kind in ('expand', 'contract')),  -- expand: programs of the version before go on beside it
  digest text not null,                       -- of the file: one that was changed since is refused
  applied_at timestamptz not null default clock_timestamp(),
  applied_by text not null
);

-- Tells the leader at commit that there is work. Only a hint: the leader also looks by itself.
create function ring_scheduler() returns trigger language plpgsql as $$
begin
  perform pg_notify('scheduler', tg_table_name);
  return null;
end $$;

-- Who leads. One row; a term is `epoch` and lives until `lease_until`. The Redis lock only thins out the candidates.
create table leader_term (
  id int primary key check (id = 1),
  epoch bigint not null check (epoch >= 0),
  tick bigint not null default 0,             -- raised by each tick of a leader: what an earlier one decided is refused when it comes late
  worker_id text,
  lease_until timestamptz not null,
  acquired_at timestamptz,
  degrade_epoch bigint,                       -- that an operator asked to step down
  resigned_at timestamptz,                    -- when a leader last gave the leader lock back: nobody has led since then, where nobody does
  failovers bigint not null default 0,        -- how often the leader lock was taken from a leader that had not given it back
  watched_from timestamptz not null default '-infinity'  -- when `dev` last began: what was late or lost before was stopped, and is no alert
);
-- Not to find it by: so that the lock of a leader's statement which lets renewals pass (FOR KEY SHARE) holds up what changes the epoch.
create unique index leader_term_epoch on leader_term (epoch);
insert into leader_term (id, epoch, lease_until) values (1, 0, '-infinity');

create table scheduler_settings (
  name text primary key,
  value jsonb not null,
  updated_at timestamptz not null default clock_timestamp(),
  updated_by text not null default 'system'
);

-- A host or pod. status is what the last health check found; is_active is what the operator wants.
create table node (
  node_id text primary key check (node_id <> ''),
  is_active boolean not null default true,
  inactive_by text,                           -- who put it into maintenance (is_active = false), and why
  inactive_reason text,
  status text not null default 'unavailable' check (status in ('available', 'busy', 'unavailable')),
  status_at timestamptz not null default clock_timestamp(),  -- since when it has its status
  labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object'),
  max_concurrent int check (max_concurrent >= 0),
  checked_at timestamptz,
  check_result jsonb,
  check_parts jsonb,                          -- of the check under way, as they come, for those who look on
  next_check_at timestamptz not null default clock_timestamp(),  -- by the leader; infinity: when a worker of it comes
  failed_checks int not null default 0,       -- how often in a row it was not available
  created_at timestamptz not null default clock_timestamp()
);
create index node_due on node (next_check_at);
-- In maintenance it is checked only when somebody asks. After it, it is as a new one: whatever was done to it, it takes no work before it was checked.
create function on_node_activation() returns trigger language plpgsql as $$
begin
  if new.is_active then
    new.status := 'unavailable';
    new.status_at := clock_timestamp();
    new.checked_at := null;
    new.check_result := null;
    new.failed_checks := 0;
    new.next_check_at := clock_timestamp();
  else
    new.next_check_at := 'infinity';
  end if;
  return new;
end $$;
create trigger node_turned before update on node for each row when (old.is_active <> new.is_active) execute function on_node_activation();

-- One process. worker_id is never used twice; DEAD is final, and the same process comes back under a new id.
create table worker (
  worker_id text primary key,
  node_id text not null references node,
  host text not null default '',  -- kernel and pid namespace of the pid: whoever has the same can tell whether the process lives
  state text not null default 'ACTIVE' check (state in ('ACTIVE', 'DRAINING', 'DETACHED', 'DEAD')),
  detached_by text,
  detach_reason text,
  subleader boolean not null default false,  -- whether it watches the leader now, so that others know whom they may ask
  lease_until timestamptz not null,
  seen_at timestamptz not null default clock_timestamp(),  -- when it last renewed its lease itself
  clock_skew_ms int,            -- how far its machine's clock is ahead of the database's
  pid int not null,
  process_started text not null,  -- kernel's start time of the pid: together they name a process for ever
  grpc_host text not null,
  grpc_port int not null check (grpc_port between 0 and 65535),
  tls_fingerprint text,         -- of its certificate; "mesh" where a service mesh identifies
  tls_former_fingerprint text,  -- that of before, for a minute after a rotation
  tls_trust_digest text,        -- the same for all that let in the same peers
  tls_not_after timestamptz,    -- until when its certificate is good
  slots int not null check (slots > 0),
  version text not null default '',
  features text[] not null default '{}',  -- what it can do that workers of an older version cannot: {steps}
  code_seen_at timestamptz,     -- when it first compared its job files with what is synced; nothing is known of them before (code_mismatch)
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  dead_epoch bigint
);
create index worker_alive on worker (lease_until) where state <> 'DEAD';

-- Something of which there is only so much, e.g. license tokens.
create table resource (
  name text primary key,
  capacity int not null check (capacity >= 0)
);

-- Each sync that changed something: who did it, where, and from which git commit.
create table job_sync (
  id bigint generated always as identity primary key,
  synced_at timestamptz not null default clock_timestamp(),
  synced_by text not null,
  machine text not null,
  git_commit text,                            -- null: the jobs folder was in no git repository
  git_dirty boolean,                          -- the checkout differed from the commit
  committed_at timestamptz
);

-- A job file as it was last synced.
create table job_definition (
  id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  command_name text not null,                 -- the file, relative to the jobs folder
  type text not null check (type in ('time', 'event', 'demand')),
  enabled boolean not null default true,
  removed_at timestamptz,                     -- its file is gone; the history stays
  description text not null default '',
  event_types text[] not null default '{}',
  -- How events of a type start runs, if it is not one each: {"device.changed": {"debounce_seconds": 30, "key": "{device}"}}.
  event_rules jsonb not null default '{}' check (jsonb_typeof(event_rules) = 'object'),
  args_schema json,                           -- as the file has it: forms show its fields in their order
  default_args_json jsonb not null default '{}',
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,
  on_failure text not null default 'continue' check (on_failure in ('continue', 'block')),  -- of a run with a serial key
  node text,                                  -- its name, or labels that it must have: "gpu=a100,zone=tokyo"
  resources jsonb not null default '{}' check (jsonb_typeof(resources) = 'object'),         -- what a run takes: {"license": 1}
  timeout_seconds int not null default 3600 check (timeout_seconds between 1 and 604800),
  kill_grace_seconds int not null default 10 check (kill_grace_seconds between 0 and 300),
  max_retries int not null default 0 check (max_retries >= 0),
  retry_backoff_seconds numeric not null default 30 check (retry_backoff_seconds >= 0),
  retry_factor numeric not null default 2 check (retry_factor >= 1),
  retry_jitter numeric not null default 0.1 check (retry_jitter between 0 and 1),
  retry_on jsonb not null default '{}',
  max_interruptions int not null default 3 check (max_interruptions >= 0),
  concurrency_policy text not null default 'allow' check (concurrency_policy in ('allow', 'forbid', 'replace', 'queue_one')),
  concurrency_limit int check (concurrency_limit > 0),  -- at once; of each limit key if concurrency_key is given
  concurrency_key text,
  rate_count int check (rate_count > 0),      -- starts in rate_seconds, evenly spread
  rate_seconds numeric check (rate_seconds > 0),
  rate_next_at timestamptz not null default '-infinity',  -- no start before
  paused_at timestamptz,                      -- its runs wait and its slots pass to the misfire rule
  paused_by text,
  paused_reason text,
  memory_mb int not null default 512 check (memory_mb between 64 and 65536),
  permissions jsonb not null default '{}',
  isolation_reuse int not null default 0 check (isolation_reuse >= 0),  -- 0: a process for each attempt
  -- What may be sent to its runs, by name: {"approval": {"schema": {...}, "from": "emit"}}; as args_schema, in the file's order.
  messages json not null default '{}' check (json_typeof(messages) = 'object'),
  after_jobs text[] not null default '{}',    -- it runs once the runs of these jobs in one group have ended
  after_when text not null default 'success' check (after_when in ('success', 'failure', 'end')),
  has_followers boolean not null default false,  -- a job that is not removed names it in after_jobs; written by sync
  on_change text not null default 'continue' check (on_change in ('continue', 'restart', 'fail')),  -- of runs with steps, once the code is another
  deadline_seconds bigint check (deadline_seconds > 0),  -- of a run from its first start, waits included
  digest text not null,                       -- of the file and all it imports: no worker runs other code
  job_sync_id bigint references job_sync,     -- the last that changed it
  created_at timestamptz not null default clock_timestamp(),
  synced_at timestamptz not null default clock_timestamp(),
  constraint removed_is_disabled check (removed_at is null or not enabled),
  constraint rate_is_whole check ((rate_count is null) = (rate_seconds is null)),
  constraint key_has_limit check (concurrency_key is null or concurrency_limit is not null)
);
create index job_definition_events on job_definition using gin (event_types);
create index job_definition_after on job_definition using gin (after_jobs);

-- The code that a job has, and had before: a sync that goes back to some is asked whether it means that.
create table job_version (
  job_definition_id bigint not null references job_definition on delete cascade,
  digest text not null,
  job_sync_id bigint not null references job_sync,  -- the last that stored it
  synced_at timestamptz not null default clock_timestamp(),
  primary key (job_definition_id, digest)
);

-- Jobs of which a worker has other files than were synced, as it says itself: it gets no run of that digest until it says otherwise.
create table code_mismatch (
  worker_id text not null references worker on delete cascade,
  job_definition_id bigint not null references job_definition on delete cascade,
  digest text not null,                       -- what was synced when it looked; about any other digest this says nothing
  found text,                                 -- the digest of what it has; null: its file is missing, or cannot be read
  problem text,                               -- why not
  since timestamptz not null default clock_timestamp(),  -- since when it has not had this digest
  primary key (worker_id, job_definition_id)
);

create table job_schedule (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition on delete cascade,
  schedule_id text not null,                  -- its name within the job
  schedule_type text not null,                -- which kind; src/schedule_kinds/kinds.ts has them all: a new one needs no change here
  schedule_value text not null,
  timezone text not null default 'UTC',
  args_json jsonb not null default '{}',
  misfire jsonb not null default '{"policy": "last"}',
  dst_gap text not null default 'after' check (dst_gap in ('after', 'before', 'skip')),
  dst_overlap text not null default 'first' check (dst_overlap in ('first', 'second', 'both')),
  exclude text[] not null default '{}',       -- days without slots, as the job file names them
  jitter_seconds int not null default 0 check (jitter_seconds >= 0),  -- runs start up to so much after their slot
  enabled boolean not null default true,
  paused_at timestamptz,                      -- its slots pass to the misfire rule
  paused_by text,
  paused_reason text,
  last_slot timestamptz not null default clock_timestamp(),  -- every slot up to here was dealt with
  next_slot timestamptz,                                     -- null: it never fires again
  unique (job_definition_id, schedule_id)
);
create index job_schedule_due on job_schedule (next_slot) where enabled and next_slot is not null;

-- What an operator has changed about a job beside its file, and what the file says there. The columns of the definition, or
-- of its schedule, hold `value`; a sync stores what the file says here and leaves them.
create table job_override (
  job_definition_id bigint not null references job_definition on delete cascade,
  name text not null,                         -- "priority", "schedule.nightly.time"
  value jsonb not null check (jsonb_typeof(value) = 'object'),
  file_value jsonb,                           -- null: the file has no such schedule any more
  set_at timestamptz not null default clock_timestamp(),
  set_by text not null,
  reason text not null,
  primary key (job_definition_id, name)
);

create table event (
  id bigint generated always as identity primary key,
  event_type text not null check (event_type <> ''),
  payload_json jsonb not null default '{}',
  dedupe_key text unique,
  created_at timestamptz not null default clock_timestamp(),
  processed_at timestamptz
);
create index event_unprocessed on event (id) where processed_at is null;
create index event_of_type on event (event_type, id);
create index event_recent on event (created_at);
create trigger event_born after insert on event for each statement execute function ring_scheduler();

-- Whether a payload is what a rule's `where` asks for: each field has the value, or one of the values; one that is missing is null.
create function event_matches(rule jsonb, payload jsonb) returns boolean language sql immutable as $$
  select not exists (
    select from jsonb_each(rule -> 'where') w
     where not case jsonb_typeof(w.value)
       when 'array' then exists (select from jsonb_array_elements(w.value) one
                                  where one = coalesce(payload #> string_to_array(w.key, '.'), 'null'))
       else w.value = coalesce(payload #> string_to_array(w.key, '.'), 'null') end)
$$;

-- Emits an event from any program in any language, inside its own transaction. Gives the event's id; a dedupe_key that
-- was used before gives the id of that event and adds nothing; used with another type it is refused, so that no event is lost.
-- So is what a client refuses (actions/args.ts): the leader gives the payload to each job that waits for it, in one statement.
create function emit_event(event_type text, payload jsonb default '{}', dedupe_key text default null)
returns bigint language plpgsql as $$
declare
  event_id bigint;
  known_type text;
begin
  if coalesce(emit_event.event_type, '') = '' then
    raise exception 'Cannot emit an event without a type: give a name such as "order.placed"' using errcode = 'check_violation';
  elsif length(emit_event.event_type) > 500 or length(emit_event.dedupe_key) > 500 then
    raise exception 'Cannot emit an event: type and dedupe key have at most 500 characters: current values have % and %',
      length(emit_event.event_type), coalesce(length(emit_event.dedupe_key), 0) using errcode = 'check_violation';
  elsif length(emit_event.payload::text) > 1000000 then
    raise exception 'Cannot emit "%": its payload is % characters of JSON, at most 1000000; store it, and emit a reference instead',
      emit_event.event_type, length(emit_event.payload::text) using errcode = 'check_violation';
  elsif jsonb_path_exists(emit_event.payload, 'strict $.**{100} ? (@.type() == "object" || @.type() == "array")') then
    raise exception 'Cannot emit "%": its payload is nested more than 100 levels deep', emit_event.event_type
      using errcode = 'check_violation';
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
-- It finds Dandori's tables whatever the path of who calls it: an application may have an `event` of its own.
do $$
begin
  execute format('alter function emit_event(text, jsonb, text) set search_path = %I, pg_temp', current_schema());
end $$;

-- Where other programs deliver events over HTTP, signed with the hook's secret. The secret is stored as it is, since a
-- signature can be checked with nothing less; who reads it here could as well write events.
create table webhook (
  name text primary key check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  event_type text not null check (event_type <> ''),
  signature text not null check (signature in ('dandori', 'github')),
  secret text not null,
  rate_per_minute int not null check (rate_per_minute > 0),
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null,
  delivered_at timestamptz,                    -- the last delivery with a good signature
  window_at timestamptz not null default '-infinity',  -- since then window_count came; a new minute begins after a minute
  window_count int not null default 0
);

-- Many runs of one job, fed a few at a time. What an operator changes here, by any means, the leader hears of at commit:
-- parallel, interval_seconds, priority, max_failures, throttle_above, and state RUNNING <-> PAUSED, or CANCELED.
create table bulk (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition,
  name text not null default '',
  idempotency_key text unique,
  retry_of bigint references bulk on delete set null,
  parent_run_id bigint,                       -- the run that awaits its end, and the key of that step
  parent_key text collate "C",
  on_finish bigint references job_definition,
  on_failure bigint references job_definition,
  state text not null default 'RUNNING' check (state in ('RUNNING', 'PAUSED', 'CANCELED', 'FINISHED')),
  changed_by text,                            -- who paused, resumed or canceled it, and why
  reason text,
  parallel int not null default 10 check (parallel > 0),
  interval_seconds numeric not null default 0 check (interval_seconds >= 0),
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,                            -- bulks that share one go one after another
  max_failures int check (max_failures >= 0),  -- more than that pause it
  failures_from timestamptz not null default '-infinity',  -- counted since it was last resumed
  -- Off unless throttle_above is given, a share of runs that end FAILED or TIMED_OUT: above it what runs at once is halved.
  throttle_above numeric check (throttle_above > 0 and throttle_above < 1),
  throttled int check (throttled > 0),
  throttled_at timestamptz not null default '-infinity',
  running_limit int generated always as (
    case when state = 'RUNNING' then least(parallel, coalesce(throttled, parallel)) else 0 end) stored,
  -- The leader's: where it is, when it last fed and when it next does (null: when something changes).
  next_seq bigint not null default 1,
  started_at timestamptz,
  fed_at timestamptz,
  next_feed_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null default 'system',
  finished_at timestamptz,                    -- nothing of it is left to do; of a canceled one: its last body is gone
  succeeded bigint,                           -- as it ended; runs may be deleted later
  failed bigint,
  constraint bulk_finished check ((finished_at is not null and state in ('CANCELED', 'FINISHED'))
    or (finished_at is null and state <> 'FINISHED')),
  -- One that is beyond what a time or an int can hold would fail every look at bulks, at this one and at all others.
  constraint bulk_within_bounds check
    (parallel <= 1000000 and interval_seconds <= 31536000 and coalesce(max_failures, 0) <= 1000000)
);
create index bulk_due on bulk (next_feed_at) where next_feed_at is not null;
create index bulk_open on bulk (id) where finished_at is null;
create unique index bulk_serial on bulk (serial_key)
  where serial_key is not null and started_at is not null and finished_at is null;
create index bulk_children on bulk (parent_run_id, id) where parent_run_id is not null;
create index bulk_keyed on bulk (serial_key, id) where serial_key is not null and finished_at is null;
create function guard_bulk_delete() returns trigger language plpgsql as $$
begin
  raise exception 'bulk % goes on, so its row is kept', old.id
    using hint = 'Cancel it: update bulk set state = ''CANCELED'' where id = ' || old.id || '. When its last run has ended it can be deleted.';
end $$;
create trigger bulk_kept before delete on bulk for each row when (old.finished_at is null) execute function guard_bulk_delete();

-- Its items, numbered from 1. An item has a run once it was fed.
create table bulk_item (
  bulk_id bigint not null references bulk on delete cascade,
  seq bigint not null,
  args_json jsonb not null default '{}',
  job_run_id bigint,
  rerun_of bigint,                            -- the failed run that it repeats
  retried_by bigint,                          -- the bulk that repeats it, so that it is repeated once
  primary key (bulk_id, seq)
);

-- Bulks that the leader must look at: a run of theirs has ended or an operator has changed them. Written in the transaction
-- that did it, and emptied by the leader when it has looked, so no bulk stands still because a leader died.
create table bulk_recheck (
  id bigint generated always as identity primary key,
  bulk_id bigint not null
);
create function check_bulk() returns trigger language plpgsql as $$
begin
  insert into bulk_recheck (bulk_id) values (new.id);
  if tg_op = 'UPDATE' and new.serial_key is distinct from old.serial_key then  -- by hand: who waits behind it need not any more
    insert into key_recheck (line) select 'serial:' || old.serial_key where old.serial_key is not null;
  end if;
  if tg_op = 'UPDATE' and new.priority <> old.priority then  -- its runs move as well, also those that may be tried again, but not one that was moved by itself
    update job_run set priority = new.priority where id = any(array(
      select id from job_run where bulk_id = new.id and priority = old.priority
         and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED')
         for update skip locked));  -- one that is just being given to a worker needs none
  end if;
  perform pg_notify('scheduler', 'bulk');
  return null;
end $$;
create trigger bulk_born after insert on bulk for each row execute function check_bulk();
create trigger bulk_changed after update on bulk for each row
  when ((new.state, new.parallel, new.interval_seconds, new.priority, new.serial_key, new.max_failures, new.throttle_above, new.throttled)
    is distinct from (old.state, old.parallel, old.interval_seconds, old.priority, old.serial_key, old.max_failures, old.throttle_above, old.throttled))
  execute function check_bulk();
create function resume_bulk() returns trigger language plpgsql as $$
begin
  new.failures_from := clock_timestamp();
  return new;
end $$;
create trigger bulk_resumed before update on bulk for each row
  when (old.state = 'PAUSED' and new.state = 'RUNNING') execute function resume_bulk();

create sequence fence_seq;

-- One logical execution; it keeps its id through all its attempts. Only runs/states.ts changes its state.
--
-- What it came from is named without foreign keys: five of them were half of what it costs to enqueue a run, and one whose
-- schedule is removed would have to rewrite the schedule's whole history. The statements that insert (runs/create_runs.ts) read the
-- definition as they do so, and a definition that has runs cannot be deleted; a schedule may be gone.
create table job_run (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null,
  job_schedule_id bigint,
  event_id bigint,
  event_key text,                             -- of an event with a rule: by it the job's newest run of that key is found
  bulk_id bigint,
  rerun_of bigint,                            -- the ended run that this one repeats
  parent_run_id bigint,                       -- the run whose body asked for it
  parent_key text collate "C",                -- the parent's step that awaits its end; null: none does
  depth smallint not null default 0 check (depth between 0 and 16),  -- how many parents stand above it
  has_children boolean not null default false,
  group_id bigint,                            -- first run of its group: those that `after` connects
  repeats_followers boolean not null default false,  -- run again with all that comes after it in its group
  source text not null check (source in ('schedule', 'event', 'enqueue', 'bulk', 'call', 'after')),
  idempotency_key text collate "C",           -- by bytes: a rule of a language costs more, and may change below an index that must be right
  args_json jsonb not null default '{}',
  scheduled_for timestamptz not null default clock_timestamp(),
  due_at timestamptz not null default clock_timestamp(),
  priority int not null default 240 check (priority between 0 and 999),
  serial_key text,
  limit_key text,                             -- "{definition}:{key}": as many at once as the definition's concurrency_limit
  node text,                                  -- where it must run, as in job_definition
  avoid_node text,                            -- where its last attempt failed, if it asked for another node
  state text not null default 'PENDING' check (state in
    ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED', 'SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED')),
  held boolean not null default false,        -- not yet due, suspended, or behind its serial key or limit key
  wakes_at timestamptz,                       -- held until then, and for no other reason; infinity: until something arrives
  version int not null default 0,
  attempt int not null default 1 check (attempt >= 1),  -- counts executions: from a start to a suspension or an end
  suspensions int not null default 0,         -- how often it started again after one, raised with `attempt`: people count attempt - suspensions
  woken_at timestamptz,                       -- when it was let go after its last suspension: since then it wants to start
  wakes int not null default 0,               -- how often something has arrived; a suspension that has not seen the last is refused
  failures int not null default 0,            -- what the user's code did; counts against max_retries
  interruptions int not null default 0,       -- what was done to it; counts against max_interruptions
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
  code_digest text,                           -- first 12 hex digits of the code that ran it last
  deadline_at timestamptz,                    -- ends TIMED_OUT then, waits included
  ending text check (ending in ('FAILED', 'CANCELED', 'TIMED_OUT')),  -- what it becomes once all that it did is undone
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
  -- The transaction that ended it, by which it is counted once (stats/run_stats.ts). Not the time: that is stamped before its
  -- transaction is seen by others, and a clock may go back.
  ended_xid xid8,
  created_at timestamptz not null default clock_timestamp(),
  constraint wakes_from_hold check (wakes_at is null or held),
  constraint held_while_waiting check (not held or state in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED')),
  constraint endless_wait_is_suspended check (wakes_at is distinct from 'infinity' or state = 'SUSPENDED'),
  constraint suspension_is_execution check (suspensions between 0 and attempt - 1),
  constraint owned_once_taken check (state not in ('ASSIGNED', 'RUNNING') or assigned_worker_id is not null),
  constraint fenced_once_running check (state <> 'RUNNING' or
    (leader_epoch is not null and start_token is not null and fence is not null and started_at is not null)),
  constraint finished_iff_terminal check (
    (state in ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED')) = (finished_at is not null))
) with (fillfactor = 70);
-- Of runs that have one: each step of a run writes it into all indexes that it is in.
create unique index job_run_idempotency on job_run (idempotency_key) where idempotency_key is not null;
create index job_run_event_key on job_run (job_definition_id, event_key, id) where event_key is not null;
-- What may start now, by run queue (definition and node), in the order in which it does: all that dispatch reads. Runs that may
-- not are `held` and not in it, and a run queue that is closed is passed over as one; so its cost does not grow with what waits.
create index job_run_ready on job_run (job_definition_id, (coalesce(node, '')), priority, due_at, id)
  where state in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED') and not held;
create index job_run_held on job_run (job_definition_id, priority) where held and state <> 'SUSPENDED';
create index job_run_asleep on job_run (wakes_at) where wakes_at is not null;
create index job_run_slots on job_run (due_at) where state = 'PENDING' and source = 'schedule';
create index job_run_orphans on job_run (id) where state = 'ORPHANED';
create index job_run_live on job_run (assigned_worker_id) where state in ('ASSIGNED', 'RUNNING');
create index job_run_cancel on job_run (id)
  where cancel_requested_at is not null and ending is null
    and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED');
create index job_run_deadline on job_run (deadline_at) where deadline_at is not null and finished_at is null and ending is null;
create index job_run_suspended on job_run (job_definition_id, id) where state = 'SUSPENDED';
create index job_run_children on job_run (parent_run_id, id) where parent_run_id is not null;
create index job_run_group on job_run (group_id, job_definition_id, id) where group_id is not null;
-- One run of a serial key anywhere between ASSIGNED and its end, retries and waits included.
create unique index job_run_serial on job_run (serial_key)
  where serial_key is not null and state in ('ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED');
create index job_run_keyed on job_run (serial_key, priority, due_at, id)
  where serial_key is not null and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED');
create index job_run_limited on job_run (limit_key, priority, due_at, id)
  where limit_key is not null and state in ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED')
    and (state <> 'SUSPENDED' or wakes_at is null);
-- A job's runs by time: of those that wait and of those that have ended, since an index of all of them is written with each step of each run.
create index job_run_waiting on job_run (job_definition_id, scheduled_for) where state in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED');
create index job_run_past_slots on job_run (job_definition_id, scheduled_for) where finished_at is not null;
create index job_run_of_event on job_run (event_id) where event_id is not null;
create index job_run_reruns on job_run (rerun_of, id) where rerun_of is not null;
create index job_run_in_bulk on job_run (bulk_id, state, id) where bulk_id is not null;
create index job_run_bulk_ended on job_run (bulk_id, finished_at)
  where bulk_id is not null and finished_at is not null;
create index job_run_ended on job_run (ended_xid, id) where ended_xid is not null;
-- Of what has ended, so written once in a run's life: how people ask for it, each the newest first (runs/run_scans.ts).
create index job_run_past on job_run (job_definition_id, state, id) where finished_at is not null;
create index job_run_keyed_past on job_run (serial_key, id) where serial_key is not null and finished_at is not null;
create index job_run_errors on job_run (error_name, id) where error_name is not null;
create index job_run_of_schedule on job_run (job_schedule_id, scheduled_for) where job_schedule_id is not null;
create index job_run_behind on job_run (job_definition_id, priority, due_at) where held and wakes_at is null;
-- Of a bulk's runs that are held, those that are let go next: a backfill may have hundreds of thousands.
create index job_run_bulk_held on job_run (bulk_id, priority, due_at, id)
  where held and wakes_at is null and bulk_id is not null;
create trigger job_run_born after insert on job_run for each statement execute function ring_scheduler();

create function keep_definition() returns trigger language plpgsql as $$
begin
  if exists (select from job_run where job_definition_id = old.id and finished_at is not null)
     or exists (select from job_run where job_definition_id = old.id and state in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED'))
     or exists (select from job_run where job_definition_id = old.id and state in ('ASSIGNED', 'RUNNING')) then
    raise exception 'job "%" has runs, so its row is kept', old.name
      using hint = 'Remove its file and run `deno task sync`: the job takes no runs from then on, and its history stays.';
  end if;
  return old;
end $$;
create trigger job_definition_kept before delete on job_definition for each row execute function keep_definition();

-- "tenant:{tenant}" with the args' own values. A field that is missing gives an empty text, so the key stays a key. One that
-- is too long for an index is cut, and its digest keeps it apart from others: an event's payload must not break its creation.
create function fill_template(template text, args jsonb) returns text language plpgsql immutable strict as $$
declare
  filled text := '';
  part text[];
begin
  if position('{' in template) = 0 then
    return template;
  end if;
  -- Part by part: a value that looks like a field is a value, or whoever supplies it could have the key of somebody else.
  for part in select regexp_matches(template, '\{([^{}]+)\}|([^{]+|\{)', 'g') loop
    filled := filled || coalesce(part[2], args #>> string_to_array(part[1], '.'), '');
  end loop;
  return case when length(filled) <= 500 then filled else left(filled, 450) || ':' || md5(filled) end;
end $$;

-- What ended, counted: by minute, ten minutes and hour (of finished_at), and in all (grain 0, at 'epoch'); for each job, and for
-- all together (job 0). The histograms' buckets are those of WAIT_BOUNDS in stats/run_stats.ts, the last without a bound.
create table run_stat (
  grain_seconds int not null check (grain_seconds in (0, 60, 600, 3600)),
  at timestamptz not null,
  job_definition_id bigint not null,
  succeeded bigint not null default 0,
  failed bigint not null default 0,
  timed_out bigint not null default 0,
  canceled bigint not null default 0,
  skipped bigint not null default 0,
  quarantined bigint not null default 0,      -- of those that failed
  wait_seconds float8 not null default 0,     -- sum, from due to started
  run_seconds float8 not null default 0,      -- sum, from started to finished
  waits bigint[] not null,
  runs bigint[] not null,
  last_succeeded_at timestamptz,
  last_failed_at timestamptz,                 -- FAILED or TIMED_OUT
  last_failed_run bigint,
  last_quarantined_at timestamptz,
  last_quarantined_run bigint,
  primary key (grain_seconds, at, job_definition_id)
);
create index run_stat_of_job on run_stat (grain_seconds, job_definition_id, at);

-- Where the counting is: all that `counted` sees has been counted. While a large share is counted in parts, `cut` is what the
-- share ends with, and the cursor is the last run that was counted of it.
create table run_stat_mark (
  id int primary key check (id = 1),
  version bigint not null default 0,
  counted pg_snapshot not null,
  cut pg_snapshot,
  cursor_xid xid8 not null default '0',
  cursor_id bigint not null default 0,
  since timestamptz not null default '-infinity',  -- what ended before is of a database that this one was restored from
  counted_at timestamptz not null default clock_timestamp()
);
insert into run_stat_mark (id, counted) values (1, pg_current_snapshot()) on conflict do nothing;

-- Looked at several times a minute: what waits, by priority (to the nearest of the nine with a name), and what nodes do.
create table load_stat (
  kind text not null check (kind in ('queue', 'node')),
  at timestamptz not null,                    -- the minute
  subject text not null,
  sampled_at timestamptz not null,            -- the last look; what it saw is in now_*
  samples int not null default 1,
  used_now float8 not null,                   -- runs that wait, or bodies on the node
  used_sum float8 not null,
  used_max float8 not null,
  capacity_now float8 not null default 0,     -- slots of the node
  capacity_sum float8 not null default 0,
  oldest_seconds float8 not null default 0,   -- of those that wait: due for so long
  primary key (kind, at, subject)
);

-- Events that have no run of their own with a job, by its rule: a later one took its place (debounced), or a run came shortly before.
create table event_suppressed (
  event_id bigint not null references event on delete cascade,
  job_definition_id bigint not null references job_definition on delete cascade,
  outcome text not null check (outcome in ('debounced', 'throttled')),
  job_run_id bigint references job_run on delete set null,  -- the run that there is instead
  at timestamptz not null default clock_timestamp(),
  primary key (event_id, job_definition_id)
);

create index event_absorbed_run on event_suppressed (job_run_id) where job_run_id is not null;  -- for the end of that run's row

-- How far slots of a schedule are forgotten: some of their runs, and with them the keys that keep a slot from being created again, were
-- deleted when they were old (runs/retention/run_retention.ts). A backfill makes no run for a slot up to here.
create table schedule_watermark (
  job_schedule_id bigint primary key references job_schedule on delete cascade,
  upto timestamptz not null
);

-- Lines, "serial:{serial_key}" or "limit:{limit_key}", that the leader must look at again: who is next may have changed. Written in
-- the transaction that changed it and emptied by the leader alone, so no run is left held behind a key that is free.
create table key_recheck (
  id bigint generated always as identity primary key,
  line text not null
);
create function check_lines() returns trigger language plpgsql as $$
begin
  if new.serial_key is not null then
    insert into key_recheck (line) values ('serial:' || new.serial_key);
    if old.finished_at is null and new.state in ('FAILED', 'TIMED_OUT')
       and (select on_failure from job_definition where id = new.job_definition_id) = 'block' then
      insert into serial_key_pause (serial_key, job_run_id, stopped_by, reason)
      values (new.serial_key, new.id, 'system', jsonb_build_object(
        'code', 'reason.run_ended', 'params', jsonb_build_object('run_id', new.id, 'state', new.state))::text) on conflict do nothing;
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
create trigger job_run_moved after update on job_run for each row
  when ((new.serial_key is not null or new.limit_key is not null or new.bulk_id is not null)
    and ((old.finished_at is null and new.finished_at is not null) or old.priority <> new.priority
      or (old.state in ('ASSIGNED', 'RUNNING') and new.state not in ('ASSIGNED', 'RUNNING'))))
  execute function check_lines();

-- A run that has not ended, or a stop below, may be deleted by hand: who waits behind it is looked at as well.
create function check_deleted() returns trigger language plpgsql as $$
begin
  insert into key_recheck (line) select 'serial:' || old.serial_key where old.serial_key is not null;
  if tg_table_name = 'job_run' then
    insert into key_recheck (line) select 'limit:' || old.limit_key where old.limit_key is not null;
    insert into bulk_recheck (bulk_id) select old.bulk_id where old.bulk_id is not null;
    insert into wake_check (job_run_id) select old.parent_run_id where old.parent_key is not null;
  end if;
  perform pg_notify('scheduler', tg_table_name);
  return null;
end $$;
create trigger job_run_deleted after delete on job_run for each row
  when (old.finished_at is null
    and (old.serial_key is not null or old.limit_key is not null or old.bulk_id is not null or old.parent_key is not null))
  execute function check_deleted();

-- Definitions whose priority has changed: those of their runs that wait with the one that it was follow, moved by the leader.
create table priority_change (
  id bigint generated always as identity primary key,
  job_definition_id bigint not null references job_definition on delete cascade,
  was int not null,
  until_xid xid8  -- transactions before it may still bring a run with the old priority: it is looked again when they have ended
);
-- What changes about a definition, by sync, by an operator or by plain SQL, holds for runs that wait already.
create function follow_definition() returns trigger language plpgsql as $$
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
-- Another rate holds at once: how long the old one had to wait says nothing about it.
create function follow_rate() returns trigger language plpgsql as $$
begin
  new.rate_next_at := case when new.rate_count is null then '-infinity'
    else least(new.rate_next_at, clock_timestamp() + new.rate_seconds / new.rate_count * interval '1 s') end;
  return new;
end $$;
create trigger job_definition_repaced before update on job_definition for each row
  when ((new.rate_count, new.rate_seconds) is distinct from (old.rate_count, old.rate_seconds)) execute function follow_rate();
create trigger job_definition_changed after update on job_definition for each row
  when ((new.priority, new.concurrency_limit, new.node, new.enabled) is distinct from (old.priority, old.concurrency_limit, old.node, old.enabled)
    or (new.rate_count, new.rate_seconds) is distinct from (old.rate_count, old.rate_seconds))
  execute function follow_definition();

-- Serial keys whose next run must not start: a run failed that says so (on_failure), or an operator paused the key.
create table serial_key_pause (
  serial_key text primary key,
  job_run_id bigint references job_run on delete set null,  -- the run that failed; null: paused by an operator
  stopped_at timestamptz not null default clock_timestamp(),
  stopped_by text not null,
  reason text
);
create trigger serial_key_freed after delete on serial_key_pause for each row execute function check_deleted();

-- Why nothing of a run queue starts now; written by the leader when it changes. A run queue without a row is open.
create table queue_block_reason (
  job_definition_id bigint not null references job_definition on delete cascade,
  node text not null,                         -- '': any
  reason jsonb not null,                      -- a code and its params (runs/wait_reason.ts)
  since timestamptz not null default clock_timestamp(),
  primary key (job_definition_id, node)
);

-- Attempts that ended without deciding their run.
create table job_run_attempt (
  job_run_id bigint not null references job_run on delete cascade,
  attempt int not null,
  worker_id text,
  leader_epoch bigint,
  fence bigint,
  started_at timestamptz,
  ended_at timestamptz not null default clock_timestamp(),
  outcome text not null check (outcome in ('FAILED', 'TIMED_OUT', 'LOST', 'GIVEN_BACK', 'SUSPENDED')),
  exit_code int,
  error_name text,
  error_summary text,
  primary key (job_run_id, attempt)
);

-- What a run's body asked for and what came of it: its journal. `key` is kind, name and occurrence, "step:charge", "sleep:#2". `seq` is the
-- position in the order in which results were given to the body; a row without one is still open. Only src/steps/ writes it.
--
-- No foreign key: it would lock the run's row for each step once more. What is left of a deleted run goes with it (job_run_forgotten).
create table run_step (
  job_run_id bigint not null,
  key text collate "C" not null check (octet_length(key) between 1 and 300),
  kind text not null check (kind in ('step', 'sleep', 'message', 'event', 'call', 'start', 'bulk', 'mark', 'undo')),
  -- BEGUN: at most once, its work may have run. TRYING: failed, and to be tried again. WAITING: for what `kind` says.
  state text not null check (state in ('BEGUN', 'TRYING', 'WAITING', 'DONE', 'FAILED', 'TIMED_OUT', 'CANCELED')),
  seq int check (seq > 0),
  attempt int not null,                       -- execution that wrote it last, and the code of that
  code_digest text not null,
  orphaned boolean not null default false,    -- changed code does not ask for it any more; for people
  tries int not null default 1 check (tries >= 1),  -- TRYING: failed ones; ended: with the last
  result jsonb,
  error_name text,
  error_summary text,
  began_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  until timestamptz,                          -- WAITING: a sleep's end, a wait's limit; TRYING: not before
  child_run_id bigint,                        -- whose result is read there, and not copied
  child_bulk_id bigint,
  waits_for text,                             -- the message's name, or the event's type
  event_where jsonb check (jsonb_typeof(event_where) = 'object'),
  prompt jsonb,                               -- of a message that people are asked for: {"ask", "show", "who", "notBy", "remind"}
  has_undo boolean not null default false,
  primary key (job_run_id, key),
  constraint delivered_has_ended check (case when seq is null then state in ('BEGUN', 'TRYING', 'WAITING', 'CANCELED')
    else state not in ('BEGUN', 'TRYING', 'WAITING') end),
  constraint ended_has_time check ((ended_at is null) = (state in ('BEGUN', 'TRYING', 'WAITING')))
);
create unique index run_step_order on run_step (job_run_id, seq) where seq is not null;
create index run_step_open on run_step (job_run_id) where seq is null;
create index run_step_events on run_step (waits_for) where kind = 'event' and state = 'WAITING';
create index run_step_prompts on run_step (began_at) where kind = 'message' and state = 'WAITING' and prompt is not null;

-- What the world has sent to a run. Kept until the body waits for it; of one name the oldest is taken first, by one wait.
create table run_message (
  id bigint generated always as identity primary key,
  job_run_id bigint not null,
  name text not null check (for_key is not null or name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  for_key text collate "C",                   -- an event's: the step that waits for it; its name is the event's type
  payload jsonb not null default 'null',
  dedupe_key text,                            -- an event's: "event:{id}:{for_key}"
  sent_by text not null,
  sent_at timestamptz not null default clock_timestamp(),
  taken_by text collate "C"                   -- key of the step that got it
);
create unique index run_message_once on run_message (job_run_id, dedupe_key) where dedupe_key is not null;
create index run_message_open on run_message (job_run_id, name, id) where taken_by is null;
create index run_message_of_run on run_message (job_run_id, id);

-- Runs for which something has come: a message, the end of a child or of a bulk, or their own end if they have children. Written in the
-- transaction that brings it and deleted by the leader when it has acted, so no run sleeps on because a leader died.
create table wake_check (
  id bigint generated always as identity primary key,
  job_run_id bigint not null
);
-- Groups in which a run has ended that other jobs come after.
create table group_check (
  id bigint generated always as identity primary key,
  group_id bigint not null,
  job_definition_id bigint not null
);

create function check_relatives() returns trigger language plpgsql as $$
begin
  if new.parent_key is not null then
    insert into wake_check (job_run_id) values (new.parent_run_id);
  end if;
  if new.has_children then
    insert into wake_check (job_run_id) values (new.id);
  end if;
  if new.group_id is not null then
    insert into group_check (group_id, job_definition_id)
    select new.group_id, id from job_definition where id = new.job_definition_id and has_followers;
  end if;
  perform pg_notify('scheduler', 'job_run');
  return null;
end $$;
create trigger job_run_relatives after update on job_run for each row
  when (old.finished_at is null and new.finished_at is not null
    and (new.parent_key is not null or new.has_children or new.group_id is not null))
  execute function check_relatives();

create function check_sent_message() returns trigger language plpgsql as $$
begin
  insert into wake_check (job_run_id) values (new.job_run_id);
  perform pg_notify('scheduler', 'run_message');
  perform pg_notify('run_arrived', id::text) from job_run where id = new.job_run_id and state = 'RUNNING';
  return null;
end $$;
create trigger run_message_sent after insert on run_message for each row execute function check_sent_message();

create function check_parent_of_bulk() returns trigger language plpgsql as $$
begin
  insert into wake_check (job_run_id) values (new.parent_run_id);
  perform pg_notify('scheduler', 'bulk');
  return null;
end $$;
create trigger bulk_of_run_ended after update on bulk for each row
  when (old.finished_at is null and new.finished_at is not null and new.parent_key is not null)
  execute function check_parent_of_bulk();

-- The worker that has the body is told; of a run without one the leader takes care.
create function ring_worker() returns trigger language plpgsql as $$
begin
  perform pg_notify('run_arrived', new.id::text);
  return null;
end $$;
create trigger job_run_arrived after update on job_run for each row
  when (new.wakes <> old.wakes and new.state = 'RUNNING') execute function ring_worker();

create function forget_steps() returns trigger language plpgsql as $$
begin
  delete from run_step where job_run_id = any(array(select id from gone));
  delete from run_message where job_run_id = any(array(select id from gone));
  return null;
end $$;
create trigger job_run_forgotten after delete on job_run referencing old table as gone for each statement execute function forget_steps();

create table job_run_log (
  id bigint generated always as identity primary key,
  job_run_id bigint not null references job_run on delete cascade,
  attempt int not null,
  at timestamptz not null default clock_timestamp(),
  level text not null check (level in ('debug', 'info', 'warn', 'error', 'stdout', 'stderr', 'system')),
  message text not null,
  fields jsonb
);
create index job_run_log_of_run on job_run_log (job_run_id, id);

-- Who did what to what, and why. Rows are only ever added.
create table admin_action_log (
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
create index admin_action_log_at on admin_action_log (at, id);
create index admin_action_log_actor on admin_action_log (actor, at, id);
create index admin_action_log_action on admin_action_log (action, at, id);
create index admin_action_log_target on admin_action_log (target_type, target_id, at, id);
create index admin_action_log_type on admin_action_log (target_type, at, id);
create function keep_audit() returns trigger language plpgsql as $$
begin
  raise exception 'Cannot % admin_action_log: the audit is only added to', lower(tg_op)
    using hint = 'A copy may be archived; to delete rows the owner of the table disables the trigger audit_is_kept';
end $$;
create trigger audit_is_kept before update or delete or truncate on admin_action_log
  for each statement execute function keep_audit();

create table admin_user (
  id bigint generated always as identity primary key,
  name text not null unique,
  password_hash text not null,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  created_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz
);

-- Who is logged in. The cookie holds the token, this only its digest, so that reading this table lets nobody in.
create table admin_session (
  token_digest text primary key,
  admin_user_id bigint not null references admin_user on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),   -- to the minute
  expires_at timestamptz not null,                          -- however much it is used
  address text not null default '',
  user_agent text not null default ''
);
create index admin_session_of_user on admin_session (admin_user_id);

-- Tries to log in that have not succeeded: too many of them and no password is looked at for a while.
create table admin_login_attempt (
  id bigint generated always as identity primary key,
  name text not null,
  address text not null,
  device text,                                -- digest, of a browser in which this user was logged in before
  at timestamptz not null default clock_timestamp()
);
create index admin_login_attempt_recent on admin_login_attempt (at);

-- Browsers in which a user was logged in before, and from where: what others guess keeps none of these out.
create table admin_device (
  token_digest text,
  admin_user_id bigint not null references admin_user on delete cascade,
  address text not null default '',
  seen_at timestamptz not null default clock_timestamp(),
  primary key (token_digest, admin_user_id)
);
create index admin_device_of_user on admin_device (admin_user_id);

-- Programs that use the API.
create table api_token (
  id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9_.-]{0,63}$'),
  token_digest text not null unique,
  scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['read', 'emit', 'operate', 'admin']),
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  used_at timestamptz                                       -- to the minute
);

-- What somebody should look at: opened when it begins and closed when it is over, once each.
create table alert (
  id bigint generated always as identity primary key,
  kind text not null,
  subject text not null,                      -- a job, node, bulk or key
  message text not null,
  detail jsonb not null default '{}',
  opened_at timestamptz not null default clock_timestamp(),
  opened_by text not null,
  closed_at timestamptz,
  acked_at timestamptz,
  acked_by text,
  ack_reason text
);
create unique index alert_open on alert (kind, subject) where closed_at is null;
create index alert_acked on alert (kind, subject, acked_at) where acked_at is not null;
create index alert_recent on alert (opened_at);

-- What the webhook is to be told. Written with the alert; workers send it, one at a time by a claim.
create table alert_delivery (
  id bigint generated always as identity primary key,
  alert_id bigint references alert on delete cascade,  -- null: a test
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
create index alert_delivery_due on alert_delivery (next_try_at) where delivered_at is null and given_up_at is null;
create index alert_delivery_of on alert_delivery (alert_id);

create function key_stopped(s serial_key_pause) returns jsonb language sql immutable as $$
  select jsonb_build_object('code', 'key_stopped', 'params', jsonb_build_object('serial_key', s.serial_key, 'by', s.stopped_by, 'reason', s.reason))
$$;
create function behind_bulk(o bulk) returns jsonb language sql immutable as $$
  select jsonb_build_object('code', 'behind_bulk', 'params', jsonb_build_object('bulk_id', o.id, 'serial_key', o.serial_key))
$$;
create function behind_run(o job_run) returns jsonb language sql immutable as $$
  select jsonb_build_object('code', 'behind_run', 'params', jsonb_build_object('run_id', o.id, 'serial_key', o.serial_key))
$$;

-- Whether a bulk goes before a run of its serial key (runs/key_queues.ts).
create function bulk_precedes(b bulk, r job_run) returns boolean language sql immutable as $$
  select r.bulk_id is null and b.serial_key = r.serial_key and b.finished_at is null and (b.started_at is not null or b.created_at <= r.created_at)
$$;

-- What a suspended run waits for, that first which ends soonest; ten of what may be a thousand.
create function suspended_for(r job_run) returns jsonb language sql stable as $$
  with wait as materialized (
    select case when state = 'TRYING' then 'retry' else kind end as kind,
           coalesce(waits_for, substr(key, position(':' in key) + 1)) as name, until, began_at, key
      from run_step where job_run_id = r.id and state in ('WAITING', 'TRYING')),
  soonest as (select * from wait order by until nulls last, began_at, key limit 10)
  select jsonb_build_object('code', 'suspended', 'params', jsonb_build_object(
           'waits', coalesce(jsonb_agg(jsonb_build_object('code', 'runs.suspended_for', 'params',
                      jsonb_build_object('kind', kind, 'name', name, 'until', until)) order by until nulls last, began_at, key), '[]'),
           'more', greatest(0, (select count(*) from wait) - 10)))
    from soonest
$$;

-- Why a run that may start, or will be able to, waits: a code and its params (runs/wait_reason.ts).
-- select id, wait_reason(r) from job_run r where state = 'PENDING'
-- Null for one that runs or has ended. A function and no column: a reason that holds for a million runs is not written a
-- million times, and it is true at the moment in which it is read. Step by step, since most runs need one of the questions.
create function wait_reason(r job_run) returns jsonb language plpgsql stable as $$
declare
  said jsonb;
begin
  if r.state not in ('PENDING', 'SUSPENDED', 'RETRYING', 'ORPHANED') then
    return null;
  elsif r.cancel_requested_at is not null then
    return jsonb_build_object('code', 'canceling', 'params', jsonb_build_object('by', r.cancel_requested_by));
  elsif r.state = 'SUSPENDED' and r.held and r.wakes_at > clock_timestamp() then
    return suspended_for(r);
  elsif r.due_at > clock_timestamp() then
    return jsonb_build_object('code', case r.state when 'RETRYING' then 'retry_at' else 'due_at' end, 'params', jsonb_build_object('at', r.due_at));
  elsif not exists (select from worker where state <> 'DEAD' and lease_until > clock_timestamp()) then
    return jsonb_build_object('code', 'no_worker', 'params', '{}'::jsonb);
  elsif not exists (select from leader_term where lease_until > clock_timestamp()) then
    return jsonb_build_object('code', 'no_leader', 'params', '{}'::jsonb);
  end if;
  if r.serial_key is not null then
    said := coalesce(
      (select key_stopped(s) from serial_key_pause s where s.serial_key = r.serial_key and r.state = 'PENDING'),
      (select behind_run(o) from job_run o
        where o.serial_key = r.serial_key and o.id <> r.id and o.state in ('ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED')),
      (select behind_bulk(b) from bulk b where r.state = 'PENDING' and bulk_precedes(b, r) order by b.started_at, b.created_at, b.id limit 1),
      (select behind_run(o) from job_run o
        where o.serial_key = r.serial_key and r.state = 'PENDING' and o.state = 'PENDING' and o.due_at <= clock_timestamp()
          and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) and not exists (select from bulk b where bulk_precedes(b, o))
        order by o.priority, o.due_at, o.id limit 1));
    if said is not null then
      return said;
    end if;
  end if;
  if r.limit_key is not null then
    select jsonb_build_object('code', 'key_limit', 'params', jsonb_build_object(
             'key', split_part(r.limit_key, ':', 2), 'running', count(o.id), 'limit', d.concurrency_limit)) into said from job_definition d
      join job_run o on o.limit_key = r.limit_key and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'SUSPENDED', 'RETRYING', 'ORPHANED')
       and (o.state <> 'SUSPENDED' or o.wakes_at is null) and o.state in ('ASSIGNED', 'RUNNING')
     where d.id = r.job_definition_id group by d.concurrency_limit having count(o.id) >= d.concurrency_limit;
    if said is not null then
      return said;
    end if;
  end if;
  if r.bulk_id is not null then
    select case b.state
             when 'PAUSED' then jsonb_build_object('code', 'bulk_paused', 'params', jsonb_build_object('bulk_id', b.id, 'by', b.changed_by, 'reason', b.reason))
             when 'CANCELED' then jsonb_build_object('code', 'bulk_canceled', 'params', jsonb_build_object('bulk_id', b.id))
             else jsonb_build_object('code', 'bulk_full', 'params',
               jsonb_build_object('bulk_id', b.id, 'running', count(o.id), 'limit', b.running_limit)) end into said
      from bulk b left join job_run o on o.bulk_id = b.id and o.state in ('ASSIGNED', 'RUNNING')
     where b.id = r.bulk_id group by b.id having count(o.id) >= b.running_limit;
    if said is not null then
      return said;
    end if;
  end if;
  return coalesce(
    (select w.reason from queue_block_reason w where w.job_definition_id = r.job_definition_id and w.node = coalesce(r.node, '')),
    case when r.avoid_node is not null then
      jsonb_build_object('code', 'other_node', 'params', jsonb_build_object('node', r.avoid_node))
    else jsonb_build_object('code', 'next', 'params', '{}'::jsonb) end);
end $$;

-- What somebody changes by plain SQL, past our acts, which audit themselves (their sessions say so: src/postgres/connection.ts). The login role is
-- kept, and what differs; secrets and digests of them are not. As the owner: whoever may change a row need not be let into the audit.
create function audit_plain_sql() returns trigger language plpgsql security definer as $$
declare
  row_was jsonb := '{}';
  row_is jsonb := '{}';
  found_before jsonb;
  found_after jsonb;
  target text;
begin
  if tg_op in ('UPDATE', 'DELETE') then row_was := to_jsonb(old) - array['secret', 'password_hash', 'token_digest']; end if;
  if tg_op in ('UPDATE', 'INSERT') then row_is := to_jsonb(new) - array['secret', 'password_hash', 'token_digest']; end if;
  target := case when tg_op = 'TRUNCATE' then '*' else coalesce(row_is ->> tg_argv[1], row_was ->> tg_argv[1]) end;
  if tg_argv[1] = 'job_definition_id' and target <> '*' then
    target := coalesce((select name from job_definition where id = target::bigint), target)
      || coalesce('/' || coalesce(row_is ->> 'schedule_id', row_was ->> 'schedule_id'), '');
  end if;
  select jsonb_object_agg(key, value) into found_before from jsonb_each(row_was) where value is distinct from row_is -> key;
  select jsonb_object_agg(key, value) into found_after from jsonb_each(row_is) where value is distinct from row_was -> key;
  insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
  values ('sql:' || session_user, 'sql.' || lower(tg_op), tg_argv[0], target, found_before, found_after,
    'plain SQL on ' || tg_table_name || coalesce(', from ' || nullif(current_setting('application_name'), ''), ''));
  return null;
end $$;
revoke execute on function audit_plain_sql() from public;
do $$
declare
  one record;
  not_own constant text := $w$when (current_setting('scheduler.own', true) is distinct from 'yes')$w$;
begin
  execute format('alter function audit_plain_sql() set search_path = %I, pg_temp', current_schema());
  for one in select * from (values
    ('scheduler_settings', 'setting', 'name'), ('node', 'node', 'node_id'), ('resource', 'resource', 'name'),
    ('job_definition', 'job', 'name'), ('job_schedule', 'schedule', 'job_definition_id'), ('job_override', 'job', 'job_definition_id'),
    ('serial_key_pause', 'serial_key', 'serial_key'), ('bulk', 'bulk', 'id'), ('webhook', 'hook', 'name'), ('admin_user', 'user', 'name'),
    ('api_token', 'token', 'name')) as audited(tab, target_type, key)
  loop
    execute format('create trigger plain_sql_audited after insert or update or delete on %I for each row %s
      execute function audit_plain_sql(%L, %L)', one.tab, not_own, one.target_type, one.key);
    execute format('create trigger plain_truncate_audited after truncate on %I for each statement %s
      execute function audit_plain_sql(%L, %L)', one.tab, not_own, one.target_type, one.key);
  end loop;
end $$;
