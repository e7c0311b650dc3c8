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
