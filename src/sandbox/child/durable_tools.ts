/**
 * `step`, `sleep`, `waitFor` and what else `Durable` promises: each call becomes a request to the journal. What is wrong with one rejects
 * it; nothing is thrown at once, so that each way of calling sees the same.
 */
import type { Durable, Json, StepOptions, StepTools, WaitOptions } from "../../job.ts";
import type { JournalRow, StepFrame } from "../frames/step_frames.ts";
import { requestBulk, requestCall, requestStart } from "./child_requests.ts";
import type { DurableParts } from "./durable_parts.ts";
import { durationMs, instantMs } from "./durations.ts";
import { request } from "./durable_request.ts";
import type { StepRequest } from "./journal.ts";
import { type WaitPlan, WaitRequest } from "./wait_request.ts";
import { seededRandom, seededUuid } from "./seeded.ts";
import { scopeOf, withKey } from "./step_names.ts";
import { Step, storedText } from "./step_work.ts";

const CALLBACK_EXPIRES_SECONDS = 30 * 86_400;
const EACH_PARALLEL = 10;

export type AnyDurable = Durable<Record<string, unknown>>;

/** In a scope, what an item of `each` does. */
export function toolsOf(parts: DurableParts, scope = ""): AnyDurable {
  return {
    step: (name, work, options = {}) => requestStep(parts, scope, { name, work, options: options as never }) as never,
    sleep: (duration, name = "") => requestSleep(parts, scope, name, () => ({ in_ms: durationMs(duration, "sleep") })),
    sleepUntil: (when, name = "") =>
      requestSleep(parts, scope, name, () => ({ unix_ms: instantMs(when, "sleep until") })),
    waitFor: (name, options) => requestMessage(parts, scope, { name, options: options ?? {} }) as never,
    waitForEvent: (type, options = {}) => requestEvent(parts, scope, { type, ...options }),
    call: (job, args, options = {}) => requestCall(parts, scope, { job, args, key: options.key }) as never,
    callMany: (job, list, options = {}) => requestBulk(parts, scope, { job, list, options }) as never,
    start: (job, args, options = {}) => requestStart(parts, scope, { job, args, options }),
    each: (items, work, options = {}) => each(parts, scope, { items, work: work as never, options: options as never }),
    callbackUrl: (name, options = {}) => callbackUrl(parts, name, options.expires ?? CALLBACK_EXPIRES_SECONDS),
    isNew: (change) => isNew(parts, scope, change),
    now: () => new Date(parts.journal.now_ms),
    random: () => seededRandom(seedOf(parts, scope, "random")),
    uuid: () => seededUuid(seedOf(parts, scope, "uuid")),
    again: (args) => again(parts, args),
  };
}

function requestStep(
  parts: DurableParts,
  scope: string,
  { name, work, options }: { name: string; work: (tools: StepTools) => unknown; options: StepOptions<never> },
): Promise<unknown> {
  return request(parts, (settle) => {
    if (typeof work !== "function") throw new TypeError(`Cannot do step "${name}": its work is no function`);
    const key = parts.journal.keyFor(scope, "step", withKey(name, options.key));
    const { job_run_id } = parts.order;
    const idempotency_key = `dandori-${job_run_id}-${encodeURIComponent(key.replace(/^((?:\[.*\])?)step:/s, "$1"))}`;
    const { undo, timeoutSeconds } = options;
    if (undo) parts.undos.push({ key, name, idempotency_key, timeoutSeconds, undo: undo as never });
    const done = parts.host.workOf?.(key, name, work) ?? work;
    return new Step({ kind: "step", key, name, idempotency_key, work: done, options, ...settle }, parts);
  });
}

function requestWait<T>(
  parts: DurableParts,
  scope: string,
  make: () => Omit<WaitPlan, "key" | "deliver" | "refuse"> & { name: string; answer(row: JournalRow): unknown },
): Promise<T> {
  return request(parts, ({ resolve, reject }) => {
    const { name, answer, ...plan } = make();
    const key = parts.journal.keyFor(scope, plan.kind, name);
    return new WaitRequest({ ...plan, key, deliver: (row) => resolve(answer(row)), refuse: reject }, parts);
  });
}

function requestSleep(parts: DurableParts, scope: string, name: string, until: () => WaitPlan["until"]): Promise<void> {
  return requestWait(parts, scope, () => ({ kind: "sleep", name, until: until(), answer: () => undefined }));
}

/** Undefined: its limit has passed. */
function answerOf(row: JournalRow): Json | undefined {
  return row.state === "DONE" ? row.result : undefined;
}

function limitOf(timeout: WaitOptions["timeout"], what: string): Pick<WaitPlan, "until"> {
  return timeout === undefined ? {} : { until: { in_ms: durationMs(timeout, what) } };
}

function requestMessage(
  parts: DurableParts,
  scope: string,
  { name, options }: { name: string; options: WaitOptions },
): Promise<unknown> {
  return requestWait(parts, scope, () => {
    checkMessage(parts, name);
    const prompt = promptOf(options);
    return {
      ...{ kind: "message", name, answer: answerOf, with_sender: options.withSender === true },
      ...limitOf(options.timeout, `wait for message "${name}" for`),
      waited_for: { waits_for: name, ...(prompt ? { prompt } : {}) },
    };
  });
}

