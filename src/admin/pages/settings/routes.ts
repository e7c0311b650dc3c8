/** What there is of settings, and who may do it. */
import type { Route } from "../../request_context.ts";
import { applySettings, reviewSettings } from "./acts.ts";
import { showSettings } from "./list.tsx";

export const settingRoutes: Route[] = [
  { get: "/settings", role: "viewer", show: showSettings },
  { post: "/settings/review", role: "admin", act: reviewSettings },
  { post: "/settings", role: "admin", act: applySettings },
];
