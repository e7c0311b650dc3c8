/**
 * Runs that a body asks for: `call` awaits the run's end, `start` does not. The key `child:{parent}:{key}` makes each once, however often the
 * body asks. A child exists only if its parent was still its worker's, and nobody wanted the parent to end: the parent's row is locked, and
 * marked `has_children` if it awaits one, in the statement that makes it. So the end of the parent sees all that it awaits (wakes.ts).
 */
import { type Json, type Priority, priorityNumber } from "../job.ts";
import { messageOf } from "../platform/text.ts";
import { type Db, isDataError, isStorableDate, json } from "../postgres/connection.ts";
import { insertingRuns, now } from "../runs/create_runs.ts";
import type { AttemptRef } from "../runs/states.ts";
import { readChildFacts, whyNoChild } from "./child_facts.ts";

/** One that a body asks for, of the execution that `start_token` proves. */
export interface ChildWish extends AttemptRef {
  start_token: string;
  /** Of the parent's step. */
  key: string;
  job_name: string;
  args: unknown;
  /** `call`; false: `start`. */
  is_awaited: boolean;
  /** `again`: it is of the parent's job, takes its place, and gets the messages that the parent has not read. */
  goes_on?: boolean;
  /** Of a `start`, as the body says them (`DelayOptions`). An own idempotency key is the job's, and not of this parent alone. */
  options?: { [name: string]: Json };
}

/** What came of it: a run, new or of an earlier time, or the sentence that refuses it. */
export type ChildRun = { job_run_id: number; key: string } & ({ child_run_id: number } | { refused: string });

/** Of those whose parent is no longer this worker's nothing comes back, and nothing was made. */
export async function createChildren(sql: Db, worker_id: string, wishes: ChildWish[]): Promise<ChildRun[]> {
  if (wishes.length === 0) return [];
  try {
    const { refused, sound } = await checked(sql, wishes);
    return [...refused, ...await insertChildren(sql, worker_id, sound)];
  } catch (error) {
    if (!isDataError(error)) throw error;
    const [{ job_run_id, key, ...wish }] = wishes as [ChildWish];
    if (wishes.length === 1) return [{ job_run_id, key, refused: `${cannot(wish)}: ${error.message}` }];
    const children: ChildRun[] = [];
    for (const one of wishes) children.push(...await createChildren(sql, worker_id, [one]));
    return children;
  }
}

function cannot({ is_awaited, job_name }: Pick<ChildWish, "is_awaited" | "job_name">): string {
  return `Cannot ${is_awaited ? "call" : "start"} "${job_name}"`;
}

interface StartOptions {
  run_at?: string;
  priority?: number;
  serial_key?: string;
  node?: string;
  own_key?: string;
}

type SoundChild = Omit<ChildWish, "options"> & StartOptions & { job_definition_id: number };

/** One that was made before is sound, whatever has changed since: it is found by its key. */
async function checked(sql: Db, wishes: ChildWish[]): Promise<{ refused: ChildRun[]; sound: SoundChild[] }> {
  const refused: ChildRun[] = [];
  const read = wishes.flatMap(({ options, ...wish }) => {
    try {
      return [{ ...wish, args: wish.args ?? {}, ...startOptions(options) }];
    } catch (error) {
      const { job_run_id, key } = wish;
      refused.push({ job_run_id, key, refused: `${cannot(wish)}: ${messageOf(error)}` });
      return [];
    }
  });
  const all = await readChildFacts(sql, read);
  const before = await madeBefore(sql, read);
  const sound = read.flatMap((wish, place) => {
    const { job_run_id, key } = wish;
    const child_run_id = before.get(childKey(wish));
    const facts = all[place];
    const why = facts && child_run_id === undefined ? whyNoChild(cannot(wish), wish, facts) : undefined;
    if (child_run_id !== undefined) refused.push({ job_run_id, key, child_run_id });
    else if (why) refused.push({ job_run_id, key, refused: why });
    else if (facts) return [{ ...wish, job_definition_id: facts.job_definition_id as number }];
    return [];
  });
  return { refused, sound };
}

function childKey({ job_run_id, key }: Pick<ChildWish, "job_run_id" | "key">): string {
  return `child:${job_run_id}:${key}`;
}

async function madeBefore(sql: Db, wishes: Pick<ChildWish, "job_run_id" | "key">[]): Promise<Map<string, number>> {
  const rows = await sql<{ key: string; id: number }[]>`
    select idempotency_key as key, id from job_run where idempotency_key = any(${wishes.map(childKey)}::text[])`;
  return new Map(rows.map(({ key, id }) => [key, id]));
}

