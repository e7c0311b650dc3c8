/** The audit: who did what to what, and why. Rows are only added; operators' acts add theirs in the same statement. */
import { type Db, json } from "../postgres/connection.ts";

/** Who acts and why, for the audit. */
export interface Actor {
  actor: string;
  reason: string;
}

export interface AuditRecord {
  actor: string;
  action: string;
  target_type: string;
  target_id: string | number;
  before?: unknown;
  after?: unknown;
  reason?: string;
}

/** Adds a row for something that the system itself noticed, such as a result that came too late. */
export async function recordAudit(sql: Db, act: AuditRecord): Promise<void> {
  await sql`
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    values (${act.actor}, ${act.action}, ${act.target_type}, ${String(act.target_id)},
            ${json(sql, act.before ?? null)}, ${json(sql, act.after ?? null)}, ${act.reason ?? null})`;
}

/** The same, unless it was added before: for what may be noticed twice. */
export async function recordOnce(sql: Db, act: AuditRecord): Promise<void> {
  const after = json(sql, act.after ?? null);
  await sql`
    insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
    select ${act.actor}, ${act.action}, ${act.target_type}, ${String(act.target_id)},
           ${json(sql, act.before ?? null)}, ${after}, ${act.reason ?? null}
     where not exists (select from admin_action_log l where l.at > clock_timestamp() - interval '1 day'
       and l.action = ${act.action} and l.target_id = ${String(act.target_id)} and l.after_json = ${after})`;
}

export interface AuditEntry {
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

export interface AuditFilter {
  actor?: string;
  /** Whole, such as "run.cancel", or its first part: "run". */
  action?: string;
  target_type?: string;
  target_id?: string;
  since?: Date;
  until?: Date;
  /** Older than this one, or newer: where a page of a list goes on. */
  before_id?: number;
  after_id?: number;
}

/**
 * The newest first; after an act (`after_id`): those that follow it, the newest of them first as well. Each filter is led by
 * an index that is in this order, so that it takes as long among a million acts as among a thousand.
 */
export async function listAudit(sql: Db, filter: AuditFilter & { most: number }): Promise<AuditEntry[]> {
  const oldest_first = filter.after_id !== undefined;
  const order = oldest_first ? sql`order by at, id` : sql`order by at desc, id desc`;
  const found = (parts: Part[]) =>
    sql`select * from admin_action_log where ${all(sql, parts)} ${order} limit ${filter.most}`;
  const parts = conditions(sql, filter);
  const actions = filter.action === undefined ? undefined : await actionsMeant(sql, filter.action);
  const each = () =>
    sql`select l.* from unnest(${actions ?? []}::text[]) as one cross join lateral (${
      found([...parts, sql`action = one`])
    }) l`;
  const led = actions === undefined
    ? found(parts)
    : filter.actor === undefined && filter.target_id === undefined
    ? each()
    : found([...parts, sql`action || '' = any(${actions})`]); // the actor or the target leads: an action may be frequent
  const acts = await sql<AuditEntry[]>`
    select id, at, actor, action, target_type, target_id, before_json as before, after_json as after, reason
      from (${led}) l ${order} limit ${filter.most}`;
  return oldest_first ? acts.toReversed() : acts;
}

type Part = ReturnType<Db>;

function all(sql: Db, parts: Part[]): Part {
  return parts.reduce((before, part) => sql`${before} and ${part}`, sql`true`);
}

function conditions(sql: Db, filter: AuditFilter): Part[] {
  const { actor, target_type, target_id, since, until, before_id, after_id } = filter;
  const parts: Part[] = [];
  const at = (id: number) => sql`(select e.at from admin_action_log e where e.id = ${id}), ${id}::bigint`;
  if (actor !== undefined) parts.push(sql`actor = ${actor}`);
  if (target_type !== undefined) parts.push(sql`target_type = ${target_type}`);
  if (target_id !== undefined) parts.push(sql`target_id = ${target_id}`);
  if (since !== undefined) parts.push(sql`at >= ${since}`);
  if (until !== undefined) parts.push(sql`at < ${until}`);
  if (before_id !== undefined) parts.push(sql`(at, id) < (${at(before_id)})`);
  if (after_id !== undefined) parts.push(sql`(at, id) > (${at(after_id)})`);
  return parts;
}

async function actionsMeant(sql: Db, action: string): Promise<string[]> {
  return (await listAuditActions(sql)).filter((one) => one === action || one.startsWith(`${action}.`));
}

/** All actions that ever were: by steps through an index, whatever the number of acts. */
export async function listAuditActions(sql: Db): Promise<string[]> {
  const rows = await sql<{ action: string }[]>`
    with recursive step as (
      (select action from admin_action_log order by action limit 1)
      union all
      select (select l.action from admin_action_log l where l.action > step.action order by l.action limit 1)
        from step where step.action is not null)
    select action from step where action is not null`;
  return rows.map(({ action }) => action);
}

const MOST_ACTORS = 100;

/** Who did something, the first of them by name. */
export async function listAuditActors(sql: Db): Promise<string[]> {
  const rows = await sql<{ actor: string }[]>`
    with recursive step as (
      (select actor from admin_action_log order by actor limit 1)
      union all
      select (select l.actor from admin_action_log l where l.actor > step.actor order by l.actor limit 1)
        from step where step.actor is not null)
    select actor from step where actor is not null limit ${MOST_ACTORS}`;
  return rows.map(({ actor }) => actor);
}
