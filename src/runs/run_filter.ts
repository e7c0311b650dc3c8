/** Which runs are meant: the same words on the command line, in the API and on the page. Used inside other statements. */
import type { Db } from "../postgres/connection.ts";
import type { RunState } from "./run_states.ts";

export interface RunFilter {
  id?: number;
  /** One of these. */
  ids?: readonly number[];
  job_name?: string;
  states?: readonly RunState[];
  serial_key?: string;
  node?: string;
  /** The node of the worker that it was given to last. */
  ran_on?: string;
  worker_id?: string;
  error_name?: string;
  bulk_id?: number;
  /** Created no earlier, and earlier than. */
  since?: Date;
  until?: Date;
  /** Older, or newer, than this run: where a page of a list goes on. */
  before_id?: number;
  after_id?: number;
}

/** A condition on run `r` of definition `d`; every part that is left out is true. */
export function matches(sql: Db, filter: RunFilter) {
  const parts = [sql`true`];
  if (filter.id !== undefined) parts.push(sql`r.id = ${filter.id}`);
  if (filter.ids !== undefined) parts.push(sql`r.id = any(${[...filter.ids]}::bigint[])`);
  if (filter.job_name !== undefined) parts.push(sql`d.name = ${filter.job_name}`);
  if (filter.states !== undefined) parts.push(sql`r.state = any(${[...filter.states]})`);
  if (filter.serial_key !== undefined) parts.push(sql`r.serial_key = ${filter.serial_key}`);
  if (filter.node !== undefined) parts.push(sql`r.node = ${filter.node}`);
  if (filter.worker_id !== undefined) parts.push(sql`r.assigned_worker_id = ${filter.worker_id}`);
  if (filter.ran_on !== undefined) {
    parts.push(sql`r.assigned_worker_id in (select worker_id from worker where node_id = ${filter.ran_on})`);
  }
  if (filter.error_name !== undefined) parts.push(sql`r.error_name = ${filter.error_name}`);
  if (filter.bulk_id !== undefined) parts.push(sql`r.bulk_id = ${filter.bulk_id}`);
  if (filter.since !== undefined) parts.push(sql`r.created_at >= ${filter.since}`);
  if (filter.until !== undefined) parts.push(sql`r.created_at < ${filter.until}`);
  if (filter.before_id !== undefined) parts.push(sql`r.id < ${filter.before_id}`);
  if (filter.after_id !== undefined) parts.push(sql`r.id > ${filter.after_id}`);
  return parts.reduce((all, part) => sql`${all} and ${part}`);
}
