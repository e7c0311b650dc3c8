/**
 * The one door to Postgres.
 *
 * Every session carries limits, so that a frozen client can hold a lock for two seconds at most and a statement can
 * run for five: a leader that is stopped in the middle of a transaction must not block its successor.
 * `bigint` columns arrive as numbers; a value beyond 2^53 is an error rather than a rounded id.
 */
import postgres from "postgres";

/** A pool of sessions. Store functions take one as their first argument. */
export type Sql = postgres.Sql<{ bigint: number }>;
/** A session inside `sql.begin`. */
export type TransactionSql = postgres.TransactionSql<{ bigint: number }>;
/** Where a store function may run: on the pool, or inside somebody's transaction. */
export type Db = Sql | TransactionSql;
/** Anything Postgres' jsonb takes. */
export type JsonValue = postgres.JSONValue;

export interface DbOptions {
  /** Shown in pg_stat_activity. */
  name: string;
  /** Sessions at most; default 4. */
  max?: number;
  /** Longest statement; default 5000. Set 0 for tools that may wait, such as schema changes. */
  statement_timeout_ms?: number;
}

/** Opens a pool; sessions are made when they are first needed, and made again after Postgres was away. */
export function connectDb(database_url: string, options: DbOptions): Sql {
  const statement_timeout_ms = options.statement_timeout_ms ?? 5_000;
  return postgres(database_url, {
    max: options.max ?? 4,
    onnotice: () => {},
    connect_timeout: 5,
    idle_timeout: 0,
    max_lifetime: null,
    backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 1),
    types: {
      bigint: { to: 20, from: [20], parse: safeInteger, serialize: (value: number) => String(value) },
    },
    connection: {
      application_name: `dandori ${options.name}`,
      statement_timeout: statement_timeout_ms,
      lock_timeout: Math.min(3_000, statement_timeout_ms || 3_000),
      idle_in_transaction_session_timeout: 2_000,
      client_min_messages: "warning",
    },
  }) as Sql;
}

/** Applies schema.sql as one transaction; two processes that do it at once take turns. */
export async function applySchema(sql: Sql, text: string): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('dandori schema'))`;
    await tx.unsafe(text);
  });
}

/** Calls `ring` for each notification on `scheduler`, and once after every reconnect, when some may have been missed. */
export async function onWork(sql: Sql, ring: (what: string) => void): Promise<() => Promise<void>> {
  const { unlisten } = await sql.listen("scheduler", ring, () => ring("reconnected"));
  return unlisten;
}

/** A jsonb parameter. One door for the cast from our types to the driver's. */
export function json(sql: Db, value: unknown): postgres.Parameter {
  return sql.json(value as JsonValue);
}

/** Whether an error says that Postgres itself could not be reached or cut the session: trying again later may help. */
export function isUnreachable(error: unknown): boolean {
  const code = (error as { code?: string } | undefined)?.code ?? "";
  return UNREACHABLE.has(code) || code.startsWith("08") || code.startsWith("57P");
}

/** Whether an error is Postgres' word for a broken unique constraint. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const { code, constraint_name } = (error ?? {}) as { code?: string; constraint_name?: string };
  return code === "23505" && (constraint === undefined || constraint === constraint_name);
}

const UNREACHABLE = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  "57014", // statement timeout
  "55P03", // lock timeout
  "25P03", // idle in transaction
]);

function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`Cannot read bigint ${text}: it is beyond 2^53`);
  return value;
}
