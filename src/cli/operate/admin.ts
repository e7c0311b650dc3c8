/** `admin`: the admin page's server, and its users. Passwords never stand in a command line, where others could read them. */
import { openArchive } from "../../archive/open_archive.ts";
import { readAdminConfig } from "../../platform/config.ts";
import { factLine, hear } from "../../platform/facts.ts";
import { wallClock } from "../../platform/timers.ts";
import { addressText, counted } from "../../platform/text.ts";
import {
  addOneUser,
  disable,
  enable,
  removeOneUser,
  renewPassword,
  setUserRole,
  unlockOne,
} from "../../actions/user_actions.ts";
import { hashPassword, makePassword, problemWithPassword } from "../../admin/auth/passwords.ts";
import { serveAdmin } from "../../admin/server.ts";
import { connectDb } from "../../postgres/connection.ts";
import { listUsers, problemWithName, ROLES, type UserRole } from "../../access/users.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { readConfigForDb, redisPlace } from "../../app/opening.ts";
import { CommandError, EXIT, printJson, say, type Signals } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { readSecret } from "../secret.ts";
import { inEnglish } from "../../locale/english.ts";

export async function serveCommand(options: { host?: string; port?: number }, { stop }: Signals): Promise<void> {
  const config = readAdminConfig(options);
  const { database_url, archive: place } = readConfigForDb();
  const sql = connectDb(database_url, { name: "admin", max: 8, by_index: true });
  const silence = hear((name, fact) => console.log(factLine(name, inEnglish(fact) as typeof fact, wallClock())));
  try {
    await serveAdmin(config, { sql, stop, redis: redisPlace(), archive: openArchive(place) });
  } catch (error) {
    const fix = cannotListen(error);
    throw fix ? new CommandError(`Cannot listen on ${addressText(config.host, config.port)}: ${fix}`) : error;
  } finally {
    silence();
    await sql.end({ timeout: 2 });
  }
}

/** Why not, and what to do; undefined: it was something else. */
function cannotListen(error: unknown): string | undefined {
  if (error instanceof Deno.errors.AddrInUse) {
    return "the port is in use; give another with --port, or 0 for any free port";
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return "this user lacks the permission; give a port of at least 1024 with --port";
  }
  if (error instanceof Deno.errors.AddrNotAvailable) {
    return "this machine does not have the address; give one that it has with --host";
  }
}

export async function addUserCommand(
  name: string,
  options: JsonOption & { role: string; generate?: boolean },
): Promise<void> {
  const problem = problemWithName(name);
  if (problem) throw new CommandError(problem, EXIT.usage);
  const role = roleFrom(options.role);
  const { password, made } = await newPassword(options);
  const password_hash = await hashPassword(password);
  if (!(await act(addOneUser, { name, password_hash, role }, {})).added) {
    throw new CommandError(
      `Cannot add user "${name}": the name is taken; use set-role or passwd, or remove the user first`,
    );
  }
  tell(options, { user: name, role, ...made }, `user ${name} added as ${role}`);
}

export async function passwdCommand(name: string, options: JsonOption & { generate?: boolean }): Promise<void> {
  const { password, made } = await newPassword(options);
  const password_hash = await hashPassword(password);
  const { changed } = await act(renewPassword, { name, password_hash }, {});
  if (!changed) throw noSuchUser(name);
  tell(options, { user: name, ...made }, `user ${name} has a new password; all its sessions ended`);
}

export async function setRoleCommand(name: string, role_name: string, options: JsonOption): Promise<void> {
  const role = roleFrom(role_name);
  await act(setUserRole, { name, role }, {});
  tell(options, { user: name, role }, `user ${name} is now ${role}`);
}

export async function removeUserCommand(name: string, options: JsonOption): Promise<void> {
  await act(removeOneUser, { name }, {});
  tell(options, { user: name, removed: true }, `user ${name} is removed; all its sessions ended`);
}

export async function disableUserCommand(name: string, options: Reasoned): Promise<void> {
  const ended = await act(disable, { name }, options);
  const text = `${counted(ended.sessions, "session")} and ${counted(ended.tokens, "token")} ended`;
  tell(options, { user: name, disabled: true, ...ended }, `user ${name} is disabled; ${text}`);
}

export async function enableUserCommand(name: string, options: Reasoned): Promise<void> {
  await act(enable, { name }, options);
  tell(options, { user: name, disabled: false }, `user ${name} is enabled again and keeps its password`);
}

export async function unlockUserCommand(name: string, options: Reasoned): Promise<void> {
  const { tries } = await act(unlockOne, { name }, options);
  tell(
    options,
    { user: name, tries },
    `user ${name} can log in from everywhere again; ${counted(tries, "failed login")} cleared`,
  );
}

export async function listUsersCommand(options: JsonOption): Promise<void> {
  const users = await withDb(listUsers);
  if (options.json) return printJson(users);
  printTable(
    ["name", "role", "created", "last seen", "disabled", "failed logins"],
    users.map((user) => [user.name, user.role, user.created_at, user.seen_at, user.disabled_at, user.tries || ""]),
    "no users yet; add one: deno task admin user add NAME --role admin",
  );
}

/** Generated, and then shown this once; typed twice at a terminal; else the first line of stdin. */
async function newPassword(
  options: { generate?: boolean },
): Promise<{ password: string; made?: { password: string } }> {
  if (options.generate) {
    const password = makePassword();
    return { password, made: { password } };
  }
  const password = await readSecret("Password: ");
  const problem = problemWithPassword(password);
  if (problem) throw new CommandError(`${problem}; or use --generate`, EXIT.usage);
  if (Deno.stdin.isTerminal() && await readSecret("Again: ") !== password) {
    throw new CommandError(
      "Cannot set the password: the two entries differ, and nothing was changed; try again",
      EXIT.usage,
    );
  }
  return { password };
}

function tell(options: JsonOption, value: Record<string, unknown> & { password?: string }, text: string): void {
  if (options.json) return printJson(value);
  say(text);
  if (value.password) say(`password, shown only once: ${value.password}`);
}

function roleFrom(text: string): UserRole {
  const role = ROLES.find((one) => one === text);
  if (role) return role;
  throw new CommandError(`Cannot use "${text}" as a role: give one of ${ROLES.join(", ")}`, EXIT.usage);
}

function noSuchUser(name: string): CommandError {
  return new CommandError(`Cannot find user "${name}": there is no such user; \`deno task admin user ls\` lists all`);
}
