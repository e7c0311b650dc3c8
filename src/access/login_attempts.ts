/**
 * How often somebody may try a password. A try is written down before the password is looked at, so that many at once are
 * counted as well, and forgotten when it succeeds, with a new password, and by an admin.
 *
 *   who tries                                      refused after, within 15 minutes
 *   a browser in which the user was logged in      10 tries of its own, and for nothing that others do
 *   an address from which the user was logged in   5 for the name, 20 for any name, from that address
 *   anybody else                                   the same, and 50 for the name from everywhere
 *
 * So guesses from many addresses end for strangers, and the user still gets in.
 */
import type { Actor } from "./audit.ts";
import type { Db, Sql } from "../postgres/connection.ts";

export const WITHIN_MINUTES = 15;
/** From so many on an alert says that somebody is guessing. */
export const GUESSED = 25;
const MOST_PER_NAME_AND_ADDRESS = 5;
const MOST_PER_ADDRESS = 20;
const MOST_PER_NAME = 50;
const MOST_PER_DEVICE = 10;
/** Of names that nobody has, so many are kept in the audit within those minutes: they cost whoever sends them nothing. */
const MOST_UNKNOWN_KEPT = 100;

const DEVICE_DAYS = 180;
const MOST_DEVICES = 20;

export interface Try {
  name: string;
  address: string;
  /** How the user of this name is known here. */
  known?: { device: string } | "address";
}

/** Whether the user of this name was logged in before in this browser (`device`: the digest of its cookie), or from this address. */
export async function knownAs(
  sql: Db,
  on: { name: string; address: string; device: string | undefined },
): Promise<Try["known"]> {
  const [row] = await sql<{ device: boolean; address: boolean }[]>`
    select coalesce(bool_or(d.token_digest = ${
    on.device ?? null
  }), false) as device, coalesce(bool_or(d.address = ${on.address}), false) as address
      from admin_device d join admin_user u on u.id = d.admin_user_id where u.name = ${on.name}`;
  if (row?.device) return { device: on.device as string };
  return row?.address ? "address" : undefined;
}

/**
 * False: there were too many, and the password must not be looked at. Only what may be tried is counted: else refused tries from one
 * place would add up to those of the name, and its user would get in from nowhere. One after the other: a statement does not see what
 * others that run at the same time write down, so a hundred at once would all be the first.
 */
export async function mayTry(sql: Sql, { name, address, known }: Try): Promise<boolean> {
  const device = typeof known === "object" ? known.device : null;
  const rows = await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('dandori admin login'))`;
    return await tx`
    with old as (
      delete from admin_login_attempt where at < clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute'),
    before as (
      select count(*) filter (where device = ${device}) as by_device,
             count(*) filter (where device is null and name = ${name} and address = ${address}) as by_both,
             count(*) filter (where device is null and address = ${address}) as by_address,
             count(*) filter (where device is null and name = ${name}) as by_name
        from admin_login_attempt
       where at >= clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute'
         and (name = ${name} or address = ${address} or device = ${device}))
    insert into admin_login_attempt (name, address, device) select ${name}, ${address}, ${device} from before
     where case when ${device}::text is not null then by_device < ${MOST_PER_DEVICE}
                else by_both < ${MOST_PER_NAME_AND_ADDRESS} and by_address < ${MOST_PER_ADDRESS}
                     and (${known === "address"} or by_name < ${MOST_PER_NAME}) end
    returning 1`;
  });
  return rows.length > 0;
}

export async function forgetTries(sql: Sql, { name, address, known }: Try): Promise<void> {
  const device = typeof known === "object" ? known.device : null;
  await sql`
    delete from admin_login_attempt
     where name = ${name} and (device = ${device} or (device is null and address = ${address}))`;
}

/** Kept in the audit, once for each password that was looked at. What was typed for a name that nobody has may be a password: it is not kept. */
export async function auditFailed(sql: Db, { name, address, known }: Try): Promise<void> {
  const from = known === undefined ? "elsewhere" : known === "address" ? "a known address" : "a known browser";
  await sql`
    with of_nobody as (
      select count(*) as tries from (
        select from admin_login_attempt a where not exists (select from admin_user u where u.name = a.name)
         limit ${MOST_UNKNOWN_KEPT + 1}) few)
    insert into admin_action_log (actor, action, target_type, target_id, after_json)
    select 'nobody', 'user.login_failed', 'user', coalesce(u.name, '(no such user)'),
           jsonb_build_object('address', ${address}::text, 'from', ${from}::text)
      from of_nobody left join admin_user u on u.name = ${name}
     where u.name is not null or of_nobody.tries <= ${MOST_UNKNOWN_KEPT}`;
}

/** Lets strangers try again at once. Undefined: there is no such user; else how many tries were forgotten. */
export async function unlockUser(sql: Db, name: string, by: Actor): Promise<number | undefined> {
  const [row] = await sql<{ tries: number }[]>`
    with meant as (select name from admin_user where name = ${name}),
    forgotten as (delete from admin_login_attempt a using meant where a.name = meant.name returning 1),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, before_json, reason)
      select ${by.actor}, 'user.unlock', 'user', name, jsonb_build_object('tries', (select count(*) from forgotten)), ${by.reason}
        from meant)
    select (select count(*)::int from forgotten) as tries from meant`;
  return row?.tries;
}

/**
 * After a login: this browser is known from now on, under a token of its own. The one that it had is of nobody any more, since another may have
 * put it there; other users of this browser go over to the new one.
 */
export async function rememberDevice(
  sql: Db,
  on: { admin_user_id: number; address: string; fresh: string; before: string | undefined },
): Promise<void> {
  await sql`
    with moved as (
      update admin_device set token_digest = ${on.fresh}
       where token_digest = ${on.before ?? null} and admin_user_id <> ${on.admin_user_id}),
    over as (
      delete from admin_device d
       where d.admin_user_id = ${on.admin_user_id}
         and (d.token_digest = ${on.before ?? null} or d.seen_at < clock_timestamp() - ${DEVICE_DAYS} * interval '1 day'
              or d.token_digest in (
                select token_digest from admin_device where admin_user_id = ${on.admin_user_id}
                 order by seen_at desc offset ${MOST_DEVICES - 1})))
    insert into admin_device (token_digest, admin_user_id, address) values (${on.fresh}, ${on.admin_user_id}, ${on.address})`;
}

/** A cookie may last as long. */
export const DEVICE_SECONDS = DEVICE_DAYS * 24 * 3600;
