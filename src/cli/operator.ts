/** What commands that act have in common: who does it and why, for the audit, and the database that it is done to. */
import { userInfo } from "node:os";
import type { z } from "zod";
import { type Action, perform } from "../actions/action.ts";
import type { Actor } from "../access/audit.ts";
import { connectDb, type Sql } from "../postgres/connection.ts";
import { readConfigForDb, redisPlace } from "../app/opening.ts";
import { stored } from "../locale/message.ts";

/** Of every command that has a result. */
export interface JsonOption {
  json?: boolean;
}

/** Of every act that is kept with a reason. */
export interface Reasoned extends JsonOption {
  reason?: string;
}

/** Where none was given. */
export const NO_REASON = stored("reason.command_line");

/** For the audit. */
export function by({ reason = NO_REASON }: { reason?: string }): Actor {
  return { actor: actor(), reason };
}

/** The shell's user. */
export function actor(): string {
  return `cli:${userInfo().username}`;
}

/** Whoever reaches the database with our configuration may do everything. @throws Refused */
export function performOn<Input extends z.ZodObject, Result>(
  sql: Sql,
  act: Action<Input, Result>,
  given: z.input<Input>,
  { reason }: { reason?: string },
): Promise<Result> {
  const allowed = { allows: () => true, redis: redisPlace() };
  return perform(act, { sql, actor: actor(), reason, unreasoned: NO_REASON, ...allowed }, given);
}

/** The same, on a connection of its own. */
export function act<Input extends z.ZodObject, Result>(
  act: Action<Input, Result>,
  given: z.input<Input>,
  options: { reason?: string },
): Promise<Result> {
  return withDb((sql) => performOn(sql, act, given, options));
}

export async function withDb<T>(act: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = connectDb(readConfigForDb().database_url, { name: "cli", max: 1, by_index: true });
  try {
    return await act(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
