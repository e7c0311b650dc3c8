/** What there is of events, and who may do it. */
import { emit } from "../../../actions/run_actions.ts";
import type { Route } from "../../request_context.ts";
import { emitFromForm, showEmit } from "./emit.tsx";
import { showEvents } from "./list.tsx";
import { showEvent } from "./one.tsx";

export const eventRoutes: Route[] = [
  { get: "/events", role: "viewer", show: showEvents },
  { get: "/events/new", role: "operator", show: showEmit },
  { post: "/events/new", does: emit, act: emitFromForm },
  { get: "/events/:id", role: "viewer", show: showEvent },
];
