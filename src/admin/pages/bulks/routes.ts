/** What there is of bulks, and who may do it. */
import {
  cancelBulk,
  changeOneBulk,
  pauseBulk,
  resumeBulk,
  retryFailedItems,
  startOneBulk,
} from "../../../actions/bulk_actions.ts";
import type { Route } from "../../request_context.ts";
import { cancelIt, pauseIt, resumeIt, retryFailed, setPace } from "./acts.ts";
import { showItems } from "./items.tsx";
import { showBulks } from "./list.tsx";
import { showBulk } from "./one.tsx";
import { showStart, startFromForm } from "./start.tsx";
import { showWhatIf } from "./what_if.tsx";

export const bulkRoutes: Route[] = [
  { get: "/bulks", role: "viewer", show: showBulks },
  { get: "/bulks/new", role: "operator", show: showStart },
  { post: "/bulks/new", does: startOneBulk, act: startFromForm },
  { get: "/bulks/:id", role: "viewer", show: showBulk },
  { get: "/bulks/:id/items", role: "viewer", show: showItems },
  { get: "/bulks/:id/what-if", role: "viewer", costly: true, show: showWhatIf },
  { post: "/bulks/:id/pace", does: changeOneBulk, act: setPace },
  { post: "/bulks/:id/pause", does: pauseBulk, act: pauseIt },
  { post: "/bulks/:id/resume", does: resumeBulk, act: resumeIt },
  { post: "/bulks/:id/cancel", does: cancelBulk, act: cancelIt },
  { post: "/bulks/:id/retry", does: retryFailedItems, act: retryFailed },
];
