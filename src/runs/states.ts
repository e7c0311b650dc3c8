/**
 * How runs move from state to state. Only the files named here change `job_run.state`; create_runs.ts makes the rows, run_states.ts lists the states.
 *
 *   from                                         to         who
 *   PENDING SUSPENDED RETRYING ORPHANED          ASSIGNED   leader: assignRuns
 *   ASSIGNED                                     RUNNING    worker: startRuns
 *   RUNNING                                      SUCCEEDED FAILED TIMED_OUT CANCELED RETRYING   worker: finishRuns
 *   ORPHANED                                     the same, by its former worker, until it is assigned again: finishRuns
 *   RUNNING                                      SUSPENDED  worker whose body waits: suspendRuns (steps/suspend_runs.ts)
 *   ASSIGNED                                     ORPHANED   leader: orphanAssigned, orphanLost; worker: giveBack (lost_runs.ts)
 *   RUNNING                                      ORPHANED   leader, once the worker is DEAD: orphanLost; worker: giveBack
 *   ASSIGNED, RUNNING without a body             as before  worker that has other code: refuseCode (code_mismatch.ts)
 *   ORPHANED                                     FAILED     leader, interrupted too often: quarantine (lost_runs.ts)
 *   PENDING (never started)                      SKIPPED    leader: skipLate, skipForbidden (concurrency_policy.ts)
 *   PENDING ASSIGNED SUSPENDED RETRYING ORPHANED CANCELED   leader, on a request in the row: cancelRequested
 *   ASSIGNED SUSPENDED RETRYING ORPHANED         TIMED_OUT  leader, past the deadline in the row: endPastDeadline
 *   anything not terminal                        FAILED     operator, audited: forceClose
 *
 * A suspended run is held until its time or, with wakes_at = infinity, until something arrives: then it may start as one that is tried again. It keeps
 * its serial key, has no worker, and takes slot, limit and resources anew. `attempt` counts executions, each from a start to a suspension or an end, and
 * is what statements know an execution by; people count attempt - suspensions.
 *
 * A run may be ASSIGNED a while before it is due by the database's clock, and RUNNING a moment before; what it is told then (`due_in_ms`)
 * keeps its body from beginning sooner than it is due, and its `started_at` is that time.
 * Each is one guarded statement. A row that does not come back was moved by someone else: the caller stops and starts
 * nothing. Leader statements start with the fence of their term. Ownership of a running run is (worker, attempt,
 * start_token). Nothing leaves a terminal state.
 *
 * `is not distinct from` where `=` would do: a guard that the planner can match with a partial index makes it walk that
 * index once per element of the batch (its statistics of this table are always stale); this way it takes the primary key.
 * `job_definition_id + 0` for the same reason: while it believed the table to be empty it read all runs of the definition.
 *
 * Not promised here: that a body never runs twice. See docs/guarantees.md.
 */
import type { Actor } from "../access/audit.ts";
import { type Db, type Fragment, unsynced } from "../postgres/connection.ts";
import { type Ending, endingsOf } from "./finished_runs.ts";
import { fence, fenceOfTick, type Term } from "../nodes/leadership.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { byId, placeAmong, textAt } from "../postgres/array_params.ts";
import { dueUnix } from "../nodes/workers.ts";
import { mannered, startedAndManners, startedColumns, type StartedRow, type StartedRun } from "./started_runs.ts";
import { inStates, isStill, MAY_START, NOT_ENDED, type RunState } from "./run_states.ts";
import { stored } from "../locale/message.ts";
import { storedMessage } from "../postgres/stored_message.ts";

/** Nobody wants run `r` to end; what is to undo what it did goes on, whoever wanted it. */
export function notCanceled(sql: Db) {
  return sql`(r.cancel_requested_at is null or r.ending is not null)`;
}

/** One try of one run. */
export interface AttemptRef {
  job_run_id: number;
  attempt: number;
}

/** Its name in a map or a set. */
export function attemptKey({ job_run_id, attempt }: AttemptRef): string {
  return `${job_run_id}:${attempt}`;
}

export interface Assignment {
  job_run_id: number;
  version: number;
  worker_id: string;
}

