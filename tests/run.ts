/**
 * What `deno task test` runs: starts one Postgres and one Redis for the whole run (or takes those of DATABASE_URL and
 * REDIS_URL), then all tests, the examples in the documentation of the public API among them, or those of the files,
 * folders and kinds (see support/kinds.ts) that are named. Flags are given to `deno test`: `--filter`, `--junit-path`.
 * Types are for `deno check --doc`, which `deno task ok` runs before this. It says which files are done and how long each
 * took; the last line is "N passed, N failed". With CI set, a test that was skipped fails it.
 */
import { environment } from "../src/platform/config.ts";
import { chooseTests } from "./support/kinds.ts";
import { startTestServices } from "./support/services.ts";
import { cpuSeconds } from "./support/cpu_time.ts";
import { batchesOf, placesHere } from "./support/test_plan.ts";
import { type BatchResult, runAll } from "./support/test_runs.ts";

const SLOWEST_SHOWN = 8;

async function runTests(args: string[]): Promise<number> {
  const { named, flags, report } = parse(args);
  const files = chooseTests(named);
  const services = files.every(({ kind }) => kind === "unit") ? undefined : await startTestServices();
  if (services) console.log(services.detail);
  const batches = batchesOf(files);
  const say = progress(batches.length);
  let results: BatchResult[];
  try {
    results = await runAll(batches, {
      flags,
      env: services ? { DATABASE_URL: services.database_url, REDIS_URL: services.redis_url } : {},
      places: placesHere(),
      onResult: say,
    });
  } finally {
    await services?.stop();
  }
  if (report) Deno.writeTextFileSync(report, merged(results));
  return judge(results); // only now is it known what the servers have cost
}

/** `--filter` and `--junit-path` may be followed by their value as a word of its own. */
function parse(args: string[]): { named: string[]; flags: string[]; report?: string } {
  const named: string[] = [];
  const flags: string[] = [];
  let report: string | undefined;
  for (let place = 0; place < args.length; place++) {
    const arg = args[place] as string;
    const [, flag, value] = /^(--filter|--junit-path)(?:=(.*))?$/s.exec(arg) ?? [];
    if (flag === "--junit-path") report = value ?? args[++place];
    else if (flag) flags.push(`${flag}=${value ?? args[++place]}`);
    else (arg.startsWith("-") ? flags : named).push(arg);
  }
  return { named, flags, report };
}

/** Says what is done; of a batch that failed or left something out, all that it printed. */
function progress(batches: number): (result: BatchResult) => void {
  let done = 0;
  const width = String(batches).length;
  return ({ batch, seconds, cpu_seconds, passed, failed, ignored, output }) => {
    done++;
    if (batches === 1 || passed + failed + ignored === 0) return; // it was shown while it ran, or the filter left it out
    if (failed > 0) console.log(`\n${output.trim()}\n`);
    const counts = [`${passed} passed`, failed && `${failed} failed`, ignored && `${ignored} ignored`].filter(Boolean);
    const which = `${String(done).padStart(width)}/${batches}`;
    console.log(
      `${which} ${failed > 0 ? "FAILED" : "ok"} ${timeOf(seconds)}${ofCpu(cpu_seconds)} ${batch.name}: ${
        counts.join(", ")
      }`,
    );
  };
}

function timeOf(seconds: number): string {
  return `${seconds.toFixed(1).padStart(5)} s`;
}

function ofCpu(seconds: number | undefined): string {
  return seconds === undefined ? "" : ` (${seconds.toFixed(1)} s of CPU)`;
}

/** Who took longest, who took most of the processor, and how much all tests and the servers beside them took. */
function sayCosts(results: BatchResult[]): void {
  const say = (title: string, of: (result: BatchResult) => number) => {
    const most = results.toSorted((a, b) => of(b) - of(a)).slice(0, SLOWEST_SHOWN);
    console.log(`\n${title}:\n${most.map((one) => `${timeOf(of(one))} ${one.batch.name}`).join("\n")}`);
  };
  const cpuOf = ({ cpu_seconds = 0 }: BatchResult) => cpu_seconds;
  if (results.length > SLOWEST_SHOWN) {
    say("The slowest", ({ seconds }) => seconds);
    say("The most of the processor", cpuOf);
    console.log();
  }
  const all = cpuSeconds();
  if (all === undefined) return;
  const tests = results.reduce((sum, result) => sum + cpuOf(result), 0);
  const servers = Math.max(0, all - tests);
  console.log(`CPU: ${tests.toFixed(0)} s of tests, ${servers.toFixed(0)} s of the Postgres and the Redis beside them`);
}

function judge(results: BatchResult[]): number {
  const sum = (of: (result: BatchResult) => number) => results.reduce((all, result) => all + of(result), 0);
  const strict = Boolean(environment().CI);
  const ignored = sum((result) => result.ignored);
  const failed = sum((result) => result.failed) + (strict ? ignored : 0);
  const passed = sum((result) => result.passed);
  sayCosts(results);
  for (const { batch } of results.filter((result) => result.failed > 0)) console.log(`Failed: ${batch.name}`);
  if (ignored > 0) {
    const why = strict
      ? "that is not allowed here"
      : "they need a real Redis and a browser: apt-get install redis-server chromium";
    console.log(`${ignored} ignored: ${why}`);
  }
  if (passed + failed + ignored === 0) console.log("No test is of that name");
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

/** One JUnit report of all. */
function merged(results: BatchResult[]): string {
  const suites = results.map((result) => result.suites).filter(Boolean).join("\n");
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="deno task test">\n${suites}\n</testsuites>\n`;
}

try {
  Deno.exit(await runTests(Deno.args));
} catch (error) {
  console.error(error instanceof Error && error.message.startsWith("Cannot ") ? error.message : error);
  Deno.exit(2);
}
