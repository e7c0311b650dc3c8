/** Who may use the admin page, and how far. Passwords come here as hashes; every change writes its audit row in the same statement. */
import type { Actor } from "./audit.ts";
import type { Db, Sql } from "../postgres/connection.ts";
import { WITHIN_MINUTES } from "./login_attempts.ts";

/** Each may do what those before it may: look; act on runs, jobs and nodes; change settings, users and tokens. */
export const ROLES = ["viewer", "operator", "admin"] as const;
export type UserRole = typeof ROLES[number];

export interface UserView {
  id: number;
  name: string;
  role: UserRole;
  created_at: Date;
  disabled_at: Date | null;
  /** When one of its open sessions was last used; null: it has none. */
  seen_at: Date | null;
  /** Wrong passwords that count now (login_attempts.ts). */
  tries: number;
}

/** Whether a role allows what needs `needed`. */
export function mayActAs(role: UserRole, needed: UserRole): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed);
}

/** What is wrong with a name, in words; undefined: nothing. It stands in the audit, in logs and in cookies' stead. */
export function problemWithName(name: string): string | undefined {
  if (!/^[a-z0-9][a-z0-9_.@-]{0,63}$/.test(name)) {
    return `Cannot use "${name}" as a user's name: give lower case letters, digits, _ . @ -, at most 64`;
  }
}

/** False: there is one of that name already. */
export async function addUser(
  sql: Db,
  user: { name: string; password_hash: string; role: UserRole },
  by: { actor: string; reason?: string },
): Promise<boolean> {
  const rows = await sql`
    with added as (
      insert into admin_user (name, password_hash, role) values (${user.name}, ${user.password_hash}, ${user.role})
      on conflict (name) do nothing returning name),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'user.add', 'user', name, jsonb_build_object('role', ${user.role}::text), ${
    by.reason ?? null
  } from added)
    select from added`;
  return rows.length > 0;
}

export async function listUsers(sql: Db): Promise<UserView[]> {
  return await sql<UserView[]>`
    select u.id, u.name, u.role, u.created_at, u.disabled_at,
           (select max(s.seen_at) from admin_session s where s.admin_user_id = u.id) as seen_at,
           (select count(*)::int from admin_login_attempt a
             where a.name = u.name and a.at > clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute') as tries
      from admin_user u order by u.name`;
}

export async function anyUser(sql: Db): Promise<boolean> {
  return (await sql`select from admin_user where disabled_at is null limit 1`).length > 0;
}

/** What a login is checked against. */
export async function readCredentials(
  sql: Db,
  name: string,
): Promise<{ id: number; password_hash: string } | undefined> {
  const [user] = await sql<{ id: number; password_hash: string }[]>`
    select id, password_hash from admin_user where name = ${name} and disabled_at is null`;
  return user;
}

/** `last_admin`: nobody could give a role, or let anybody in, from the page any more. */
export type UserChange = "done" | "none" | "last_admin";

/** Two admins who shut each other out at a time would leave none: the second one waits here, and looks after the first. */
async function lockAdmins(tx: Db, name: string): Promise<void> {
  await tx`
    select from admin_user where name = ${name} or (role = 'admin' and disabled_at is null) order by id for update`;
}

/** Whether a row `u` of admin_user is the only admin who may log in. After `lockAdmins`. */
function isLastAdmin(sql: Db) {
  return sql`u.role = 'admin' and u.disabled_at is null and not exists (
    select from admin_user o where o.id <> u.id and o.role = 'admin' and o.disabled_at is null)`;
}

/** Holds from the next request on. */
export async function setRole(
  sql: Sql,
  user: { name: string; role: UserRole },
  by: { actor: string; reason?: string },
): Promise<UserChange> {
  return await sql.begin(async (tx) => {
    await lockAdmins(tx, user.name);
    const [row] = await tx<{ result: UserChange }[]>`
      with meant as (
        select id, name, role, case when ${user.role} <> 'admin' and ${
      isLastAdmin(tx)
    } then 'last_admin' else 'done' end as result
          from admin_user u where name = ${user.name}),
      changed as (
        update admin_user u set role = ${user.role} from meant
         where u.id = meant.id and meant.result = 'done' returning meant.name, meant.role),
      noted as (
        insert into admin_action_log (actor, action, target_type, target_id, before_json, after_json, reason)
        select ${by.actor}, 'user.set_role', 'user', name, jsonb_build_object('role', role),
               jsonb_build_object('role', ${user.role}::text), ${by.reason ?? null} from changed)
      select result from meant`;
    return row?.result ?? "none";
  });
}