/** What a worker must be told to start a run; the rest it reads itself when it does. */
export interface Assigned extends AttemptRef {
  worker_id: string;
  command_name: string;
  digest: string;
  /** By the database's clock, in microseconds since 1970, if it lies ahead; 0: now. */
  due_unix_us: number;
  priority: number;
}

/**
 * PENDING, SUSPENDED, RETRYING or ORPHANED -> ASSIGNED. A suspended run takes nothing of its job's rate, and never goes ahead of time. What a tick chose holds for as long as it lasts: limits are counted before.
 *
 * It does not wait for the disk. Postgres that crashes may forget it, and the run waits as before, as if its leader had died on the way;
 * the order that went out meanwhile finds nothing to start. A start that is on the disk has its assignment there too.
 * `besides`: what must hold of run `r` of definition `d` as well.
 */
export async function assignRuns(
  sql: Db,
  term: Term,
  assignments: Assignment[],
  besides: Fragment = sql`true`,
): Promise<Assigned[]> {
  const sorted = byId(assignments);
  const ids = sorted.map(({ job_run_id }) => job_run_id);
  const place = placeAmong(sql, ids);
  const worker = textAt(sql, sorted.map(({ worker_id }) => worker_id), place);
  const asked = [...new Set(sorted.map(({ worker_id }) => worker_id))]; // each run looks through them all
  return await sql<Assigned[]>`
    with ${fenceOfTick(sql, term)}, ${unsynced(sql)},
    active as materialized (select worker_id, 'steps' = any(features) as knows_steps from worker where worker_id = any(${asked}::text[]) and state = 'ACTIVE'),
    moved as (
      update job_run r
         set state = 'ASSIGNED', assigned_worker_id = ${worker}, assigned_at = clock_timestamp(), leader_epoch = fence.epoch,
             attempt = r.attempt + (r.state <> 'PENDING')::int, suspensions = r.suspensions + (r.state = 'SUSPENDED')::int, version = r.version + 1,
             woken_at = case when r.state = 'SUSPENDED' then coalesce(r.woken_at, clock_timestamp()) end,
             started_at = null, fence = null, start_token = null, progress = null, progress_message = null,
             held = false, wakes_at = null
        from fence, unsynced, job_definition d
       where r.id = any(${ids}::bigint[]) and r.version = (${sorted.map(({ version }) => version)}::int[])[${place}]
         and d.id = r.job_definition_id + 0 and d.paused_at is null
         and ${isStill(sql, MAY_START, sql`r.state`)} and r.due_at <= clock_timestamp() + interval '60 s'
         and (not r.held or (r.wakes_at is not null and r.state is distinct from 'SUSPENDED')) and ${notCanceled(sql)}
         and exists (select from active a where a.worker_id = ${worker} and (a.knows_steps or r.state is not distinct from 'PENDING'
           or not exists (select from run_step s where s.job_run_id = r.id))) and ${besides}
      returning r.id as job_run_id, r.attempt, r.assigned_worker_id as worker_id, d.id as job_definition_id, d.command_name, d.digest,
                ${dueUnix(sql)} as due_unix_us, r.priority, r.woken_at),
    paced as (
      update job_definition d
         set rate_next_at = greatest(d.rate_next_at, clock_timestamp() - least(1, d.rate_seconds / 10) * interval '1 s')
               + m.starts * (d.rate_seconds / d.rate_count) * interval '1 s'
        from (select job_definition_id, count(*) as starts from moved where woken_at is null group by 1) m
       where d.id = m.job_definition_id and d.rate_count is not null)
    select job_run_id, attempt, worker_id, command_name, digest, due_unix_us, priority from moved`;
}

export interface StartRequest extends AttemptRef {
  token: string;
  /** Of the code that this worker has; a definition with another is not started here. */
  digest: string;
}

/** So long before it is due a run may be made RUNNING: its body then begins at its time and not a statement later. */
export const START_AHEAD_MS = 50;

/**
 * ASSIGNED -> RUNNING, for a worker that is ACTIVE and still the one. Only a row that comes back may get a body. One that was given ahead of
 * its time starts only if nobody has stopped its job, its node or all dispatch since.
 * The rows are found by `= any(ids)` and their orders by place, not by a join: whatever the planner thinks of the size
 * of either side, it is one look-up of the primary key for each (a join was seen to read the whole table).
 */
