/** What there is of the overview, and who may do it. */
import type { Route } from "../../request_context.ts";
import { showOverview } from "./page.tsx";
import { readPlots } from "./plots.tsx";

export const overviewRoutes: Route[] = [
  { get: "/overview", role: "viewer", show: showOverview },
  { json: "/overview/plots", role: "viewer", costly: true, read: readPlots },
];
