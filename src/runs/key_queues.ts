/**
 * Who may start among runs that must wait for each other: runs of one serial key, of one limit key, and runs that are
 * not yet due. Those who may not are `held`, outside the index that dispatch reads, so that a million of them cost nothing.
 *
 * A bulk stands in the line of its serial key as a whole. What was asked for before it goes before it, what comes later waits until it has
 * ended; in between runs go by priority. Runs of bulks wait for no other bulk, only for runs: else two bulks could wait for each other's.
 *
 *   not held --the leader finds its key taken: hold--> held --its line was checked and it is next: checkLines--> not held
 *   held until wakes_at --that time comes: wake--> not held
 *
 * Held says nothing about a run's state. Births hold what is plainly behind (create_runs.ts); everything else here is done by
 * the leader, which is one, so holding and letting go never race. What ends a run, moves its priority or is created held
 * leaves a row in `key_recheck` in the same transaction (a trigger does it); the leader empties that table before it
 * looks at candidates. So whatever commits late is found by the next check: no run stays held behind a free key.
 *
 * `= any(array(...))` where a join would do: the planner takes the array for a few ids and looks each up; with its stale
 * statistics of this table a join was seen to read all of it (1.1 s of a tick with a million rows waiting). For the same reason a line
 * is asked for so that the index of lines is all that fits (`of`), and by a question of its own (`offset 0`): where the table was analyzed while
 * nothing waited, all that waits was read for each run with a key, and all that has a key for each line. Nor do the guards of rows that are
 * found by their ids name what an index is of (`held`, `wakes_at is not null`): it would be read as a whole.
 */
import type { Db, Fragment } from "../postgres/connection.ts";
import { skipLocked } from "../postgres/row_locks.ts";
import { fence, type Term } from "../nodes/leadership.ts";
import { ACTIVE, HOLDS_KEY, inStates, isStill, MAY_START, NOT_ENDED, type RunState } from "./run_states.ts";

/** Lets go who has come due; whether there are more, and whether slots of schedules are among them, which may be skipped for others. */
export async function wake(sql: Db, term: Term, most = 1000): Promise<{ more: boolean; slots: boolean }> {
  const rows = await sql<{ slot: boolean }[]>`
    with ${fence(sql, term)}
    update job_run r set held = false, wakes_at = null, woken_at = case when r.state = 'SUSPENDED' then clock_timestamp() else r.woken_at end
      from fence
     where r.id = any(array(select id from job_run where exists (select from fence) and wakes_at <= clock_timestamp() order by wakes_at limit ${most} ${
    skipLocked(sql)
  }))
       and num_nulls(r.wakes_at) = 0 returning r.source = 'schedule' and r.state <> 'SUSPENDED' as slot`;
  return { more: rows.length === most, slots: rows.some(({ slot }) => slot) };
}

/**
 * Looks at lines in which something has changed, and lets go who is next in them. `skip_locked`: of those whose rows are kept the lines are looked at
 * again.
 */
export async function checkLines(
  sql: Db,
  term: Term,
  { most = 1000, skip_locked = false } = {},
): Promise<{ more: boolean }> {
  const free = skip_locked
    ? sql`select id from job_run where exists (select from fence) and id = any(array(select id from next)) ${
      skipLocked(sql)
    }`
    : sql`select id from next`;
  const [row] = await sql<{ taken: number; bulks: number }[]>`
    with ${fence(sql, term)},
    taken as (
      delete from key_recheck c using fence where c.id in (select id from key_recheck order by id limit ${most}) returning c.line),
    serial as (select distinct substr(line, 8) as key from taken where line like 'serial:%'),
    limited as (
      select l.key, d.concurrency_limit as most from (
        select distinct substr(line, 7) as key from taken where line like 'limit:%') l
        join job_definition d on d.id = split_part(l.key, ':', 1)::bigint),
    next as (
      select n.id from serial k cross join lateral (
        select r.id from job_run r
         where r.serial_key = k.key and ${of(sql, sql`r.state`, ["PENDING"])} and r.due_at <= clock_timestamp()
           and not ${behindBulk(sql, sql`r`)}
         order by r.priority, r.due_at, r.id limit 1) n
       where not exists (select from job_run o where o.serial_key = k.key and ${
    inStates(sql, HOLDS_KEY, sql`o.state`)
  } offset 0)
         and not exists (select from serial_key_pause s where s.serial_key = k.key offset 0)
      union
      select n.id from limited k cross join lateral (
        select r.id from job_run r
         where r.limit_key = k.key and ${inLimitLine(sql, sql`r`, MAY_START)}
           and r.wakes_at is null and r.due_at <= clock_timestamp() and not ${behindKey(sql)} and not ${beyondBulk(sql)}
         order by r.priority, r.due_at, r.id
         limit greatest(0, k.most - (select count(*) from job_run o where o.limit_key = k.key and ${
    inLimitLine(sql, sql`o`, ACTIVE)
  }))) n),
    freed as (
      update job_run r set held = false, wakes_at = null from fence where r.id = any(array(${free})) and r.held::int = 1
      returning r.id),
    kept as (
      select r.serial_key, r.limit_key from job_run r
       where ${skip_locked} and r.id = any(array(select id from next)) and r.held::int = 1 and r.id not in (select id from freed)),
    again as (${checksOf(sql, "kept")}),
    bulks as (
      insert into bulk_recheck (bulk_id)
      select b.id from serial k join bulk b on b.serial_key = k.key and b.finished_at is null and b.started_at is null returning 1)
    select (select count(*) from taken)::int as taken, (select count(*) from freed)::int as freed, (select count(*) from bulks)::int as bulks`;
  return { more: row !== undefined && (row.taken === most || row.bulks > 0) };
}

