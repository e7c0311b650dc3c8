/**
 * The journals of runs (`run_step`): written by the worker that has the run, read when the run starts again, and shown to people.
 *
 * A row is committed before its result is given to the code. What was given never changes: a repeat of the same write, after a reply
 * that was lost, changes nothing and is no error. Only the worker whose attempt and start token own the run writes; `for share` on the
 * run's row is the fence. Whoever orphans, reassigns or ends the run updates that row: it waits for this statement, or this statement
 * finds the row changed and writes nothing. Times are stamped by the database's clock.
 */
import { type Db, isDataError, json } from "../postgres/connection.ts";
import type { AttemptRef } from "../runs/states.ts";
import type {
  Arrival,
  EndedStepState,
  JournalRow,
  OpenRow,
  OpenStepState,
  StepKind,
} from "../sandbox/frames/step_frames.ts";
import { findArrivals } from "./arrivals.ts";

/** One write of one row, of the execution that `start_token` proves. */
export interface StepWrite extends AttemptRef {
  start_token: string;
  /** Of the code that runs. */
  code_digest: string;
  key: string;
  kind: StepKind;
  state: OpenStepState | EndedStepState;
  /** With states that end, and only with those: its position. */
  seq?: number;
  tries: number;
  result?: unknown;
  error_name?: string;
  error_summary?: string;
  /** Since it began, by the body's clock; of a wait it does not count. */
  took_ms?: number;
  /** A sleep's end, a wait's limit or the next try: from now on, or that time. A wait that is stored keeps the first. */
  until_in_ms?: number;
  until_unix_ms?: number;
  /** The message's name, or the event's type. */
  waits_for?: string;
  where?: unknown;
  prompt?: unknown;
  /** The message that this wait has got. */
  message_id?: number;
  child_run_id?: number;
  child_bulk_id?: number;
  has_undo?: boolean;
}

export interface CommittedRun extends AttemptRef {
  /** As they are now; others than at the last look: look again (arrivals.ts). */
  wakes: number;
  /** The `ended_at` of its rows that have ended with this statement, in whole milliseconds. */
  ended_unix_ms: number;
  /** Of rows that an earlier statement had ended, whose reply was lost: theirs, by key. */
  earlier?: Record<string, number>;
  /** Some of its writes cannot be stored, now or later: nothing that follows them may be given to the code. */
  refused?: string;
}

/** A century: what is further off is no time that Postgres could not hold. */
const LONGEST_MS = 3.2e12;

/**
 * Writes rows of many runs, at most one for each run and key, in one statement. Gives the runs that are still this worker's; of any other
 * nothing was written. A write that Postgres cannot take refuses its own run, not the others.
 */
export async function commitSteps(sql: Db, worker_id: string, writes: StepWrite[]): Promise<CommittedRun[]> {
  if (writes.length === 0) return [];
  try {
    return await confirmed(sql, writes, await insertSteps(sql, worker_id, writes));
  } catch (error) {
    if (!isDataError(error)) throw error;
    const runs = [...Map.groupBy(writes, ({ job_run_id }) => job_run_id).values()];
    if (runs.length === 1) return await refusedRun(sql, worker_id, writes, error);
    const committed: CommittedRun[] = [];
    for (const of_run of runs) committed.push(...await commitSteps(sql, worker_id, of_run));
    return committed;
  }
}

type InsertedRun = AttemptRef & { wakes: number; ended_unix_ms: number; unwritten: string[] | null };

