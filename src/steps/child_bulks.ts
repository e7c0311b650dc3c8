/**
 * The bulk that a body's `callMany` asks for: made whole, once, by the key of the step, and awaited as a called run is. Its runs are below the
 * parent (`depth`), which is woken once, at the bulk's end. What a bulk is and how it goes on is in bulks/.
 */
import { addItems, allowSlowFilling, createBulk } from "../bulks/bulks.ts";
import type { Json } from "../job.ts";
import { type Db, isDataError, type Sql } from "../postgres/connection.ts";
import type { AttemptRef } from "../runs/states.ts";
import { blockedBy, readChildFacts, serialKeyOf, unfitArgs, whyBlocked, whyNoChild } from "./child_facts.ts";

export interface ChildBulkWish extends AttemptRef {
  start_token: string;
  /** Of the parent's step. */
  key: string;
  job_name: string;
  /** The args of each run. */
  items: Json[];
  /** As the body says them; default 10 at once, and no number of failures pauses it. */
  options?: { parallel?: Json; maxFailures?: Json };
}

/** Runs below one. */
const MOST_ITEMS = 100_000;
const MOST_AT_ONCE = 1_000_000;
const ITEMS_OF_STATEMENT = 1_000;
const DEFAULT_PARALLEL = 10;

/** Its id, or the sentence that refuses it; undefined: the run is no longer this worker's, and nothing was made. */
export async function createChildBulk(
  sql: Sql,
  worker_id: string,
  wish: ChildBulkWish,
): Promise<{ child_bulk_id: number } | { refused: string } | undefined> {
  const { job_run_id, job_name, items } = wish;
  const cannot = `Cannot call "${job_name}" for ${items.length} items`;
  const [facts] = await readChildFacts(sql, [{ job_run_id, job_name, args: {}, is_awaited: false }]);
  if (!facts) return undefined;
  const refused = wrongOption(wish) ?? whyNoChild(cannot, { ...wish, args: undefined }, facts) ??
    wrongItem(cannot, wish, facts.args_schema);
  if (refused) return { refused: refused.startsWith(cannot) ? refused : `${cannot}: ${refused}` };
  try {
    return await sql.begin((tx) => fill(tx, { worker_id, wish, cannot }));
  } catch (error) {
    if (error instanceof NotMade) return error.why === undefined ? undefined : { refused: error.why };
    if (isDataError(error)) return { refused: `${cannot}: ${error.message}` };
    throw error;
  }
}

function wrongOption({ items, options = {} }: ChildBulkWish): string | undefined {
  const { parallel, maxFailures } = options;
  const isCount = (value: unknown, least: number) =>
    value === undefined || (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= MOST_AT_ONCE);
  if (items.length > MOST_ITEMS) return `at most ${MOST_ITEMS}; make several calls of it`;
  if (!isCount(parallel, 1)) return `parallel must be a whole number from 1 to ${MOST_AT_ONCE}`;
  if (!isCount(maxFailures, 0)) return `maxFailures must be a whole number from 0 to ${MOST_AT_ONCE}`;
}

function wrongItem(cannot: string, { items }: ChildBulkWish, args_schema: string | null): string | undefined {
  for (const [place, args] of items.entries()) {
    const unfit = unfitArgs(args_schema, args);
    if (unfit) return `${cannot}: the args of item ${place + 1} do not fit: ${unfit}`;
  }
}

/** Ends the transaction. */
class NotMade extends Error {
  constructor(readonly why?: string) {
    super(why);
  }
}

