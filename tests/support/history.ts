/**
 * A database as it looks after a month of work, made by SQL: jobs of very different size, runs of which most have ended well,
 * some that wait, run or are tried again, bulks, events, the audit, and all else that pages show. Nothing of it is chance: made
 * twice, it is the same. Runs are numbered as they were created; what is said of them here is said by their number `n`.
 */
import type { Sql, TransactionSql } from "../../src/postgres/connection.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { rollUp } from "../../src/stats/run_stats.ts";
import { sampleLoad } from "../../src/stats/load_stats.ts";

export interface Size {
  /** That have ended, over a month; a quarter of them in bulks. */
  runs: number;
  /** That wait; on top of them a tenth as many are with a worker, and a tenth are tried again. */
  waiting: number;
  jobs: number;
  nodes: number;
}

/** What a page can be asked for. */
export interface Sights {
  /** A job with half of all runs; with a few a month ago; with a schedule; that waits for events. */
  big_job: string;
  rare_job: string;
  timed_job: string;
  event_job: string;
  schedule_id: number;
  /** It has runs all over the month. */
  serial_key: string;
  /** Only a few runs of long ago have it. */
  error_name: string;
  node_id: string;
  worker_id: string;
  /** Ended well; failed after other attempts, with a log; waits; runs. */
  run: number;
  failed_run: number;
  waiting_run: number;
  running_run: number;
  /** Waits for people: it has asked for message "approval". */
  suspended_run: number;
  /** Goes on, the largest; has ended. */
  bulk: number;
  ended_bulk: number;
  event: number;
}

const BIG = 1, TIMED = 2, EVENTS = 3;
const OPEN_BULK = 1, ENDED_BULK = 2;
const SERIAL_KEY = "tenant:42";
const ERROR_NAME = "LongGoneError";

export async function fillHistory(sql: Sql, size: Size): Promise<Sights> {
  await sql.begin(async (tx) => {
    await tx`select set_config('statement_timeout', '0', true), set_config('synchronous_commit', 'off', true),
                    set_config('session_replication_role', 'replica', true)`; // each row is as its triggers would leave it
    await fillPlaces(tx, size);
    await fillJobs(tx, size);
    await fillEvents(tx, size);
    await fillBulks(tx, size);
    await fillEnded(tx, size);
    await fillOpen(tx, size);
    await fillLogs(tx, size);
    await fillAround(tx, size);
    await fillAudit(tx, size);
  });
  await count(sql);
  return await sights(sql);
}

async function fillPlaces(tx: TransactionSql, { nodes }: Size): Promise<void> {
  await tx`
    insert into node (node_id, status, labels, max_concurrent, checked_at)
    select 'node-' || n, 'available', jsonb_build_object('zone', 'zone-' || n % 3), 30, now() from generate_series(1, ${nodes}::int) n`;
  await tx`
    insert into worker (worker_id, node_id, state, lease_until, pid, process_started, grpc_host, grpc_port, slots, ended_at, seen_at, started_at)
    select 'w' || n || '-' || life, 'node-' || 1 + n % ${nodes}::int, case life when 0 then 'ACTIVE' else 'DEAD' end,
           case life when 0 then now() + interval '10 years' else now() - life * interval '1 day' end, n, life::text, '10.0.0.' || n, 7000, 10,
           case when life > 0 then now() - life * interval '1 day' end, now(), now() - life * interval '2 day'
      from generate_series(0, 3 * ${nodes}::int - 1) n, generate_series(0, 10) life`;
}