async function insertSteps(sql: Db, worker_id: string, writes: StepWrite[]): Promise<InsertedRun[]> {
  const frames = writes.toSorted((a, b) => a.job_run_id - b.job_run_id).map((write, place) => ({
    ...write,
    place,
    result: write.kind === "call" ? undefined : write.result, // it is stored in the run that was called
  }));
  const takes = writes.some(({ kind, message_id }) => message_id !== undefined || kind === "event");
  const may_take = takes
    ? sql`and (f.message_id is null or (f.message_id in (select id from free)
            and not exists (select from frames o where o.message_id = f.message_id and o.place < f.place)))`
    : sql``;
  const took_ms = span(sql, sql`case when f.state <> 'WAITING' then f.took_ms end`);
  return await sql<InsertedRun[]>`
    with clock as materialized (select date_trunc('milliseconds', clock_timestamp()) as now),
    frames as materialized (
      select * from jsonb_to_recordset(${
    json(sql, frames)
  }) as x(place int, job_run_id bigint, attempt int, start_token text,
        code_digest text, key text, kind text, state text, seq int, tries int, result jsonb, error_name text, error_summary text,
        took_ms float8, until_in_ms float8, until_unix_ms float8, waits_for text, "where" jsonb, prompt jsonb, message_id bigint,
        child_run_id bigint, child_bulk_id bigint, has_undo boolean)),
    owned as materialized (
      select r.id, r.attempt, r.start_token, r.wakes from job_run r
       where r.id = any(${[...new Set(frames.map(({ job_run_id }) => job_run_id))]}::bigint[])
         and (r.id, r.attempt, r.start_token) in (select job_run_id, attempt, start_token from frames)
         and ((r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}) or r.state is not distinct from 'ORPHANED')
       order by r.id for share),
    ${takes ? freeMessages(sql) : sql``}
    written as (
      insert into run_step as o (job_run_id, key, kind, state, seq, attempt, code_digest, tries, result, error_name, error_summary,
                                 began_at, ended_at, until, child_run_id, child_bulk_id, waits_for, event_where, prompt, has_undo)
      select f.job_run_id, f.key, f.kind, f.state, f.seq, f.attempt, f.code_digest, f.tries, f.result, f.error_name, f.error_summary,
             coalesce(e.ended_at, clock_timestamp()) - coalesce(${took_ms}, 0) * interval '1 ms', e.ended_at,
             coalesce(to_timestamp(${span(sql, sql`f.until_unix_ms`)} / 1000),
                      clock.now + ${span(sql, sql`f.until_in_ms`)} * interval '1 ms'),
             f.child_run_id, f.child_bulk_id, f.waits_for, f."where", f.prompt, coalesce(f.has_undo, false)
        from frames f join owned w on w.id = f.job_run_id and w.attempt = f.attempt and w.start_token = f.start_token, clock
        cross join lateral (select case when not ${isOpen(sql, sql`f.state`)} then clock.now end as ended_at) e
       where true ${may_take}
       order by f.place
      on conflict (job_run_id, key) do update
         set kind = excluded.kind, state = excluded.state, seq = excluded.seq, attempt = excluded.attempt,
             code_digest = excluded.code_digest, orphaned = false, tries = excluded.tries, result = excluded.result,
             error_name = excluded.error_name, error_summary = excluded.error_summary, ended_at = excluded.ended_at,
             until = case o.state when 'WAITING' then o.until else excluded.until end,
             child_run_id = coalesce(excluded.child_run_id, o.child_run_id),
             child_bulk_id = coalesce(excluded.child_bulk_id, o.child_bulk_id), waits_for = coalesce(excluded.waits_for, o.waits_for),
             event_where = coalesce(excluded.event_where, o.event_where), prompt = coalesce(excluded.prompt, o.prompt),
             has_undo = excluded.has_undo or o.has_undo
       where o.seq is null
      returning o.job_run_id, o.key),
    ${takes ? takenMessages(sql) : sql``}
    missed as (
      select f.job_run_id, array_agg(f.key) as keys
        from frames f left join written n on n.job_run_id = f.job_run_id and n.key = f.key where n.key is null group by 1)
    select w.id as job_run_id, w.attempt, w.wakes, (extract(epoch from clock.now) * 1000)::float8 as ended_unix_ms, m.keys as unwritten
      from clock, owned w left join missed m on m.job_run_id = w.id order by w.id`;
}

/** Locked, so that of two statements that name one message the second finds it taken. */
function freeMessages(sql: Db) {
  return sql`free as materialized (
      select m.id from run_message m join owned w on w.id = m.job_run_id
       where m.id = any(array(select message_id from frames where message_id is not null)) and m.taken_by is null for update of m),`;
}

/** The one that a wait has got; and of a wait for an event that is over all that came for it. */
function takenMessages(sql: Db) {
  return sql`taken as (
      update run_message m set taken_by = f.key
        from frames f join written n on n.job_run_id = f.job_run_id and n.key = f.key
       where m.job_run_id = f.job_run_id and m.taken_by is null
         and (m.id = f.message_id or (f.kind = 'event' and f.seq is not null and m.for_key = f.key))),`;
}

/** A span as a body says it, within what Postgres can count. */
function span(sql: Db, ms: ReturnType<typeof freeMessages>) {
  return sql`(case when (${ms}) is not null then least(greatest(${ms}, 0), ${LONGEST_MS}::float8) end)`;
}

function isOpen(sql: Db, state: ReturnType<typeof freeMessages>) {
  return sql`${state} in ('BEGUN', 'TRYING', 'WAITING')`;
}

