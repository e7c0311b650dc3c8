/**
 * Loaded before each test file: a test that hangs fails by a limit of its own, and the others of its file go on. At its
 * end it says what the process has cost.
 */
import { runInThisContext } from "node:vm";
import { environment } from "../../src/platform/config.ts";
import { cpuSeconds } from "./cpu_time.ts";

/** Far above the slowest test on a slow machine: whoever comes to it hangs. */
const LIMIT_SECONDS = Number(environment().SCHEDULER_TEST_LIMIT_SECONDS || 240);

type Given = [Deno.TestDefinition] | [string, () => void] | [
  string,
  Omit<Deno.TestDefinition, "fn" | "name">,
  () => void,
];

function limited(...given: Given): Given {
  const timeout = LIMIT_SECONDS * 1000;
  if (given.length === 1) return [{ timeout, ...given[0] }];
  return given.length === 2 ? [given[0], { timeout }, given[1]] : [given[0], { timeout, ...given[1] }, given[2]];
}

// Under a name as of Deno's own files, so that a failed test is said to be where it stands, and not here.
const wrap = `(limited) => {
  const { test } = Deno;
  Deno.test = Object.assign((...given) => test(...limited(...given)), test);
}`;
runInThisContext(wrap, { filename: "ext:time_limit" })(limited);

const cpu_file = environment().SCHEDULER_TEST_CPU_FILE;
if (cpu_file) addEventListener("unload", () => Deno.writeTextFileSync(cpu_file, String(cpuSeconds() ?? "")));
