/** Items of bulks that are no runs yet, a page at a time: what a changed schema has still to fit. */
import type { Json } from "../job.ts";
import type { Db } from "../postgres/connection.ts";

/** Bulks of a job that have not ended and have items left, the oldest first. */
export async function readUnfedBulks(
  sql: Db,
  job_definition_id: number,
  most: number,
): Promise<{ id: number; next_seq: number; left: number }[]> {
  const rows = await sql<{ id: string; next_seq: string; last: string | null }[]>`
    select b.id, b.next_seq, (select i.seq from bulk_item i where i.bulk_id = b.id order by i.seq desc limit 1) as last
      from bulk b where b.job_definition_id = ${job_definition_id} and b.finished_at is null and b.state in ('RUNNING', 'PAUSED')
     order by b.id limit ${most}`;
  return rows.map(({ id, next_seq, last }) => ({
    id: Number(id),
    next_seq: Number(next_seq),
    left: Number(last ?? 0) - Number(next_seq) + 1,
  })).filter(({ left }) => left > 0);
}

/** In their order, from the item `from` on. */
export async function readUnfedItems(
  sql: Db,
  bulk_id: number,
  { from, most }: { from: number; most: number },
): Promise<{ seq: number; args: Json }[]> {
  const rows = await sql<{ seq: string; args: Json }[]>`
    select seq, args_json as args from bulk_item where bulk_id = ${bulk_id} and seq >= ${from} order by seq limit ${most}`;
  return rows.map(({ seq, args }) => ({ seq: Number(seq), args }));
}
