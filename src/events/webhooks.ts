/**
 * Webhooks: deliveries of other programs that become events. A delivery carries a signature made with the hook's secret
 * (admin/api/hooks.ts checks it) and an id, which makes its event exactly one however often it is delivered.
 * A secret is given out once, when the hook is made; afterwards nothing here gives it but `readForCheck`.
 */
import type { Actor } from "../access/audit.ts";
import { type Db, json } from "../postgres/connection.ts";

/** `dandori`: over time, id and body. `github`: over the body alone, as GitHub and those like it sign. */
export const SIGNATURES = ["dandori", "github"] as const;
export type Signature = typeof SIGNATURES[number];

export interface WebhookView {
  name: string;
  event_type: string;
  signature: Signature;
  rate_per_minute: number;
  created_at: Date;
  created_by: string;
  /** The last delivery that was taken; null: none came yet. */
  delivered_at: Date | null;
}

/** False: there is one of that name. */
export async function addWebhook(
  sql: Db,
  hook: { name: string; event_type: string; signature: Signature; secret: string; rate_per_minute: number },
  by: Actor,
): Promise<boolean> {
  const rows = await sql`
    with added as (
      insert into webhook (name, event_type, signature, secret, rate_per_minute, created_by)
      values (${hook.name}, ${hook.event_type}, ${hook.signature}, ${hook.secret}, ${hook.rate_per_minute}, ${by.actor})
      on conflict (name) do nothing returning *),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'hook.add', 'hook', name, ${shown(sql)}, ${by.reason} from added)
    select from added`;
  return rows.length > 0;
}

/** False: there is none of that name. */
export async function removeWebhook(sql: Db, name: string, by: Actor): Promise<boolean> {
  const rows = await sql`
    with removed as (delete from webhook where name = ${name} returning *),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'hook.remove', 'hook', name, ${shown(sql)}, ${by.reason} from removed)
    select from removed`;
  return rows.length > 0;
}

function shown(sql: Db) {
  return sql`jsonb_build_object('event_type', event_type, 'signature', signature, 'rate_per_minute', rate_per_minute)`;
}

export async function listWebhooks(sql: Db): Promise<WebhookView[]> {
  return await sql<WebhookView[]>`
    select name, event_type, signature, rate_per_minute, created_at, created_by, delivered_at from webhook order by name`;
}

/** What a delivery is checked against, with the database's clock. Not to be shown. */
export async function readForCheck(
  sql: Db,
  name: string,
): Promise<{ signature: Signature; secret: string; now_seconds: number } | undefined> {
  const [row] = await sql<{ signature: Signature; secret: string; now_seconds: number }[]>`
    select signature, secret, extract(epoch from clock_timestamp())::float8 as now_seconds from webhook where name = ${name}`;
  return row;
}

/**
 * A delivery whose signature is good becomes an event, one for each delivery id. Undefined: more than its rate came within
 * this minute, or the hook is gone, and nothing was done.
 */
export async function takeDelivery(
  sql: Db,
  name: string,
  delivery: { id: string; payload: unknown },
): Promise<{ event_id: number } | undefined> {
  const [row] = await sql<{ event_id: number }[]>`
    with taken as (
      update webhook set delivered_at = clock_timestamp(),
             window_count = case when window_at < clock_timestamp() - interval '1 minute' then 1 else window_count + 1 end,
             window_at = case when window_at < clock_timestamp() - interval '1 minute' then clock_timestamp() else window_at end
       where name = ${name} and (window_count < rate_per_minute or window_at < clock_timestamp() - interval '1 minute')
      returning event_type)
    select emit_event(event_type, ${
    json(sql, delivery.payload)
  }, 'hook:' || ${name}::text || ':' || ${delivery.id}::text) as event_id
      from taken`;
  return row;
}
