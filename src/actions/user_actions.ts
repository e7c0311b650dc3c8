/** Roles of users of the page, shutting users out and letting them in again, from the page, the command line and the API. */
import { z } from "zod";
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { forgetTries, mayTry, unlockUser } from "../access/login_attempts.ts";
import {
  addUser,
  problemWithName,
  readCredentials,
  removeUser,
  ROLES,
  setDisabled,
  setPassword,
  setRole,
  type UserRole,
} from "../access/users.ts";
import { endSessionsOf } from "../access/sessions.ts";
import { action } from "./action.ts";
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
async function enableUser(sql: Sql, name: string, by: Actor): Promise<void> {
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

const userName = z.string().min(1).max(200).meta({ description: "the user", example: "taro" });
const user = z.strictObject({ name: userName });
const passwordHash = z.string().min(1).max(1_000).meta({ description: "never the password itself" });

/** `added` false: the name is taken. */
export const addOneUser = action({
  name: "user.add",
  does: "add a user of the page",
  needs: "admin",
  reason: "optional",
  input: z.strictObject({
    name: z.string().refine((name) => problemWithName(name) === undefined, "must be a user's name"),
    role: z.enum(ROLES).meta({ description: "what it may do" }),
    password_hash: passwordHash,
  }),
  audit: ["user.add"],
  run: async ({ sql, by }, given) => ({ added: await addUser(sql, given, by) }),
});

/** `changed` false: there is no such user. */
export const renewPassword = action({
  name: "user.password",
  does: "give a user a new password; its sessions end",
  needs: "admin",
  reason: "optional",
  input: user.extend({ password_hash: passwordHash }),
  audit: ["user.set_password"],
  run: async ({ sql, by }, given) => ({ changed: await setPassword(sql, given, by) }),
});

/** Gives how many sessions it ended. */
export const logOutUser = action({
  name: "user.logout",
  does: "end all sessions of a user",
  needs: "admin",
  reason: "optional",
  input: user,
  audit: ["user.end_sessions"],
  run: ({ sql, by }, { name }) => endSessionsOf(sql, name, by),
});

export const setUserRole = action({
  name: "user.role",
  does: "give a user another role, from its next request on",
  needs: "admin",
  reason: "optional",
  input: user.extend({ role: z.enum(ROLES).meta({ description: "what it may do" }) }),
  audit: ["user.set_role"],
  run: ({ sql, by }, given) => changeRole(sql, given, by),
});

export const disable = action({
  name: "user.disable",
  does: "shut a user out: its sessions, and the API tokens that it made, end at once",
  needs: "admin",
  reason: "optional",
  input: user,
  audit: ["user.disable"],
  run: ({ sql, by }, { name }) => disableUser(sql, name, by),
});

export const enable = action({
  name: "user.enable",
  does: "let a user in again who was shut out",
  needs: "admin",
  reason: "optional",
  input: user,
  audit: ["user.enable"],
  run: ({ sql, by }, { name }) => enableUser(sql, name, by),
});

export const unlockOne = action({
  name: "user.unlock",
  does: "forget wrong passwords of a user, so that it can log in from everywhere again",
  needs: "admin",
  reason: "optional",
  input: user,
  audit: ["user.unlock"],
  run: ({ sql, by }, { name }) => unlock(sql, name, by),
});

export const removeOneUser = action({
  name: "user.remove",
  does: "remove a user: its sessions, and the API tokens that it made, end at once",
  needs: "admin",
  reason: "optional",
  input: user,
  audit: ["user.remove"],
  run: ({ sql, by }, { name }) => removeUserNamed(sql, name, by),
});

/**
 * Whoever does it may only do it to its own account: the name is that of the caller. Tries with a wrong password are counted as those
 * at the login are: an open session must not help to guess. `changed` false: the current password is another.
 */
export const changeOwnPassword = action({
  name: "account.password",
  does: "change one's own password; one's other sessions end",
  needs: "read",
  reason: "optional",
  input: user.extend({
    /** Makes the hash of the new one; asked for when the current one has fitted, since it costs a moment. */
    hash: z.custom<() => Promise<string>>((given) => typeof given === "function"),
    /** Whether the current password, as it was typed, fits this hash; undefined: that of nobody. */
    fits: z.custom<(hash: string | undefined) => Promise<boolean>>((given) => typeof given === "function"),
  }),
  audit: ["user.set_password"],
  async run({ sql, by }, { name, hash, fits }): Promise<{ changed: boolean }> {
    refuseOthers(by, name);
    // The tries from one address are few, and others' are not one's own: what they guess does not count.
    const who = { name, address: `account of ${name}`, known: "address" } as const;
    if (!await mayTry(sql, who)) {
      throw new Refused("Cannot change the password: too many attempts; wait 15 minutes", {
        why: "conflict",
        says: { code: "too_many_tries" },
      });
    }
    const known = await readCredentials(sql, name);
    if (!known || !await fits(known.password_hash)) return { changed: false };
    await forgetTries(sql, who);
    const given = { name, password_hash: await hash(), instead_of: known.password_hash };
    const changed = await setPassword(sql, given, { actor: by.actor });
    return { changed };
  },
});

export const logOutEverywhere = action({
  name: "account.logout",
  does: "end all of one's own sessions",
  needs: "read",
  reason: "optional",
  input: user,
  audit: ["user.end_sessions"],
  run: ({ sql, by }, { name }) => {
    refuseOthers(by, name);
    return endSessionsOf(sql, name, by);
  },
});

function refuseOthers({ actor }: Actor, name: string): void {
  if (actor === `user:${name}`) return;
  throw new Refused(`Cannot change the account of "${name}" as ${actor}: it is another's`, {
    why: "forbidden",
    says: { code: "forbidden", needs: "admin" },
  });
}
