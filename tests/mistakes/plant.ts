/** Plants one mistake in a copy of the tree, runs the tests that it names, and takes it out again. */
import { within } from "../../src/platform/timers.ts";
import { signalGroup } from "../../src/sandbox/process_table.ts";
import type { Mistake } from "./mistake.ts";

/** A folder with a copy of the tree, used for one mistake at a time. */
export interface Plot {
  dir: string;
  /** Leads the tests to their Postgres and Redis. */
  env: Record<string, string>;
  limit_ms: number;
}

/**
 * `caught`: a test failed. `unnoticed`: all passed. `broken`: it proves nothing, since it does not apply, does not load,
 * no test runs, or the tests hang.
 */
export interface Verdict {
  result: "caught" | "unnoticed" | "broken";
  /** The test that failed, or why it proves nothing. */
  detail: string;
}

type Tests = Pick<Mistake, "tests" | "filter">;

export async function tryMistake(mistake: Mistake, plot: Plot): Promise<Verdict> {
  const file = `${plot.dir}/${mistake.file}`;
  const text = Deno.readTextFileSync(file);
  const problem = whyNotPlanted(mistake, text);
  if (problem) return { result: "broken", detail: problem };
  Deno.writeTextFileSync(file, planted(mistake, text));
  try {
    return await runTests(mistake, plot);
  } finally {
    Deno.writeTextFileSync(file, text);
  }
}

export function whyNotPlanted({ find, replace, file }: Mistake, text: string): string | undefined {
  const times = text.split(find).length - 1;
  if (find === "" || times !== 1) return `\`find\` occurs ${times} times in ${file}, not once: follow what moved there`;
  return find === replace ? "`replace` is the same as `find`" : undefined;
}

export function planted({ find, replace }: Mistake, text: string): string {
  const at = text.indexOf(find);
  return text.slice(0, at) + replace + text.slice(at + find.length);
}

export async function runTests({ tests, filter }: Tests, { dir, env, limit_ms }: Plot): Promise<Verdict> {
  const report = Deno.makeTempFileSync({ suffix: ".xml" });
  const run = new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", "-A", "--no-check", "--quiet", "--fail-fast", `--junit-path=${report}`],
      ...filter === undefined ? [] : ["--filter", filter],
      ...tests,
    ],
    cwd: dir,
    env: { ...env, NO_COLOR: "1" },
    detached: true, // so that what it started can be ended with it
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const end = () => signalGroup(run.pid, "SIGKILL");
  addEventListener("unload", end);
  const output = run.output();
  try {
    const { code, stdout, stderr } = await within(limit_ms, "the tests", output);
    const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    return judge(code, Deno.readTextFileSync(report), printed);
  } catch {
    return {
      result: "broken",
      detail: `its tests did not end within ${limit_ms / 1000} s: a test must fail, not hang`,
    };
  } finally {
    end();
    await output;
    removeEventListener("unload", end);
    Deno.removeSync(report);
  }
}

/** A file that does not load is in no report, nor is an error that ends the test process. */
function judge(code: number, report: string, printed: string): Verdict {
  const [, failed] = /<testcase name="([^"]*)"[^>]*>\s*<(?:failure|error)\b/.exec(report) ?? [];
  if (failed !== undefined) return { result: "caught", detail: unescapeXml(failed) };
  if (code !== 0) {
    const [reason] = /^error: .*/m.exec(printed) ?? [`exit code ${code}`];
    return { result: "broken", detail: `no test failed, but something else did: ${reason}` };
  }
  const ran = /<testcase\b[^>]*>(?!\s*<skipped)/.test(report);
  return ran ? { result: "unnoticed", detail: "every test passed" } : { result: "broken", detail: "no test ran" };
}

function unescapeXml(text: string): string {
  const signs: Record<string, string> = { "&quot;": '"', "&apos;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&" };
  return text.replaceAll(/&(?:quot|apos|lt|gt|amp);/g, (sign) => signs[sign] ?? sign);
}

/** The order that a seed gives, by mulberry32; the same one as long as the names are the same. */
export function choose(mistakes: Mistake[], seed: number): Mistake[] {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return mistakes.toSorted((a, b) => a.id < b.id ? -1 : 1).map((mistake) => ({ mistake, rank: next() }))
    .sort((a, b) => a.rank - b.rank).map(({ mistake }) => mistake);
}
