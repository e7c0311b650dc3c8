/** `bulk`: many runs of one job, looked at, made and changed while they run. Acts are audited under the name of the shell's user. */
import {
  cancelBulk,
  changeOneBulk,
  pauseBulk,
  resumeBulk,
  retryFailedItems,
  startOneBulk,
} from "../../actions/bulk_actions.ts";
import type { Sql } from "../../postgres/connection.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { argsCheck } from "../../actions/job_args.ts";
import { type BulkView, type Forecast, forecastBulk, listBulks, readBulk } from "../../bulks/bulk_view.ts";
import { type FailureKind, failureKinds } from "../../bulks/bulk_items.ts";
import { act, type JsonOption, performOn, withDb } from "../operator.ts";
import { CommandError, EXIT, pairsText, printJson, say, warn } from "../../app/output.ts";
import { errorLine } from "./run_text.ts";
import { printTable } from "../table.ts";
import { localTimes, timeText } from "../times.ts";
import { idFrom, priorityFrom } from "../inputs.ts";

/** As they were typed; checked by what takes them, which says what is wrong. */
interface Pace {
  parallel?: string;
  interval?: string;
  priority?: string;
  maxFailures?: string;
  throttleAbove?: string;
}

export async function listCommand(options: JsonOption & { open?: boolean; limit: number }): Promise<void> {
  const bulks = await withDb((sql) => listBulks(sql, { open: options.open, most: options.limit }));
  if (options.json) return printJson(bulks);
  printTable(
    ["id", "job", "name", "state", "ended", "failed", "running", "per minute", "done"],
    bulks.map((bulk) => [
      bulk.id,
      bulk.job_name,
      bulk.name || "-",
      bulk.state,
      `${bulk.succeeded + bulk.failed + bulk.canceled}/${bulk.items}`,
      bulk.failed,
      bulk.finished_at ? "-" : `${bulk.running}/${bulk.running_limit}`,
      bulk.per_minute === null ? "-" : Math.round(bulk.per_minute),
      bulk.finished_at ?? bandText(bulk),
    ]),
    options.open ? "no open bulks" : "no bulks yet; start one: deno task bulk start JOB --sql '...'",
  );
}

export async function showCommand(id: string, options: JsonOption): Promise<void> {
  const bulk_id = idFrom(id, "a bulk's id");
  const [bulk, failures] = await withDb(async (sql) => {
    const bulk = await readBulk(sql, bulk_id);
    return [bulk, bulk && bulk.failed > 0 ? await failureKinds(sql, bulk_id, KINDS_SHOWN) : []] as const;
  });
  if (!bulk) throw noSuchBulk(id);
  if (options.json) return printJson({ ...bulk, unfed: bulk.items - bulk.fed, failures });
  say(describe(bulk));
  if (bulk.failed > 0) sayFailures(bulk, failures);
}

const KINDS_SHOWN = 20;

function sayFailures(bulk: BulkView, kinds: FailureKind[]): void {
  say("\nfailures");
  printTable(
    ["error", "runs", "examples", "message"],
    kinds.map((
      kind,
    ) => [kind.error_name || "no name", kind.runs, examplesText(kind), errorLine({ ...kind, error_name: null })]),
    "the failed runs are deleted (run_retention_days)",
  );
  const others = bulk.failed - kinds.reduce((sum, kind) => sum + kind.runs, 0);
  if (kinds.length > 0 && others > 0) say(`and ${others} more failures not examined, or with deleted runs`);
}

function examplesText({ examples }: FailureKind): string {
  return examples.map(({ job_run_id, seq }) => `run ${job_run_id}${seq === null ? "" : ` of item ${seq}`}`).join(", ");
}

interface StartOptions extends JsonOption, Pace {
  sql?: string;
  items?: string;
  name?: string;
  key?: string;
  serialKey?: string;
  onFinish?: string;
  onFailure?: string;
}

