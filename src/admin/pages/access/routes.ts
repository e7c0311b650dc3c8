/** What there is of users, tokens and hooks, and of one's own account; and who may do it. */
import type { Route } from "../../request_context.ts";
import { changeOwnPassword, logOutEverywhere, showAccount } from "./account.tsx";
import { addHook, removeHook, showHooks } from "./hooks.tsx";
import { addToken, removeToken, showTokens } from "./tokens.tsx";
import {
  addOneUser,
  changeRoleOfUser,
  disableOneUser,
  enableOneUser,
  logOutUser,
  removeOneUser,
  renewPassword,
  showUsers,
  unlockOneUser,
} from "./users.tsx";

export const accessRoutes: Route[] = [
  { get: "/access/users", role: "admin", show: showUsers },
  { post: "/access/users", role: "admin", act: addOneUser },
  { post: "/access/users/:name/role", role: "admin", act: changeRoleOfUser },
  { post: "/access/users/:name/password", role: "admin", act: renewPassword },
  { post: "/access/users/:name/sessions", role: "admin", act: logOutUser },
  { post: "/access/users/:name/disable", role: "admin", act: disableOneUser },
  { post: "/access/users/:name/enable", role: "admin", act: enableOneUser },
  { post: "/access/users/:name/unlock", role: "admin", act: unlockOneUser },
  { post: "/access/users/:name/remove", role: "admin", act: removeOneUser },
  { get: "/access/tokens", role: "admin", show: showTokens },
  { post: "/access/tokens", role: "admin", act: addToken },
  { post: "/access/tokens/:name/remove", role: "admin", act: removeToken },
  { get: "/access/hooks", role: "admin", show: showHooks },
  { post: "/access/hooks", role: "admin", act: addHook },
  { post: "/access/hooks/:name/remove", role: "admin", act: removeHook },
];

export const accountRoutes: Route[] = [
  { get: "/account", role: "viewer", show: showAccount },
  { post: "/account/password", role: "viewer", act: changeOwnPassword },
  { post: "/account/logout", role: "viewer", act: logOutEverywhere },
];
