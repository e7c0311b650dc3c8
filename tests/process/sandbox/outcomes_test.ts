/** What comes of a body: its result or its error, for every way in which a body can come to an end by itself. */
import assert from "node:assert/strict";
import type { Outcome } from "../../../src/sandbox/process_pool.ts";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { fromFileUrl } from "../../../src/platform/paths.ts";
import { Heard, orderFor, ran, withSandbox } from "../../support/bodies.ts";
import { english } from "../../../src/locale/english.ts";

type Failed = Extract<Outcome, { kind: "FAILED" }>;

Deno.test("a body gets its args as the schema made them, and its result is the outcome", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("add", { a: 2, b: 3 }));
    assert.deepEqual(outcome, { kind: "SUCCEEDED", result: { sum: 5 }, exit_code: 0 });
  }));

Deno.test("a body gets its context, logs and reports, and its temp folder is gone afterwards", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("context", { tenant: "t1" }));
    assert(heard.outcome.kind === "SUCCEEDED", JSON.stringify(heard.outcome));
    const { tempDir, ...given } = heard.outcome.result as { tempDir: string };
    assert.deepEqual(given, {
      args: { tenant: "t1" },
      attempt: 2,
      fence: 41,
      jobRunId: 7,
      scheduledFor: "2026-01-02T03:04:05.000Z",
      note: "written",
    });
    await assert.rejects(Deno.stat(tempDir), Deno.errors.NotFound);
    assert.deepEqual(heard.said("stdout"), ["to stdout"]);
    assert.deepEqual(heard.said("stderr"), ["to stderr"]);
    assert.deepEqual(heard.lines.find((line) => line.level === "info"), {
      level: "info",
      message: "with fields",
      fields: { rows: 2 },
    });
    assert.deepEqual(heard.said("warn"), ["two", "lines"]);
    assert.deepEqual(heard.progress, [[0.25, "a quarter"]]);
  }));

Deno.test("a body that asks for no temp folder has none", () =>
  withSandbox(async (sandbox, state_dir) => {
    const heard = new Heard(sandbox, orderFor("waits", "hang"));
    await heard.saying("begun hang");
    const [root] = [...Deno.readDirSync(`${state_dir}/bodies`)];
    assert.deepEqual([...Deno.readDirSync(`${state_dir}/bodies/${root?.name}`)], []);
    heard.body.cancel("enough");
    assert.equal((await heard.body.outcome).kind, "CANCELED");
  }));

Deno.test("progress that waits for its time is told, also when the job file has replaced the timer", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("replaces", {}));
    assert.equal(heard.outcome.kind, "SUCCEEDED", JSON.stringify(heard.outcome));
    assert.deepEqual(heard.progress.map(([fraction]) => fraction), [0.1, 0.5, 0.9]);
  }));

Deno.test("a progress that is no share from 0 to 1 fails the run at the call, and is not told", () =>
  withSandbox(async (sandbox) => {
    const given = {
      "below 0": "-0.01",
      "above 1": "1.01",
      "no number": "NaN",
      endless: "Infinity",
      text: '"0.5" (string)',
      nothing: "undefined (undefined)",
    };
    for (const [args, shown] of Object.entries(given)) {
      const { outcome, progress } = await ran(sandbox, orderFor("reports", args));
      assert(outcome.kind === "FAILED", args);
      assert.deepEqual([outcome.error_name, progress], ["RangeError", []], args);
      const message = `RangeError: Cannot report progress ${shown}: give a number from 0 to 1, such as done / total`;
      const [said, where] = outcome.error_summary.split("\n");
      assert.deepEqual([said, /reports\.ts:\d+/.test(where ?? "")], [message, true]);
    }
    const { outcome, progress } = await ran(sandbox, orderFor("reports", "rounded"));
    assert.deepEqual(
      [outcome.kind, progress],
      ["SUCCEEDED", [[1, undefined]]],
      "a sum may differ from 1 by a rounding",
    );
  }));

Deno.test("args that do not fit the schema fail the run without calling it, for good, naming each place", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("add", { a: "one" }));
    assert.equal(outcome.kind, "FAILED");
    const failed = outcome as Failed;
    assert.equal(failed.error_name, "InvalidArgs");
    assert.equal(failed.retry, "never");
    assert.match(failed.error_summary, /Cannot run "add": its args do not fit the schema: a: .*number.*; b: /);
  }));

