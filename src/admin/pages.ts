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
import { waitingRoutes } from "./pages/waiting/routes.ts";
import type { UserRole } from "../access/users.ts";
import type { Route } from "./request_context.ts";
import type { MessageKey } from "../locale/message.ts";

export interface PageRow {
  /** Where it begins; whatever is below, or below one of `under`, is marked as it in the navigation. */
  path: string;
  under?: string[];
  label: `pages.${string}` & MessageKey;
  /** Who sees it in the navigation; each route says for itself who may use it. */
  role: UserRole;
  routes: Route[];
}

/** Where a visitor comes to. */
export const HOME = "/overview";

export const PAGES: PageRow[] = [
  { path: "/overview", label: "pages.overview", role: "viewer", routes: overviewRoutes },
  { path: "/jobs", label: "pages.jobs", role: "viewer", routes: jobRoutes },
  { path: "/runs", label: "pages.runs", role: "viewer", routes: runRoutes },
  { path: "/waiting", label: "pages.waiting", role: "viewer", routes: waitingRoutes },
  { path: "/queue", label: "pages.queue", role: "viewer", routes: queueRoutes },
  { path: "/bulks", label: "pages.bulks", role: "viewer", routes: bulkRoutes },
  { path: "/events", label: "pages.events", role: "viewer", routes: eventRoutes },
  { path: "/calendar", label: "pages.calendar", role: "viewer", routes: calendarRoutes },
  {
    path: "/nodes",
    label: "pages.nodes",
    role: "viewer",
    under: ["/nodes", "/workers"],
    routes: nodeRoutes,
  },
  { path: "/alerts", label: "pages.alerts", role: "viewer", routes: alertRoutes },
  { path: "/settings", label: "pages.settings", role: "viewer", routes: settingRoutes },
  { path: "/audit", label: "pages.audit", role: "viewer", routes: auditRoutes },
  {
    path: "/access/users",
    label: "pages.access",
    role: "admin",
    under: ["/access"],
    routes: accessRoutes,
  },
];

/** Of pages that the navigation does not name. */
export const OTHER_ROUTES: Route[] = accountRoutes;
