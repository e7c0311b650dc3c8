/** For load balancers and orchestrators: whether this process lives, and whether it can answer. No login, and nothing told. */
import type { Context } from "hono";
import { DeadlineExceeded, within } from "../base/loop.ts";
import { isUnreachable, type Sql } from "../store/db.ts";
import { explain } from "../ops/explain.ts";

const READY_WITHIN_MS = 2_000;

export function answerHealth(c: Context): Response {
  return c.text("ok\n", 200, { "cache-control": "no-store" });
}

/** 503 with the reason in a few words, while a page would be an error. */
export async function answerReady(c: Context, sql: Sql): Promise<Response> {
  const problem = await problemOf(sql);
  return c.text(problem ? `not ready: ${problem}\n` : "ready\n", problem ? 503 : 200, { "cache-control": "no-store" });
}

async function problemOf(sql: Sql): Promise<string | undefined> {
  try {
    await within(READY_WITHIN_MS, "Postgres", sql`select from admin_session, job_run limit 0`);
  } catch (error) {
    if (isUnreachable(error) || error instanceof DeadlineExceeded) return "Postgres cannot be reached";
    return explain(error)?.fix ?? "Postgres does not answer as it should";
  }
}
