/**
 * Bulks as people and applications handle them: made with their items, changed while they run, repeated where they failed.
 * What the leader does with them is in bulk_dispatch.ts, how they are shown in bulk_view.ts.
 *
 *   (made) RUNNING <--> PAUSED, either --> CANCELED       here, or by plain SQL on the row
 *   FINISHED                                              the leader alone
 *
 * A bulk exists from the commit of the transaction that made it, so never with a part of its items. Nothing here waits for
 * the leader: it hears of each change at its commit, by a trigger.
 */
import { type Db, json } from "../postgres/connection.ts";

export interface NewBulk {
  job_name: string;
  name: string;
  parallel: number;
  interval_seconds: number;
  /** Undefined: the job's. */
  priority?: number;
  serial_key?: string;
  max_failures?: number;
  throttle_above?: number;
  on_finish?: string;
  on_failure?: string;
  /** Unique among the bulks of its job. */
  idempotency_key?: string;
  actor: string;
  /** The run that awaits its end, and the key of that step. */
  parent?: { job_run_id: number; key: string };
  /** For the audit. */
  reason?: string;
}

/** `unknown_job`: no such job is synced, or its file was removed; nothing was made. */
export type MadeBulk = { bulk_id: number; is_new: boolean } | { unknown_job: string };

/** A bulk without items yet; add them in the same transaction. */
export async function createBulk(sql: Db, bulk: NewBulk): Promise<MadeBulk> {
  const { reason = null, ...made } = bulk;
  const { job_name, on_finish = null, on_failure = null, actor } = made;
  const [row] = await sql<
    { job: number | null; finish: number | null; failure: number | null; id: number | null; old_id: number | null }[]
  >`
    with job as (
      select (select id from job_definition where name = ${job_name} and removed_at is null) as job,
             (select id from job_definition where name = ${on_finish} and removed_at is null) as finish,
             (select id from job_definition where name = ${on_failure} and removed_at is null) as failure),
    made as (
      insert into bulk (job_definition_id, name, parallel, interval_seconds, priority, serial_key, max_failures, throttle_above,
                        on_finish, on_failure, idempotency_key, created_by, parent_run_id, parent_key)
      select d.id, ${bulk.name}, ${bulk.parallel}, ${bulk.interval_seconds}, coalesce(${
    bulk.priority ?? null
  }, d.priority),
             ${bulk.serial_key ?? null}, ${bulk.max_failures ?? null}, ${
    bulk.throttle_above ?? null
  }, job.finish, job.failure,
             d.id || ':' || ${bulk.idempotency_key ?? null}::text, ${actor}, ${
    bulk.parent?.job_run_id ?? null
  }::bigint, ${bulk.parent?.key ?? null}
        from job join job_definition d on d.id = job.job
       where (${on_finish}::text is null or job.finish is not null) and (${on_failure}::text is null or job.failure is not null)
      on conflict (idempotency_key) do nothing returning id),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${actor}, 'bulk.start', 'bulk', id::text, ${json(sql, made)}, ${reason} from made)
    select job.job, job.finish, job.failure, (select id from made) as id,
           (select id from bulk where idempotency_key = job.job || ':' || ${
    bulk.idempotency_key ?? null
  }::text) as old_id
      from job`;
  if (!row?.job) return { unknown_job: job_name };
  if (on_finish !== null && !row.finish) return { unknown_job: on_finish };
  if (on_failure !== null && !row.failure) return { unknown_job: on_failure };
  if (row.id !== null) return { bulk_id: row.id, is_new: true };
  if (row.old_id !== null) return { bulk_id: row.old_id, is_new: false };
  return await createBulk(sql, bulk); // another transaction used the key and committed after this statement began
}

/** Items `first_seq` and following; each is the JSON text of its args. */
export async function addItems(sql: Db, bulk_id: number, items: { first_seq: number; texts: string[] }): Promise<void> {
  await sql`
    insert into bulk_item (bulk_id, seq, args_json)
    select ${bulk_id}, ${items.first_seq} + i.place - 1, i.args
      from jsonb_array_elements(${`[${items.texts.join(",")}]`}::text::jsonb) with ordinality as i(args, place)`;
}

/** Items from the caller's own query, which gives each one's args in a column `args`. It may end with a `;`. How many there were. */
export async function addItemsOf(sql: Db, bulk_id: number, query: string): Promise<number> {
  const alone = `${query.replace(/[;\s]+$/, "")}\n`; // a comment at its end goes no further
  const added = await sql`
    insert into bulk_item (bulk_id, seq, args_json)
    select ${bulk_id}, row_number() over (), coalesce(to_jsonb(q.args), '{}') from (${sql.unsafe(alone)}) q`;
  return added.count;
}

/** The args of a bulk's items from the one after `seq` on, in their order. */
export async function readItems(
  sql: Db,
  bulk_id: number,
  from: { seq: number; most: number },
): Promise<{ seq: number; args: unknown }[]> {
  return await sql<{ seq: number; args: unknown }[]>`
    select seq::int, args_json as args from bulk_item where bulk_id = ${bulk_id} and seq > ${from.seq} order by seq limit ${from.most}`;
}

/** The nodes or labels that its runs will name, and those of what runs at its end, each once. */
export async function placesOfBulk(sql: Db, bulk_id: number): Promise<string[]> {
  const rows = await sql<{ node: string }[]>`
    with b as materialized (select * from bulk where id = ${bulk_id})
    select distinct fill_template(d.node, i.args_json) as node
      from b join job_definition d on d.id = b.job_definition_id and d.node is not null join bulk_item i on i.bulk_id = b.id
    union
    select fill_template(d.node, '{}') from b join job_definition d on d.id in (b.on_finish, b.on_failure) and d.node is not null`;
  return rows.map((row) => row.node);
}