/** Every third job has a schedule, every third waits for events, the others are started by people, programs and bulks. */
async function fillJobs(tx: TransactionSql, { jobs }: Size): Promise<void> {
  await tx`
    insert into job_definition (name, command_name, type, description, event_types, priority, digest, serial_key, args_schema, paused_at, paused_by)
    select name, name || '.ts', case k % 3 when 2 then 'time' when 0 then 'event' else 'demand' end, 'Does what ' || name || ' is for',
           case k % 3 when 0 then array['event.' || k] else '{}' end, 120 + 30 * (k % 9), 'digest', null,
           '{"type":"object","properties":{"tenant":{"type":"string"},"amount":{"type":"number"},"dry":{"type":"boolean"}},"required":["tenant"]}',
           case when k = 17 then now() end, case when k = 17 then 'user:admin' end
      from (select k, case when k <= ${jobs}::int then 'job_' || lpad(k::text, 4, '0') else 'rare_report' end as name
              from generate_series(1, ${jobs}::int + 1) k) j order by k`;
  await tx`
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, last_slot, next_slot)
    select id, 'main', case id % 2 when 0 then 'every_n_minutes' else 'daily_at' end, case id % 2 when 0 then '5' else '02:30' end,
           now(), date_bin('5 minutes', now() + interval '5 minutes', 'epoch') from job_definition where type = 'time' order by id`;
  await tx`
    insert into job_override (job_definition_id, name, value, file_value, set_by, reason)
    select id, 'priority', '{"priority": 120}', '{"priority": 240}', 'user:admin', 'it is urgent' from job_definition where id % 10 = 1`;
}

/** One for each twenty runs. */
async function fillEvents(tx: TransactionSql, { runs }: Size): Promise<void> {
  await tx`
    insert into event (event_type, payload_json, dedupe_key, created_at, processed_at)
    select 'event.' || 3 * (1 + n % 7), jsonb_build_object('tenant', 'acme', 'order', n), 'order:' || n, t.at, t.at
      from generate_series(0, ${runs}::int / 20) n, lateral (
        select now() - interval '30 days' * (1 - n * 20.0 / ${runs}::int) as at) t`;
}

/** The first goes on: 15 % of all runs are of it, and as many items more. The second had 10 %, the others little. */
async function fillBulks(tx: TransactionSql, { runs }: Size): Promise<void> {
  await tx`
    insert into bulk (job_definition_id, state, name, parallel, next_seq, created_at, started_at, fed_at, finished_at, succeeded, failed, created_by)
    select 1 + n % 5, case n when ${OPEN_BULK} then 'RUNNING' else 'FINISHED' end, 'repair ' || n, 20,
           case n when ${OPEN_BULK} then ${runs}::int * 15 / 100 + 1 when ${ENDED_BULK} then ${runs}::int / 10 + 1 else 21 end, t.at, t.at, t.at,
           case when n <> ${OPEN_BULK} then t.at + interval '1 hour' end, case when n <> ${OPEN_BULK} then 19 end, case when n <> ${OPEN_BULK} then 1 end, 'user:admin'
      from generate_series(1, 200) n, lateral (select now() - interval '30 days' + n * interval '3 hours' as at) t order by t.at`;
  await tx`
    insert into bulk_item (bulk_id, seq, args_json, job_run_id)
    select b.id, seq, jsonb_build_object('tenant', 'acme', 'device', seq), case b.id
             when ${OPEN_BULK} then case when seq < b.next_seq then ${runs}::int * 40 / 100 + seq end
             when ${ENDED_BULK} then ${runs}::int * 60 / 100 + seq end
      from bulk b, generate_series(1, case b.id when ${OPEN_BULK} then 2 * (b.next_seq - 1) else b.next_seq - 1 end) seq`;
}

