/**
 * How often somebody may try a password. A try is written down before the password is looked at, so that many at once are
 * counted as well, and forgotten when it succeeds. Few per name from one address; more per name from anywhere, so that nobody
 * is locked out by somebody else's guesses from one place.
 */
import type { Db, Sql } from "./db.ts";

const WITHIN_MINUTES = 15;
const MOST_PER_NAME_AND_ADDRESS = 5;
const MOST_PER_ADDRESS = 20;
const MOST_PER_NAME = 50;

export interface Try {
  name: string;
  address: string;
}

/**
 * False: there were too many, and the password must not be looked at. Only what may be tried is counted: else refused tries from one
 * place would add up to those of the name, and its user would get in from nowhere. One after the other: a statement does not see what
 * others that run at the same time write down, so a hundred at once would all be the first.
 */
export async function mayTry(sql: Sql, { name, address }: Try): Promise<boolean> {
  const rows = await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('dandori admin login'))`;
    return await tx`
    with old as (
      delete from admin_login_attempt where at < clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute'),
    before as (
      select count(*) filter (where name = ${name} and address = ${address}) as by_both,
             count(*) filter (where address = ${address}) as by_address,
             count(*) filter (where name = ${name}) as by_name
        from admin_login_attempt
       where at >= clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute' and (name = ${name} or address = ${address}))
    insert into admin_login_attempt (name, address) select ${name}, ${address} from before
     where by_both < ${MOST_PER_NAME_AND_ADDRESS} and by_address < ${MOST_PER_ADDRESS} and by_name < ${MOST_PER_NAME}
    returning 1`;
  });
  return rows.length > 0;
}

export async function forgetTries(sql: Db, { name, address }: Try): Promise<void> {
  await sql`delete from admin_login_attempt where name = ${name} and address = ${address}`;
}
