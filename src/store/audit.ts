/** The audit: who did what to what, and why. Rows are only added; operators' acts add theirs in the same statement. */
import { type Db, json } from "./db.ts";

export interface Act {
  actor: string;
  action: string;
  target_type: string;
  target_id: string | number;
  before?: unknown;
  after?: unknown;
  reason?: string;
}

/** Adds a row for something that the system itself noticed, such as a result that came too late. */
export async function recordAct(sql: Db, act: Act): Promise<void> {
  await sql`
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    values (${act.actor}, ${act.action}, ${act.target_type}, ${String(act.target_id)},
            ${json(sql, act.before ?? null)}, ${json(sql, act.after ?? null)}, ${act.reason ?? null})`;
}

/** The same, unless it was added before: for what may be noticed twice. */
export async function recordOnce(sql: Db, act: Act): Promise<void> {
  const after = json(sql, act.after ?? null);
  await sql`
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    select ${act.actor}, ${act.action}, ${act.target_type}, ${String(act.target_id)},
           ${json(sql, act.before ?? null)}, ${after}, ${act.reason ?? null}
     where not exists (select from admin_action_log l where l.at > clock_timestamp() - interval '1 day'
       and l.action = ${act.action} and l.target_id = ${String(act.target_id)} and l.after_json = ${after})`;
}

export interface ActView {
  id: number;
  at: Date;
  actor: string;
  action: string;
  target_type: string;
  target_id: string;
  before: unknown;
  after: unknown;
  reason: string | null;
}

export interface ActFilter {
  actor?: string;
  /** Whole, such as "run.cancel", or its first part: "run". */
  action?: string;
  target_type?: string;
  target_id?: string;
  since?: Date;
  until?: Date;
  /** Older than this one: where a page of a list goes on. */
  before_id?: number;
}

/** The newest first. */
export async function listActs(sql: Db, filter: ActFilter & { most: number }): Promise<ActView[]> {
  const parts = [sql`true`];
  if (filter.actor !== undefined) parts.push(sql`actor = ${filter.actor}`);
  if (filter.action !== undefined) parts.push(sql`${filter.action} in (action, split_part(action, '.', 1))`);
  if (filter.target_type !== undefined) parts.push(sql`target_type = ${filter.target_type}`);
  if (filter.target_id !== undefined) parts.push(sql`target_id = ${filter.target_id}`);
  if (filter.since !== undefined) parts.push(sql`at >= ${filter.since}`);
  if (filter.until !== undefined) parts.push(sql`at < ${filter.until}`);
  if (filter.before_id !== undefined) parts.push(sql`id < ${filter.before_id}`);
  return await sql<ActView[]>`
    select id, at, actor, action, target_type, target_id, before_json as before, after_json as after, reason
      from admin_action_log where ${
    parts.reduce((all, part) => sql`${all} and ${part}`)
  } order by id desc limit ${filter.most}`;
}