function checkMessage({ order: { messages, job_name } }: DurableParts, name: unknown): void {
  if (messages === undefined || messages.includes(name as string)) return;
  const known = messages.length === 0 ? "it declares none" : `it has ${messages.map((one) => `"${one}"`).join(", ")}`;
  throw new TypeError(
    `Cannot wait for message ${JSON.stringify(name)}: no message of ${job_name}, ${known} (messages: { ... })`,
  );
}

function promptOf({ ask, show, who, notBy, remind }: WaitOptions): StepFrame["prompt"] {
  if (ask === undefined && show === undefined && who === undefined) return undefined;
  const shown = show === undefined ? undefined : storedText(show, "show");
  if (shown && "problem" in shown) throw new TypeError(`Cannot ask "${ask}": ${shown.problem}`);
  return {
    ...(ask === undefined ? {} : { ask: String(ask) }),
    ...(shown ? { show: JSON.parse(shown.text) } : {}),
    ...(who === undefined ? {} : { who: [...who] }),
    ...(notBy === undefined ? {} : { notBy }),
    ...(remind === undefined ? {} : { remind_seconds: durationMs(remind, "remind each") / 1000 }),
  };
}

function requestEvent(
  parts: DurableParts,
  scope: string,
  { type, where, timeout, name = type }:
    & { type: string; name?: string }
    & NonNullable<Parameters<AnyDurable["waitForEvent"]>[1]>,
): Promise<Json | undefined> {
  return requestWait(parts, scope, () => {
    if (typeof type !== "string" || type === "") throw new TypeError(`Cannot wait for an event: its type is no text`);
    return {
      ...{ kind: "event", name, answer: answerOf, ...limitOf(timeout, `wait for event "${type}" for`) },
      waited_for: { waits_for: type, ...(where ? { where: JSON.parse(JSON.stringify(where)) } : {}) },
    };
  });
}

async function each(
  parts: DurableParts,
  scope: string,
  given: {
    items: Iterable<unknown>;
    work: (item: unknown, tools: AnyDurable, index: number) => unknown;
    options: { parallel?: number; key?: (item: unknown) => string };
  },
): Promise<never[]> {
  const { work, options } = given;
  const items = [...given.items];
  const parallel = options.parallel ?? EACH_PARALLEL;
  if (!Number.isInteger(parallel) || parallel < 1) {
    throw new TypeError(`Cannot do ${parallel} items at a time: give 1 or more`);
  }
  const scopes = items.map((item, place) => scopeOf(scope, options.key ? String(options.key(item)) : String(place)));
  const known = new Set<string>();
  const twice = scopes.find((one) => known.size === known.add(one).size);
  if (twice !== undefined) throw new TypeError(`Cannot do each: two items have the key ${twice.slice(scope.length)}`);
  const results: never[] = [];
  const failures: { place: number; error: unknown }[] = [];
  let next = 0;
  const serve = async () => {
    while (next < items.length && !parts.closed) {
      const place = next++;
      try {
        const value = await work(items[place], toolsOf(parts, scopes[place] as string), place);
        const stored = storedText(value, `the result of item ${scopes[place]}`);
        if ("problem" in stored) throw new TypeError(stored.problem);
        results[place] = JSON.parse(stored.text) as never;
      } catch (error) {
        failures.push({ place, error });
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, serve));
  if (parts.closed) throw parts.closed;
  if (failures.length === 0) return results;
  const errors = failures.sort((a, b) => a.place - b.place).map(({ error }) => error);
  throw new AggregateError(errors, `${errors.length} of ${items.length} items failed`);
}

async function callbackUrl(parts: DurableParts, name: string, expires: unknown): Promise<string> {
  parts.requested();
  checkMessage(parts, name);
  const expires_unix_ms = parts.journal.now_ms + durationMs(expires, "let a callback expire in");
  return String(await parts.ask({ what: "callback", name, expires_unix_ms }));
}

/** False needs no row: what made it so is in the journal for good. */
function isNew(parts: DurableParts, scope: string, change: string): Promise<boolean> {
  const { journal } = parts;
  return request(parts, ({ resolve, reject }) => {
    const key = journal.keyFor(scope, "mark", change);
    if (!journal.recorded(key) && journal.hasUnrequested) {
      journal.answered(key);
      resolve(false);
      return undefined;
    }
    const mark: StepRequest = {
      ...{ key, kind: "mark", refuse: reject },
      begin: () => journal.end(mark, { key, request: "mark", state: "DONE", tries: 1, result: true }),
      deliver: () => resolve(true),
    };
    return mark;
  });
}

function seedOf({ order, counts }: DurableParts, scope: string, what: string): string {
  const name = `${scope}${what}`;
  const count = (counts.get(name) ?? 0) + 1;
  counts.set(name, count);
  return [order.job_name, order.scheduled_for, order.job_run_id, name, count].join(" ");
}

function again({ host }: DurableParts, args: unknown): Promise<never> {
  return new Promise((_, reject) => {
    const stored = storedText(args, "args");
    if ("problem" in stored) return reject(new TypeError(`Cannot go on in a new run: ${stored.problem}`));
    host.onAgain(JSON.parse(stored.text));
  });
}
