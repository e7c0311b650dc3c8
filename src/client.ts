/**
 * What an application imports, under the name `dandori/client`, to hand work to Dandori.
 *
 * It talks to Postgres only: a run is enqueued by one insert, also inside your own transaction, and so exists exactly
 * when your data does. No worker needs to be up.
 *
 * ```ts ignore
 * import { createClient } from "dandori/client";
 * import exportDevices from "./jobs/export_devices.ts";
 *
 * const client = createClient({ databaseUrl: "postgres://..." });
 * const { id } = await client.enqueue(exportDevices, { tenant: "acme" }, { priority: "admin.high" });
 * await exportDevices.delay({ tenant: "acme" }); // the same with default options, through the client made above
 * await client.emit("device.added", { device: 7 }, { dedupeKey: "device-7" });
 * const bulk = await client.bulk(exportDevices, tenants.map((tenant) => ({ tenant })), { parallel: 8 });
 * await client.changeBulk(bulk.id, { parallel: 20 }); // while it runs
 * await client.close();
 * ```
 * @module
 */
import { within } from "./platform/timers.ts";
import { EnqueueError } from "./actions/args.ts";
import {
  applyChanges,
  type BulkChanges,
  type BulkItems,
  type BulkOptions,
  type BulkProgress,
  type BulkStarted,
  startBulk,
} from "./actions/bulk.ts";
import {
  emit,
  emitOne,
  type Enqueued,
  type EnqueueItem,
  enqueueMany,
  enqueueOne,
  type EnqueueOptions,
  type EventGiven,
  eventOf,
} from "./actions/enqueue.ts";
import { eventFit, unfitText } from "./actions/event_fit.ts";
import { type MessageSent, type RunNamed, sendToRun } from "./actions/messages.ts";
import { DELAY, type Delay, type Job } from "./job.ts";
import { readBulk } from "./bulks/bulk_view.ts";
import { retryBulk } from "./bulks/bulks.ts";
import { isPostgresUrl } from "./postgres/database_url.ts";
import { asOwnAct, connectDb, type Db, type TransactionSql } from "./postgres/connection.ts";

/** How runs and bulks are asked for and told of; and what everything here throws that cannot be done. */
export {
  type BulkChanges,
  type BulkItems,
  type BulkOptions,
  type BulkProgress,
  type BulkStarted,
  type Enqueued,
  EnqueueError,
  type EnqueueItem,
  type EnqueueOptions,
  type MessageSent,
  type RunNamed,
};

/** How to reach Dandori. */
export interface ClientOptions {
  /**
   * `postgres://user:password@host:port/database`. Of a primary and its standbys all: `a:5432,b:5432` for the host, and
   * `?target_session_attrs=read-write` at the end. By a socket: `postgres://user@/database?host=/var/run/postgresql`.
   */
  databaseUrl: string;
  /** Connections at most; default 4. */
  maxConnections?: number;
}

/** A transaction of the `postgres` package, the `sql` that `sql.begin` gives. */
export interface Transaction {
  readonly savepoint: unknown;
  readonly json: unknown;
}

/** What an event may be given besides its payload. */
export interface EmitOptions {
  dedupeKey?: string;
  /** Default false: it costs a statement, and such calls are not sent together as others are. */
  checkPayload?: boolean;
}

