/** Bulks as an application asks for them: the options, their checks, and the items' way into the database. */
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import type { Job, Priority } from "../job.ts";
import type { BulkView } from "../bulks/bulk_view.ts";
import {
  addItems,
  addItemsOf,
  allowSlowFilling,
  changeBulk,
  createBulk,
  type NewBulk,
  placesOfBulk,
  readItems,
} from "../bulks/bulks.ts";
import type { Db, Sql } from "../postgres/connection.ts";
import { type Demands, readDemands } from "../definitions/definition_rows.ts";
import { checkText, doNotFit, EnqueueError, jsonText, nameOf, priorityFrom, type RefusalCode } from "./args.ts";
import { argsCheck, noSuchJob } from "./job_args.ts";
import { checkFeasible } from "./requirements.ts";

/**
 * The args of each item of a bulk: given one by one, or by a query of the database with a column `args` (jsonb). All are checked
 * against the schema of the job; one that does not fit is named, and there is no bulk.
 */
export type BulkItems<Input> = Iterable<Input> | AsyncIterable<Input> | { sql: string };

/** How a bulk goes. What is not said to be fixed can be changed while it runs, with `changeBulk`, `deno task bulk` or plain SQL on its row. */
export interface BulkOptions {
  /** So many of its runs at once, at most; default 10. */
  parallel?: number;
  /** At least so long from one feed of up to `parallel` items to the next; default 0: each item as soon as another has ended. */
  intervalSeconds?: number;
  /** Of its runs; default that of the job. A change also moves those that wait or may be tried again. */
  priority?: Priority;
  /**
   * Fixed. Bulks that share one go one after another, in the order in which they were made; the items of each in parallel. Runs of the
   * same key that were asked for before a bulk go before it, and those that are asked for after it wait until all of it has ended.
   */
  serialKey?: string;
  /** More runs than these that end FAILED or TIMED_OUT pause the bulk. Counted anew when it is resumed. */
  maxFailures?: number;
  /**
   * Throttle it by its errors: while more than this share (0 to 1) of the last 20 runs fails, what runs at once is halved, and
   * raised again by one after each 20 that do better. Off by default.
   */
  throttleAbove?: number;
  /**
   * Fixed. A job, or its name, that gets one run when the bulk ends, also when it was canceled; its args are
   * `{ bulk_id, name, state, succeeded, failed, not_done }`.
   */
  onFinish?: Job | string;
  /** Fixed. The same, besides `onFinish`, when at least one of its runs has failed. */
  onFailure?: Job | string;
  /** Fixed. A second bulk of this job with the same key is the first one; its items are not read. */
  idempotencyKey?: string;
  /** Fixed. For people. */
  name?: string;
}

/** A bulk that was made. */
export interface BulkStarted {
  /** The bulk's id. */
  id: number;
  /** False when the idempotency key was used before: then this is the bulk of that time. */
  isNew: boolean;
  /** Items that were stored now. */
  items: number;
}

/** What may change while a bulk runs. `state`: pause, resume or, for good, cancel it. */
export interface BulkChanges extends Pick<BulkOptions, "parallel" | "intervalSeconds" | "priority"> {
  state?: "RUNNING" | "PAUSED" | "CANCELED";
  /** Null: any number. */
  maxFailures?: number | null;
  /** Null: off. */
  throttleAbove?: number | null;
  /** Kept in the audit, and shown while it is paused. */
  reason?: string;
}

/** How far a bulk is. */
export type BulkProgress = BulkView;

interface BulkAsk {
  job: Job | string;
  items: BulkItems<unknown>;
  options: BulkOptions;
  /** For the audit. */
  actor: string;
  reason?: string;
  /** Takes down the keys of args that the job's schema does not name. */
  unknown?: UnknownKeys;
}

/** As one transaction, or as a savepoint of the caller's. */
export function startBulk(sql: Db, ask: BulkAsk): Promise<BulkStarted> {
  const bulk = newBulk(ask);
  if (!("begin" in sql)) return sql.savepoint((tx) => fillBulk(tx, bulk, ask)) as Promise<BulkStarted>;
  return (sql as Sql).begin(async (tx) => {
    await allowSlowFilling(tx);
    return await fillBulk(tx, bulk, ask);
  }) as Promise<BulkStarted>;
}

