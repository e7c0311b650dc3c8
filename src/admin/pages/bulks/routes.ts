/** What there is of bulks, and who may do it. */
import type { Route } from "../../request_context.ts";
import { cancelBulk, pauseBulk, resumeBulk, retryFailed, setPace } from "./acts.ts";
import { showItems } from "./items.tsx";
import { showBulks } from "./list.tsx";
import { showBulk } from "./one.tsx";
import { showStart, startFromForm } from "./start.tsx";
import { showWhatIf } from "./what_if.tsx";

export const bulkRoutes: Route[] = [
  { get: "/bulks", role: "viewer", show: showBulks },
  { get: "/bulks/new", role: "operator", show: showStart },
  { post: "/bulks/new", role: "operator", act: startFromForm },
  { get: "/bulks/:id", role: "viewer", show: showBulk },
  { get: "/bulks/:id/items", role: "viewer", show: showItems },
  { get: "/bulks/:id/what-if", role: "viewer", show: showWhatIf },
  { post: "/bulks/:id/pace", role: "operator", act: setPace },
  { post: "/bulks/:id/pause", role: "operator", act: pauseBulk },
  { post: "/bulks/:id/resume", role: "operator", act: resumeBulk },
  { post: "/bulks/:id/cancel", role: "operator", act: cancelBulk },
  { post: "/bulks/:id/retry", role: "operator", act: retryFailed },
];