const THROWN: { args: string; name: string; summary: RegExp; retry: Failed["retry"] }[] = [
  {
    args: "error",
    name: "RangeError",
    summary:
      /^RangeError: out of range\n\s+at deep \(tests\/support\/bodies\/throws\.ts:5:9\)\n.*\nCaused by Error: the root of it\n/s,
    retry: "policy",
  },
  { args: "text", name: "NonError", summary: /^NonError: just a text$/, retry: "policy" },
  { args: "object", name: "NonError", summary: /^NonError: \{"code":7\}$/, retry: "policy" },
  { args: "nothing", name: "NonError", summary: /^NonError: undefined$/, retry: "policy" },
  { args: "fatal", name: "Fatal", summary: /^Fatal: no use\n/, retry: "never" },
  { args: "later", name: "RetryAfter", summary: /^RetryAfter: try again in 90 s/, retry: { after_seconds: 90 } },
  {
    args: "circle",
    name: "Fatal",
    summary: /^Fatal: all failed\nError: one of them\nFatal: all failed\n/,
    retry: "never",
  },
  { args: "long", name: "Fatal", summary: /^Fatal: with a long stack\n {4}at xxx/, retry: "never" },
  {
    args: "rejection",
    name: "TypeError",
    summary: /^Uncaught outside of run\(\): TypeError: nobody waited\n/,
    retry: "policy",
  },
  {
    args: "timer",
    name: "Error",
    summary: /^Uncaught outside of run\(\): Error: thrown in a timer\n/,
    retry: "policy",
  },
];

Deno.test("what a body throws is its error, with the place in the job file", async (test) => {
  for (const { args, name, summary, retry } of THROWN) {
    await test.step(args, () =>
      withSandbox(async (sandbox) => {
        const { outcome } = await ran(sandbox, orderFor("throws", args));
        assert(outcome.kind === "FAILED", JSON.stringify(outcome));
        assert.equal(outcome.error_name, name);
        assert.match(english(outcome.error_summary), summary);
        assert.deepEqual(outcome.retry, retry);
        assert.equal(outcome.exit_code, 1);
        assert.doesNotMatch(outcome.error_summary, /file:|src\/sandbox|data:/);
      }));
  }
});

const HELD: Record<string, unknown> = {
  nothing: null,
  date: { at: "1970-01-01T00:00:00.000Z" },
  turns: "measured",
};
const NOT_HELD: Record<string, RegExp> = {
  bigint: /result\.rows\[1\] is a BigInt \(2n\); give Number\(it\) or String\(it\)/,
  cycle: /result\.self\.cycle holds itself/,
  function: /result is a function/,
  symbol: /result\.id is a symbol/,
  nan: /result\["a b"\] is NaN/,
  hole: /result\[1\] is undefined/,
  map: /result is a Map; give Object\.fromEntries\(it\)/,
  vanishes: /its toJSON gives nothing/,
  large: /2097154 bytes of JSON, at most 1048576/,
};

Deno.test("what JSON can hold is the result", () =>
  withSandbox(async (sandbox) => {
    for (const [args, result] of Object.entries(HELD)) {
      const { outcome } = await ran(sandbox, orderFor("returns", args));
      assert.deepEqual(outcome, { kind: "SUCCEEDED", result, exit_code: 0 });
    }
    const { outcome } = await ran(sandbox, orderFor("returns", "most"));
    assert.equal(outcome.kind === "SUCCEEDED" && (outcome.result as string).length, 500 * 1024);
  }));

Deno.test("what JSON cannot hold fails the run for good, naming the place", async (test) => {
  for (const [args, message] of Object.entries(NOT_HELD)) {
    await test.step(args, () =>
      withSandbox(async (sandbox) => {
        const { outcome } = await ran(sandbox, orderFor("returns", args));
        assert(outcome.kind === "FAILED", JSON.stringify(outcome).slice(0, 200));
        assert.equal(outcome.error_name, "InvalidResult");
        assert.equal(outcome.retry, "never");
        assert.match(english(outcome.error_summary), message);
      }));
  }
});

Deno.test("a body that exits has failed, whatever its code", () =>
  withSandbox(async (sandbox) => {
    for (const [args, code] of [["Deno.exit", 3], ["process.exit", 0]] as const) {
      const { outcome } = await ran(sandbox, orderFor("ends", args));
      assert(outcome.kind === "FAILED", JSON.stringify(outcome));
      assert.equal(outcome.error_name, "Exited");
      assert.equal(outcome.exit_code, code);
      assert.match(english(outcome.error_summary), new RegExp(`exit code ${code} in run\\(\\)`));
    }
  }));

