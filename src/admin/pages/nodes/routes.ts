/** What there is of nodes, workers and the leader, and who may do it. */
import {
  changeOneNode,
  checkNode,
  degrade,
  detachSome,
  drainWorkers,
  removeOneNode,
  undrainWorkers,
} from "../../../actions/node_actions.ts";
import type { Route } from "../../request_context.ts";
import { askForTest, changeLimits, degradeIt, detachThem, drainThem, removeOne, setMaintenance } from "./acts.ts";
import { showNodes } from "./list.tsx";
import { showNode } from "./one.tsx";
import { showWorker } from "./worker.tsx";

export const nodeRoutes: Route[] = [
  { get: "/nodes", role: "viewer", show: showNodes },
  { get: "/nodes/:node_id", role: "viewer", show: showNode },
  { get: "/workers/:worker_id", role: "viewer", show: showWorker },
  { post: "/nodes/:node_id", does: changeOneNode, act: changeLimits },
  { post: "/nodes/:node_id/test", does: checkNode, act: askForTest },
  { post: "/nodes/:node_id/maintenance", does: changeOneNode, act: setMaintenance },
  { post: "/nodes/:node_id/remove", does: removeOneNode, act: removeOne },
  ...["/nodes/:node_id", "/workers/:worker_id"].flatMap((path): Route[] => [
    { post: `${path}/drain`, does: drainWorkers, act: drainThem(true) },
    { post: `${path}/undrain`, does: undrainWorkers, act: drainThem(false) },
    { post: `${path}/detach`, does: detachSome, act: detachThem },
  ]),
  { post: "/leader/degrade", does: degrade, act: degradeIt },
];