export async function startRuns(
  sql: Db,
  me: { worker_id: string; epoch: number },
  orders: StartRequest[],
): Promise<StartedRun[]> {
  const sorted = byId(orders);
  const ids = sorted.map(({ job_run_id }) => job_run_id);
  const place = placeAmong(sql, ids);
  return mannered(
    await sql<StartedRow[]>`
    with me as materialized (
      select w.worker_id, n.is_active and not exists (select from scheduler_settings where name = 'dispatch' and value = '"paused"') as takes
        from worker w join node n using (node_id) where w.worker_id = ${me.worker_id} and w.state = 'ACTIVE' for share of w),
    started as (
      update job_run r
         set state = 'RUNNING', started_at = greatest(clock_timestamp(), r.due_at), leader_epoch = greatest(r.leader_epoch, ${me.epoch}),
             deadline_at = coalesce(r.deadline_at, greatest(clock_timestamp(), r.due_at) + d.deadline_seconds * interval '1 s'),
             fence = nextval('fence_seq'), start_token = (${sorted.map(({ token }) => token)}::text[])[${place}],
             version = r.version + 1, error_name = case when r.ending is not null then r.error_name end,
             error_summary = case when r.ending is not null then r.error_summary end, exit_code = null, code_digest = left(d.digest, 12)
        from me, job_definition d
       where r.id = any(${ids}::bigint[]) and r.attempt = (${sorted.map(({ attempt }) => attempt)}::int[])[${place}]
         and d.id = r.job_definition_id + 0 and d.digest = ${textAt(sql, sorted.map(({ digest }) => digest), place)}
         and r.state is not distinct from 'ASSIGNED' and r.assigned_worker_id = me.worker_id
         and r.leader_epoch <= ${me.epoch} and ${notCanceled(sql)}
         and r.due_at <= clock_timestamp() + ${START_AHEAD_MS} * interval '1 ms' and ((d.paused_at is null and me.takes) or r.assigned_at > r.due_at)
      returning ${startedColumns(sql)})
    ${startedAndManners(sql)}`,
  );
}

export type Ended = { job_run_id: number; state: RunState };

/** RUNNING (or ORPHANED and not yet given away) -> its end, or RETRYING while the budget lasts; that attempt is kept. */
export async function finishRuns(sql: Db, worker_id: string, endings: Ending[]): Promise<Ended[]> {
  const sorted = byId(endings);
  const ids = sorted.map((one) => one.job_run_id);
  const place = placeAmong(sql, ids);
  const said = endingsOf(sql, sorted, place);
  const some_again = endings.some(({ retry_max }) => retry_max > 0); // else the planner sees that nothing is
  const again = some_again
    ? sql`(s.outcome in ('FAILED', 'TIMED_OUT') and r.failures < s.retry_max and r.cancel_requested_at is null)`
    : sql`false`;
  const end = sql`
    update job_run r
       set (state, finished_at, ended_xid, due_at, avoid_node, held, wakes_at, failures, exit_code, error_name, error_summary, result) = (
             select case when ${again} then 'RETRYING' else s.outcome end,
                    case when ${again} then null else clock_timestamp() end,
                    case when ${again} then null else pg_current_xact_id() end,
                    case when ${again} then clock_timestamp() + s.retry_after_ms * interval '1 ms' else r.due_at end,
                    case when ${again} and s.other_node = 1 then (select node_id from worker where worker_id = ${worker_id}) end,
                    ${again}, case when ${again} then clock_timestamp() + s.retry_after_ms * interval '1 ms' end,
                    r.failures + (s.outcome in ('FAILED', 'TIMED_OUT'))::int, s.exit_code, s.error_name, s.error_summary, s.result::jsonb
               from (${said.columns}) s),
           continuation_state = 'NONE', version = r.version + 1
     where r.id = any(${ids}::bigint[]) and r.attempt = (${sorted.map((one) => one.attempt)}::int[])[${place}]
       and r.start_token = (${sorted.map((one) => one.start_token)}::text[])[${place}]
       and ((r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}) or r.state is not distinct from 'ORPHANED')`;
  const leave_waits = endings.some(({ leaves_waits }) => leaves_waits);
  if (!some_again && !leave_waits) return await sql<Ended[]>`${end} returning r.id as job_run_id, r.state`;
  const outcome = said.outcomeAt(placeAmong(sql, ids, sql`id`));
  return await sql<Ended[]>`
    with done as (
      ${end} returning r.id, r.attempt, r.leader_epoch, r.fence, r.started_at, r.state, r.exit_code, r.error_name, r.error_summary),
    kept as (
      insert into job_run_attempt (job_run_id, attempt, worker_id, leader_epoch, fence, started_at, outcome, exit_code, error_name, error_summary)
      select id, attempt, ${worker_id}, leader_epoch, fence, started_at, ${outcome}, exit_code, error_name, error_summary
        from done where state = 'RETRYING'
      on conflict do nothing)${
    leave_waits ? sql`, ended as (select id from done where state <> 'RETRYING'), ${waitsClosed(sql)}` : sql``
  }
    select id as job_run_id, state from done`;
}