/** Half of one job, the others ever less; 3 % failed, and each other end 1 or 2 %, but of the large job's long ago. */
async function fillEnded(tx: TransactionSql, { runs, jobs, nodes }: Size): Promise<void> {
  await tx`
    insert into job_run (job_definition_id, job_schedule_id, event_id, bulk_id, rerun_of, source, idempotency_key, args_json, scheduled_for, due_at,
                         created_at, assigned_at, started_at, finished_at, state, attempt, failures, serial_key, node, assigned_worker_id, leader_epoch,
                         fence, start_token, exit_code, error_name, error_summary, result, ended_xid)
    select r.job, case when slot is not null then schedule end, case when r.job % 3 = 0 and r.bulk is null then 1 + n / 20 end, r.bulk, case when n % 200 = 199 then n - 50 end,
           case when r.bulk is not null then 'bulk' when slot is not null then 'schedule' when r.job % 3 = 0 then 'event' else 'enqueue' end,
           case when r.bulk is not null then 'bulk:' || r.bulk || ':' || (n - case r.bulk when ${OPEN_BULK} then ${runs}::int * 40 / 100 else ${runs}::int * 60 / 100 end)
                when slot is not null then 'time:' || schedule || ':' || to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') else 'enqueue:' || r.job || ':' || n end,
           jsonb_build_object('tenant', 'acme', 'device', n), coalesce(slot, at), coalesce(slot, at), at, at, at, at + (n % 90) * interval '1 s', r.state, 1 + (n % 100 = 7)::int, (n % 100 = 7)::int,
           case when n % 5 = 0 then 'tenant:' || (n / 5) % 2000 end, case when n % 50 = 0 then 'node-' || 1 + n % ${nodes}::int end,
           'w' || n % (3 * ${nodes}::int) || '-' || n * 10 / ${runs}::int % 10, 3, n, n::text, case r.state when 'SUCCEEDED' then 0 when 'FAILED' then 1 end,
           case when r.state = 'FAILED' then case when n < ${runs}::int / 50 and n % 7 = 0 then ${ERROR_NAME} else 'Error' || n % 20 end end,
           case when r.state in ('FAILED', 'TIMED_OUT') then 'Cannot reach db-' || n % 40 || '.internal:5432: connection refused' || chr(10) || '    at main (file:1)' end,
           case when r.state = 'SUCCEEDED' then '{"rows": 42}'::jsonb end, pg_current_xact_id()
      from (
        select n, job, bulk, at, s.id as schedule,
               case when date_bin(s.step, at, s.origin) is distinct from lag(date_bin(s.step, at, s.origin)) over (partition by s.id order by n)
                    then date_bin(s.step, at, s.origin) end as slot,
               case
                 when v < 0.93 then 'SUCCEEDED' when job = ${BIG} and n > ${runs}::int / 100 then case when v < 0.96 then 'FAILED' else 'SUCCEEDED' end
                 when v < 0.96 then 'FAILED' when v < 0.97 then 'TIMED_OUT' when v < 0.98 then 'CANCELED' else 'SKIPPED' end as state
          from (
            select n, now() - interval '30 days' * (1 - n::float8 / ${runs}::int) - interval '2 minutes' as at, mod(n * 0.7548776662, 1) as v,
                   case when n <= ${runs}::int * 40 / 100 then null when n <= ${runs}::int * 55 / 100 then ${OPEN_BULK}::bigint
                        when n <= ${runs}::int * 60 / 100 then null when n <= ${runs}::int * 70 / 100 then ${ENDED_BULK}::bigint end as bulk,
                   case when n <= ${runs}::int / 500 and n % greatest(2, ${runs}::int / 5000) = 1 then ${jobs}::int + 1
                        when n > ${runs}::int * 60 / 100 and n <= ${runs}::int * 70 / 100 then 3 when u < 0.5 then ${BIG}
                        else 2 + floor((${jobs}::int - 1) * power((u - 0.5) * 2, 3)) end::int as job
              from (select n, mod(n * 0.6180339887, 1) as u from generate_series(1, ${runs}::int) n) one) two
          left join (select id, job_definition_id, case schedule_type when 'daily_at' then interval '1 day' else interval '5 minutes' end as step,
                            timestamptz '2000-01-01 02:30Z' as origin from job_schedule) s on s.job_definition_id = two.job and two.bulk is null) r
     order by r.n`;
  await tx`
    insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, ended_at, outcome, error_name, error_summary)
    select id, 1, 'w1-1', 3, id, started_at, started_at, 'FAILED', 'ConnectError', 'connection refused' from job_run where attempt = 2`;
}