/** For a transaction that is filled by a program: it may think for a minute between two batches, and a query may be long. */
export async function allowSlowFilling(sql: Db): Promise<void> {
  await sql`select set_config('idle_in_transaction_session_timeout', '60s', true), set_config('statement_timeout', '600s', true)`;
}

/** What may change while a bulk runs; undefined: stays as it is, null: there is none any more. */
export interface BulkChange {
  state?: "RUNNING" | "PAUSED" | "CANCELED";
  parallel?: number;
  interval_seconds?: number;
  priority?: number;
  max_failures?: number | null;
  throttle_above?: number | null;
}

export interface ChangedBulk {
  /** Before the change. */
  was: string;
  finished: boolean;
  changed: boolean;
}

/** One statement with its audit; undefined: there is no such bulk. One that is over or canceled does not change. */
export async function changeBulk(
  sql: Db,
  bulk_id: number,
  change: BulkChange,
  by: { actor: string; reason?: string },
): Promise<ChangedBulk | undefined> {
  const { state = null, parallel = null, interval_seconds = null, priority = null } = change;
  const action = state === null ? "bulk.set" : ACTIONS[state];
  const reason = by.reason ?? null;
  const more = Object.entries(change).some(([name, value]) => name !== "state" && value !== undefined);
  const [row] = await sql<ChangedBulk[]>`
    with was as materialized (select * from bulk where id = ${bulk_id} for update),
    changed as (
      update bulk b
         set state = coalesce(${state}, b.state), parallel = coalesce(${parallel}, b.parallel), priority = coalesce(${priority}, b.priority),
             interval_seconds = coalesce(${interval_seconds}::numeric, b.interval_seconds),
             max_failures = case when ${change.max_failures !== undefined} then ${
    change.max_failures ?? null
  }::int else b.max_failures end,
             throttle_above = case when ${change.throttle_above !== undefined} then ${
    change.throttle_above ?? null
  }::numeric else b.throttle_above end,
             throttled = case when ${change.throttle_above !== undefined} then null else b.throttled end,
             changed_by = case when ${state}::text is null then b.changed_by else ${by.actor} end,
             reason = case when ${state}::text is null then b.reason else ${reason} end
        from was where b.id = was.id and was.finished_at is null and was.state <> 'CANCELED'
         and (${more} or was.state <> ${state})
      returning b.*),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${by.actor}, ${action}, 'bulk', c.id::text, ${shown(sql, "w")}, ${
    shown(sql, "c")
  }, ${reason} from changed c join was w using (id))
    select was.state as was, was.finished_at is not null as finished, exists (select from changed) as changed from was`;
  return row;
}

const ACTIONS = { RUNNING: "bulk.resume", PAUSED: "bulk.pause", CANCELED: "bulk.cancel" };

function shown(sql: Db, row: "w" | "c") {
  const of = sql(row);
  return sql`jsonb_build_object('state', ${of}.state, 'parallel', ${of}.parallel, 'interval_seconds', ${of}.interval_seconds,
    'priority', ${of}.priority, 'max_failures', ${of}.max_failures, 'throttle_above', ${of}.throttle_above)`;
}

/**
 * A new bulk, as the first one is now, of those items whose run FAILED or TIMED_OUT and that no bulk has repeated yet; each
 * new run names the one that it repeats. No bulk_id: nothing is to be repeated. Undefined: there is no such bulk.
 */
export async function retryBulk(
  sql: Db,
  bulk_id: number,
  by: { actor: string; reason?: string },
): Promise<{ bulk_id: number | null; items: number } | undefined> {
  if (!("begin" in sql)) return await repeatFailed(sql, bulk_id, by);
  return await sql.begin(async (tx) => {
    await allowSlowFilling(tx); // hundreds of thousands may have failed
    return await repeatFailed(tx, bulk_id, by);
  });
}

async function repeatFailed(
  sql: Db,
  bulk_id: number,
  by: { actor: string; reason?: string },
): Promise<{ bulk_id: number | null; items: number } | undefined> {
  const [row] = await sql<{ bulk_id: number | null; items: number }[]>`
    with was as (select * from bulk where id = ${bulk_id}),
    failed as materialized (
      select i.seq, i.args_json, i.job_run_id from job_run r join bulk_item i on i.bulk_id = r.bulk_id and i.job_run_id = r.id
       where r.bulk_id = ${bulk_id} and r.state in ('FAILED', 'TIMED_OUT') and i.retried_by is null for update of i),
    made as (
      insert into bulk (job_definition_id, name, parallel, interval_seconds, priority, serial_key, max_failures, throttle_above,
                        on_finish, on_failure, retry_of, created_by)
      select job_definition_id, name, parallel, interval_seconds, priority, serial_key, max_failures, throttle_above,
             on_finish, on_failure, id, ${by.actor} from was where exists (select from failed)
      returning id),
    marked as (
      update bulk_item i set retried_by = made.id from made, failed f where i.bulk_id = ${bulk_id} and i.seq = f.seq),
    items as (
      insert into bulk_item (bulk_id, seq, args_json, rerun_of)
      select made.id, row_number() over (order by f.seq), f.args_json, f.job_run_id from made, failed f returning 1),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'bulk.retry', 'bulk', ${bulk_id}::text, jsonb_build_object('bulk_id', id), ${
    by.reason ?? null
  } from made)
    select (select id from made) as bulk_id, (select count(*) from items)::int as items from was`;
  return row;
}
