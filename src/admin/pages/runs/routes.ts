/** What there is of runs, and who may do it. */
import type { Route } from "../../visit.ts";
import { cancelRun, retryRun } from "./acts.ts";
import { showRuns } from "./list.tsx";
import { showRun } from "./one.tsx";

export const runRoutes: Route[] = [
  { get: "/runs", role: "viewer", show: showRuns },
  { get: "/runs/:id", role: "viewer", show: showRun },
  { post: "/runs/:id/cancel", role: "operator", act: cancelRun },
  { post: "/runs/:id/retry", role: "operator", act: retryRun },
];