/** @throws when an option is not what it should be. */
function startOptions(options: { [name: string]: Json } = {}): StartOptions {
  const text = (name: string) => {
    const value = options[name];
    if (value === undefined) return undefined;
    if (typeof value === "string" && value.length > 0 && value.length <= LONGEST_TEXT) return value;
    throw new TypeError(`${name} must be a text of 1 to ${LONGEST_TEXT} characters`);
  };
  const run_at = text("runAt");
  if (run_at !== undefined && !isStorableDate(new Date(run_at))) {
    throw new TypeError(`runAt must be a date from the year 1 to 9999: current value is ${run_at}`);
  }
  return {
    run_at: run_at === undefined ? undefined : new Date(run_at).toISOString(),
    priority: options.priority === undefined ? undefined : priorityNumber(options.priority as Priority),
    serial_key: text("serialKey"),
    node: text("node"),
    own_key: text("idempotencyKey"),
  };
}

const LONGEST_TEXT = 500;

async function insertChildren(sql: Db, worker_id: string, wishes: SoundChild[]): Promise<ChildRun[]> {
  if (wishes.length === 0) return [];
  const asked = wishes.map((wish, place) => ({ ...wish, place }));
  const parents = [...new Set(wishes.map(({ job_run_id }) => job_run_id))].toSorted((a, b) => a - b);
  const rows = await sql<{ place: number; child_run_id: number | null }[]>`
    with asked as materialized (
      select * from jsonb_to_recordset(${
    json(sql, asked)
  }) as a(place int, job_run_id bigint, attempt int, start_token text, key text,
             job_definition_id bigint, args jsonb, is_awaited boolean, goes_on boolean, run_at timestamptz, priority int, serial_key text, node text, own_key text)),
    owned as materialized (
      select r.id, r.attempt, r.start_token, r.depth, r.priority, r.serial_key, r.node from job_run r
       where r.id = any(${parents}::bigint[]) and (r.id, r.attempt, r.start_token) in (select job_run_id, attempt, start_token from asked)
         and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}
         and r.cancel_requested_at is null and r.ending is null
       order by r.id for no key update),
    ask as (
      select a.place, d.id as job_definition_id, 'call' as source,
             case when a.own_key is null then 'child:' || o.id || ':' || a.key else 'enqueue:' || d.id || ':' || a.own_key end as key, a.args,
             coalesce(a.priority, case when a.goes_on then o.priority end, d.priority) as priority, coalesce(a.run_at, ${
    now(sql)
  }) as due_at, null::timestamptz as slot,
             coalesce(a.node, case when a.goes_on then o.node end, fill_template(d.node, a.args)) as node, null::bigint as rerun_of, case when a.goes_on then o.serial_key else a.serial_key end as own_serial_key,
             null::bigint as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id, null::bigint as leader_epoch,
             o.id as parent_run_id, case when a.is_awaited then a.key end as parent_key, o.depth + case when a.goes_on then 0 else 1 end as depth
        from asked a join owned o on o.id = a.job_run_id and o.attempt = a.attempt and o.start_token = a.start_token
        join job_definition d on d.id = a.job_definition_id and d.removed_at is null),
    ${insertingRuns(sql, { children: true })},
    passed_on as (
      update run_message m set job_run_id = born.id
        from asked a join lined l using (place) join born on born.id = l.id
       where a.goes_on and m.job_run_id = a.job_run_id and m.taken_by is null and m.for_key is null),
    marked as (
      update job_run r set has_children = true
       where r.id = any(array(select parent_run_id from ask where parent_key is not null)) and not r.has_children)
    select l.place, coalesce(born.id, (select o.id from job_run o where o.idempotency_key = l.key)) as child_run_id
      from lined l left join born on born.id = l.id`;
  // A key that another transaction has committed since this statement began is neither made nor seen: ask again.
  const unseen = rows.flatMap(({ place, child_run_id }) => child_run_id === null ? [wishes[place] as SoundChild] : []);
  const made = rows.flatMap(({ place, child_run_id }): ChildRun[] => {
    const { job_run_id, key } = wishes[place] as SoundChild;
    return child_run_id === null ? [] : [{ job_run_id, key, child_run_id }];
  });
  return [...made, ...await insertChildren(sql, worker_id, unseen)];
}
