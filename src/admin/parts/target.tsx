/** What the audit and alerts name, as a link to its page where it has one. */
import { PAGES } from "../pages.ts";
import { link, may, type Visit } from "../visit.ts";

/** The page of one, from the base on. */
const PATHS: Record<string, (id: string) => string> = {
  run: (id) => `/runs/${id}`,
  job: (id) => `/jobs/${id}`,
  bulk: (id) => `/bulks/${id}`,
  event: (id) => `/events/${id}`,
  node: (id) => `/nodes/${id}`,
  worker: (id) => `/workers/${id}`,
  setting: () => "/settings",
  alert: () => "/alerts",
  user: () => "/access/users",
  token: () => "/access/tokens",
  hook: () => "/access/hooks",
};

export function TargetLink({ on, type, id }: { on: Visit; type: string; id: string }) {
  const path = Object.hasOwn(PATHS, type) ? PATHS[type]?.(encodeURIComponent(id)) : undefined;
  const there = PAGES.some(({ routes }) =>
    routes.some((route) => "get" in route && path !== undefined && fits(route.get, path) && may(on, route.role))
  );
  return path && there ? <a href={link(on, path)}>{id}</a> : <span>{id}</span>;
}

function fits(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split("/"), path.split("/")];
  return wanted.length === given.length && wanted.every((part, n) => part.startsWith(":") || part === given[n]);
}
