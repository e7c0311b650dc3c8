/** Roles of users of the page, shutting users out and letting them in again, from the page, the command line and the API. */
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { unlockUser } from "../access/login_attempts.ts";
import { removeUser, setDisabled, setRole, type UserRole } from "../access/users.ts";
import { Refused } from "./args.ts";

/** Its sessions and the API tokens that it made end at once; gives how many these were. @throws Refused */
export async function disableUser(sql: Sql, name: string, by: Actor): Promise<{ sessions: number; tokens: number }> {
  const done = await setDisabled(sql, { name, disabled: true }, by);
  if (done.result === "done") return done.ended;
  if (done.result === "none") throw noUser("disable", name);
  if (done.result === "unchanged") {
    throw new Refused(`Cannot disable user "${name}": it is disabled already`, {
      why: "conflict",
      says: { code: "user_disabled", name },
    });
  }
  throw lastAdmin("disable", name);
}

/** Holds from the next request on. @throws Refused */
export async function changeRole(
  sql: Sql,
  user: { name: string; role: UserRole },
  by: { actor: string; reason?: string },
): Promise<void> {
  const result = await setRole(sql, user, by);
  if (result === "none") throw noUser("change the role of", user.name);
  if (result === "last_admin") throw lastAdmin("change the role of", user.name);
}

/** Its sessions and the API tokens that it made end at once; what it did stays in the audit. @throws Refused */
export async function removeUserNamed(
  sql: Sql,
  name: string,
  by: { actor: string; reason?: string },
): Promise<void> {
  const result = await removeUser(sql, name, by);
  if (result === "none") throw noUser("remove", name);
  if (result === "last_admin") throw lastAdmin("remove", name);
}

/** It may log in again, with the password that it had. @throws Refused */
export async function enableUser(sql: Sql, name: string, by: Actor): Promise<void> {
  const { result } = await setDisabled(sql, { name, disabled: false }, by);
  if (result === "none") throw noUser("enable", name);
  if (result === "done") return;
  throw new Refused(`Cannot enable user "${name}": it is not disabled`, {
    why: "conflict",
    says: { code: "user_enabled", name },
  });
}

/** Forgets wrong passwords, so that it can be tried from everywhere again; gives how many. @throws Refused */
export async function unlock(sql: Sql, name: string, by: Actor): Promise<{ tries: number }> {
  const tries = await unlockUser(sql, name, by);
  if (tries === undefined) throw noUser("unlock", name);
  return { tries };
}

function lastAdmin(verb: string, name: string): Refused {
  return new Refused(`Cannot ${verb} user "${name}": it is the last admin; give another user that role first`, {
    why: "conflict",
    says: { code: "last_admin", name },
  });
}

function noUser(verb: string, name: string): Refused {
  return new Refused(`Cannot ${verb} user "${name}": there is none of that name`, {
    why: "not_found",
    says: { code: "none", what: name },
    fix: "`deno task admin user ls` shows all",
  });
}