/**
 * Ends all its sessions as well, and forgets the tries with the old one: whoever knew the old password is out. False: no such user, or its password is not the one that was
 * checked (`instead_of`): somebody set another meanwhile.
 */
export async function setPassword(
  sql: Sql,
  user: { name: string; password_hash: string; instead_of?: string },
  by: { actor: string; reason?: string },
): Promise<boolean> {
  const rows = await sql.begin(async (tx) => {
    // A login may hold the row: the statement that ends the sessions must begin after it, to see the one that it opened.
    await tx`select from admin_user where name = ${user.name} for update`;
    return await tx`
    with changed as (
      update admin_user set password_hash = ${user.password_hash}
       where name = ${user.name} and password_hash = coalesce(${user.instead_of ?? null}, password_hash)
      returning id, name),
    ended as (delete from admin_session s using changed where s.admin_user_id = changed.id),
    forgotten as (delete from admin_login_attempt a using changed where a.name = changed.name),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${by.actor}, 'user.set_password', 'user', name, ${by.reason ?? null} from changed)
    select from changed`;
  });
  return rows.length > 0;
}

/** `ended`: sessions, and tokens that it had made. */
export type Switched =
  | { result: "done"; ended: { sessions: number; tokens: number } }
  | { result: "unchanged" | Exclude<UserChange, "done"> };

/**
 * Shuts a user out, or lets it in again. What it was shut out with ends in the same statement: its sessions, and the API tokens that it
 * made, since it may have kept them; to let it in again brings none of them back. What it did and what it is called stays.
 */
export async function setDisabled(sql: Sql, user: { name: string; disabled: boolean }, by: Actor): Promise<Switched> {
  return await sql.begin(async (tx) => {
    await lockAdmins(tx, user.name);
    const [row] = await tx<{ result: Switched["result"]; sessions: number; tokens: number }[]>`
      with meant as (
        select id, name, case
                 when (disabled_at is not null) = ${user.disabled} then 'unchanged'
                 when ${user.disabled} and ${isLastAdmin(tx)} then 'last_admin'
                 else 'done' end as result
          from admin_user u where name = ${user.name}),
      changed as (
        update admin_user u set disabled_at = case when ${user.disabled} then clock_timestamp() end
          from meant where u.id = meant.id and meant.result = 'done' returning u.id, u.name),
      ended as (delete from admin_session s using changed where s.admin_user_id = changed.id returning 1),
      expired as (
        update api_token t set expires_at = clock_timestamp() from changed
         where ${user.disabled} and t.created_by = 'user:' || changed.name and t.expires_at > clock_timestamp() returning 1),
      counted as (select (select count(*)::int from ended) as sessions, (select count(*)::int from expired) as tokens),
      noted as (
        insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
        select ${by.actor}, ${
      user.disabled ? "user.disable" : "user.enable"
    }, 'user', name, case when ${user.disabled} then to_jsonb(counted) end,
               ${by.reason}
          from changed, counted)
      select meant.result, counted.* from meant, counted`;
    if (!row) return { result: "none" };
    const { result, ...ended } = row;
    return result === "done" ? { result, ended } : { result };
  });
}

/** With its sessions, and the end of the API tokens that it made; what it did stays in the audit. */
export async function removeUser(
  sql: Sql,
  name: string,
  by: { actor: string; reason?: string },
): Promise<UserChange> {
  return await sql.begin(async (tx) => {
    await lockAdmins(tx, name);
    const [row] = await tx<{ result: UserChange }[]>`
      with meant as (
        select id, case when ${
      isLastAdmin(tx)
    } then 'last_admin' else 'done' end as result from admin_user u where name = ${name}),
      removed as (
        delete from admin_user u using meant where u.id = meant.id and meant.result = 'done' returning u.name, u.role),
      expired as (
        update api_token t set expires_at = clock_timestamp() from removed
         where t.created_by = 'user:' || removed.name and t.expires_at > clock_timestamp()),
      noted as (
        insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
        select ${by.actor}, 'user.remove', 'user', name, jsonb_build_object('role', role), ${
      by.reason ?? null
    } from removed)
      select result from meant`;
    return row?.result ?? "none";
  });
}
