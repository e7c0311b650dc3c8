/** What there is of runs, and who may do it. */
import type { Route } from "../../request_context.ts";
import { cancelRun, closeRun, moveRun, retryRun } from "./acts.ts";
import { retryEdited, showEdited } from "./edited.tsx";
import { showRuns } from "./list.tsx";
import { doMany, showMany } from "./many.tsx";
import { showRun } from "./one.tsx";

export const runRoutes: Route[] = [
  { get: "/runs", role: "viewer", show: showRuns },
  { get: "/runs/many", role: "operator", show: showMany },
  { post: "/runs/many", role: "operator", act: doMany },
  { get: "/runs/:id", role: "viewer", show: showRun },
  { post: "/runs/:id/cancel", role: "operator", act: cancelRun },
  { post: "/runs/:id/retry", role: "operator", act: retryRun },
  { get: "/runs/:id/edit", role: "operator", show: showEdited },
  { post: "/runs/:id/edit", role: "operator", act: retryEdited },
  { post: "/runs/:id/move", role: "operator", act: moveRun },
  { post: "/runs/:id/close", role: "operator", act: closeRun },
];