export async function startCommand(job: string, options: StartOptions): Promise<void> {
  const { sql: query, items: file, name, serialKey, onFinish, onFailure } = options;
  if ((query === undefined) === (file === undefined)) {
    throw new CommandError(
      `Cannot start a bulk of "${job}": its items are missing; give either --sql QUERY or --items FILE`,
      EXIT.usage,
    );
  }
  const fixed = {
    name,
    serial_key: serialKey,
    on_finish: onFinish,
    on_failure: onFailure,
    idempotency_key: options.key,
  };
  const pace = paceFrom(options);
  const unknown = new UnknownKeys();
  const made = await withDb(async (sql) => {
    const items = query === undefined
      ? linesOf(file as string, await argsCheck(sql, job, "start a bulk of"))
      : { sql: query };
    return await performOn(sql, startOneBulk, { job_name: job, items, ...fixed, ...pace, unknown }, {});
  });
  warn(unknown.texts());
  if (options.json) return printJson({ id: made.id, is_new: made.isNew, items: made.items });
  say(
    made.isNew
      ? `bulk ${made.id} created, with ${made.items} items; see \`deno task bulk show ${made.id}\``
      : `bulk ${made.id} already exists with this key`,
  );
}

export async function setCommand(id: string, options: JsonOption & Pace & { reason?: string }): Promise<void> {
  const changes = paceFrom(options);
  if (Object.keys(changes).length === 0) {
    const flags = "--parallel, --interval, --priority, --max-failures, --throttle-above";
    throw new CommandError(`Cannot change bulk "${id}": no option is given; give at least one of ${flags}`, EXIT.usage);
  }
  const bulk = await changed(id, (sql, bulk) => performOn(sql, changeOneBulk, { ...bulk, ...changes }, options));
  if (options.json) return printJson(bulk);
  say(`bulk ${id}: ${settingsText(bulk)}`);
}

const STATES = { pause: pauseBulk, resume: resumeBulk, cancel: cancelBulk };

export async function stateCommand(
  id: string,
  verb: keyof typeof STATES,
  options: JsonOption & { reason?: string },
): Promise<void> {
  const bulk = await changed(id, (sql, bulk) => performOn(sql, STATES[verb], bulk, options));
  if (options.json) return printJson(bulk);
  const what = {
    pause: `paused; ${bulk.running} of its runs go on, no more start`,
    resume: `resumed, at most ${bulk.parallel} runs at once`,
    cancel: `canceled; its ${bulk.running} running runs are being stopped`,
  };
  say(`bulk ${id}: ${what[verb]}`);
}

export async function retryCommand(id: string, options: JsonOption): Promise<void> {
  const made = await act(retryFailedItems, { id: idFrom(id, "a bulk's id") }, {});
  if (options.json) return printJson({ id: made.bulk_id, retry_of: Number(id), items: made.items });
  say(`bulk ${made.bulk_id} created, with the ${made.items} failed items of bulk ${id}`);
}

export async function whatIfCommand(id: string, options: JsonOption & { parallel: number }): Promise<void> {
  const found = await withDb((sql) => forecastBulk(sql, idFrom(id, "a bulk's id"), options.parallel));
  if (!found) throw noSuchBulk(id);
  const { bulk, at } = found;
  if (bulk.finished_at) throw new CommandError(`Cannot forecast bulk "${id}": it has ended`);
  if (options.json) return printJson({ id: bulk.id, now: bandOf(bulk), at: { ...at } });
  say(whatIfText(bulk, at));
}

function whatIfText(bulk: BulkView, at: Forecast): string {
  if (!at.done_from) return `bulk ${bulk.id}: no forecast yet: too few of its runs have ended`;
  const slots = at.at_once < at.parallel ? ` (at most ${at.at_once} of its runs can run at once)` : "";
  return `bulk ${bulk.id} at ${at.parallel} instead of ${bulk.running_limit}: done ${bandText(at)} instead of ${
    bandText(bulk)
  }${slots}`;
}

/** The bulk as it is after the change. */
async function changed(id: string, change: (sql: Sql, bulk: { id: number }) => Promise<void>): Promise<BulkView> {
  const bulk_id = idFrom(id, "a bulk's id");
  return await withDb(async (sql) => {
    await change(sql, { id: bulk_id });
    return await readBulk(sql, bulk_id) as BulkView;
  });
}