/**
 * Takes runs whose key is taken out of dispatch's sight; the check that follows the end of who has it lets them go. And the
 * check that this asks for itself: when the connection breaks it may be carried out after that end, and nobody would look again. How many: those whose
 * rows are kept stay in sight.
 */
export async function hold(sql: Db, term: Term, job_run_ids: number[]): Promise<number> {
  const [row] = await sql<{ runs: number }[]>`
    with ${fence(sql, term)},
    held as (
      update job_run r set held = true
        from fence
       where r.id = any(array(select id from job_run where exists (select from fence) and id = any(${job_run_ids}::bigint[]) ${
    skipLocked(sql)
  })) and not r.held
         and ${isStill(sql, MAY_START, sql`r.state`)}
      returning r.serial_key, r.limit_key),
    checks as (${checksOf(sql, "held")})
    select count(*)::int as runs from held`;
  return row?.runs ?? 0;
}

function checksOf(sql: Db, runs: "held" | "kept") {
  return sql`
    insert into key_recheck (line)
    select 'serial:' || serial_key from ${sql(runs)} where serial_key is not null
    union select 'limit:' || limit_key from ${sql(runs)} where limit_key is not null`;
}

/** Whether run `r` may not start because of its serial key: somebody has it, goes first, or it is stopped. */
export function behindKey(sql: Db) {
  return sql`(r.serial_key is not null and r.state = 'PENDING' and (
    ${behindBulk(sql, sql`r`)} or
    exists (select from job_run o where o.serial_key = r.serial_key and o.id <> r.id
             and ${inStates(sql, HOLDS_KEY, sql`o.state`)})
    or exists (select from job_run o where o.serial_key = r.serial_key and ${
    of(sql, sql`o.state`, ["PENDING"])
  } and o.due_at <= clock_timestamp()
             and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) and not ${behindBulk(sql, sql`o`)})
    or exists (select from serial_key_pause s where s.serial_key = r.serial_key offset 0)))`;
}

/** Whether a bulk of its serial key goes before this run, which is of none: it began, or was asked for before the run. */
function behindBulk(sql: Db, run: Fragment) {
  return sql`(${run}.bulk_id is null and exists (select from bulk b where b.serial_key = ${run}.serial_key and b.finished_at is null
                and (b.started_at is not null or b.created_at <= ${run}.created_at) offset 0))`;
}

/** Whether bulk `b` may not begin because of its serial key: a bulk or a run goes first, or it is stopped. */
export function bulkBehindKey(sql: Db) {
  return sql`(b.serial_key is not null and b.started_at is null and (
    exists (select from bulk o where o.serial_key = b.serial_key and o.finished_at is null and o.id <> b.id
             and (o.started_at is not null or (o.created_at, o.id) < (b.created_at, b.id)) offset 0)
    or exists (select from job_run o where o.serial_key = b.serial_key and ${of(sql, sql`o.state`, HOLDS_KEY)} offset 0)
    or exists (select from job_run o where o.serial_key = b.serial_key and ${of(sql, sql`o.state`, ["PENDING"])}
                and o.bulk_id is null and o.created_at < b.created_at and o.due_at <= clock_timestamp() offset 0)
    or exists (select from serial_key_pause s where s.serial_key = b.serial_key offset 0)))`;
}

/** Whether run `r` may not start because its limit key has as many at once as definition `d` allows. */
export function beyondLimit(sql: Db) {
  return sql`(r.limit_key is not null and d.concurrency_limit <= (${ofLimit(sql)}))`;
}

/** How many runs of the limit key of `r` go on. */
export function ofLimit(sql: Db) {
  return sql`select count(*) from job_run o where o.limit_key = r.limit_key and ${inLimitLine(sql, sql`o`, ACTIVE)}`;
}

/** Whether run `r` may not start because its bulk runs as many as it may, or is paused: then it keeps nobody else waiting. */
function beyondBulk(sql: Db) {
  return sql`(r.bulk_id is not null and exists (select from bulk b where b.id = r.bulk_id and b.running_limit <= ${
    goingOf(sql, sql`b.id`)
  }))`;
}

/** How many runs of a bulk go on. State by state: of a list of states Postgres 15 reads all that wait, and looks which fit. */
export function goingOf(sql: Db, bulk_id: Fragment) {
  const count = (state: string) =>
    sql`(select count(*) from job_run o where o.bulk_id = ${bulk_id} and o.state = ${state})`;
  return sql`(${count("ASSIGNED")} + ${count("RUNNING")})`;
}

/** One of these states, in words that fit the indexes of keys and none of those of states. */
function of(sql: Db, state: Fragment, states: readonly RunState[]) {
  return sql`${inStates(sql, NOT_ENDED, state)} and ${isStill(sql, states, state)}`;
}

/** The same for the line of a limit key, in which a suspended run stands again only once it may start. */
function inLimitLine(sql: Db, run: Fragment, states: readonly RunState[]) {
  return sql`${of(sql, sql`${run}.state`, states)} and ${notAsleep(sql, run)}`;
}

/** As the index of limit lines has it. */
export function notAsleep(sql: Db, run: Fragment) {
  return sql`(${run}.state <> 'SUSPENDED' or ${run}.wakes_at is null)`;
}