/** Made by `createClient`. All its functions may be used at once. */
export interface Client {
  /**
   * Enqueues one run. Calls for a job that come while others of it are under way go together in one statement, each as if it
   * had come alone. `job` is what the job file exports, then the args are typed and checked by its schema; or the job's name,
   * then by what was last synced of it. The worker checks them again before the body starts.
   * @throws EnqueueError when the job is unknown or removed, the args do not fit, or an option is out of range.
   */
  enqueue<Input>(job: Job<Input>, args: NoInfer<Input>, options?: EnqueueOptions): Promise<Enqueued>;
  enqueue(job: string, args: unknown, options?: EnqueueOptions): Promise<Enqueued>;
  /**
   * Enqueues many runs of one job as one statement: all of them or none. Answers in the order of `items`. A statement may take
   * five seconds: more than some ten thousand are a matter for `bulk`.
   */
  enqueueMany<Input>(job: Job<Input>, items: readonly EnqueueItem<NoInfer<Input>>[]): Promise<Enqueued[]>;
  enqueueMany(job: string, items: readonly EnqueueItem<unknown>[]): Promise<Enqueued[]>;
  /**
   * Emits an event; every job whose `on` names the type gets one run with the payload as its args. A `dedupeKey` that was
   * used before gives the id of that event and starts nothing. With `checkPayload`, a further statement before it tells in
   * `unfit` when the payload fits none of the jobs for the type; the event is emitted all the same.
   * @throws EnqueueError when the key belongs to an event of another type, or the payload cannot be stored.
   */
  emit(type: string, payload?: unknown, options?: EmitOptions): Promise<{ id: number; unfit?: string }>;
  /**
   * Sends a message to a run, which takes it with `waitFor`, now or later. The run is named by its id, or by its job and the idempotency key
   * with which it was enqueued. A `dedupeKey` that was used before for this run gives the message of that time.
   *
   * ```ts ignore
   * await client.send(812, "confirmed", { by: "ada@example.com" }, { dedupeKey: "mail-4711" });
   * await client.send({ job: onboarding, key: "user-7" }, "confirmed", { by: "ada@example.com" });
   * ```
   * @throws EnqueueError when there is no such run, it has ended, its job takes no such message, or the payload does not fit.
   */
  send(run: RunNamed, name: string, payload?: unknown, options?: { dedupeKey?: string }): Promise<MessageSent>;
  /**
   * Makes a bulk: many runs of one job, fed a few at a time, so that a hundred thousand items load neither the database nor
   * the workers. All items are stored or none: in one transaction, in which the source of the items may take up to a
   * minute for each few thousand. Args are typed and checked as in `enqueue`; those of a query by what was last synced of the job.
   *
   * ```ts ignore
   * const { id } = await client.bulk(wipe, devices.map((device) => ({ device })), {
   *   parallel: 8, priority: "admin.high", serialKey: `tenant:${tenant}`, maxFailures: 50, onFinish: "report_wipe",
   * });
   * await client.bulk(wipe, { sql: "select jsonb_build_object('device', id) as args from device" }, { intervalSeconds: 60 });
   * ```
   * @throws EnqueueError when the job is unknown, args do not fit, or an option is out of range.
   */
  bulk<Input>(job: Job<Input>, items: BulkItems<NoInfer<Input>>, options?: BulkOptions): Promise<BulkStarted>;
  bulk(job: string, items: BulkItems<unknown>, options?: BulkOptions): Promise<BulkStarted>;
  /**
   * Changes a bulk while it runs; the leader acts on it within a tick.
   *
   * ```ts ignore
   * await client.changeBulk(id, { parallel: 20, priority: "admin.high" });
   * await client.changeBulk(id, { state: "PAUSED", reason: "the license server is down" });
   * ```
   * @throws EnqueueError when there is no such bulk, it has ended, or a value is out of range.
   */
  changeBulk(id: number, changes: BulkChanges): Promise<void>;
  /** How far a bulk is, how fast it goes and when it will be done; undefined: there is none. */
  bulkProgress(id: number): Promise<BulkProgress | undefined>;
  /** A new bulk of those items whose runs have failed and that were not repeated yet; undefined: there are none. */
  retryBulk(id: number): Promise<BulkStarted | undefined>;
  /** The same client inside your own transaction: what it enqueues or emits exists only if that commits. */
  within(transaction: Transaction): Omit<Client, "within" | "close">;
  /** Closes its connections. */
  close(): Promise<void>;
}

const CLOSE_MS = 5_000;

/**
 * Opens a client; the first one also serves `job.delay()`. Connects when first used.
 * @throws EnqueueError when `databaseUrl` is no URL of a Postgres, or `maxConnections` no whole number from 1.
 */
