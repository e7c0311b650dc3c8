/** Runs and events as an application asks for them: the options, their checks, and what became of them. */
import type { Batcher } from "../platform/timers.ts";
import type { DelayOptions, Job } from "../job.ts";
import { createCheckedRuns, type CreatedRun, createRuns, type NewRun } from "../runs/create_runs.ts";
import { type Db, isUniqueViolation, type Sql } from "../postgres/connection.ts";
import { type Demands, readDemands } from "../definitions/definition_rows.ts";
import { emitEvent, emitEvents, type EventAsked } from "../events/events.ts";
import { checkDate, checkText, doNotFit, EnqueueError, jsonText, nameOf, priorityFrom, storable } from "./args.ts";
import { checkBy, noSuchJob } from "./job_args.ts";
import { checkFeasible, requirementsOf } from "./requirements.ts";
import { type Sized, together } from "./coalesce.ts";

/** Options of one run. */
export type EnqueueOptions = DelayOptions;

/** A run that was enqueued. */
export interface Enqueued {
  /** The run's id. */
  id: number;
  /** False when the idempotency key was used before: then this is the run of that time. */
  isNew: boolean;
}

/** One of many runs of one job. */
export interface EnqueueItem<Input> extends EnqueueOptions {
  args: Input;
}

/** All of them or none, as one statement; answers in the order of `items`. */
export async function enqueueMany(
  sql: Db,
  job: Job | string,
  items: readonly EnqueueItem<unknown>[],
): Promise<Enqueued[]> {
  const name = nameOf(job);
  const asked = await Promise.all(items.map((item, place) => {
    return new_runOf(name, job, { item, place: items.length === 1 ? undefined : place + 1 });
  }));
  return asked.length === 0 ? [] : await enqueueAll(sql, job, asked.map(({ new_run }) => new_run));
}

/** One of which there may be others; coalesce.ts. */
export async function enqueueOne(sql: Sql, job: Job | string, item: EnqueueItem<unknown>): Promise<Enqueued> {
  const { new_run, text } = await new_runOf(nameOf(job), job, { item, place: undefined });
  const { runs } = gatheredOn(sql);
  let gather = runs.get(job);
  if (!gather) {
    if (runs.size >= MOST_REMEMBERED) runs.clear();
    gather = together((asked) => enqueueAll(sql, job, asked.map(({ new_run }) => new_run)));
    runs.set(job, gather);
  }
  return await gather.add({ new_run: { ...new_run, args: JSON.parse(text) }, chars: text.length }); // as they are now
}

interface Gathered {
  runs: Map<Job | string, Batcher<{ new_run: NewRun } & Sized, Enqueued>>;
  events: Batcher<EventAsked & Sized, number>;
}

const gathered = new WeakMap<Sql, Gathered>();

function gatheredOn(sql: Sql): Gathered {
  let found = gathered.get(sql);
  if (!found) gathered.set(sql, found = { runs: new Map(), events: together((events) => emitEvents(sql, events)) });
  return found;
}

async function enqueueAll(sql: Db, job: Job | string, new_runs: NewRun[]): Promise<Enqueued[]> {
  const name = nameOf(job);
  const reads = typeof job === "string" || asksForMore(job, new_runs);
  const created = reads
    ? await createdAsRemembered(sql, job, new_runs) ?? await createdAsRead(sql, job, new_runs)
    : await createRuns(sql, new_runs);
  const enqueued = created.flatMap(({ job_run_id, is_new }) =>
    job_run_id === undefined ? [] : [{ id: Number(job_run_id), isNew: is_new }]
  );
  if (enqueued.length < new_runs.length) throw await noSuchJob(sql, name, "enqueue");
  return enqueued;
}

/**
 * What jobs asked for when they were last read on this pool: who enqueues the same job again and again need not read it each time. The
 * statement that makes the runs compares it with what holds, and a refusal is only said by what was just read.
 */
const remembered = new WeakMap<object, Map<string, Demands>>();
const MOST_REMEMBERED = 1_000;

/** Undefined: nothing is remembered, or it holds no more, or they do not fit it. */
async function createdAsRemembered(sql: Db, job: Job | string, new_runs: NewRun[]): Promise<CreatedRun[] | undefined> {
  const demands = remembered.get(sql)?.get(nameOf(job));
  if (!demands) return undefined;
  try {
    await checkNewRuns(sql, job, { new_runs, demands });
  } catch (error) {
    if (error instanceof EnqueueError) return undefined;
    throw error;
  }
  return await createCheckedRuns(sql, new_runs, demands);
}

