/** Runs batches of test files, each in a process of its own, as many at once as there are places. */
import { after, monotonicMs } from "../../src/platform/timers.ts";
import { environment, PROJECT_DIR } from "../../src/platform/config.ts";

export interface Batch {
  /** What is said of it. */
  name: string;
  files: string[];
  /** How much of the machine it takes, see `runAll`. */
  places: number;
  /** Beside those that all are given. */
  flags?: string[];
}

export interface BatchResult {
  batch: Batch;
  seconds: number;
  /** Of the processor; unknown where the system does not tell, or it was killed. */
  cpu_seconds: number | undefined;
  passed: number;
  failed: number;
  ignored: number;
  /** All that it printed; empty where that was not caught. */
  output: string;
  /** The test suites of its JUnit report. */
  suites: string;
}

export interface RunOptions {
  /** For `deno test`: `--filter`, and whatever else the user gave. */
  flags: string[];
  env: Record<string, string>;
  places: number;
  onResult(result: BatchResult): void;
}

const TIME_LIMIT = new URL("./time_limit.ts", import.meta.url).pathname;

/** Of a whole file. Each of its tests has a limit of its own, see time_limit.ts; but a file may hang while it loads. */
const LIMIT_SECONDS = Number(environment().SCHEDULER_TEST_FILE_LIMIT_SECONDS || 900);

/** In this order, but a batch that is too big for the places that are left is passed by one that is not. */
export async function runAll(batches: Batch[], options: RunOptions): Promise<BatchResult[]> {
  const waiting = batches.map((batch) => ({ ...batch, places: Math.min(batch.places, options.places) }));
  const results: BatchResult[] = [];
  const running = new Set<Promise<void>>();
  let free = options.places;
  while (waiting.length > 0 || running.size > 0) {
    const next = waiting.findIndex(({ places }) => places <= free);
    if (next < 0) {
      await Promise.race(running);
      continue;
    }
    const [batch] = waiting.splice(next, 1) as [Batch];
    free -= batch.places;
    const run = runBatch(batch, options, batches.length === 1).then((result) => {
      free += batch.places;
      running.delete(run);
      results.push(result);
      options.onResult(result);
    });
    running.add(run);
  }
  return results;
}

/** `live`: what it prints is shown while it runs. */
async function runBatch(batch: Batch, { flags, env }: RunOptions, live: boolean): Promise<BatchResult> {
  const report = Deno.makeTempFileSync({ suffix: ".xml" });
  const cpu_file = Deno.makeTempFileSync({ suffix: ".cpu" });
  const from_ms = monotonicMs();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", "-A", "--no-check", `--preload=${TIME_LIMIT}`, `--junit-path=${report}`],
      ...(batch.flags ?? []),
      ...flags,
      ...batch.files,
    ],
    cwd: PROJECT_DIR,
    env: { ...env, SCHEDULER_TEST_CPU_FILE: cpu_file },
    stdin: "null",
    stdout: live ? "inherit" : "piped",
    stderr: live ? "inherit" : "piped",
  }).spawn();
  let too_late = "";
  const cancel = after(LIMIT_SECONDS * 1000, () => {
    too_late = `${batch.name} has not ended within ${LIMIT_SECONDS} s, and was killed\n`;
    if (live) console.log(too_late);
    child.kill("SIGKILL");
  });
  const [{ code }, output] = await Promise.all([child.status, live ? "" : textOf(child)]);
  cancel();
  const xml = take(report);
  const counts = countsIn(xml);
  return {
    batch,
    seconds: (monotonicMs() - from_ms) / 1000,
    cpu_seconds: Number(take(cpu_file)) || undefined,
    ...counts,
    // A file that does not load, or that was killed, is in no report, only in the exit code.
    failed: counts.failed === 0 && code !== 0 ? 1 : counts.failed,
    output: output + too_late,
    suites: xml.match(/<testsuite .*<\/testsuite>/s)?.[0] ?? "",
  };
}

function take(file: string): string {
  const text = Deno.readTextFileSync(file);
  Deno.removeSync(file);
  return text;
}

/** Both streams, in the order in which it came. */
async function textOf({ stdout, stderr }: Deno.ChildProcess): Promise<string> {
  const parts: string[] = [];
  const read = async (stream: ReadableStream<Uint8Array>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) parts.push(text);
  };
  await Promise.all([read(stdout), read(stderr)]);
  return parts.join("");
}

/** Every test and step that deno reports as a testcase; those that a filter leaves out have no time. */
function countsIn(report: string): { passed: number; failed: number; ignored: number } {
  const cases = report.match(/<testcase [^>]* time="[^>]*>.*?<\/testcase>/gs) ?? [];
  const failed = cases.filter((one) => /<(?:failure|error)\b/.test(one)).length;
  const ignored = cases.filter((one) => /<skipped\b/.test(one)).length;
  return { passed: cases.length - failed - ignored, failed, ignored };
}
