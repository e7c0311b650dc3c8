/** What there is of nodes, workers and the leader, and who may do it. */
import type { Route } from "../../request_context.ts";
import { askForTest, changeOneNode, degradeIt, detachThem, drainWorkers, removeOne, setMaintenance } from "./acts.ts";
import { showNodes } from "./list.tsx";
import { showNode } from "./one.tsx";
import { showWorker } from "./worker.tsx";

export const nodeRoutes: Route[] = [
  { get: "/nodes", role: "viewer", show: showNodes },
  { get: "/nodes/:node_id", role: "viewer", show: showNode },
  { get: "/workers/:worker_id", role: "viewer", show: showWorker },
  { post: "/nodes/:node_id", role: "operator", act: changeOneNode },
  { post: "/nodes/:node_id/test", role: "operator", act: askForTest },
  { post: "/nodes/:node_id/maintenance", role: "operator", act: setMaintenance },
  { post: "/nodes/:node_id/remove", role: "operator", act: removeOne },
  ...["/nodes/:node_id", "/workers/:worker_id"].flatMap((path): Route[] => [
    { post: `${path}/drain`, role: "operator", act: drainWorkers(true) },
    { post: `${path}/undrain`, role: "operator", act: drainWorkers(false) },
    { post: `${path}/detach`, role: "operator", act: detachThem },
  ]),
  { post: "/leader/degrade", role: "operator", act: degradeIt },
];