/** Of twenty that wait eleven may start, four are behind their key, four not due, one is to be canceled. Beside them half as many are suspended. */
async function fillOpen(tx: TransactionSql, { waiting, nodes }: Size): Promise<void> {
  await tx`
    insert into job_run (job_definition_id, bulk_id, source, args_json, serial_key, held, wakes_at, due_at, scheduled_for, cancel_requested_at, cancel_requested_by, created_at)
    select 1 + n % 12, case when n % 12 = 1 then ${OPEN_BULK}::bigint end, 'enqueue', jsonb_build_object('tenant', 'acme', 'device', n),
           case when w between 11 and 14 then 'tenant:' || n % 20 + 30 end, w between 11 and 18, case when w between 15 and 18 then t.due end, t.due, t.due,
           case when w = 19 then now() end, case when w = 19 then 'user:admin' end, now() - interval '1 minute'
      from generate_series(1, ${waiting}::int) n, lateral (select n % 20 as w) one,
           lateral (select now() + case when w between 15 and 18 then n * interval '1 minute' else - interval '1 minute' end as due) t order by n`;
  await tx`
    insert into job_run (job_definition_id, source, args_json, serial_key, state, assigned_worker_id, assigned_at, started_at, leader_epoch, fence, start_token, progress, attempt, due_at)
    select 1 + n % 12, 'enqueue', '{"tenant": "acme"}', case when n <= 20 then 'tenant:' || n + 29 end, case n % 4 when 0 then 'ASSIGNED' else 'RUNNING' end,
           'w' || n % (3 * ${nodes}::int) || '-0', now(), case when n % 4 > 0 then now() end, 3, n, n::text, 0.5, 1, now()
      from generate_series(1, greatest(24, ${waiting}::int / 10)) n`;
  await tx`
    insert into job_run (job_definition_id, source, state, attempt, failures, held, wakes_at, due_at, error_name, error_summary)
    select 1 + n % 12, 'enqueue', case n % 5 when 0 then 'ORPHANED' else 'RETRYING' end, 2, 1, n % 5 > 0,
           case when n % 5 > 0 then now() + interval '1 hour' end, now() + case when n % 5 > 0 then interval '1 hour' else '0' end, 'ConnectError', 'connection refused'
      from generate_series(1, ${waiting}::int / 10) n`;
  await tx`
    insert into job_run (job_definition_id, source, state, attempt, held, wakes_at, due_at, scheduled_for, started_at)
    select 1 + n % 12, 'enqueue', 'SUSPENDED', 1, n % 9 > 0, case n % 9 when 0 then null when 1 then now() + n * interval '1 minute' else 'infinity' end,
           now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour'
      from generate_series(1, ${waiting}::int / 2) n`;
  await tx`
    insert into run_step (job_run_id, key, kind, state, attempt, code_digest, waits_for, prompt)
    select id, 'message:approval', 'message', 'WAITING', 1, '0123456789ab', 'approval',
           jsonb_build_object('ask', 'Wipe device ' || id || '?', 'show', jsonb_build_object('device', id, 'user', 'user-' || id), 'who', '["role:operator"]'::jsonb)
      from job_run where state = 'SUSPENDED'`;
  await tx`
    update job_definition set messages = '{"approval": {"schema": {"type": "object", "required": ["approved"], "additionalProperties": false,
      "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}}}}}' where id between 1 and 13`;
}

async function fillLogs(tx: TransactionSql, { runs }: Size): Promise<void> {
  await tx`
    insert into job_run_log (job_run_id, attempt, level, message, fields)
    select r.id, 1, case line % 10 when 9 then 'error' else 'info' end, 'line ' || line || ' of what the body says about device ' || r.id, '{"tenant": "acme"}'
      from (select id, attempt from job_run where attempt = 2 and state = 'FAILED' and bulk_id is null order by id desc limit 20) r,
           generate_series(1, least(5000, ${runs}::int / 20)) line`;
  await tx`
    insert into job_run_log (job_run_id, attempt, level, message)
    select n, 1, 'info', 'done ' || n from generate_series(1, ${runs}::int, 5) n`;
}

