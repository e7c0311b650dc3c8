/** Syncs: who stored which job files and from where, and which code of a job was stored before. */
import type { Actor } from "../access/audit.ts";
import { type Db, json, type TransactionSql } from "../postgres/connection.ts";

/** Where job files come from. */
export interface Checkout {
  machine: string;
  /** Null: the folder is in no git repository, or git did not say. */
  git_commit: string | null;
  /** Whether the checkout differs from the commit. */
  git_dirty: boolean | null;
  committed_at: Date | null;
}

/** A sync as it is shown. */
export interface SyncView extends Checkout {
  id: number;
  synced_at: Date;
  /** By the database's clock. */
  age_seconds: number;
  synced_by: string;
}

/** What one sync does to one job, for the audit. */
export interface SyncedJob {
  name: string;
  change: "added" | "changed" | "removed";
  before: unknown;
  after: unknown;
}

/** Keeps who synced, from where, and what changed of each job, in the transaction that stores it; gives the id of the sync. */
export async function recordSync(
  tx: TransactionSql,
  { by, checkout, jobs }: { by: Actor; checkout: Checkout; jobs: SyncedJob[] },
): Promise<number> {
  const [row] = await tx<{ id: number }[]>`
    with synced as (
      insert into job_sync (synced_by, machine, git_commit, git_dirty, committed_at)
      values (${by.actor}, ${checkout.machine}, ${checkout.git_commit}, ${checkout.git_dirty}, ${checkout.committed_at})
      returning id),
    jobs as (select * from jsonb_to_recordset(${
    json(tx, jobs)
  }) as j(name text, change text, before jsonb, after jsonb)),
    versions as (
      insert into job_version as v (job_definition_id, digest, job_sync_id)
      select d.id, d.digest, synced.id from jobs join job_definition d using (name), synced where jobs.change <> 'removed'
      on conflict (job_definition_id, digest) do update set job_sync_id = excluded.job_sync_id, synced_at = clock_timestamp()),
    marked as (
      update job_definition d set job_sync_id = synced.id from jobs, synced where d.name = jobs.name),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
      select ${by.actor}, 'job.sync', 'job', name, before,
             jsonb_build_object('change', change, 'sync', synced.id, 'machine', ${checkout.machine}::text,
               'commit', ${checkout.git_commit}::text, 'dirty', ${checkout.git_dirty}::boolean) || coalesce(after, '{}'), ${by.reason}
        from jobs, synced order by name)
    select id from synced`;
  return (row as { id: number }).id;
}

/** The last one; undefined: none was kept. */
export async function lastSync(sql: Db): Promise<SyncView | undefined> {
  const [last] = await sql<SyncView[]>`
    select s.*, extract(epoch from clock_timestamp() - s.synced_at)::float8 as age_seconds
      from job_sync s order by s.id desc limit 1`;
  return last;
}

/** The code that a definition has now, and when the other code that it is given was stored before. */
export interface GoingBack {
  job_definition_id: number;
  stored: SyncView;
  earlier: SyncView;
}

/** Of these definitions and their new digests, those whose new code was stored before. */
export async function goingBack(
  sql: Db,
  wanted: { job_definition_id: number; digest: string }[],
): Promise<GoingBack[]> {
  if (wanted.length === 0) return [];
  const rows = await sql<{ job_definition_id: number; stored: SyncRow; earlier: SyncRow }[]>`
    with version as (
      select v.job_definition_id, v.digest, jsonb_build_object('id', s.id, 'synced_at', v.synced_at,
               'age_seconds', extract(epoch from clock_timestamp() - v.synced_at)::float8, 'synced_by', s.synced_by, 'machine', s.machine,
               'git_commit', s.git_commit, 'git_dirty', s.git_dirty, 'committed_at', s.committed_at) as sync
        from job_version v join job_sync s on s.id = v.job_sync_id)
    select w.job_definition_id, stored.sync as stored, earlier.sync as earlier
      from jsonb_to_recordset(${json(sql, wanted)}) as w(job_definition_id bigint, digest text)
      join job_definition d on d.id = w.job_definition_id and d.digest <> w.digest
      join version earlier on earlier.job_definition_id = d.id and earlier.digest = w.digest
      join version stored on stored.job_definition_id = d.id and stored.digest = d.digest`;
  return rows.map(({ job_definition_id, stored, earlier }) => ({
    job_definition_id,
    stored: viewOf(stored),
    earlier: viewOf(earlier),
  }));
}

type Dates = "synced_at" | "committed_at";
type SyncRow = Omit<SyncView, Dates> & { synced_at: string; committed_at: string | null };

function viewOf({ synced_at, committed_at, ...row }: SyncRow): SyncView {
  return {
    ...row,
    synced_at: new Date(synced_at),
    committed_at: committed_at === null ? null : new Date(committed_at),
  };
}
