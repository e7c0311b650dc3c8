/**
 * For load balancers and orchestrators: whether this process lives, and whether it can answer, with no login and nothing told. And for a
 * scraper, the cluster's metrics: those name jobs, so they are for those alone who may look at the page as well.
 */
import type { Context } from "hono";
import { observe } from "../platform/facts.ts";
import { DeadlineExceeded, within } from "../platform/timers.ts";
import { isShutOut, isUnreachable, type Sql } from "../postgres/connection.ts";
import { explain } from "../ops/explain.ts";
import { METRICS_CONTENT_TYPE, metricsText } from "../ops/metrics/cluster.ts";
import { mayRead } from "../ops/metrics/worker.ts";
import type { AdminParts, HonoEnv } from "./auth/authentication.ts";
import { callerOf } from "./auth/callers.ts";
import { isFromHere } from "./base_url.ts";

const READY_WITHIN_MS = 2_000;

export function answerHealth(c: Context): Response {
  return c.text("ok\n", 200, { "cache-control": "no-store" });
}

/** 503 while a page would be an error. Why is told on this machine alone, and once in the log. All who ask at a time share one look. */
export function readiness({ sql, place }: AdminParts): (c: Context<HonoEnv>) => Promise<Response> {
  let looking: Promise<string | undefined> | undefined;
  let told: string | undefined;
  const look = async () => {
    const problem = await problemOf(sql).finally(() => looking = undefined);
    if (problem !== told && problem !== undefined) observe("admin.not_ready", { problem });
    told = problem;
    return problem;
  };
  return async (c) => {
    const problem = await (looking ??= look());
    const why = isFromHere(place, c.req.raw.headers, c.env?.address ?? "") ? `: ${problem}` : "";
    const text = problem === undefined ? "ready\n" : `not ready${why}\n`;
    return c.text(text, problem === undefined ? 200 : 503, { "cache-control": "no-store" });
  };
}

/** The cluster's metrics, for a scraper that shows a token, one on this machine where no token is set, and for users. */
export async function answerMetrics(c: Context<HonoEnv>, parts: AdminParts): Promise<Response> {
  try {
    if (!await mayScrape(c, parts)) {
      return c.text("needs a bearer token\n", 401, { "www-authenticate": "Bearer", "cache-control": "no-store" });
    }
    const text = await within(READY_WITHIN_MS, "Postgres", metricsText(parts.sql));
    return c.body(text, 200, { "content-type": METRICS_CONTENT_TYPE, "cache-control": "no-store" });
  } catch (error) {
    if (!isUnreachable(error) && !(error instanceof DeadlineExceeded)) throw error;
    return c.text("Postgres cannot be reached\n", 503);
  }
}

async function mayScrape(c: Context<HonoEnv>, { sql, place, metrics_token }: AdminParts): Promise<boolean> {
  if (metrics_token === undefined && isFromHere(place, c.req.raw.headers, c.env?.address ?? "")) return true;
  if (metrics_token !== undefined && await mayRead(c.req.raw, metrics_token)) return true;
  return (await callerOf(c, { sql, place }))?.allows("read") ?? false;
}

async function problemOf(sql: Sql): Promise<string | undefined> {
  try {
    await within(READY_WITHIN_MS, "Postgres", sql`select from admin_session, job_run limit 0`);
  } catch (error) {
    const away = isUnreachable(error) && !isShutOut(error);
    if (away || error instanceof DeadlineExceeded) return "Postgres cannot be reached";
    return explain(error)?.fix ?? "Postgres does not answer as it should";
  }
}