/**
 * PENDING -> SKIPPED for runs of schedules that never started and are late by the database's clock, those first that are the latest. Events and
 * enqueues wait. At most so many, as of `cancelRequested`; until fewer than that come back, some may be left that must not start. The guard is in words
 * of no index: else Postgres walks all slots that wait once more, and compares each with all that were chosen (150,000: longer than a statement may take).
 */
export async function skipLate(sql: Db, term: Term, late_seconds: number, most = 5_000): Promise<AttemptRef[]> {
  const late = sql`r.due_at < clock_timestamp() - ${late_seconds} * interval '1 s' and r.cancel_requested_at is null`;
  return await sql<AttemptRef[]>`
    with ${fence(sql, term)}
    update job_run r
       set state = 'SKIPPED', ${over(sql)}, leader_epoch = fence.epoch, version = r.version + 1, error_name = 'Late',
           error_summary = ${stored("runs.end.late", { seconds: late_seconds })}
      from fence
     where r.id = any(array(
             select r.id from job_run r
              where exists (select from fence) and r.state = 'PENDING' and r.source = 'schedule' and ${late} order by r.due_at limit ${most} ${
    skipLocked(sql)
  }))
       and r.state is not distinct from 'PENDING' and ${late}
    returning r.id as job_run_id, r.attempt`;
}

/**
 * Whatever has no body -> CANCELED, on the request in its row. RUNNING waits for its worker, unless that is DEAD. At most so many: a million takes
 * longer than a statement may, and than the leader's term lasts.
 */
export async function cancelRequested(sql: Db, term: Term, most = 5_000): Promise<(AttemptRef & { by: string })[]> {
  const wanted = sql`
    r.cancel_requested_at is not null and r.ending is null and ${inStates(sql, NOT_ENDED, sql`r.state`)}
    and (r.state <> 'RUNNING' or not exists (select from worker w where w.worker_id = r.assigned_worker_id and w.state <> 'DEAD'))`;
  const summary = storedMessage(
    sql,
    "runs.end.canceled",
    sql`jsonb_build_object('by', r.cancel_requested_by, 'reason', r.cancel_reason)`,
  );
  const error = sql`error_name = 'Canceled', error_summary = ${summary}`;
  return await sql<(AttemptRef & { by: string })[]>`
    with ${fence(sql, term)},
    ${chosen(sql, { wanted, first: sql`r.id`, most })},
    ${undoing(sql, "CANCELED", { error, wanted })},
    ended as (
      update job_run r
         set state = 'CANCELED', ${over(sql)}, leader_epoch = fence.epoch, version = r.version + 1, ${error}
        from fence
       where r.id = any(array(select id from chosen where not undoes)) and ${wanted}
      returning r.id, r.attempt, r.cancel_requested_by as by),
    ${waitsClosed(sql)}
    select id as job_run_id, attempt, by from ended`;
}

/**
 * Whatever has begun, has no body and is past its deadline -> TIMED_OUT, at most so many. One that is RUNNING is ended by its worker, or here once it
 * has no body any more.
 */
