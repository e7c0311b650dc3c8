/** Users: who there is, and what an admin does with them. Passwords are made here and never typed for somebody else. */
import { hashPassword, makePassword } from "../../auth/passwords.ts";
import { endSessionsOf } from "../../../access/sessions.ts";
import {
  addUser,
  listUsers,
  problemWithName,
  ROLES,
  setPassword,
  type UserRole,
  type UserView,
} from "../../../access/users.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { ACTIONS, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { changeRole, disableUser, enableUser, removeUserNamed, unlock } from "../../../actions/user_actions.ts";
import { by, orSay } from "../../form_actions.ts";
import { type ActionContext, type Done, field, type Page, type RequestContext } from "../../request_context.ts";
import { Frame, idOf, nameParam, refused, secretPage } from "./frame.tsx";
import { ACCESS } from "./words.ts";

export async function showUsers(on: RequestContext): Promise<Page> {
  const say = ACCESS[on.lang];
  const users = await listUsers(on.sql);
  return {
    title: say.users,
    body: (
      <Frame on={on} area="users">
        <div class="heading">
          <span class="nothing">{say.roles_text}</span>
          <DialogButton opens="add" text={say.add_user} />
        </div>
        <Table
          label={say.users}
          rows={users}
          columns={[
            { head: say.name, cell: (user) => <Name on={on} user={user} /> },
            { head: say.role, cell: (user) => user.role },
            { head: say.seen, kind: "wide", cell: (user) => <Time on={on} at={user.seen_at} /> },
            { head: say.created, kind: "wide", cell: (user) => <Time on={on} at={user.created_at} /> },
            {
              head: ACTIONS[on.lang].head,
              unseen: true,
              kind: "main",
              cell: (user) => <Buttons on={on} user={user} />,
            },
          ]}
        />
        <ConfirmDialog on={on} id="add" title={say.add_user} action="/access/users" verb={say.add_user}>
          <label>
            {say.user_name}
            <input name="name" required maxlength={64} autocomplete="off" autocapitalize="none" spellcheck={false} />
          </label>
          <RoleChoice on={on} role="viewer" />
          <p>{say.password_made}</p>
        </ConfirmDialog>
        {users.map((user) => <Dialogs on={on} user={user} />)}
      </Frame>
    ),
  };
}

function Name({ on, user }: { on: RequestContext; user: UserView }) {
  return (
    <>
      {user.name} {user.name === on.user?.name && <Badge tone="quiet" text={ACCESS[on.lang].you} />}
      {user.disabled_at && <Badge tone="warn" text={ACCESS[on.lang].disabled} />}
      {user.tries > 0 && <Badge tone="quiet" text={ACCESS[on.lang].tries(user.tries)} />}
    </>
  );
}

function Buttons({ on, user }: { on: RequestContext; user: UserView }) {
  const say = ACCESS[on.lang];
  const mine = user.name === on.user?.name;
  return (
    <span class="buttons">
      {!mine && <DialogButton opens={idOf("role", user.name)} text={say.change_role} />}
      <DialogButton opens={idOf("password", user.name)} text={say.new_password} />
      {user.seen_at && <DialogButton opens={idOf("sessions", user.name)} text={say.log_out} />}
      {user.tries > 0 && <DialogButton opens={idOf("unlock", user.name)} text={say.unlock} />}
      {user.disabled_at
        ? <DialogButton opens={idOf("enable", user.name)} text={say.enable} />
        : !mine && <DialogButton opens={idOf("disable", user.name)} text={say.disable} danger />}
      {!mine && <DialogButton opens={idOf("remove", user.name)} text={say.remove} danger />}
    </span>
  );
}