async function fillBulk(tx: Db, bulk: NewBulk, ask: BulkAsk): Promise<BulkStarted> {
  const made = await createBulk(tx, bulk);
  if ("unknown_job" in made) {
    const { unknown_job: name } = made;
    throw await noSuchJob(tx, name, name === bulk.job_name ? "start a bulk of" : "run at the end of a bulk");
  }
  const { is_new: isNew } = made;
  const id = Number(made.bulk_id); // the application's own connection reads a bigint as a text
  if (!isNew) return { id, isNew, items: 0 };
  await checkNext(tx, bulk, id);
  const items = "sql" in ask.items
    ? await fillFromQuery(tx, { id, job: bulk.job_name, query: ask.items.sql, unknown: ask.unknown })
    : await fillOneByOne(tx, { id, job: ask.job, items: ask.items, unknown: ask.unknown });
  const { resources } = await readDemands(tx, bulk.job_name) as Demands;
  await checkFeasible(tx, `start a bulk of "${bulk.job_name}"`, { selectors: await placesOfBulk(tx, id), resources });
  return { id, isNew, items };
}

/** What runs at its end is given these args: a job that cannot take them is refused now, not then. */
async function checkNext(tx: Db, bulk: NewBulk, bulk_id: number): Promise<void> {
  const sample = { bulk_id, name: bulk.name, state: "FINISHED", succeeded: 1, failed: 1, not_done: 0 };
  for (const next of new Set([bulk.on_finish, bulk.on_failure])) {
    if (next !== undefined) {
      (await argsCheck(tx, next, "run at the end of a bulk"))(sample, {
        which: "the args that it would get",
      });
    }
  }
}

type OneByOne = Exclude<BulkItems<unknown>, { sql: string }>;

async function fillOneByOne(
  tx: Db,
  { id, job, items: source, unknown }: { id: number; job: Job | string; items: OneByOne; unknown?: UnknownKeys },
) {
  const job_name = nameOf(job);
  const check = typeof job === "string" ? await argsCheck(tx, job_name, "start a bulk of", unknown) : undefined;
  let items = 0;
  let [texts, size]: [string[], number] = [[], 0];
  const flush = async () => {
    if (texts.length > 0) await addItems(tx, id, { first_seq: items - texts.length + 1, texts });
    [texts, size] = [[], 0];
  };
  for await (const args of source) {
    items++;
    check?.(args ?? {}, { which: `the args of item ${items}`, item: items });
    const text = await itemText(job_name, job, { args, place: items });
    texts.push(text);
    size += text.length;
    if (texts.length >= ITEMS_AT_ONCE || size >= TEXT_AT_ONCE) await flush();
  }
  await flush();
  return items;
}

const ITEMS_AT_ONCE = 5_000;
const TEXT_AT_ONCE = 4_000_000;

async function itemText(name: string, job: Job | string, item: { args: unknown; place: number }): Promise<string> {
  const what = `item ${item.place} of a bulk of "${name}"`;
  const text = jsonText({ what, item: item.place }, item.args ?? {});
  if (typeof job !== "string" && job.options.args) {
    let answer = job.options.args["~standard"].validate(JSON.parse(text)); // as the run will get them
    if (answer instanceof Promise) answer = await answer;
    if (answer.issues) throw doNotFit({ what: `store ${what}: its args`, item: item.place }, answer.issues);
  }
  return text;
}

async function fillFromQuery(
  tx: Db,
  from: { id: number; job: string; query: string; unknown?: UnknownKeys },
): Promise<number> {
  const items = await itemsOfQuery(tx, from);
  const check = await argsCheck(tx, from.job, "start a bulk of", from.unknown);
  for (let seq = 0; seq < items; seq += ITEMS_AT_ONCE) {
    for (const one of await readItems(tx, from.id, { seq, most: ITEMS_AT_ONCE })) {
      check(one.args, { which: `the args of item ${one.seq} of its query`, item: one.seq });
    }
  }
  return items;
}

async function itemsOfQuery(tx: Db, from: { id: number; job: string; query: string }): Promise<number> {
  try {
    return await addItemsOf(tx, from.id, from.query);
  } catch (error) {
    const { message, code } = error as { message: string; code?: string };
    if (!/^(42|22|23)/.test(code ?? "")) throw error;
    const fix = /q\.args/.test(message) ? "; name its column: select jsonb_build_object(...) as args from ..." : "";
    throw new EnqueueError(`Cannot start a bulk of "${from.job}": its query failed: ${message}${fix}`, {
      says: { code: "query_failed", text: message },
    });
  }
}

