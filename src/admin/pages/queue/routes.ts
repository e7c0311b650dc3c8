/** What there is of the queue, and who may do it. */
import { dropResource, pauseQueue, resumeQueue, saveResource } from "../../../actions/queue_actions.ts";
import type { Route } from "../../request_context.ts";
import { removeResource, setCapacity } from "./acts.ts";
import { doPause, showPause } from "./pause.tsx";
import { showQueue } from "./queue.tsx";

export const queueRoutes: Route[] = [
  { get: "/queue", role: "viewer", show: showQueue },
  { get: "/queue/pause", role: "operator", show: showPause },
  { post: "/queue/pause", does: [pauseQueue, resumeQueue], act: doPause },
  { post: "/queue/resources", does: saveResource, act: setCapacity },
  { post: "/queue/resources/remove", does: dropResource, act: removeResource },
];