async function fillAround(tx: TransactionSql, { runs, jobs }: Size): Promise<void> {
  await tx`
    insert into load_stat (kind, at, subject, sampled_at, samples, used_now, used_sum, used_max, capacity_now, capacity_sum)
    select kind, date_bin('1 minute', now(), 'epoch') - m * interval '1 minute', case kind when 'queue' then (90 + 30 * s)::text else 'node-' || s end,
           now() - m * interval '1 minute', 6, 10, 60, 10, 30, 180
      from generate_series(1, least(10080, ${runs}::int / 50)) m, generate_series(1, 9) s, unnest(array['queue', 'node']) kind`;
  await tx`
    insert into alert (kind, subject, message, opened_at, opened_by, closed_at)
    select 'run.failed', 'job_' || lpad((1 + n % ${jobs}::int)::text, 4, '0') || case when n <= 10 then '' else '.' || n end, 'run ' || n || ' failed', now() - n * interval '10 minutes', 'w1-0',
           case when n > 10 then now() end from generate_series(1, 1000) n`;
  await tx`insert into serial_key_pause (serial_key, stopped_by, reason) select 'tenant:' || n, 'user:admin', 'its data are wrong' from generate_series(51, 70) n`;
  await tx`insert into resource (name, capacity) select 'license-' || n, 10 from generate_series(1, 10) n`;
  await tx`insert into queue_block_reason (job_definition_id, node, reason) select id, '', '{"code": "no_slot", "params": {"where": null}}' from job_definition where id <= 12`;
}

async function fillAudit(tx: TransactionSql, { runs }: Size): Promise<void> {
  await tx`
    insert into admin_action_log (at, actor, action, target_type, target_id, before_json, after_json, reason)
    select now() - interval '30 days' * (1 - n * 10.0 / ${runs}::int), case n % 50 when 0 then 'token:deploy' else 'user:user-' || n % 9 end,
           (array['run.cancel', 'run.retry', 'run.reprioritize', 'bulk.pause', 'job.pause', 'settings.change'])[1 + n % 6], split_part((array['run.', 'run.', 'run.', 'bulk.', 'job.', 'settings.'])[1 + n % 6], '.', 1),
           (n % 1000)::text, '{"state": "PENDING"}', '{"state": "CANCELED"}', 'from the admin page' from generate_series(1, ${runs}::int / 10) n`;
}

/** As a leader does, which then goes on leading for as long as anybody looks. */
async function count(sql: Sql): Promise<void> {
  const term = await acquire(sql, { worker_id: "w0-0", lease_ms: 86_400_000, epoch_hint: 3 }) as Term;
  while ((await rollUp(sql, term, 4_000))?.more);
  await sampleLoad(sql, term);
}

async function sights(sql: Sql): Promise<Sights> {
  const [row] = await sql<Sights[]>`
    select (select name from job_definition where id = ${BIG}) as big_job, 'rare_report' as rare_job,
           (select name from job_definition where id = ${TIMED}) as timed_job, (select name from job_definition where id = ${EVENTS}) as event_job,
           (select id from job_schedule where job_definition_id = ${TIMED}) as schedule_id, ${SERIAL_KEY} as serial_key, ${ERROR_NAME} as error_name,
           'node-1' as node_id, 'w0-0' as worker_id, (select min(id) from job_run where state = 'SUCCEEDED') as run,
           (select max(job_run_id) from job_run_log where level = 'error') as failed_run,
           (select min(id) from job_run where state = 'PENDING' and held and serial_key is not null) as waiting_run, (select min(id) from job_run where state = 'RUNNING') as running_run,
           (select min(id) from job_run where state = 'SUSPENDED') as suspended_run,
           ${OPEN_BULK}::int as bulk, ${ENDED_BULK}::int as ended_bulk, (select max(event_id) from job_run) as event`;
  return row as Sights;
}
