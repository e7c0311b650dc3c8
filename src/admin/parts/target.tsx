/** What the audit and alerts name, as a link to its page where it has one. */
import type { UserRole } from "../../access/users.ts";
import { link, may, type RequestContext } from "../request_context.ts";

/** Its page, from the base on, and who may see it. */
const PAGES: Record<string, { path: (id: string) => string; role: UserRole }> = {
  run: { path: (id) => `/runs/${id}`, role: "viewer" },
  job: { path: (id) => `/jobs/${id}`, role: "viewer" },
  bulk: { path: (id) => `/bulks/${id}`, role: "viewer" },
  event: { path: (id) => `/events/${id}`, role: "viewer" },
  node: { path: (id) => `/nodes/${id}`, role: "viewer" },
  worker: { path: (id) => `/workers/${id}`, role: "viewer" },
  setting: { path: () => "/settings", role: "viewer" },
  alert: { path: () => "/alerts", role: "viewer" },
  user: { path: () => "/access/users", role: "admin" },
  token: { path: () => "/access/tokens", role: "admin" },
  hook: { path: () => "/access/hooks", role: "admin" },
};

export function TargetLink({ on, type, id }: { on: RequestContext; type: string; id: string }) {
  const page = Object.hasOwn(PAGES, type) ? PAGES[type] : undefined;
  const shown = page && may(on, page.role);
  return shown ? <a href={link(on, page.path(encodeURIComponent(id)))}>{id}</a> : <span>{id}</span>;
}