async function fill(
  tx: Db,
  { worker_id, wish, cannot }: { worker_id: string; wish: ChildBulkWish; cannot: string },
): Promise<{ child_bulk_id: number }> {
  const { job_run_id, key, items, options = {} } = wish;
  await allowSlowFilling(tx);
  const made = await createBulk(tx, {
    job_name: wish.job_name,
    name: "",
    parallel: Number(options.parallel ?? DEFAULT_PARALLEL),
    interval_seconds: 0,
    max_failures: options.maxFailures === undefined ? undefined : Number(options.maxFailures),
    idempotency_key: `child:${job_run_id}:${key}`,
    actor: `run ${job_run_id}`,
    parent: { job_run_id, key },
  });
  if ("unknown_job" in made) throw new NotMade(`${cannot}: no such job takes runs`);
  const { bulk_id } = made;
  if (!made.is_new) return { child_bulk_id: bulk_id };
  for (let done = 0; done < items.length; done += ITEMS_OF_STATEMENT) {
    const texts = items.slice(done, done + ITEMS_OF_STATEMENT).map((args) => JSON.stringify(args));
    await addItems(tx, bulk_id, { first_seq: done + 1, texts });
  }
  const [blocked] = await tx<{ blocked_by: number; serial_key: string }[]>`
    select x.blocked_by, k.serial_key
      from job_run p, bulk b join job_definition d on d.id = b.job_definition_id join bulk_item i on i.bulk_id = b.id
      cross join lateral (select ${serialKeyOf(tx, tx`fill_template(d.serial_key, i.args_json)`)} as serial_key) k
      cross join lateral (select ${blockedBy(tx, tx`k.serial_key`)} as blocked_by) x
     where p.id = ${job_run_id} and b.id = ${bulk_id} and k.serial_key is not null and x.blocked_by is not null limit 1`;
  if (blocked) throw new NotMade(whyBlocked(cannot, blocked.blocked_by, blocked.serial_key));
  const owned = await tx`
    update job_run r set has_children = true
     where r.id = ${job_run_id} and r.attempt = ${wish.attempt} and r.start_token = ${wish.start_token}
       and r.state is not distinct from 'RUNNING' and r.assigned_worker_id = ${worker_id}
       and r.cancel_requested_at is null and r.ending is null returning 1`;
  if (owned.length === 0) throw new NotMade();
  return { child_bulk_id: bulk_id };
}

/** A piece of the results of a bulk, by the place of each item from 1 on; those that did not succeed have none. */
export interface BulkResults {
  results: { at: number; result: Json }[];
  /** The place up to which was looked, to go on after; null: that was all. */
  next: number | null;
}

const MOST_BYTES = 4_000_000;

/** Undefined: the run has called no such bulk. */
export async function readBulkResults(
  sql: Db,
  { job_run_id, bulk_id, after, most = 1_000 }: { job_run_id: number; bulk_id: number; after: number; most?: number },
): Promise<BulkResults | undefined> {
  const rows = await sql<{ at: number | null; result: Json; succeeded: boolean; more: boolean }[]>`
    with called as (
      select b.id from bulk b
       where b.id = ${bulk_id}
         and (b.parent_run_id = ${job_run_id} or exists (select from run_step s where s.job_run_id = ${job_run_id} and s.child_bulk_id = b.id))),
    piece as (
      select i.seq, r.result, r.state = 'SUCCEEDED' as succeeded,
             sum(coalesce(octet_length(r.result::text), 0)) over (order by i.seq) as bytes, row_number() over (order by i.seq) as place
        from (select i.* from bulk_item i where i.bulk_id = (select id from called) and i.seq > ${after} order by i.seq limit ${most}) i
        left join job_run r on r.id = i.job_run_id)
    select p.seq::int as at, p.result, coalesce(p.succeeded, false) as succeeded,
           exists (select from bulk_item i where i.bulk_id = c.id and i.seq > p.seq) as more
      from called c left join piece p on p.place = 1 or p.bytes <= ${MOST_BYTES} order by p.seq`;
  if (rows.length === 0) return undefined;
  const last = rows.at(-1);
  return {
    results: rows.flatMap(({ at, result, succeeded }) => at !== null && succeeded ? [{ at, result }] : []),
    next: last?.more ? last.at : null,
  };
}