/** A row that was not written is a repeat, which is as good as written, if it was given to the code at the same position. */
async function confirmed(sql: Db, writes: StepWrite[], runs: InsertedRun[]): Promise<CommittedRun[]> {
  const missed = runs.filter(({ unwritten }) => unwritten !== null);
  type Stored = { job_run_id: number; key: string; seq: number | null; ended_unix_ms: number };
  const stored = missed.length === 0 ? [] : await sql<Stored[]>`
    select job_run_id, key, seq, (extract(epoch from ended_at) * 1000)::float8 as ended_unix_ms from run_step
     where job_run_id = any(${missed.map(({ job_run_id }) => job_run_id)}::bigint[])
       and key = any(${missed.flatMap(({ unwritten }) => unwritten ?? [])}::text[])`;
  return runs.map(({ unwritten, ...run }) => {
    if (!unwritten) return run;
    const rows = new Map(stored.filter((row) => row.job_run_id === run.job_run_id).map((row) => [row.key, row]));
    const repeats = writes.filter((write) =>
      write.job_run_id === run.job_run_id && write.attempt === run.attempt && unwritten.includes(write.key)
    );
    const wrong = repeats.find(({ key, seq }) => seq === undefined || rows.get(key)?.seq !== seq);
    const earlier = Object.fromEntries(
      repeats.flatMap(({ key }) => rows.has(key) ? [[key, (rows.get(key) as Stored).ended_unix_ms]] : []),
    );
    return wrong ? { ...run, refused: whyUnwritten(wrong, rows.get(wrong.key)) } : { ...run, earlier };
  });
}

function whyUnwritten({ key, message_id }: StepWrite, stored: { seq: number | null } | undefined): string {
  const why = typeof stored?.seq === "number"
    ? `it was given to the code at position ${stored.seq} before`
    : `message ${message_id} is not there to be taken`;
  return `Cannot record ${key}: ${why}`;
}

/** The only run of its statement, if it is still this worker's. */
async function refusedRun(sql: Db, worker_id: string, writes: StepWrite[], error: Error): Promise<CommittedRun[]> {
  const [{ job_run_id, attempt, start_token }] = writes as [StepWrite];
  const keys = writes.map(({ key }) => key).join(", ");
  return await sql<CommittedRun[]>`
    select r.id as job_run_id, r.attempt, r.wakes, 0 as ended_unix_ms, ${`Cannot record ${keys}: ${error.message}`}::text as refused from job_run r
     where r.id = ${job_run_id} and r.attempt = ${attempt} and r.start_token = ${start_token}
       and ((r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}) or r.state is not distinct from 'ORPHANED')`;
}

/**
 * Forgets the journal of a run whose job begins anew when its code has changed (`onChange: "restart"`). Messages that waits had taken can be taken
 * again; the runs that it has called are found by their keys. False: the run is no longer this worker's, and nothing was done.
 */
export async function dropJournal(
  sql: Db,
  worker_id: string,
  run: AttemptRef & { start_token: string },
): Promise<boolean> {
  const rows = await sql`
    with owned as materialized (
      select r.id from job_run r
       where r.id = ${run.job_run_id} and r.attempt = ${run.attempt} and r.start_token = ${run.start_token}
         and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id} for no key update),
    steps as (delete from run_step where job_run_id = any(array(select id from owned))),
    given_back as (
      update run_message set taken_by = null where job_run_id = any(array(select id from owned)) and taken_by is not null and for_key is null),
    of_events as (delete from run_message where job_run_id = any(array(select id from owned)) and for_key is not null)
    select id from owned`;
  return rows.length > 0;
}

/** All that a run needs to go on where it was. */
export interface StoredJournal {
  /** By `seq`. */
  rows: JournalRow[];
  open: OpenRow[];
  /** For open ones. */
  arrived: Arrival[];
  /** When its first execution began. */
  started_unix_ms: number;
  /** As `arrived` was read: with others by now, something else has come. */
  wakes: number;
}

type StoredRow =
  & { job_run_id: number; key: string | null; state: OpenStepState | EndedStepState; wakes: number }
  & { started_unix_ms: number }
  & Omit<JournalRow, "state">
  & Omit<OpenRow, "state">;