export async function endPastDeadline(sql: Db, term: Term, most = 5_000): Promise<AttemptRef[]> {
  const passed =
    sql`r.deadline_at <= clock_timestamp() and r.finished_at is null and r.ending is null and r.state <> 'RUNNING'`;
  const summary = storedMessage(sql, "runs.end.deadline", sql`jsonb_build_object('at', r.deadline_at)`);
  const error = sql`error_name = 'DeadlinePassed', error_summary = ${summary}`;
  return await sql<AttemptRef[]>`
    with ${fence(sql, term)},
    ${chosen(sql, { wanted: passed, first: sql`r.deadline_at`, most })},
    ${undoing(sql, "TIMED_OUT", { error, wanted: passed })},
    ended as (
      update job_run r
         set state = 'TIMED_OUT', ${over(sql)}, leader_epoch = fence.epoch, version = r.version + 1, ${error}
        from fence
       where r.id = any(array(select id from chosen where not undoes)) and ${passed}
      returning r.id, r.attempt),
    ${waitsClosed(sql)}
    select id as job_run_id, attempt from ended`;
}

/** Something that a step of run `r` did, or may have done, is to be undone before the run ends. */
function hasUndo(sql: Db) {
  return sql`(r.state <> 'PENDING' and exists (
    select from run_step s where s.job_run_id = r.id and s.has_undo and s.state in ('DONE', 'BEGUN', 'TRYING')))`;
}

/** The first of those that are to end, locked; `undoes`: not at once. Asked for by themselves, each of the two kinds would read all of the other. */
function chosen(sql: Db, { wanted, first, most }: { wanted: Fragment; first: Fragment; most: number }) {
  return sql`
    chosen as materialized (
      select r.id, ${hasUndo(sql)} as undoes from job_run r
       where exists (select from fence) and ${wanted} order by ${first} limit ${most} ${skipLocked(sql)})`;
}

/** Those stay as they are, free to start: their next execution undoes, and then they are what `ending` says (steps/undo_runs.ts). */
function undoing(
  sql: Db,
  ending: "CANCELED" | "TIMED_OUT",
  { error, wanted }: { error: Fragment; wanted: Fragment },
) {
  return sql`
    undoing as (
      update job_run r
         set ending = ${ending}, held = false, wakes_at = null, due_at = least(r.due_at, clock_timestamp()), ${error},
             woken_at = case when r.state = 'SUSPENDED' then clock_timestamp() end, leader_epoch = fence.epoch, version = r.version + 1
        from fence
       where r.id = any(array(select id from chosen where undoes)) and ${wanted} and r.state <> 'RUNNING')`;
}

/** An operator's last resort, for a run that nothing else will end. The body, if there is one, is not touched. */
export async function forceClose(sql: Db, job_run_id: number, by: Actor): Promise<boolean> {
  const rows = await sql`
    with was as (
      select id, jsonb_build_object('state', state, 'attempt', attempt, 'worker_id', assigned_worker_id, 'started_at', started_at) as before
        from job_run where id = ${job_run_id} for update),
    closed as (
      update job_run r set state = 'FAILED', ${over(sql)}, version = version + 1, error_name = 'Missing',
             error_summary = ${stored("runs.end.closed", { by: by.actor, reason: by.reason })}
        from was
       where r.id = was.id and ${inStates(sql, NOT_ENDED, sql`r.state`)}
      returning r.id, was.before),
    ended as (select id from closed),
    ${waitsClosed(sql)}
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    select ${by.actor}, 'run.close', 'run', id::text, before, '{"state": "FAILED"}', ${by.reason} from closed returning id`;
  return rows.length > 0;
}

/** Nobody is asked, and no event looked for, for runs that have `ended`. The journal is otherwise its body's alone (src/steps). */
export function waitsClosed(sql: Db) {
  return sql`waits_closed as (
      update run_step set state = 'CANCELED', ended_at = clock_timestamp()
       where job_run_id = any(array(select id from ended)) and state = 'WAITING')`;
}

/** What every end sets: it is over, and it waits for nothing. */
export function over(sql: Db) {
  return sql`finished_at = clock_timestamp(), ended_xid = pg_current_xact_id(), held = false, wakes_at = null`;
}