async function createdAsRead(sql: Db, job: Job | string, new_runs: NewRun[]): Promise<CreatedRun[]> {
  const name = nameOf(job);
  const demands = await readDemands(sql, name);
  if (!demands) throw await noSuchJob(sql, name, "enqueue");
  await checkNewRuns(sql, job, { new_runs, demands });
  const known = remembered.get(sql) ?? new Map<string, Demands>();
  if (known.size >= MOST_REMEMBERED) known.clear();
  remembered.set(sql, known.set(name, demands));
  return await createRuns(sql, new_runs);
}

/** Emits an event; one whose `dedupeKey` was used before gives the id of that one. */
export async function emit(sql: Db, type: string, given: EventGiven): Promise<{ id: number }> {
  return { id: Number(await emitEvent(sql, eventOf(type, given)).catch(refuseKeyOfOther)) };
}

/** One of which there may be others; coalesce.ts. */
export async function emitOne(sql: Sql, type: string, given: EventGiven): Promise<{ id: number }> {
  const event = eventOf(type, given);
  const text = JSON.stringify(event.payload);
  const asked = { ...event, payload: JSON.parse(text), chars: text.length }; // as it is now
  return { id: Number(await gatheredOn(sql).events.add(asked).catch(refuseKeyOfOther)) };
}

/** The key belongs to an event of another type, and Postgres says of which: a refusal, and no failure. */
export function refuseKeyOfOther(error: unknown): never {
  if (!isUniqueViolation(error)) throw error;
  throw new EnqueueError((error as Error).message, { why: "conflict", says: { code: "key_of_other" } });
}

export interface EventGiven {
  payload: unknown;
  dedupeKey?: string;
}

/** The event as it is stored, or a refusal. */
export function eventOf(type: string, { payload, dedupeKey }: EventGiven) {
  if (!type) {
    throw new EnqueueError('Cannot emit an event without a type: give a name such as "order.placed"', {
      says: { code: "no_event_type" },
    });
  }
  checkText("emit an event", "its type", type);
  checkText(`emit "${type}"`, "dedupeKey", dedupeKey);
  return { event_type: type, payload: storable(`event "${type}"`, payload), dedupe_key: dedupeKey };
}

/** `place`: which of several it is, from 1. */
async function new_runOf(
  name: string,
  job: Job | string,
  { item, place }: { item: EnqueueItem<unknown>; place: number | undefined },
): Promise<{ new_run: NewRun; text: string }> {
  const args = item.args ?? {};
  const text = jsonText(
    { what: place ? `item ${place} of runs of "${name}"` : `a run of "${name}"`, item: place },
    args,
  );
  if (typeof job !== "string" && job.options.args) {
    const answer = await job.options.args["~standard"].validate(JSON.parse(text)); // as the run will get them
    const which = place ? `the args of item ${place}` : "its args";
    if (answer.issues) throw doNotFit({ what: `enqueue "${name}": ${which}`, item: place }, answer.issues);
  }
  const what = place ? `enqueue "${name}", item ${place}` : `enqueue "${name}"`;
  checkDate(what, "runAt", item.runAt);
  for (const option of ["idempotencyKey", "serialKey", "node"] as const) checkText(what, option, item[option]);
  const new_run = {
    job_name: name,
    args,
    idempotency_key: item.idempotencyKey,
    priority: item.priority === undefined ? undefined : priorityFrom(what, item.priority),
    run_at: item.runAt,
    serial_key: item.serialKey,
    node: item.node,
  };
  return { new_run, text };
}

/**
 * By the job's name alone its schema is the one last synced. Whoever has the job itself has checked by that, and asks
 * nothing more unless a node or a resource is named.
 */
async function checkNewRuns(
  sql: Db,
  job: Job | string,
  { new_runs, demands }: { new_runs: NewRun[]; demands: Demands },
): Promise<void> {
  const name = nameOf(job);
  if (typeof job === "string") {
    const check = checkBy(demands.args_schema, name, "enqueue");
    const of = (item: number) => new_runs.length === 1 ? undefined : { which: `the args of item ${item}`, item };
    new_runs.forEach(({ args }, place) => check(args, of(place + 1)));
  }
  const own = new_runs.flatMap(({ node }) => node === undefined ? [] : [node]);
  const rest = new_runs.filter(({ node }) => node === undefined).map(({ args }) => args);
  const { selectors, resources } = await requirementsOf(sql, demands, rest);
  await checkFeasible(sql, `enqueue "${name}"`, { selectors: [...own, ...selectors], resources });
}

function asksForMore({ options }: Job, new_runs: NewRun[]): boolean {
  return options.node !== undefined || options.resources !== undefined ||
    new_runs.some((new_run) => new_run.node !== undefined);
}