/** The journals of runs that start again; of one that has none an empty one, and of one that is not there none. */
export async function readJournals(sql: Db, job_run_ids: number[]): Promise<Map<number, StoredJournal>> {
  const rows = await sql<StoredRow[]>`
    select r.id as job_run_id, r.wakes, (extract(epoch from least(r.started_at, (
             select min(a.started_at) from job_run_attempt a where a.job_run_id = r.id))) * 1000)::float8 as started_unix_ms,
           s.key, s.kind, s.state, s.seq, s.tries, coalesce(s.result, c.result, b.result) as result, s.error_name, s.error_summary,
           (extract(epoch from s.ended_at) * 1000)::float8 as ended_unix_ms,
           (extract(epoch from s.until - clock_timestamp()) * 1000)::float8 as until_in_ms,
           s.code_digest, s.child_run_id, s.child_bulk_id, s.has_undo
      from job_run r left join lateral (
        select * from run_step t where t.job_run_id = r.id and (t.seq is not null or ${
    isOpen(sql, sql`t.state`)
  }) offset 0) s on true
      left join lateral (
        select o.result from job_run o where o.id = s.child_run_id and s.kind = 'call' and s.state = 'DONE' offset 0) c on true
      left join lateral (
        select jsonb_build_object('succeeded', o.succeeded, 'failed', o.failed) as result
          from bulk o where o.id = s.child_bulk_id and s.kind = 'bulk' and s.state = 'DONE' offset 0) b on true
     where r.id = any(${job_run_ids}::bigint[]) order by r.id, s.seq nulls last, s.began_at`;
  const journals = new Map<number, StoredJournal>();
  for (const { job_run_id, started_unix_ms, wakes, ...row } of rows) {
    const journal = journals.get(job_run_id) ?? { rows: [], open: [], arrived: [], started_unix_ms, wakes };
    journals.set(job_run_id, journal);
    if (row.key === null) continue;
    const { seq, result, ended_unix_ms, until_in_ms, ...step } = row;
    if (seq === null) journal.open.push({ ...step, until_in_ms } as OpenRow);
    else journal.rows.push({ ...step, seq, result, ended_unix_ms } as JournalRow);
  }
  const waiting = [...journals].filter(([, { open }]) => open.some(({ state }) => state === "WAITING"));
  for (const { job_run_id, wakes, arrivals } of await findArrivals(sql, waiting.map(([id]) => id))) {
    Object.assign(journals.get(job_run_id) as StoredJournal, { wakes, arrived: arrivals });
  }
  return journals;
}

/** A step for people. */
export interface StepRow {
  key: string;
  kind: StepKind;
  state: OpenStepState | EndedStepState;
  seq: number | null;
  /** The execution that wrote it last, and its code. */
  attempt: number;
  code_digest: string;
  /** The code does not ask for it any more. */
  orphaned: boolean;
  tries: number;
  /** Null as well if it is long (`result_bytes`): readStep has it. */
  result: unknown;
  result_bytes: number;
  error_name: string | null;
  error_summary: string | null;
  began_at: Date;
  ended_at: Date | null;
  until: Date | null;
  child_run_id: number | null;
  /** Of the run or the bulk that it called; null: it called none, or it is gone. */
  child_state: string | null;
  child_bulk_id: number | null;
  waits_for: string | null;
  event_where: unknown;
  prompt: unknown;
  /** Who sent the message that it got. */
  sent_by: string | null;
  has_undo: boolean;
}

/** Those that people mean: the one of this key, or all of this name, which is what follows the kind. */
export function stepsNamed<Step extends { key: string }>(steps: readonly Step[], asked: string): Step[] {
  const found = steps.filter(({ key }) => key === asked);
  return found.length > 0 ? found : steps.filter(({ key }) => key.slice(key.indexOf(":") + 1) === asked);
}

/** Results up to here are in a list of steps. */
const SHORT_BYTES = 2_000;

/** The steps of a run in the order in which they began. */
export async function listSteps(
  sql: Db,
  job_run_id: number,
  { most = 10_000 }: { most?: number } = {},
): Promise<StepRow[]> {
  return await sql<StepRow[]>`
    ${
    stepsForPeople(sql, SHORT_BYTES)
  } where s.job_run_id = ${job_run_id} order by s.began_at, s.seq, s.key limit ${most}`;
}

/** One of them, with its whole result. */
export async function readStep(sql: Db, job_run_id: number, key: string): Promise<StepRow | undefined> {
  const [row] = await sql<StepRow[]>`
    ${stepsForPeople(sql, Number.MAX_SAFE_INTEGER)} where s.job_run_id = ${job_run_id} and s.key = ${key}`;
  return row;
}

function stepsForPeople(sql: Db, most_bytes: number) {
  return sql`
    select s.key, s.kind, s.state, s.seq, s.attempt, s.code_digest, s.orphaned, s.tries, v.bytes as result_bytes,
           case when v.bytes <= ${most_bytes}::bigint then v.result end as result,
           s.error_name, s.error_summary, s.began_at, s.ended_at, s.until, s.child_run_id, s.child_bulk_id,
           coalesce(c.state, b.state) as child_state, s.waits_for, s.event_where, s.prompt, s.has_undo,
           (select m.sent_by from run_message m where m.job_run_id = s.job_run_id and m.taken_by = s.key order by m.id limit 1) as sent_by
      from run_step s left join lateral (select * from job_run o where o.id = s.child_run_id offset 0) c on true
      left join bulk b on b.id = s.child_bulk_id
      cross join lateral (select coalesce(s.result, case when s.kind = 'call' then c.result end) as result) w
      cross join lateral (select w.result, coalesce(octet_length(w.result::text), 0) as bytes) v`;
}