Deno.test("a promise that can never settle fails the run at once", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("ends", "never settles"));
    assert.equal(outcome.kind === "FAILED" && outcome.error_name, "NeverSettled");
    assert.match(english((outcome as Failed).error_summary), /The promise of run\(\) never settled/);
  }));

const LARGE = [
  ["values of the program", { heap: 160 }, { little: 64, enough: 256 }],
  ["buffers beside them", { buffers: 400 }, { little: 64, enough: 512 }],
] as const;

for (const [what, args, { little, enough }] of LARGE) {
  const ignore = "buffers" in args && Deno.build.os !== "linux"; // elsewhere they have no bound
  Deno.test(
    `a body keeps as much as its memory allows, and no more: ${what}`,
    { ignore },
    () =>
      withSandbox(async (sandbox) => {
        const failed = await ran(sandbox, orderFor("hoards", args, { memory_mb: little }));
        assert.equal((failed.outcome as Failed).error_name, "OutOfMemory", JSON.stringify(failed.outcome));
        assert.match(english((failed.outcome as Failed).error_summary), /more memory than its 64 MiB/);
        const { outcome } = await ran(sandbox, orderFor("hoards", args, { memory_mb: enough }));
        assert(outcome.kind === "SUCCEEDED", JSON.stringify(outcome));
        assert.deepEqual(outcome.result, Object.values(args)[0]);
      }),
  );
}

Deno.test("a body that exhausts its heap has failed by it, and its worker has not", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("ends", "heap", { memory_mb: 64 }));
    assert.equal(outcome.kind === "FAILED" && outcome.error_name, "OutOfMemory");
    assert.match(english((outcome as Failed).error_summary), /64 MiB: raise memoryMb/);
  }));

Deno.test("a body that returns with timers open has succeeded and is gone", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("ends", "open timers"));
    assert.deepEqual(outcome, { kind: "SUCCEEDED", result: "done", exit_code: 0 });
  }));

Deno.test("a body that a stranger kills has failed, and its error names the signal", () =>
  withSandbox(async (sandbox) => {
    const order = orderFor("ends", "wait for a signal");
    const running = sandbox.start(order, {
      onLog: () => Deno.kill(running.pid, "SIGKILL"),
      onProgress() {},
      onSteps() {},
    });
    const outcome = await running.outcome;
    assert.equal(outcome.kind === "FAILED" && outcome.error_name, "Killed");
    assert.match(english((outcome as Failed).error_summary), /Killed by SIGKILL/);
  }));

Deno.test("a job file that cannot be loaded fails the run with the reason", () =>
  withSandbox(async (sandbox, state_dir) => {
    const job_file = `${state_dir}/bodies/absent.ts`;
    const { outcome } = await ran(sandbox, orderFor("add", {}, { job_file }));
    assert.match(
      (outcome as Failed).error_summary,
      /^Loading the job file failed: TypeError: Module not found .*absent\.ts/,
    );
  }));

Deno.test("a body that its machine has no room for was not begun, which is no fault of its own; a check of the node says so", async () => {
  const state_dir = Deno.makeTempDirSync({ prefix: "dandori-crammed-" });
  const program = fromFileUrl(new URL("../../support/sandbox_crammed.ts", import.meta.url));
  const { stdout, stderr } = await new Deno.Command("/bin/sh", {
    args: ["-c", 'ulimit -n 100; exec "$@"', "sh", Deno.execPath(), "run", "-A", program, state_dir],
    cwd: PROJECT_DIR,
  }).output();
  Deno.removeSync(state_dir, { recursive: true });
  const text = new TextDecoder();
  assert(stdout.length > 0, text.decode(stderr));
  const { crammed, lack, free, none } = JSON.parse(text.decode(stdout));
  assert.deepEqual([crammed.kind, crammed.unbegun], ["LOST", true]);
  assert.match(crammed.lack, /Too many open files/);
  assert.match(english(crammed.error_summary), /^Not started: .*Too many open files/);
  assert.match(lack, /Too many open files/);
  assert.deepEqual([free, none], [{ kind: "SUCCEEDED", result: { sum: 3 }, exit_code: 0 }, ""]);
});
