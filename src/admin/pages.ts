/**
 * All pages. To add one: a file that says its routes, its row here, and its name in the navigation. Rows stand in the order of
 * the navigation.
 */
import { accessRoutes, accountRoutes } from "./pages/access/routes.ts";
import { alertRoutes } from "./pages/alerts/routes.ts";
import { auditRoutes } from "./pages/audit/routes.ts";
import { bulkRoutes } from "./pages/bulks/routes.ts";
import { calendarRoutes } from "./pages/calendar/routes.ts";
import { eventRoutes } from "./pages/events/routes.ts";
import { jobRoutes } from "./pages/jobs/routes.ts";
import { nodeRoutes } from "./pages/nodes/routes.ts";
import { overviewRoutes } from "./pages/overview/routes.ts";
import { queueRoutes } from "./pages/queue/routes.ts";
import { runRoutes } from "./pages/runs/routes.ts";
import { settingRoutes } from "./pages/settings/routes.ts";
import type { UserRole } from "../access/users.ts";
import type { Route } from "./request_context.ts";
import type { Lang } from "./words.ts";

export interface PageRow {
  /** Where it begins; whatever is below, or below one of `under`, is marked as it in the navigation. */
  path: string;
  under?: string[];
  label: Record<Lang, string>;
  /** Who sees it in the navigation; each route says for itself who may use it. */
  role: UserRole;
  routes: Route[];
}

/** Where a visitor comes to. */
export const HOME = "/overview";

export const PAGES: PageRow[] = [
  { path: "/overview", label: { en: "Overview", ja: "概要" }, role: "viewer", routes: overviewRoutes },
  { path: "/jobs", label: { en: "Jobs", ja: "ジョブ" }, role: "viewer", routes: jobRoutes },
  { path: "/runs", label: { en: "Runs", ja: "実行" }, role: "viewer", routes: runRoutes },
  { path: "/queue", label: { en: "Queue", ja: "キュー" }, role: "viewer", routes: queueRoutes },
  { path: "/bulks", label: { en: "Bulks", ja: "一括" }, role: "viewer", routes: bulkRoutes },
  { path: "/events", label: { en: "Events", ja: "イベント" }, role: "viewer", routes: eventRoutes },
  { path: "/calendar", label: { en: "Calendar", ja: "カレンダー" }, role: "viewer", routes: calendarRoutes },
  {
    path: "/nodes",
    label: { en: "Nodes", ja: "ノード" },
    role: "viewer",
    under: ["/nodes", "/workers"],
    routes: nodeRoutes,
  },
  { path: "/alerts", label: { en: "Alerts", ja: "アラート" }, role: "viewer", routes: alertRoutes },
  { path: "/settings", label: { en: "Settings", ja: "設定" }, role: "viewer", routes: settingRoutes },
  { path: "/audit", label: { en: "Audit", ja: "監査" }, role: "viewer", routes: auditRoutes },
  {
    path: "/access/users",
    label: { en: "Access", ja: "権限" },
    role: "admin",
    under: ["/access"],
    routes: accessRoutes,
  },
];

/** Of pages that the navigation does not name. */
export const OTHER_ROUTES: Route[] = accountRoutes;