function newBulk({ job, items, options, actor, reason }: BulkAsk): NewBulk {
  const job_name = nameOf(job);
  const what = `start a bulk of "${job_name}"`;
  const isSource = typeof items === "object" && items !== null &&
    (Symbol.iterator in items || Symbol.asyncIterator in items || typeof items.sql === "string");
  if (!isSource) {
    throw new EnqueueError(`Cannot ${what}: its items are no iterable and no { sql: "select ... as args" }`, {
      says: { code: "misuse" },
    });
  }
  for (const option of ["idempotencyKey", "serialKey", "name"] as const) checkText(what, option, options[option]);
  const [on_finish, on_failure] = [options.onFinish, options.onFailure].map((next) => next && nameOf(next));
  for (const [option, next] of [["onFinish", on_finish], ["onFailure", on_failure]] as const) {
    if (next !== job_name) continue;
    throw new EnqueueError(`Cannot ${what}: ${option} is that job itself; name another`, {
      says: { code: "next_is_itself", option },
    });
  }
  return {
    job_name,
    name: options.name ?? "",
    parallel: 10,
    interval_seconds: 0,
    ...pace(what, options),
    serial_key: options.serialKey,
    on_finish,
    on_failure,
    idempotency_key: options.idempotencyKey,
    actor,
    reason,
  } as NewBulk;
}

/** Checked, and written with its audit. A state that it has already is no error. */
export async function applyChanges(
  sql: Db,
  id: number,
  { state, reason, actor, ...changes }: BulkChanges & { actor: string },
): Promise<void> {
  const what = `change bulk ${id}`;
  if (state !== undefined && !["RUNNING", "PAUSED", "CANCELED"].includes(state)) {
    throw new EnqueueError(`Cannot ${what}: state is RUNNING, PAUSED or CANCELED: current value is ${state}`, {
      says: { code: "choice", option: "state", words: ["RUNNING", "PAUSED", "CANCELED"] },
    });
  }
  if (reason) checkText(what, "reason", reason);
  const changed = await changeBulk(sql, id, { state, ...pace(what, changes) }, { actor, reason });
  if (!changed) {
    throw new EnqueueError(`Cannot ${what}: there is none`, {
      why: "not_found",
      says: { code: "none", what: String(id) },
    });
  }
  if (changed.finished || (changed.was === "CANCELED" && state !== "CANCELED")) {
    throw new EnqueueError(`Cannot ${what}: it ${changed.finished ? "has ended" : "is canceled"}`, {
      why: "conflict",
      says: { code: "bulk_over", bulk_id: id, state: changed.finished ? "FINISHED" : "CANCELED" },
    });
  }
}

/** What may be given at the start and changed later, checked; only what was given. */
function pace(what: string, options: Omit<BulkChanges, "state" | "reason">) {
  const given: Record<string, number | null> = {};
  const take = (
    column: string,
    value: number | null | undefined,
    rule: { fits: (n: number) => boolean; say: string; says: RefusalCode },
  ) => {
    if (value === undefined) return;
    if (value !== null && !rule.fits(value)) {
      throw new EnqueueError(`Cannot ${what}: ${rule.say}: current value is ${value}`, { says: rule.says });
    }
    given[column] = value;
  };
  const whole = (option: string, least: number) => ({
    fits: (n: number) => Number.isInteger(n) && n >= least && n <= 1_000_000,
    say: `${option} is a whole number from ${least} to 1000000`,
    says: { code: "whole_number" as const, option, least, most: 1_000_000 },
  });
  take("parallel", options.parallel, whole("parallel", 1));
  take("interval_seconds", options.intervalSeconds, {
    fits: (n) => n >= 0 && n <= 31_536_000,
    say: "intervalSeconds is a number from 0 to 31536000",
    says: { code: "number", option: "intervalSeconds", least: 0, most: 31_536_000 },
  });
  take("max_failures", options.maxFailures, whole("maxFailures", 0));
  take("throttle_above", options.throttleAbove, {
    fits: (n) => n > 0 && n < 1,
    say: "throttleAbove is a share between 0 and 1",
    says: { code: "share", option: "throttleAbove" },
  });
  if (options.priority !== undefined) given.priority = priorityFrom(what, options.priority);
  return given;
}