function paceFrom(options: Pace) {
  const all = {
    parallel: numberFrom("--parallel", options.parallel),
    interval_seconds: numberFrom("--interval", options.interval),
    priority: options.priority === undefined ? undefined : priorityFrom(options.priority),
    max_failures: options.maxFailures === "none" ? null : numberFrom("--max-failures", options.maxFailures),
    throttle_above: options.throttleAbove === "none" ? null : numberFrom("--throttle-above", options.throttleAbove),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as typeof all;
}

function numberFrom(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new CommandError(`Cannot use "${text}" as ${flag}: give a number`, EXIT.usage);
}

/** One item for each line that is not empty. */
type ArgsCheck = Awaited<ReturnType<typeof argsCheck>>;

async function* linesOf(file: string, check: ArgsCheck): AsyncGenerator<unknown> {
  let number = 0;
  let begun = "";
  for await (const text of await opened(file)) {
    const lines = (begun + text).split("\n");
    begun = lines.pop() as string;
    for (const line of lines) yield* itemFrom(line, { file, number: ++number, check });
  }
  yield* itemFrom(begun, { file, number: ++number, check });
}

async function opened(file: string): Promise<ReadableStream<string>> {
  try {
    const bytes = file === "-" ? Deno.stdin.readable : (await Deno.open(file)).readable;
    return bytes.pipeThrough(new TextDecoderStream());
  } catch (error) {
    throw new CommandError(`Cannot read the items of ${file}: ${(error as Error).message}`);
  }
}

function* itemFrom(line: string, at: { file: string; number: number; check: ArgsCheck }): Generator<unknown> {
  if (line.trim() === "") return;
  try {
    const args = JSON.parse(line);
    at.check(args, { which: `line ${at.number} of ${at.file}` });
    yield args;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new CommandError(`Cannot read line ${at.number} of ${at.file}: it is not JSON: ${error.message}`);
  }
}

function describe(bulk: BulkView): string {
  const percent = `${Math.floor(bulk.progress * 100)} %`;
  return pairsText([
    ["bulk", `${bulk.id} of ${bulk.job_name}${bulk.name ? `: ${bulk.name}` : ""}`],
    ["state", bulk.state],
    ["why waiting", bulk.wait_reason && localTimes(bulk.wait_reason)],
    ["settings", settingsText(bulk)],
    [
      "throttled",
      bulk.throttled === null ? null : `to ${bulk.throttled} of ${bulk.parallel}, because too many runs failed`,
    ],
    ["serial key", bulk.serial_key],
    ["progress", percent],
    ["items", itemsText(bulk)],
    ["rate", bulk.per_minute === null ? null : `${bulk.per_minute.toFixed(1)} per minute, each ${rangeText(bulk)}`],
    ["done", bulk.finished_at ? null : bulk.done_from && bandText(bulk)],
    [
      "at its end",
      [bulk.on_finish, bulk.on_failure && `${bulk.on_failure} after failures`].filter(Boolean).join(", ") || null,
    ],
    ["retry of bulk", bulk.retry_of],
    ["created", `${timeText(bulk.created_at)} by ${bulk.created_by}`],
    ["started", bulk.started_at && timeText(bulk.started_at)],
    ["finished", bulk.finished_at && timeText(bulk.finished_at)],
  ]);
}

/** Each item is counted once, so that the parts add up. */
function itemsText(bulk: BulkView): string {
  const parts: [count: number, what: string][] = [
    [bulk.succeeded, "succeeded"],
    [bulk.failed, "failed"],
    [bulk.canceled, "canceled or skipped"],
    [bulk.running, "running"],
    [bulk.suspended, "suspended"],
    [bulk.retrying, "waiting for a retry"],
    [bulk.waiting, "waiting"],
    [bulk.items - bulk.fed, bulk.finished_at ? "never started" : "not started yet"],
  ];
  const there = parts.filter(([count]) => count !== 0).map(([count, what]) => `${count} ${what}`);
  return there.length > 0 ? `${bulk.items}: ${there.join(", ")}` : "0";
}

function settingsText(bulk: BulkView): string {
  const most = bulk.max_failures === null ? "" : `, at most ${bulk.max_failures} failures`;
  const throttle = bulk.throttle_above === null ? "" : `, throttled above ${bulk.throttle_above}`;
  return `parallel ${bulk.parallel}, interval ${bulk.interval_seconds} s, priority ${bulk.priority}${most}${throttle}`;
}

function rangeText({ seconds_p25, seconds_p75 }: BulkView): string {
  return seconds_p25 === null || seconds_p75 === null
    ? "-"
    : `${seconds_p25.toFixed(1)} to ${seconds_p75.toFixed(1)} s`;
}

function bandOf({ done_from, done_to }: { done_from: Date | null; done_to: Date | null }) {
  return { done_from, done_to };
}

function bandText({ done_from, done_to }: { done_from: Date | null; done_to: Date | null }): string {
  return done_from && done_to ? `${timeText(done_from)} to ${timeText(done_to).split(" ")[1]}` : "-";
}

function noSuchBulk(id: string): CommandError {
  return new CommandError(`Cannot find bulk "${id}": there is no such bulk; \`deno task bulk ls\` lists the newest`);
}
