/**
 * Who is logged in. A session ends when it was not used for a while, at its last hour however much it is used, and with its
 * user. Only the digest of its token is stored; a role that changes holds from the next request on.
 */
import type { Actor } from "./audit.ts";
import type { Db } from "../postgres/connection.ts";
import type { UserRole } from "./users.ts";

const IDLE_SECONDS = 12 * 3600;
/** A cookie may last as long. */
export const LONGEST_SESSION_SECONDS = 7 * 24 * 3600;
/** So that a click writes no row. */
const SEEN_EVERY_SECONDS = 60;

export interface SessionView {
  name: string;
  role: UserRole;
}

/**
 * Opens one, and forgets those that are over. Audited in the same statement. False: the password that was checked is not the user's
 * any more, or the user is gone: checking takes a while, and whoever sets another one meanwhile ends what is open then.
 */
export async function openSession(
  sql: Db,
  of: { admin_user_id: number; password_hash: string; token_digest: string; address: string; user_agent: string },
): Promise<boolean> {
  const rows = await sql`
    with checked as (
      select id from admin_user
       where id = ${of.admin_user_id} and password_hash = ${of.password_hash} and disabled_at is null for update),
    over as (
      delete from admin_session
       where expires_at < clock_timestamp() or seen_at < clock_timestamp() - ${IDLE_SECONDS} * interval '1 second'),
    opened as (
      insert into admin_session (token_digest, admin_user_id, expires_at, address, user_agent)
      select ${of.token_digest}, id, clock_timestamp() + ${LONGEST_SESSION_SECONDS} * interval '1 second',
             ${of.address}, ${of.user_agent.slice(0, 300)} from checked
      returning admin_user_id, address)
    insert into admin_action_log (actor, action, target_type, target_id, after_json)
    select 'user:' || u.name, 'user.login', 'user', u.name, jsonb_build_object('address', opened.address)
      from opened join admin_user u on u.id = opened.admin_user_id returning 1`;
  return rows.length > 0;
}

/** Undefined: there is none, or it is over. */
export async function readSession(sql: Db, token_digest: string): Promise<SessionView | undefined> {
  const [session] = await sql<SessionView[]>`
    with open as (
      select s.token_digest, s.seen_at, u.name, u.role
        from admin_session s join admin_user u on u.id = s.admin_user_id
       where s.token_digest = ${token_digest} and u.disabled_at is null and s.expires_at > clock_timestamp()
         and s.seen_at > clock_timestamp() - ${IDLE_SECONDS} * interval '1 second'),
    seen as (
      update admin_session s set seen_at = clock_timestamp() from open
       where s.token_digest = open.token_digest
         and open.seen_at < clock_timestamp() - ${SEEN_EVERY_SECONDS} * interval '1 second')
    select name, role from open`;
  return session;
}

/** Those of these sessions that are open. To look at them is no use of them. */
export async function openAmong(sql: Db, token_digests: string[]): Promise<Set<string>> {
  const rows = await sql<{ token_digest: string }[]>`
    select s.token_digest from admin_session s join admin_user u on u.id = s.admin_user_id
     where s.token_digest = any(${token_digests}) and u.disabled_at is null and s.expires_at > clock_timestamp()
       and s.seen_at > clock_timestamp() - ${IDLE_SECONDS} * interval '1 second'`;
  return new Set(rows.map(({ token_digest }) => token_digest));
}

/** A logout, audited in the same statement as the login was: of one that has ended already nothing is said twice. */
export async function endSession(sql: Db, token_digest: string): Promise<void> {
  await sql`
    with ended as (delete from admin_session where token_digest = ${token_digest} returning admin_user_id, address)
    insert into admin_action_log (actor, action, target_type, target_id, after_json)
    select 'user:' || u.name, 'user.logout', 'user', u.name, jsonb_build_object('address', ended.address)
      from ended join admin_user u on u.id = ended.admin_user_id`;
}

export interface OpenSession {
  /** Names it without letting anybody in. */
  id: string;
  created_at: Date;
  seen_at: Date;
  address: string;
  user_agent: string;
}

/** Where a user is logged in, the last used first. */
export async function listSessions(sql: Db, name: string): Promise<OpenSession[]> {
  return await sql<OpenSession[]>`
    select left(s.token_digest, 16) as id, s.created_at, s.seen_at, s.address, s.user_agent
      from admin_session s join admin_user u on u.id = s.admin_user_id
     where u.name = ${name} and s.expires_at > clock_timestamp() and s.seen_at > clock_timestamp() - ${IDLE_SECONDS} * interval '1 second'
     order by s.seen_at desc`;
}

/** Logs a user out everywhere, but for the session that is kept. Audited in the same statement; gives how many ended. */
export async function endSessionsOf(sql: Db, name: string, by: Actor & { keep?: string }): Promise<number> {
  const [row] = await sql<{ ended: number }[]>`
    with ended as (
      delete from admin_session s using admin_user u
       where u.id = s.admin_user_id and u.name = ${name} and s.token_digest is distinct from ${
    by.keep ?? null
  } returning 1),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'user.end_sessions', 'user', ${name}, jsonb_build_object('ended', count(*)), ${by.reason}
        from ended having count(*) > 0)
    select count(*)::int as ended from ended`;
  return row?.ended ?? 0;
}
