/** Runs that belong together: those that a run's body has called, and those that follow from one run (`group_id`). Nothing here changes a row. */
import type { Db } from "../postgres/connection.ts";
import type { RunState } from "../runs/run_states.ts";

export interface TreeRun {
  id: number;
  job_name: string;
  state: RunState;
  source: string;
  /** The run whose body asked for it, or that of the bulk that it is of. */
  parent_run_id: number | null;
  /** The step of the parent that awaits it; null: it lives on without its parent. */
  parent_key: string | null;
  group_id: number | null;
  bulk_id: number | null;
  /** What its job comes after. */
  after_jobs: string[];
  error_name: string | null;
  error_summary: string | null;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

export interface RunTree {
  /** The topmost of those that called it. */
  root_id: number;
  /** All below the root, by id. */
  runs: TreeRun[];
  /** Those of its group, by id. */
  group: TreeRun[];
  /** There are more than are here. */
  more: boolean;
}

/** Undefined: there is no such run. Items of a bulk that a body started are counted with the bulk and are not listed. */
export async function readTree(sql: Db, job_run_id: number, most = 1_000): Promise<RunTree | undefined> {
  const [root] = await sql<{ id: number; group_id: number | null }[]>`
    with recursive up as (
      select id, parent_run_id, depth from job_run where id = ${job_run_id}
      union all select p.id, p.parent_run_id, p.depth from up join job_run p on p.id = up.parent_run_id)
    select up.id, (select group_id from job_run where id = ${job_run_id}) as group_id from up order by depth, id limit 1`;
  if (!root) return undefined;
  const runs = await sql<TreeRun[]>`
    with recursive down as (
      (select id from job_run where id = ${root.id})
      union all select c.id from down join job_run c on c.parent_run_id = down.id and c.bulk_id is null)
    ${columns(sql)} where r.id = any(array(select id from down limit ${most + 1})) order by r.id`;
  const group = root.group_id === null
    ? []
    : await sql<TreeRun[]>`${columns(sql)} where r.group_id = ${root.group_id} order by r.id limit ${most + 1}`;
  const more = runs.length > most || group.length > most;
  return { root_id: root.id, runs: runs.slice(0, most), group: group.slice(0, most), more };
}

function columns(sql: Db) {
  return sql`
    select r.id, d.name as job_name, r.state, r.source, r.parent_run_id, r.parent_key, r.group_id, r.bulk_id, d.after_jobs,
           r.error_name, r.error_summary, r.created_at, r.started_at, r.finished_at
      from job_run r join job_definition d on d.id = r.job_definition_id`;
}
