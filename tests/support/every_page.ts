/** All that the admin server shows, as somebody would ask for it in a database of `history.ts`: pages, with their filters, and lists of the API. */
import { STATES } from "../../src/runs/run_states.ts";
import type { Sights } from "./history.ts";

export interface Asked {
  /** What is asked for, without the values that are chance. */
  name: string;
  /** From the base on. */
  path: string;
}

type Query = Record<string, string | number | string[]>;

/** `now`: what "today" is. */
export function everyPage(on: Sights, now: Date): Asked[] {
  return [...runPages(on), ...manyPages(on), ...otherPages(on), ...timedPages(on, now), ...apiLists(on, now)];
}

function asked(path: string, query: Query = {}, name = path): Asked {
  const pairs = Object.entries(query).flatMap(([key, value]) => [value].flat().map((one) => [key, String(one)]));
  const search = new URLSearchParams(pairs).toString();
  return { name, path: path + (search && `?${search}`) };
}

const FAILED = ["FAILED", "TIMED_OUT"];
const WAITING = ["PENDING", "RETRYING", "ORPHANED"];
const LIVE = [...WAITING, "ASSIGNED", "RUNNING"];

function runPages(on: Sights): Asked[] {
  const list = (query: Query, name: string) => asked("/runs", query, `/runs ${name}`);
  return [
    asked("/runs"),
    ...STATES.map((state) => list({ state }, state)),
    list({ state: FAILED }, "failed"),
    list({ state: LIVE }, "open"),
    list({ job: on.big_job }, "large job"),
    list({ job: on.rare_job }, "rare job"),
    list({ job: "no_such_job" }, "no such job"),
    ...STATES.map((state) => list({ job: on.big_job, state }, `large job, ${state}`)),
    list({ job: on.rare_job, state: FAILED }, "rare job, failed"),
    list({ job: on.timed_job, state: WAITING }, "job, waiting"),
    list({ "serial-key": on.serial_key }, "serial key"),
    list({ "serial-key": "nobody" }, "serial key of nobody"),
    list({ "serial-key": on.serial_key, state: "FAILED" }, "serial key, FAILED"),
    list({ error: on.error_name }, "rare error"),
    list({ error: "Error1" }, "usual error"),
    list({ error: "NoSuchError" }, "no such error"),
    list({ "ran-on": on.node_id }, "node"),
    list({ "ran-on": "no-such-node" }, "no such node"),
    list({ "ran-on": on.node_id, job: on.rare_job, state: FAILED }, "node, rare job, failed"),
    list({ bulk: on.bulk }, "bulk"),
    list({ bulk: on.ended_bulk, state: FAILED }, "bulk, failed"),
    list({ within: "hour" }, "last hour"),
    list({ within: "week", state: "CANCELED", job: on.big_job }, "last week, large job, CANCELED"),
    list({ before: on.bulk + 5_000 }, "near the oldest"),
    list({ after: on.run, state: "FAILED" }, "FAILED, newer than the oldest"),
    asked(`/runs/${on.run}`, {}, "/runs/:id succeeded"),
    asked(`/runs/${on.failed_run}`, {}, "/runs/:id failed, with a log"),
    asked(`/runs/${on.waiting_run}`, {}, "/runs/:id waiting"),
    asked(`/runs/${on.running_run}`, {}, "/runs/:id running"),
    asked(`/runs/${on.run}/edit`, {}, "/runs/:id/edit"),
    asked(`/runs/${on.suspended_run}/messages/approval`, {}, "/runs/:id/messages/:name"),
    asked(`/runs/${on.run}/fork`, {}, "/runs/:id/fork"),
    asked(`/runs/${on.suspended_run}/wake`, { step: "message:approval" }, "/runs/:id/wake"),
    asked("/waiting"),
  ];
}

/** What asks before it acts. */
function manyPages(on: Sights): Asked[] {
  const many = (query: Query, name: string) => asked("/runs/many", query, `/runs/many ${name}`);
  return [
    many({ verb: "cancel" }, "cancel all"),
    many({ verb: "cancel", job: on.timed_job }, "cancel a job's"),
    many({ verb: "cancel", job: on.rare_job }, "cancel a rare job's"),
    many({ verb: "cancel", "serial-key": on.serial_key }, "cancel a key's"),
    many({ verb: "retry" }, "retry all"),
    many({ verb: "retry", job: on.big_job, state: FAILED }, "retry a large job's failed"),
    many({ verb: "retry", error: on.error_name }, "retry by error"),
    many({ verb: "retry", bulk: on.ended_bulk, state: FAILED }, "retry a bulk's failed"),
    many({ verb: "retry", "ran-on": on.node_id, within: "day" }, "retry a node's of a day"),
    many({ verb: "reprioritize", job: on.big_job }, "reprioritize a job's"),
    asked("/queue/pause", { do: "pause", all: "yes" }, "/queue/pause all"),
    asked("/queue/pause", { do: "pause", job: on.big_job }, "/queue/pause job"),
    asked("/queue/pause", { do: "pause", key: on.serial_key }, "/queue/pause key"),
  ];
}