export function createClient(options: ClientOptions): Client {
  if (!isPostgresUrl(options.databaseUrl ?? "")) {
    throw new EnqueueError(
      "Cannot open a client: the database's URL is missing or none; give postgres://user:password@host:5432/database",
      { says: { code: "misuse" } },
    );
  }
  const { maxConnections = 4 } = options;
  if (!Number.isInteger(maxConnections) || maxConnections < 1) { // with none, every call would wait for ever
    throw new EnqueueError(
      `Cannot open a client: maxConnections is a whole number from 1: current value is ${maxConnections}`,
      {
        says: { code: "misuse" },
      },
    );
  }
  const sql = connectDb(options.databaseUrl, { name: "client", max: maxConnections, steady: true });
  const asked = new Set<Promise<unknown>>();
  const awaited = <Answer>(answer: Promise<Answer>): Promise<Answer> => {
    const answered = () => asked.delete(answer);
    asked.add(answer);
    answer.then(answered, answered);
    return answer;
  };
  const client: Client = {
    ...callsOn(sql),
    enqueue: (job: Job | string, args: unknown, options: EnqueueOptions = {}) => {
      return awaited(enqueueOne(sql, job, { ...options, args }));
    },
    emit: (type, payload = {}, { checkPayload, ...options } = {}) => {
      const given = { payload, ...options };
      return awaited(checkPayload ? emitChecked(sql, type, given) : emitOne(sql, type, given));
    },
    within: (transaction) => callsWithin(transaction as unknown as TransactionSql),
    async close() {
      if (shared[DELAY] === delay) delete shared[DELAY];
      await within(CLOSE_MS, "what was asked", Promise.allSettled(asked)).catch(() => {}); // some may still wait to be sent
      await sql.end({ timeout: CLOSE_MS / 1000 });
    },
  };
  const shared = globalThis as { [DELAY]?: Delay };
  const delay: Delay = (job, args, delayOptions) => client.enqueue(job, args, delayOptions);
  shared[DELAY] ??= delay;
  return client;
}

/** What changes a bulk is audited by us, also in the application's transaction. */
function callsWithin(tx: TransactionSql): Omit<Client, "within" | "close"> {
  const calls = callsOn(tx);
  return {
    ...calls,
    bulk: ((...asked: [Job, BulkItems<unknown>, BulkOptions?]) => asOwnAct(tx, () => calls.bulk(...asked))) as Client[
      "bulk"
    ],
    changeBulk: (...asked) => asOwnAct(tx, () => calls.changeBulk(...asked)),
    retryBulk: (...asked) => asOwnAct(tx, () => calls.retryBulk(...asked)),
  };
}

/** Checked first: a check that fails must not look like an event that was not emitted. */
async function emitChecked(sql: Db, type: string, given: EventGiven): Promise<{ id: number; unfit?: string }> {
  const { event_type, payload } = eventOf(type, given);
  const now = JSON.parse(JSON.stringify(payload)); // the caller may change it meanwhile
  const unfit = unfitText(await eventFit(sql, { event_type, payload: now }));
  return { ...await emit(sql, type, { ...given, payload: now }), ...(unfit && { unfit }) };
}

function callsOn(sql: Db): Omit<Client, "within" | "close"> {
  return {
    enqueueMany:
      ((job: Job | string, items: readonly EnqueueItem<unknown>[]) => enqueueMany(sql, job, items)) as Client[
        "enqueueMany"
      ],
    enqueue: async (job: Job | string, args: unknown, options: EnqueueOptions = {}) => {
      const [enqueued] = await enqueueMany(sql, job, [{ ...options, args }]);
      return enqueued as Enqueued;
    },
    emit: (type, payload = {}, { checkPayload, ...options } = {}) =>
      (checkPayload ? emitChecked : emit)(sql, type, { payload, ...options }),
    send: (run, name, payload = null, options = {}) =>
      sendToRun(sql, run, { name, payload }, { ...options, sent_by: "client" }),
    bulk:
      ((job: Job | string, items: BulkItems<unknown>, options: BulkOptions = {}) =>
        startBulk(sql, { job, items, options, actor: "client" })) as Client["bulk"],
    changeBulk: (id, changes) => applyChanges(sql, id, { ...changes, actor: "client" }),
    bulkProgress: (id) => readBulk(sql, id),
    retryBulk: async (id) => {
      const made = await retryBulk(sql, id, { actor: "client" });
      if (!made) {
        throw new EnqueueError(`Cannot retry bulk ${id}: there is none`, {
          why: "not_found",
          says: { code: "none", what: String(id) },
        });
      }
      return made.bulk_id === null ? undefined : { id: Number(made.bulk_id), isNew: true, items: made.items };
    },
  };
}
