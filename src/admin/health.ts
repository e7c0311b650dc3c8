/** For load balancers and orchestrators: whether this process lives, and whether it can answer. No login, and nothing told. */
import type { Context } from "hono";
import { DeadlineExceeded, within } from "../base/loop.ts";
import { isShutOut, isUnreachable, type Sql } from "../store/db.ts";
import { explain } from "../ops/explain.ts";
import { METRICS_CONTENT_TYPE, metricsText } from "../ops/metrics/cluster.ts";
import { mayRead } from "../ops/metrics/worker.ts";

const READY_WITHIN_MS = 2_000;

export function answerHealth(c: Context): Response {
  return c.text("ok\n", 200, { "cache-control": "no-store" });
}

/** 503 with the reason in a few words, while a page would be an error. */
export async function answerReady(c: Context, sql: Sql): Promise<Response> {
  const problem = await problemOf(sql);
  return c.text(problem ? `not ready: ${problem}\n` : "ready\n", problem ? 503 : 200, { "cache-control": "no-store" });
}

/** The cluster's metrics, for a scraper that shows the token where there is one. */
export async function answerMetrics(
  c: Context,
  { sql, metrics_token }: { sql: Sql; metrics_token?: string },
): Promise<Response> {
  if (metrics_token !== undefined && !await mayRead(c.req.raw, metrics_token)) {
    return c.text("needs the bearer token\n", 401, { "www-authenticate": "Bearer" });
  }
  try {
    const text = await within(READY_WITHIN_MS, "Postgres", metricsText(sql));
    return c.body(text, 200, { "content-type": METRICS_CONTENT_TYPE, "cache-control": "no-store" });
  } catch (error) {
    if (!isUnreachable(error) && !(error instanceof DeadlineExceeded)) throw error;
    return c.text("Postgres cannot be reached\n", 503);
  }
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
