/** The items of a bulk as people look at them: which, in which state, why they failed, and what came of it all. Nothing here changes a row. */
import type { Db } from "./db.ts";
import type { RunState } from "./runs.ts";

/** UNFED: it has no run yet. */
export type ItemState = RunState | "UNFED";

export interface ItemView {
  /** Its number within the bulk, from 1. */
  id: number;
  args: unknown;
  job_run_id: number | null;
  state: ItemState;
  error_name: string | null;
  error_summary: string | null;
  started_at: Date | null;
  finished_at: Date | null;
  /** The failed run that it repeats, and the bulk that repeats it. */
  rerun_of: number | null;
  retried_by: number | null;
}

/** In the order in which they are fed; before or after a number: where a page goes on. */
export async function listItems(
  sql: Db,
  bulk_id: number,
  wanted: { states?: readonly RunState[]; unfed?: boolean; before?: number; after?: number; most: number },
): Promise<ItemView[]> {
  const { before, after = 0, states, most } = wanted;
  const backwards = before !== undefined;
  const edge = backwards ? sql`i.seq < ${before}` : sql`i.seq > ${after}`;
  const order = sql`order by i.seq ${backwards ? sql`desc` : sql``} limit ${most}`;
  const which = wanted.unfed
    ? sql`select i.*, null::job_run as r from bulk_item i join bulk b on b.id = i.bulk_id
           where i.bulk_id = ${bulk_id} and i.seq >= b.next_seq and ${edge} ${order}`
    : states
    ? sql`select i.*, r from job_run r join bulk_item i on i.bulk_id = ${bulk_id} and i.job_run_id = r.id
           where r.bulk_id = ${bulk_id} and r.state = any(${[...states]}) and ${edge} ${order}`
    : sql`select i.*, r from bulk_item i left join job_run r on r.id = i.job_run_id
           where i.bulk_id = ${bulk_id} and ${edge} ${order}`;
  const items = await sql<ItemView[]>`
    select i.seq as id, i.args_json as args, i.job_run_id, coalesce((i.r).state, 'UNFED') as state, (i.r).error_name,
           (i.r).error_summary, (i.r).started_at, (i.r).finished_at, i.rerun_of, i.retried_by
      from (${which}) i`;
  return items.toSorted((a, b) => a.id - b.id);
}

export interface FailureKind {
  /** "" where the error has none. */
  error_name: string;
  runs: number;
  /** One of them, and what it said. */
  job_run_id: number;
  error_summary: string | null;
}

/** Why its runs failed, by the error's name, the most frequent first; judged by a few thousand of them. */
export async function failureKinds(sql: Db, bulk_id: number, most: number): Promise<FailureKind[]> {
  return await sql<FailureKind[]>`
    select coalesce(f.error_name, '') as error_name, count(*)::int as runs, max(f.id) as job_run_id,
           (array_agg(f.error_summary order by f.id desc))[1] as error_summary
      from (select id, error_name, left(error_summary, 1000) as error_summary from job_run
             where bulk_id = ${bulk_id} and state in ('FAILED', 'TIMED_OUT') limit ${FAILURES_LOOKED_AT}) f
     group by 1 order by 2 desc, 1 limit ${most}`;
}

const FAILURES_LOOKED_AT = 5_000;

export interface Aftermath {
  /** The runs of on_finish and on_failure. */
  finish_run_id: number | null;
  failure_run_id: number | null;
  /** Bulks that repeat what failed of it. */
  retried_by: number[];
  /** Failed items that no bulk repeats yet; counted up to `RETRYABLE_COUNTED`. */
  retryable: number;
}

export const RETRYABLE_COUNTED = 10_000;

export async function readAftermath(sql: Db, bulk_id: number): Promise<Aftermath> {
  const [row] = await sql<Aftermath[]>`
    select (select id from job_run where idempotency_key = 'bulk:' || ${bulk_id}::bigint || ':finish') as finish_run_id,
           (select id from job_run where idempotency_key = 'bulk:' || ${bulk_id}::bigint || ':failure') as failure_run_id,
           coalesce((select array_agg(id order by id) from bulk where retry_of = ${bulk_id}), '{}') as retried_by,
           (select count(*)::int from (
              select from job_run r join bulk_item i on i.bulk_id = ${bulk_id} and i.job_run_id = r.id
               where r.bulk_id = ${bulk_id} and r.state in ('FAILED', 'TIMED_OUT') and i.retried_by is null
               limit ${RETRYABLE_COUNTED}) f) as retryable`;
  return row as Aftermath;
}

/** Ends of its runs in each of the last `slices` stretches of `seconds`, the oldest first; beyond `ENDS_LOOKED_AT` ends, of the newest. */
export async function readPace(
  sql: Db,
  bulk_id: number,
  { slices, seconds }: { slices: number; seconds: number },
): Promise<{ ended: number; failed: number }[]> {
  const rows = await sql<{ slice: number; ended: number; failed: number }[]>`
    with clock as materialized (select clock_timestamp() as now)
    select floor(extract(epoch from now - e.finished_at) / ${seconds}::float8)::int as slice, count(*)::int as ended,
           count(*) filter (where e.state in ('FAILED', 'TIMED_OUT'))::int as failed
      from clock cross join lateral (
        select finished_at, state from job_run
         where bulk_id = ${bulk_id} and finished_at > now - ${
    slices * seconds
  }::float8 * interval '1 s' and finished_at is not null
         order by finished_at desc limit ${ENDS_LOOKED_AT}) e
     group by 1`;
  const found = new Map(rows.map(({ slice, ended, failed }) => [Math.max(0, slice), { ended, failed }]));
  return Array.from({ length: slices }, (_, place) => found.get(slices - 1 - place) ?? { ended: 0, failed: 0 });
}

const ENDS_LOOKED_AT = 20_000;
