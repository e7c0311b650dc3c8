/** What there is of runs, and who may do it. */
import { cancelMany, reprioritize, reprioritizeMany, retryMany } from "../../../actions/many_runs.ts";
import { cancel, close, retry } from "../../../actions/run_actions.ts";
import { fork, wake } from "../../../actions/workflow_actions.ts";
import type { Route } from "../../request_context.ts";
import { cancelRun, closeRun, moveRun, retryRun } from "./acts.ts";
import { retryEdited, showEdited } from "./edited.tsx";
import { showRuns } from "./list.tsx";
import { doMany, showMany } from "./many.tsx";
import { showRun } from "./one.tsx";
import { forkRun, showFork, showWake, wakeRun } from "./step_acts.tsx";

export const runRoutes: Route[] = [
  { get: "/runs", role: "viewer", costly: true, show: showRuns },
  { get: "/runs/many", role: "operator", costly: true, show: showMany },
  { post: "/runs/many", does: [cancelMany, retryMany, reprioritizeMany], act: doMany },
  { get: "/runs/:id", role: "viewer", costly: true, show: showRun },
  { post: "/runs/:id/cancel", does: cancel, act: cancelRun },
  { post: "/runs/:id/retry", does: retry, act: retryRun },
  { get: "/runs/:id/edit", role: "operator", show: showEdited },
  { post: "/runs/:id/edit", does: retry, act: retryEdited },
  { get: "/runs/:id/fork", role: "operator", show: showFork },
  { post: "/runs/:id/fork", does: fork, act: forkRun },
  { get: "/runs/:id/wake", role: "operator", show: showWake },
  { post: "/runs/:id/wake", does: wake, act: wakeRun },
  { post: "/runs/:id/move", does: reprioritize, act: moveRun },
  { post: "/runs/:id/close", does: close, act: closeRun },
];
