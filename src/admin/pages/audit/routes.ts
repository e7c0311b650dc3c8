/** What there is of the audit: to read and to keep. Nobody may do anything with it. */
import type { Route } from "../../request_context.ts";
import { keepCsv, keepJson } from "./keep.ts";
import { showAudit } from "./list.tsx";

export const auditRoutes: Route[] = [
  { get: "/audit", role: "viewer", costly: true, show: showAudit },
  { file: "/audit.csv", role: "viewer", costly: true, write: keepCsv },
  { file: "/audit.json", role: "viewer", costly: true, write: keepJson },
];