function Dialogs({ on, user: { name, role } }: { on: RequestContext; user: UserView }) {
  const say = ACCESS[on.lang];
  const path = `/access/users/${encodeURIComponent(name)}`;
  const dialog = (what: string, title: string, verb: string) => ({
    on,
    id: idOf(what, name),
    title,
    verb,
    action: `${path}/${what}`,
  });
  return (
    <>
      <ConfirmDialog {...dialog("role", say.role_title(name), say.change_role)}>
        <RoleChoice on={on} role={role} />
        <p>{say.role_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("password", say.new_password_title(name), say.new_password)} danger>
        <p>{say.new_password_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("sessions", say.log_out_title(name), say.log_out)} danger>
        <p>{say.log_out_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("disable", say.disable_title(name), say.disable)} danger>
        <p>{say.disable_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("enable", say.enable_title(name), say.enable)}>
        <p>{say.enable_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("unlock", say.unlock_title(name), say.unlock)}>
        <p>{say.unlock_text}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("remove", say.remove_user_title(name), say.remove)} danger>
        <p>{say.remove_user_text}</p>
      </ConfirmDialog>
    </>
  );
}

function RoleChoice({ on, role }: { on: RequestContext; role: UserRole }) {
  return (
    <label>
      {ACCESS[on.lang].role}
      <select name="role">{ROLES.map((one) => <option selected={one === role}>{one}</option>)}</select>
    </label>
  );
}

export async function addOneUser(on: ActionContext): Promise<Done | Page> {
  const say = ACCESS[on.lang];
  const name = field(on.form, "name").toLowerCase();
  if (problemWithName(name)) return refused("users", say.bad_name(name.slice(0, 100)));
  const role = roleOf(on);
  if (!role) return refused("users", say.bad_choice);
  const secret = makePassword();
  const added = await addUser(on.sql, { name, role, password_hash: await hashPassword(secret) }, by(on));
  if (!added) return refused("users", say.taken(name));
  return secretPage(on, { title: say.password_of(name), secret, area: "users" });
}

export async function changeRoleOfUser(on: ActionContext): Promise<Done> {
  const [say, name, role] = [ACCESS[on.lang], nameParam(on), roleOf(on)];
  if (!role) return refused("users", say.bad_choice);
  if (name === on.user?.name) return refused("users", say.not_yourself);
  return await orSay(on, "/access/users", async () => {
    await changeRole(on.sql, { name, role }, by(on));
    return { to: "/access/users", text: say.role_done(name, role) };
  });
}

export async function renewPassword(on: ActionContext): Promise<Done | Page> {
  const [say, name, secret] = [ACCESS[on.lang], nameParam(on), makePassword()];
  const done = await setPassword(on.sql, { name, password_hash: await hashPassword(secret) }, by(on));
  if (!done) return refused("users", say.none_of);
  return secretPage(on, { title: say.password_of(name), secret, area: "users" });
}

export async function logOutUser(on: ActionContext): Promise<Done> {
  const ended = await endSessionsOf(on.sql, nameParam(on), by(on));
  return { to: "/access/users", text: ACCESS[on.lang].log_out_done(ended) };
}

export async function disableOneUser(on: ActionContext): Promise<Done> {
  const [say, name] = [ACCESS[on.lang], nameParam(on)];
  if (name === on.user?.name) return refused("users", say.not_yourself_out);
  return await orSay(on, "/access/users", async () => {
    const { sessions, tokens } = await disableUser(on.sql, name, by(on));
    return { to: "/access/users", text: say.disable_done(name, sessions, tokens) };
  });
}

export async function enableOneUser(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  return await orSay(on, "/access/users", async () => {
    await enableUser(on.sql, name, by(on));
    return { to: "/access/users", text: ACCESS[on.lang].enable_done(name) };
  });
}

export async function unlockOneUser(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  return await orSay(on, "/access/users", async () => {
    const { tries } = await unlock(on.sql, name, by(on));
    return { to: "/access/users", text: ACCESS[on.lang].unlock_done(name, tries) };
  });
}

export async function removeOneUser(on: ActionContext): Promise<Done> {
  const [say, name] = [ACCESS[on.lang], nameParam(on)];
  if (name === on.user?.name) return refused("users", say.not_yourself);
  return await orSay(on, "/access/users", async () => {
    await removeUserNamed(on.sql, name, by(on));
    return { to: "/access/users", text: say.removed(name) };
  });
}

function roleOf(on: ActionContext): UserRole | undefined {
  return ROLES.find((one) => one === field(on.form, "role"));
}
