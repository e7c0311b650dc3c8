/** What there is of the queue, and who may do it. */
import type { Route } from "../../request_context.ts";
import { removeResource, saveResource } from "./acts.ts";
import { doPause, showPause } from "./pause.tsx";
import { showQueue } from "./queue.tsx";

export const queueRoutes: Route[] = [
  { get: "/queue", role: "viewer", show: showQueue },
  { get: "/queue/pause", role: "operator", show: showPause },
  { post: "/queue/pause", role: "operator", act: doPause },
  { post: "/queue/resources", role: "operator", act: saveResource },
  { post: "/queue/resources/remove", role: "operator", act: removeResource },
];
