/**
 * The one door to Postgres.
 *
 * Every session carries limits, so that a frozen client can hold a lock for two seconds at most and a statement can
 * run for five: a leader that is stopped in the middle of a transaction, or of a large answer, must not block its successor.
 * A connection that fell silent (half-open: the other side is gone and nobody said so) would hold its queries for a
 * quarter of an hour; a pool with such a query is left for a new one, where those who listen listen again, and the query fails as unreachable.
 * The driver does not ask Postgres for its array types when it connects: a connection that was cut during that question
 * rejected a promise that nobody could hold, which ended the process. Those that we use are named here.
 * `bigint` columns arrive as numbers; a value beyond 2^53 is an error rather than a rounded id.
 */
import postgres from "postgres";
import { after, monotonicMs } from "../platform/timers.ts";
import { driverAddress, isBadCertificate, isPostgresUrl } from "./database_url.ts";
import { mendDriver, whenSent } from "./driver_fixes.ts";
import { withoutLostSessions } from "./transactions.ts";

/** A pool of sessions. Store functions take one as their first argument. */
export type Sql = postgres.Sql<{ bigint: number }>;
/** A session inside `sql.begin`. */
export type TransactionSql = postgres.TransactionSql<{ bigint: number }>;
/** Where a store function may run: on the pool, or inside somebody's transaction. */
export type Db = Sql | TransactionSql;
/** A part of a statement. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;
/** Anything Postgres' jsonb takes. */
export type JsonValue = postgres.JSONValue;

export interface DbOptions {
  /** Shown in pg_stat_activity. */
  name: string;
  /** Sessions at most; default 4. */
  max?: number;
  /** Longest statement; default 5000. Set 0 for tools that may wait, such as schema changes. */
  statement_timeout_ms?: number;
  /**
   * For those who ask the same statements all day: each is planned once per session, and by indexes alone. Postgres would plan
   * our longer ones anew each time (5 of 7 ms of a look at the pending work), and a plan that was made while tables were small
   * would read all of them until they are analyzed again. Nor by bitmaps: an index scan marks the entries of rows that have moved
   * on, and the next one passes over them; a bitmap reads all of them each time, 13,000 of 8,000 runs that had ended. Nor by sorting
   * where an index has the order: where a table was analyzed with one row, that was all runs of a job for the first 16 of them.
   */
  steady?: boolean;
  /**
   * For those who show a page of a long list: the first rows of an index that has their order, not all that fit, sorted. Statistics do not
   * tell that one job has half of all runs, and by a bitmap all of them are read before the first is there.
   */
  by_index?: boolean;
}

const BY_INDEX = { enable_seqscan: "off", enable_bitmapscan: "off" };
const STEADY = { plan_cache_mode: "force_generic_plan", ...BY_INDEX, enable_sort: "off" };

/** Beyond the longest statement: for the way there and back. */
const SILENCE_MS = 2_000;
/** How long what else is under way on a pool that is left may take. */
const LEAVE_SECONDS = 2;

/** Opens a pool; sessions are made when they are first needed, and made again after Postgres was away. */
export function connectDb(database_url: string, options: DbOptions): Sql {
  if (!isPostgresUrl(database_url)) throw new TypeError("Invalid URL");
  const statement_timeout_ms = options.statement_timeout_ms ?? 5_000;
  const address = driverAddress(database_url); // once: a pool that is left must be followed by another, whatever has become of a file
  const open = () => openPool(address, { ...options, statement_timeout_ms });
  let pool = open();
  if (statement_timeout_ms === 0) return pool;
  const listener = new Set<() => void>();
  const leave = (silent: Sql) => {
    if (pool !== silent) return;
    pool = open();
    silent.end({ timeout: LEAVE_SECONDS }).catch(() => undefined); // which ends its listening too
    for (const hearAgain of listener) hearAgain();
  };
  const listen = async (...what: Parameters<Sql["listen"]>) => {
    let heard = pool.listen(...what);
    const hearAgain = () => {
      heard = pool.listen(...what);
      heard.catch(() => undefined); // the driver tries again by itself
    };
    listener.add(hearAgain);
    const unlisten = async () => {
      listener.delete(hearAgain);
      await (await heard).unlisten();
    };
    return { ...await heard, unlisten };
  };
  const end = (...how: Parameters<Sql["end"]>) => {
    listener.clear();
    return pool.end(...how);
  };
  const own = { listen, end };
  const patience = new Patience(statement_timeout_ms + SILENCE_MS);
  const watched = (query: unknown) => {
    if (!(query instanceof Promise)) return query; // a name or a list, to be put into a query
    const asked = pool;
    whenSent(query, (session) => {
      const done = patience.begin(session, () => leave(asked));
      const failed = (error: unknown) => {
        done();
        if (takesNoWrites(error)) leave(asked);
      };
      Promise.prototype.then.call(query, done, failed); // the query's own `then` would send it
    });
    return query;
  };
  return new Proxy(pool, {
    apply: (_pool, _this, args) => watched(Reflect.apply(pool, undefined, args)),
    get: (_pool, name) => Reflect.get(Object.hasOwn(own, name) ? own : pool, name),
  });
}

