/**
 * Tokens by which programs use the API. Each says what it is good for and until when; only its digest is stored, so it is
 * shown once, when it is made.
 */
import type { Db } from "../postgres/connection.ts";

/** read: look. emit: enqueue runs and emit events, nothing else. operate: what an operator may. admin: everything. */
export const SCOPES = ["read", "emit", "operate", "admin"] as const;
/** Lower case letters, digits and _ . -, at most 64. */
export const TOKEN_NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/;
export const MOST_TOKEN_DAYS = 3650;
export type Scope = typeof SCOPES[number];

const INCLUDED: Record<Scope, readonly Scope[]> = {
  read: ["read"],
  emit: ["emit"],
  operate: ["read", "emit", "operate"],
  admin: SCOPES,
};

export interface ApiTokenView {
  id: number;
  name: string;
  scopes: Scope[];
  created_by: string;
  created_at: Date;
  expires_at: Date;
  used_at: Date | null;
}

/** Whether scopes allow what needs `needed`. */
export function scopesAllow(scopes: readonly Scope[], needed: Scope): boolean {
  return scopes.some((scope) => INCLUDED[scope].includes(needed));
}

/** Audited in the same statement. False: there is one of that name already. */
export async function addApiToken(
  sql: Db,
  token: { name: string; token_digest: string; scopes: Scope[]; days: number },
  by: { actor: string; reason?: string },
): Promise<boolean> {
  const rows = await sql`
    with added as (
      insert into api_token (name, token_digest, scopes, created_by, expires_at)
      values (${token.name}, ${token.token_digest}, ${token.scopes}, ${by.actor}, clock_timestamp() + ${token.days} * interval '1 day')
      on conflict (name) do nothing returning name, scopes, expires_at),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'token.add', 'token', name, jsonb_build_object('scopes', scopes, 'expires_at', expires_at), ${
    by.reason ?? null
  } from added)
    select from added`;
  return rows.length > 0;
}

/** What a token is good for. Undefined: there is none, or it has expired. */
export async function readApiToken(
  sql: Db,
  token_digest: string,
): Promise<{ name: string; scopes: Scope[] } | undefined> {
  const [token] = await sql<{ name: string; scopes: Scope[] }[]>`
    with valid as (
      select id, name, scopes from api_token where token_digest = ${token_digest} and expires_at > clock_timestamp()),
    used as (
      update api_token t set used_at = clock_timestamp() from valid
       where t.id = valid.id and (t.used_at is null or t.used_at < clock_timestamp() - interval '1 minute'))
    select name, scopes from valid`;
  return token;
}

export async function listApiTokens(sql: Db): Promise<ApiTokenView[]> {
  return await sql<ApiTokenView[]>`
    select id, name, scopes, created_by, created_at, expires_at, used_at from api_token order by name`;
}

/** False: no such token. */
export async function removeApiToken(sql: Db, name: string, by: { actor: string; reason?: string }): Promise<boolean> {
  const rows = await sql`
    with removed as (delete from api_token where name = ${name} returning name, scopes),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'token.remove', 'token', name, jsonb_build_object('scopes', scopes), ${
    by.reason ?? null
  } from removed)
    select from removed`;
  return rows.length > 0;
}
