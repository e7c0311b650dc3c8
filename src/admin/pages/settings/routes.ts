/** What there is of settings, and who may do it. */
import { setSettings } from "../../../actions/system_actions.ts";
import type { Route } from "../../request_context.ts";
import { applySettings, reviewSettings } from "./acts.ts";
import { showSettings } from "./list.tsx";

export const settingRoutes: Route[] = [
  { get: "/settings", role: "viewer", show: showSettings },
  { post: "/settings/review", does: setSettings, act: reviewSettings },
  { post: "/settings", does: setSettings, act: applySettings },
];
