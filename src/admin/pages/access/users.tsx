/** Users: who there is, and what an admin does with them. Passwords are made here and never typed for somebody else. */
import { hashPassword, makePassword } from "../../auth/passwords.ts";
import { listUsers, problemWithName, ROLES, type UserRole, type UserView } from "../../../access/users.ts";
import { Badge } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import {
  addOneUser,
  disable,
  enable,
  logOutUser,
  removeOneUser,
  renewPassword,
  setUserRole,
  unlockOne,
} from "../../../actions/user_actions.ts";
import { orSay } from "../../form_actions.ts";
import { type ActionContext, type Done, field, type Page, type RequestContext } from "../../request_context.ts";
import { Frame, idOf, nameParam, refused, secretPage } from "./frame.tsx";
import { t } from "../../../locale/locale.ts";

export async function showUsers(on: RequestContext): Promise<Page> {
  const users = await listUsers(on.sql);
  return {
    title: t(on, "access.area.users"),
    body: (
      <Frame on={on} area="users">
        <div class="heading">
          <span class="nothing">{t(on, "access.roles_text")}</span>
          <DialogButton opens="add" text={t(on, "access.add_user")} />
        </div>
        <Table
          label={t(on, "access.area.users")}
          rows={users}
          columns={[
            { head: t(on, "access.name"), cell: (user) => <Name on={on} user={user} /> },
            { head: t(on, "access.role"), cell: (user) => user.role },
            { head: t(on, "access.seen"), kind: "wide", cell: (user) => <Time on={on} at={user.seen_at} /> },
            { head: t(on, "access.created"), kind: "wide", cell: (user) => <Time on={on} at={user.created_at} /> },
            {
              head: t(on, "table.head"),
              unseen: true,
              kind: "main",
              cell: (user) => <Buttons on={on} user={user} />,
            },
          ]}
        />
        <ConfirmDialog
          on={on}
          id="add"
          title={t(on, "access.add_user")}
          action="/access/users"
          verb={t(on, "access.add_user")}
        >
          <label>
            {t(on, "access.user_name")}
            <input name="name" required maxlength={64} autocomplete="off" autocapitalize="none" spellcheck={false} />
          </label>
          <RoleChoice on={on} role="viewer" />
          <p>{t(on, "access.password_made")}</p>
        </ConfirmDialog>
        {users.map((user) => <Dialogs on={on} user={user} />)}
      </Frame>
    ),
  };
}

function Name({ on, user }: { on: RequestContext; user: UserView }) {
  return (
    <>
      {user.name} {user.name === on.user?.name && <Badge tone="quiet" text={t(on, "access.you")} />}
      {user.disabled_at && <Badge tone="warn" text={t(on, "access.disabled")} />}
      {user.tries > 0 && <Badge tone="quiet" text={t(on, "access.tries", { n: user.tries })} />}
    </>
  );
}

function Buttons({ on, user }: { on: RequestContext; user: UserView }) {
  const mine = user.name === on.user?.name;
  return (
    <span class="buttons">
      {!mine && <DialogButton opens={idOf("role", user.name)} text={t(on, "access.change_role")} />}
      <DialogButton opens={idOf("password", user.name)} text={t(on, "access.new_password")} />
      {user.seen_at && <DialogButton opens={idOf("sessions", user.name)} text={t(on, "access.log_out")} />}
      {user.tries > 0 && <DialogButton opens={idOf("unlock", user.name)} text={t(on, "access.unlock")} />}
      {user.disabled_at
        ? <DialogButton opens={idOf("enable", user.name)} text={t(on, "access.enable")} />
        : !mine && <DialogButton opens={idOf("disable", user.name)} text={t(on, "access.disable")} danger />}
      {!mine && <DialogButton opens={idOf("remove", user.name)} text={t(on, "access.remove")} danger />}
    </span>
  );
}

