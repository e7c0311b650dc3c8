/** What runs ask people, and the answers. */
import { send } from "../../../actions/workflow_actions.ts";
import type { Route } from "../../request_context.ts";
import { sendAnswer, showMessage } from "./answer.tsx";
import { showWaiting } from "./list.tsx";

export const waitingRoutes: Route[] = [
  { get: "/waiting", role: "viewer", costly: true, show: showWaiting },
  { get: "/runs/:id/messages/:name", role: "viewer", show: showMessage },
  { post: "/runs/:id/messages/:name", does: send, act: sendAnswer },
];
