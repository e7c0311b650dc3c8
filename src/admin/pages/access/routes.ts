/** What there is of users, tokens and hooks, and of one's own account; and who may do it. */
import { addToken, removeToken } from "../../../actions/system_actions.ts";
import {
  addOneUser,
  changeOwnPassword,
  disable,
  enable,
  logOutEverywhere,
  logOutUser,
  removeOneUser,
  renewPassword,
  setUserRole,
  unlockOne,
} from "../../../actions/user_actions.ts";
import { addHook, removeHook } from "../../../actions/webhook_actions.ts";
import type { Route } from "../../request_context.ts";
import { changePassword, endOwnSessions, showAccount } from "./account.tsx";
import * as hooks from "./hooks.tsx";
import * as tokens from "./tokens.tsx";
import * as users from "./users.tsx";

export const accessRoutes: Route[] = [
  { get: "/access/users", role: "admin", show: users.showUsers },
  { post: "/access/users", does: addOneUser, act: users.addFromForm },
  { post: "/access/users/:name/role", does: setUserRole, act: users.changeRoleOfUser },
  { post: "/access/users/:name/password", does: renewPassword, act: users.makeNewPassword },
  { post: "/access/users/:name/sessions", does: logOutUser, act: users.endSessions },
  { post: "/access/users/:name/disable", does: disable, act: users.disableOneUser },
  { post: "/access/users/:name/enable", does: enable, act: users.enableOneUser },
  { post: "/access/users/:name/unlock", does: unlockOne, act: users.unlockOneUser },
  { post: "/access/users/:name/remove", does: removeOneUser, act: users.removeNamed },
  { get: "/access/tokens", role: "admin", show: tokens.showTokens },
  { post: "/access/tokens", does: addToken, act: tokens.addFromForm },
  { post: "/access/tokens/:name/remove", does: removeToken, act: tokens.removeOneToken },
  { get: "/access/hooks", role: "admin", show: hooks.showHooks },
  { post: "/access/hooks", does: addHook, act: hooks.addFromForm },
  { post: "/access/hooks/:name/remove", does: removeHook, act: hooks.removeOneHook },
];

export const accountRoutes: Route[] = [
  { get: "/account", role: "viewer", show: showAccount },
  { post: "/account/password", does: changeOwnPassword, act: changePassword },
  { post: "/account/logout", does: logOutEverywhere, act: endOwnSessions },
];