/** How long sessions may be silent. Queries are sent one behind another: each answer counts for all on its session. */
class Patience {
  readonly #limit_ms: number;
  readonly #heard = new WeakMap<object, number>();

  constructor(limit_ms: number) {
    this.#limit_ms = limit_ms;
  }

  /** Of one query, which it does not know: a timer that is over would keep its rows. The returned function says that it was answered. */
  begin(session: object, onSilent: () => void): () => void {
    const sent_ms = monotonicMs();
    const look = () => {
      const silent_ms = monotonicMs() - Math.max(sent_ms, this.#heard.get(session) ?? 0);
      if (silent_ms >= this.#limit_ms) onSilent();
      else cancel = after(this.#limit_ms - silent_ms, look);
    };
    let cancel = after(this.#limit_ms, look);
    return () => {
      cancel();
      this.#heard.set(session, monotonicMs());
    };
  }
}

/** What a database or a role may have set otherwise: how times and numbers are written, and that a guard is asked anew of a row that has changed. */
const RELIED_ON = {
  default_transaction_isolation: "read committed",
  datestyle: "ISO",
  intervalstyle: "postgres",
  timezone: "UTC",
  extra_float_digits: "1",
} as const;

/** Tells the trigger `audit_plain_sql` that whoever changes something here audits it himself; in schema.sql by this name. */
const OWN_SESSION = "scheduler.own";

/** Acts of ours in somebody else's transaction are told apart from what else is done there. */
export async function asOwnAct<T>(tx: Db, act: () => Promise<T>): Promise<T> {
  const [row] = await tx<{ was: string | null }[]>`
    select current_setting(${OWN_SESSION}, true) as was, set_config(${OWN_SESSION}, 'yes', true)`;
  try {
    return await act();
  } finally {
    await tx`select set_config(${OWN_SESSION}, ${row?.was ?? ""}, true)`.catch(() => {}); // it has failed as a whole
  }
}

function openPool(
  address: ReturnType<typeof driverAddress>,
  options: DbOptions & { statement_timeout_ms: number },
): Sql {
  const { statement_timeout_ms } = options;
  const pool = postgres(address.url, {
    ...address.options,
    max: options.max ?? 4,
    onnotice: () => {},
    connect_timeout: 5,
    idle_timeout: 0,
    max_lifetime: null,
    fetch_types: false,
    backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 1),
    types: {
      bigint: { to: 20, from: [20], parse: safeInteger, serialize: (value: number) => String(value) },
      integers: { to: 1007, from: [1007], parse: listOf(Number), serialize: arrayText },
      texts: { to: 1009, from: [1009], parse: listOf(String), serialize: arrayText },
      bigints: { to: 1016, from: [1016], parse: listOf(safeInteger), serialize: arrayText },
    },
    connection: {
      application_name: `dandori ${options.name}`,
      statement_timeout: statement_timeout_ms,
      lock_timeout: Math.min(3_000, statement_timeout_ms || 3_000),
      idle_in_transaction_session_timeout: 2_000,
      tcp_user_timeout: statement_timeout_ms, // one that does not take its answer; no other limit counts while Postgres waits for that
      client_min_messages: "warning",
      ...RELIED_ON,
      [OWN_SESSION]: "yes",
      jit: "off", // compiling takes longer than any statement of ours
      ...options.steady ? STEADY : options.by_index ? BY_INDEX : {},
    },
  }) as Sql;
  mendDriver(pool`select 1`); // which is made, and never sent
  return Object.assign(pool, { begin: withoutLostSessions(pool.begin, endsSession) });
}

/** Calls `arrived` with each run for which something has come while it is RUNNING, and once without one after every reconnect. */
export async function onRunArrived(sql: Sql, arrived: (job_run_id?: number) => void): Promise<() => Promise<void>> {
  const { unlisten } = await sql.listen("run_arrived", (id) => arrived(Number(id)), () => arrived());
  return unlisten;
}

/** Calls `ring` for each notification on `scheduler`, and once after every reconnect, when some may have been missed. */
export async function onWork(sql: Sql, signal: (what: string) => void): Promise<() => Promise<void>> {
  const { unlisten } = await sql.listen("scheduler", signal, () => signal("reconnected"));
  return unlisten;
}

/**
 * A part of a `with`, to be named in a `from` of the statement: its commit does not wait for the disk, though all see it at once. Only for
 * what Postgres may forget in a crash as if it had not been done. The next commit that waits brings it to the disk as well, so
 * nothing that was built on it outlives it.
 */
export function unsynced(sql: Db, wanted = true): Fragment {
  return sql`unsynced as materialized (
    select case when ${wanted} then set_config('synchronous_commit', 'off', true) end)`;
}

/** A jsonb parameter. One door for the cast from our types to the driver's. */
export function json(sql: Db, value: unknown): postgres.Parameter {
  return sql.json(value as JsonValue);
}

/** Whether Postgres reads a Date as the driver writes it, in ISO 8601: a year 0, one before or one of five digits it takes for no time. */
export function isStorableDate(at: Date): boolean {
  const year = at.getUTCFullYear();
  return year >= 1 && year <= 9999;
}

/** Whether it says that nothing of the transaction was done: two that waited for each other, or that could not have come one after the other. */
export function isRolledBack(error: unknown): boolean {
  const code = String((error as { code?: unknown } | undefined)?.code ?? "");
  return ["40000", "40001", "40002", "40P01"].includes(code);
}

/** Whether an error says that Postgres could not be reached, cut the session or could not do it just now: trying again later may help. */
export function isUnreachable(error: unknown): boolean {
  const code = String((error as { code?: unknown } | undefined)?.code ?? "");
  return UNREACHABLE.has(code) || /^(08|40|53|57P)/.test(code) || isShutOut(error);
}

/**
 * Whether Postgres lets this role or its like not in, or not do what it may do elsewhere: a changed password, a database that is closed or was renamed,
 * rights that were taken, a search_path that leads past our tables, a certificate that is not taken. Also `isUnreachable`, since it says nothing of what was asked; but who has just been started so was given what is wrong.
 */
export function isShutOut(error: unknown): boolean {
  const code = String((error as { code?: unknown } | undefined)?.code ?? "");
  return /^28/.test(code) || ["3D000", "42501", "42P01", "55000"].includes(code) || isBadCertificate(code);
}

/** Whether it takes no writes, as one that is no longer the primary: another session, if only to another server, may. */
function takesNoWrites(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "25006";
}

/** Whether the session on which it was asked ends with it. */
function endsSession(error: unknown): boolean {
  const code = String((error as { code?: unknown } | undefined)?.code ?? "");
  return /^(ECONN|EPIPE|ETIMEDOUT|CONNECTION_|08|57P|25P0[34])/.test(code);
}

/** Whether Postgres refuses what it was given: a value that it cannot hold, or a row that a constraint does not allow. The same comes again. */
export function isDataError(error: unknown): error is Error {
  return /^2[23]/.test(String((error as { code?: unknown } | undefined)?.code ?? ""));
}

/** Whether Postgres gave up a statement that took too long. Also `isUnreachable`; but where it did much at once, less of it may not take too long. */
export function isTooLong(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "57014";
}

/** Whether Postgres gave up waiting for a row or a table that somebody's transaction keeps. */
export function isLockTimeout(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "55P03";
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
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ECONNABORTED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  "57014", // statement timeout
  "55P03", // lock timeout
  "25P03", // idle in transaction
  "25P04", // a transaction_timeout of the role or the database, which Postgres 17 and newer have
  "25006", // read only: a fail-over, and this one is no longer the primary
  // and by class: 08 the connection, 40 deadlock, 53 no resources or too many sessions, 57P shut down or starting
]);

function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`Cannot read bigint ${text}: it is beyond 2^53`);
  return value;
}

/** Reads `{1,NULL,"a \"b\""}`: arrays of one dimension, which are all that we have. */
function listOf<T>(parse: (text: string) => T): (text: string) => (T | null)[] {
  return (text) =>
    [...text.matchAll(/"((?:[^"\\]|\\.)*)"|([^{},]+)/g)].map(([, quoted, bare]) => {
      if (bare === "NULL") return null;
      return parse(quoted?.replace(/\\(.)/gs, "$1") ?? bare as string);
    });
}

function arrayText(list: readonly unknown[]): string {
  let text = "{";
  for (const value of list) {
    if (text.length > 1) text += ",";
    text += value === null ? "NULL" : typeof value === "number" ? value : quoted(String(value));
  }
  return `${text}}`;
}

function quoted(text: string): string {
  const plain = !text.includes('"') && !text.includes("\\"); // as nearly all are: a pattern takes longer to say so
  return plain ? `"${text}"` : `"${text.replace(/["\\]/g, "\\$&")}"`;
}
