/**
 * What `deno task test` runs: starts one Postgres and one Redis for the whole run (or takes those of DATABASE_URL and
 * REDIS_URL), then all tests, the examples in the documentation of the public API among them. Arguments are given to
 * `deno test`: files, `--filter`, `--junit-path`. Types are for `deno check --doc`, which `deno task ok` runs before this. The last line is
 * "N passed, N failed"; with CI set, a test that was skipped fails it.
 */
import { environment, PROJECT_DIR } from "../src/base/config.ts";
import { startTestServices } from "./support/services.ts";

const WITH_EXAMPLES = ["src/job.ts", "src/client.ts"];

interface Counts {
  passed: number;
  failed: number;
  ignored: number;
}

async function runTests(all_args: string[]): Promise<number> {
  const { args, junit_path } = takeJunitPath(all_args);
  const services = await startTestServices();
  console.log(services.detail);
  const report = Deno.makeTempFileSync({ suffix: ".xml" });
  try {
    const files = args.some((arg) => !arg.startsWith("-")) ? [] : ["tests", ...WITH_EXAMPLES];
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["test", "-A", "--no-check", "--parallel", "--doc", `--junit-path=${report}`],
        ...args,
        ...files,
      ],
      cwd: PROJECT_DIR,
      env: { DENO_JOBS: filesAtOnce(), DATABASE_URL: services.database_url, REDIS_URL: services.redis_url },
      stdin: "null",
    }).spawn().status;
    const text = Deno.readTextFileSync(report);
    if (junit_path === "-") console.log(text);
    else if (junit_path !== undefined) Deno.writeTextFileSync(junit_path, text);
    return judge(code, countsIn(text));
  } finally {
    await services.stop();
    Deno.removeSync(report);
  }
}

/** The report that the caller wants besides ours: `deno test` writes one, the last that it is told. */
function takeJunitPath(args: string[]): { args: string[]; junit_path: string | undefined } {
  const place = args.findIndex((arg) => /^--junit-path(=|$)/.test(arg));
  if (place < 0) return { args, junit_path: undefined };
  const separate = args[place] === "--junit-path";
  const junit_path = separate ? args[place + 1] ?? "-" : args[place]?.replace("--junit-path=", "");
  return { args: args.toSpliced(place, separate ? 2 : 1), junit_path };
}

/** One more than there are processors: some wait, for a lease to end or for a process to start. */
function filesAtOnce(): string {
  return environment().DENO_JOBS || String(navigator.hardwareConcurrency + 1);
}

/** Every test and step that deno reports as a testcase. A file that does not load is in no report, only in the exit code. */
function countsIn(report: string): Counts {
  const all = report.match(/<testcase\b/g)?.length ?? 0;
  const failed = report.match(/<(?:failure|error)\b/g)?.length ?? 0;
  const ignored = report.match(/<skipped\b/g)?.length ?? 0;
  return { passed: all - failed - ignored, failed, ignored };
}

function judge(code: number, { passed, failed, ignored }: Counts): number {
  const strict = Boolean(environment().CI);
  if (ignored > 0) {
    const why = strict
      ? "that is not allowed here"
      : "they need a real Redis and a browser: apt-get install redis-server chromium";
    console.log(`${ignored} ignored: ${why}`);
  }
  if (code !== 0 && failed === 0) console.log(`deno test ended with exit code ${code}`);
  const all_failed = failed + (strict ? ignored : 0) + (code !== 0 && failed === 0 ? 1 : 0);
  console.log(`${passed} passed, ${all_failed} failed`);
  return all_failed === 0 && passed > 0 ? 0 : 1;
}

Deno.exit(await runTests(Deno.args));