function Dialogs({ on, user: { name, role } }: { on: RequestContext; user: UserView }) {
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
      <ConfirmDialog {...dialog("role", t(on, "access.role_title", { name }), t(on, "access.change_role"))}>
        <RoleChoice on={on} role={role} />
        <p>{t(on, "access.role_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog
        {...dialog("password", t(on, "access.new_password_title", { name }), t(on, "access.new_password"))}
        danger
      >
        <p>{t(on, "access.new_password_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("sessions", t(on, "access.log_out_title", { name }), t(on, "access.log_out"))} danger>
        <p>{t(on, "access.log_out_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("disable", t(on, "access.disable_title", { name }), t(on, "access.disable"))} danger>
        <p>{t(on, "access.disable_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("enable", t(on, "access.enable_title", { name }), t(on, "access.enable"))}>
        <p>{t(on, "access.enable_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("unlock", t(on, "access.unlock_title", { name }), t(on, "access.unlock"))}>
        <p>{t(on, "access.unlock_text")}</p>
      </ConfirmDialog>
      <ConfirmDialog {...dialog("remove", t(on, "access.remove_user_title", { name }), t(on, "access.remove"))} danger>
        <p>{t(on, "access.remove_user_text")}</p>
      </ConfirmDialog>
    </>
  );
}

function RoleChoice({ on, role }: { on: RequestContext; role: UserRole }) {
  return (
    <label>
      {t(on, "access.role")}
      <select name="role">{ROLES.map((one) => <option selected={one === role}>{one}</option>)}</select>
    </label>
  );
}

export async function addFromForm(on: ActionContext): Promise<Done | Page> {
  const name = field(on.form, "name").toLowerCase();
  if (problemWithName(name)) return refused("users", t(on, "access.bad_name", { name: name.slice(0, 100) }));
  const role = roleOf(on);
  if (!role) return refused("users", t(on, "access.bad_choice"));
  const secret = makePassword();
  const { added } = await on.perform(addOneUser, { name, role, password_hash: await hashPassword(secret) });
  if (!added) return refused("users", t(on, "access.taken", { name }));
  return secretPage(on, { title: t(on, "access.password_of", { name }), secret, area: "users" });
}

export async function changeRoleOfUser(on: ActionContext): Promise<Done> {
  const [name, role] = [nameParam(on), roleOf(on)];
  if (!role) return refused("users", t(on, "access.bad_choice"));
  if (name === on.user?.name) return refused("users", t(on, "access.not_yourself"));
  return await orSay(on, "/access/users", async () => {
    await on.perform(setUserRole, { name, role });
    return { to: "/access/users", text: t(on, "access.role_done", { name, role }) };
  });
}

export async function makeNewPassword(on: ActionContext): Promise<Done | Page> {
  const [name, secret] = [nameParam(on), makePassword()];
  const { changed } = await on.perform(renewPassword, { name, password_hash: await hashPassword(secret) });
  if (!changed) return refused("users", t(on, "access.none_of"));
  return secretPage(on, { title: t(on, "access.password_of", { name }), secret, area: "users" });
}

export async function endSessions(on: ActionContext): Promise<Done> {
  const ended = await on.perform(logOutUser, { name: nameParam(on) });
  return { to: "/access/users", text: t(on, "access.log_out_done", { n: ended }) };
}

export async function disableOneUser(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  if (name === on.user?.name) return refused("users", t(on, "access.not_yourself_out"));
  return await orSay(on, "/access/users", async () => {
    const { sessions, tokens } = await on.perform(disable, { name });
    return { to: "/access/users", text: t(on, "access.disable_done", { name, sessions, tokens }) };
  });
}

export async function enableOneUser(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  return await orSay(on, "/access/users", async () => {
    await on.perform(enable, { name });
    return { to: "/access/users", text: t(on, "access.enable_done", { name }) };
  });
}

export async function unlockOneUser(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  return await orSay(on, "/access/users", async () => {
    const { tries } = await on.perform(unlockOne, { name });
    return { to: "/access/users", text: t(on, "access.unlock_done", { name, tries }) };
  });
}

export async function removeNamed(on: ActionContext): Promise<Done> {
  const name = nameParam(on);
  if (name === on.user?.name) return refused("users", t(on, "access.not_yourself"));
  return await orSay(on, "/access/users", async () => {
    await on.perform(removeOneUser, { name });
    return { to: "/access/users", text: t(on, "access.removed", { name }) };
  });
}

function roleOf(on: ActionContext): UserRole | undefined {
  return ROLES.find((one) => one === field(on.form, "role"));
}
