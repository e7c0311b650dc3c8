/** The items of a bulk as people look at them: which, in which state, why they failed, and what came of it all. Nothing here changes a row. */
import type { Db, Sql } from "../postgres/connection.ts";
import type { RunState } from "../runs/run_states.ts";

/** UNFED: it has no run yet. */
export type ItemState = RunState | "UNFED";

export interface ItemView {
  /** Where a page goes on. */
  id: number;
  /** Its number within the bulk, from 1; null: of a backfill, whose runs are not found by it. */
  seq: number | null;
  args: unknown;
  job_run_id: number | null;
  state: ItemState;
  error_name: string | null;
  error_summary: string | null;
  started_at: Date | null;
  finished_at: Date | null;
  /** The bulk that repeats it. */
  retried_by: number | null;
}

/**
 * In the order in which they are fed; before or after an `id`: where a page goes on. What most items are is found item by item,
 * what few are by the runs in that state.
 */
export async function listItems(
  sql: Db,
  bulk_id: number,
  wanted: { state?: ItemState; before?: number; after?: number; most: number },
): Promise<ItemView[]> {
  const { before, after = 0, state, most } = wanted;
  const backwards = before !== undefined;
  const edge = backwards ? sql`id < ${before}` : sql`id > ${after}`;
  const order = sql`order by id ${backwards ? sql`desc` : sql``} limit ${most}`;
  const of_run = sql`r.error_name, left(r.error_summary, 1000) as error_summary, r.started_at, r.finished_at`;
  const item =
    sql`i.seq as id, i.seq, i.args_json as args, i.job_run_id, coalesce(r.state, 'UNFED') as state, ${of_run}, i.retried_by`;
  const items = sql`(select *, seq as id from bulk_item where bulk_id = ${bulk_id}) i`;
  const rows = state === "UNFED"
    ? await sql<ItemView[]>`
      select ${item} from ${items} left join job_run r on r.id = i.job_run_id
       where i.seq >= (select next_seq from bulk where id = ${bulk_id}) and i.${edge} ${order}`
    : state === undefined
    ? await sql<ItemView[]>`
      select ${item} from ${items} left join job_run r on r.id = i.job_run_id where i.${edge} ${order}`
    : state === "SUCCEEDED"
    ? await sql<ItemView[]>`
      select ${item} from ${items} cross join lateral (
        select * from job_run where id = i.job_run_id and state is not distinct from 'SUCCEEDED' offset 0) r where i.${edge} ${order}`
    : await sql<ItemView[]>`
      with chosen as materialized (
        select r.id as job_run_id, n.seq, coalesce(n.seq, r.id) as id
          from job_run r cross join lateral (
            select case when r.idempotency_key like 'bulk:%' then split_part(r.idempotency_key, ':', 3)::bigint end as seq) n
         where r.bulk_id = ${bulk_id} and r.state = ${state}),
      page as materialized (select * from chosen where ${edge} ${order})
      select p.id, p.seq, r.args_json as args, r.id as job_run_id, r.state, ${of_run},
             (select retried_by from bulk_item i where i.bulk_id = ${bulk_id} and i.seq = p.seq) as retried_by
        from page p join job_run r on r.id = p.job_run_id`;
  return rows.toSorted((a, b) => a.id - b.id);
}

export interface FailureKind {
  /** "" where the error has none. */
  error_name: string;
  runs: number;
  /** Of the newest of them. */
  error_summary: string | null;
  /** The newest few of them. `seq`: the number of the item within the bulk; null: of a backfill. */
  examples: { job_run_id: number; seq: number | null }[];
}

/** Why its runs failed, by the error's name, the most frequent first; judged by a few thousand of them. */
export async function failureKinds(sql: Db, bulk_id: number, most: number): Promise<FailureKind[]> {
  return await sql<FailureKind[]>`
    select coalesce(f.error_name, '') as error_name, count(*)::int as runs,
           (array_agg(f.error_summary order by f.id desc))[1] as error_summary,
           to_jsonb((array_agg(jsonb_build_object('job_run_id', f.id, 'seq', f.seq) order by f.id desc))[1:${EXAMPLES}]) as examples
      from (select id, error_name, left(error_summary, 1000) as error_summary,
                   case when idempotency_key like 'bulk:%' then split_part(idempotency_key, ':', 3)::bigint end as seq from job_run
             where bulk_id = ${bulk_id} and state in ('FAILED', 'TIMED_OUT') limit ${FAILURES_LOOKED_AT}) f
     group by 1 order by 2 desc, 1 limit ${most}`;
}

const FAILURES_LOOKED_AT = 5_000;
const EXAMPLES = 3;

export interface Aftermath {
  /** The runs of on_finish and on_failure. */
  finish_run_id: number | null;
  failure_run_id: number | null;
  /** Bulks that repeat what failed of it. */
  retried_by: number[];
  /** Items that bulks repeat: as many as these have. */
  repeated: number;
}

export async function readAftermath(sql: Db, bulk_id: number): Promise<Aftermath> {
  const [row] = await sql<Aftermath[]>`
    select (select id from job_run where idempotency_key = 'bulk:' || ${bulk_id}::bigint || ':finish') as finish_run_id,
           (select id from job_run where idempotency_key = 'bulk:' || ${bulk_id}::bigint || ':failure') as failure_run_id,
           coalesce((select array_agg(id order by id) from bulk where retry_of = ${bulk_id}), '{}') as retried_by,
           (select coalesce(sum((select max(seq) from bulk_item i where i.bulk_id = b.id)), 0)::int from bulk b
             where b.retry_of = ${bulk_id}) as repeated`;
  return row as Aftermath;
}

/** Ends of its runs in each of the last `slices` stretches of `seconds`, the oldest first; of `ENDS_LOOKED_AT` ends, the newest. */
export async function readPace(
  sql: Sql,
  bulk_id: number,
  { slices, seconds }: { slices: number; seconds: number },
): Promise<{ ended: number; failed: number }[]> {
  const rows = await sql.begin("read only", async (tx) => {
    // From the end of their index. The planner would rather sort all of them: 0.4 s for half a million, measured.
    await tx`select set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`;
    return await tx<{ slice: number; ended: number; failed: number }[]>`
      with clock as materialized (select clock_timestamp() as now)
      select floor(extract(epoch from now - e.finished_at) / ${seconds}::float8)::int as slice, count(*)::int as ended,
             count(*) filter (where e.state in ('FAILED', 'TIMED_OUT'))::int as failed
        from clock cross join (
          select finished_at, state from job_run
           where bulk_id = ${bulk_id} and finished_at is not null order by finished_at desc limit ${ENDS_LOOKED_AT}) e
       where e.finished_at > now - ${slices * seconds}::float8 * interval '1 s'
       group by 1`;
  });
  const found = new Map(rows.map(({ slice, ended, failed }) => [Math.max(0, slice), { ended, failed }]));
  return Array.from({ length: slices }, (_, place) => found.get(slices - 1 - place) ?? { ended: 0, failed: 0 });
}

const ENDS_LOOKED_AT = 10_000;