function otherPages(on: Sights): Asked[] {
  const job = (name: string, rest = "") => asked(`/jobs/${name}${rest}`, {}, `/jobs/:name${rest}`);
  return [
    asked("/overview"),
    ...["1h", "24h", "7d"].map((range) => asked("/overview/plots", { range }, `/overview/plots ${range}`)),
    asked("/jobs"),
    asked("/jobs", { q: "job_00", state: "waiting" }, "/jobs filtered"),
    { ...job(on.big_job), name: "/jobs/:name large" },
    { ...job(on.rare_job), name: "/jobs/:name rare" },
    { ...job(on.timed_job), name: "/jobs/:name timed" },
    job(on.big_job, "/run"),
    job(on.big_job, "/options"),
    { path: `/jobs/${on.timed_job}/schedules/main`, name: "/jobs/:name/schedules/:schedule" },
    asked("/queue"),
    asked("/bulks"),
    asked("/bulks", { open: "yes" }, "/bulks open"),
    asked("/bulks/new"),
    asked(`/bulks/${on.bulk}`, {}, "/bulks/:id open"),
    asked(`/bulks/${on.ended_bulk}`, {}, "/bulks/:id ended"),
    asked(`/bulks/${on.bulk}/what-if`, { parallel: 50 }, "/bulks/:id/what-if"),
    asked(`/bulks/${on.bulk}/items`, {}, "/bulks/:id/items"),
    ...["SUCCEEDED", "FAILED", "CANCELED", "UNFED"].map((state) =>
      asked(`/bulks/${on.bulk}/items`, { state }, `/bulks/:id/items ${state}`)
    ),
    asked("/events"),
    asked("/events", { type: "event.3" }, "/events of a type"),
    asked("/events", { type: "no.such" }, "/events of no such type"),
    asked("/events", { which: "unprocessed" }, "/events unprocessed"),
    asked("/events/new"),
    asked(`/events/${on.event}`, {}, "/events/:id"),
    asked("/nodes"),
    asked(`/nodes/${on.node_id}`, {}, "/nodes/:node_id"),
    asked(`/workers/${on.worker_id}`, {}, "/workers/:worker_id"),
    asked("/alerts"),
    asked("/settings"),
    asked("/settings", { edit: "worker" }, "/settings edited"),
    asked("/audit"),
    asked("/audit", { actor: "token:deploy" }, "/audit of an actor"),
    asked("/audit", { action: "run" }, "/audit of an action"),
    asked("/audit", { "target-type": "run", target: "42" }, "/audit of a target"),
    asked("/access/users"),
    asked("/access/tokens"),
    asked("/access/hooks"),
    asked("/account"),
  ];
}

function timedPages(on: Sights, now: Date): Asked[] {
  const days_ago = (days: number) => new Date(now.getTime() - days * 86_400_000).toISOString();
  return [
    asked("/calendar"),
    asked("/calendar", { span: "week" }, "/calendar week"),
    asked("/calendar", { span: "week", job: on.timed_job }, "/calendar week, job"),
    asked(`/calendar/${on.schedule_id}`, { from: days_ago(1), until: now.toISOString() }, "/calendar/:id"),
    asked("/audit", { since: days_ago(2).slice(0, 10), action: "job.pause" }, "/audit since"),
  ];
}

function apiLists(on: Sights, now: Date): Asked[] {
  const api = (path: string, query: Query, name: string) => asked(`/api/v1${path}`, query, `/api/v1${name}`);
  const day_ago = new Date(now.getTime() - 86_400_000).toISOString();
  return [
    ...["/jobs", "/runs", "/bulks", "/events", "/queue", "/nodes", "/workers", "/leader", "/schedules", "/settings"]
      .map((path) => api(path, {}, path)),
    ...["/audit", "/hooks", "/resources", "/openapi.json"].map((path) => api(path, {}, path)),
    api("/runs", { limit: 500 }, "/runs 500 at once"),
    api("/runs", { job_name: on.big_job, state: "FAILED,TIMED_OUT" }, "/runs job and states"),
    api("/runs", { worker_id: "w3-4" }, "/runs of a worker"),
    api("/runs", { node: on.node_id }, "/runs pinned to a node"),
    api("/runs", { since: day_ago, error_name: "Error1" }, "/runs since, by error"),
    api(`/runs/${on.failed_run}`, {}, "/runs/{id}"),
    api(`/runs/${on.failed_run}/logs`, {}, "/runs/{id}/logs"),
    api(`/jobs/${on.timed_job}`, {}, "/jobs/{name}"),
    api(`/bulks/${on.bulk}`, {}, "/bulks/{id}"),
    api(`/events/${on.event}`, {}, "/events/{id}"),
    asked("/metrics"),
  ];
}
