/** The test command itself: what it runs, what it counts, what it says; and that a test that hangs fails, by a limit of its own. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { chooseTests, kindOf, KINDS } from "../../support/kinds.ts";
import { batchesOf, LONG_SECONDS, nameOf } from "../../support/test_plan.ts";

const GOOD =
  `Deno.test("is well", () => {});\nDeno.test("is well too", async (t) => void await t.step("within", () => {}));\n`;
const FAILS = `Deno.test("fails", () => { throw new Error("it is broken"); });\n`;
const SKIPPED = `Deno.test({ name: "is not run", ignore: true, fn() {} });\n`;
const HANGS =
  `Deno.test("hangs", () => new Promise(() => setInterval(() => {}, 1000)));\nDeno.test("spins", () => { for (;;); });\n`;
const NEVER_LOADS = `for (;;);\n`;
/** None of them asks a server, so none has to be started. */
const NO_SERVERS = { DATABASE_URL: "postgres://nowhere", REDIS_URL: "redis://nowhere" };

interface Said {
  code: number;
  lines: string[];
  text: string;
}

Deno.test("it counts tests and steps of all files, says what each took, and ends with the sum", async () => {
  await withFiles({ good: GOOD, other: GOOD }, async (run) => {
    const { code, lines } = await run();
    assert.deepEqual([code, lines.at(-1)], [0, "6 passed, 0 failed"]);
    const cost = Deno.build.os === "linux" ? "s \\([\\d.]+ s of CPU\\)" : "s";
    const done = (place: number) => `${place}/2 ok +[\\d.]+ ${cost} \\S+: 3 passed`;
    assert.match(lines.join("\n"), new RegExp(`^${done(1)}\n${done(2)}$`, "m"));
    if (Deno.build.os === "linux") assert.match(lines.at(-2) ?? "", /^CPU: \d+ s of tests, \d+ s of the Postgres/);
  });
});

Deno.test("of a file that fails all is shown that it printed, and it is named at the end", async () => {
  await withFiles({ good: GOOD, bad: FAILS }, async (run) => {
    const { code, lines, text } = await run();
    assert.deepEqual([code, lines.at(-1)], [1, "3 passed, 1 failed"]);
    assert.match(text, /it is broken/);
    assert.match(lines.at(-2) ?? "", /^Failed: .*bad_test\.ts$/);
  });
});

Deno.test("a test that hangs fails after its limit, also one that never yields, and the tests beside it are run", async () => {
  await withFiles({ hangs: HANGS + GOOD, good: GOOD }, async (run) => {
    const { code, lines, text } = await run([], { SCHEDULER_TEST_LIMIT_SECONDS: "1" });
    assert.deepEqual([code, lines.at(-1)], [1, "6 passed, 2 failed"]);
    assert.equal(text.match(/Test timed out after 1000ms/g)?.length, 2);
    assert.match(text, /hangs => \S*hangs_test\.ts:1:6/, "the place of the test, not of what sets its limit");
  });
});

Deno.test("a file that never loads is killed after a limit, and fails", async () => {
  await withFiles({ never: NEVER_LOADS }, async (run) => {
    const { code, lines, text } = await run([], { SCHEDULER_TEST_FILE_LIMIT_SECONDS: "2" });
    assert.deepEqual([code, lines.at(-1)], [1, "0 passed, 1 failed"]);
    assert.match(text, /never_test\.ts has not ended within 2 s, and was killed/);
  });
});

Deno.test("a file that does not load is a failure", async () => {
  await withFiles({ torn: "import nothing from './not_there.ts';\n", good: GOOD }, async (run) => {
    const { code, lines } = await run();
    assert.deepEqual([code, lines.at(-1)], [1, "3 passed, 1 failed"]);
  });
});

Deno.test("what is skipped is said, and with CI it is a failure", async () => {
  await withFiles({ skipped: SKIPPED + GOOD }, async (run) => {
    const here = await run([], { CI: "" });
    assert.deepEqual([here.code, here.lines.at(-1)], [0, "3 passed, 0 failed"]);
    assert.match(here.lines.at(-2) ?? "", /^1 ignored: they need/);
    const there = await run([], { CI: "1" });
    assert.deepEqual([there.code, there.lines.at(-1)], [1, "3 passed, 1 failed"]);
    assert.match(there.lines.at(-2) ?? "", /^1 ignored: that is not allowed here/);
  });
});

Deno.test("a filter chooses tests by name, in either spelling; nothing of that name is a failure", async () => {
  await withFiles({ good: GOOD, other: GOOD, bad: FAILS }, async (run) => {
    for (const filter of [["--filter", "is well too"], ["--filter=is well too"]]) {
      const { code, lines } = await run(filter);
      assert.deepEqual([code, lines.at(-1)], [0, "4 passed, 0 failed"]);
    }
    const none = await run(["--filter", "nobody is called so"]);
    assert.deepEqual([none.code, none.lines.slice(-2)], [1, ["No test is of that name", "0 passed, 0 failed"]]);
  });
});

Deno.test("a JUnit report of all files is written where it is wanted, beside the counts", async () => {
  await withFiles({ good: GOOD, bad: FAILS }, async (run, dir) => {
    const path = `${dir}/report.xml`;
    for (const option of [[`--junit-path=${path}`], ["--junit-path", path]]) {
      const { code, lines } = await run(option);
      assert.deepEqual([code, lines.at(-1)], [1, "3 passed, 1 failed"]);
      const report = Deno.readTextFileSync(path);
      assert.match(
        report,
        /^<\?xml .*\n<testsuites [^>]*>\n<testsuite .*<\/testsuite>\n *<testsuite .*<\/testsuite>\n<\/testsuites>\n$/s,
      );
      assert.equal(report.match(/<testcase /g)?.length, 4);
      Deno.removeSync(path);
    }
  });
});

Deno.test("a name that is no file, folder or kind is refused", async () => {
  await withFiles({ good: GOOD }, async (run) => {
    const { code, text } = await run(["tests/unti"]);
    assert.equal(code, 2);
    assert.match(
      text,
      /^Cannot test tests\/unti: no such file or folder; kinds of tests are unit, store, process, browser, chaos$/m,
    );
  });
});

Deno.test("files are chosen by path, by folder and by kind; each is of one kind", () => {
  const all = chooseTests([]);
  const paths = (named: string[]) => chooseTests(named).map(({ path }) => path).sort();
  assert.deepEqual(paths([...KINDS]), all.map(({ path }) => path).sort());
  for (const kind of KINDS) {
    assert(paths([kind]).length > 0, kind);
    assert.deepEqual(chooseTests([kind]).filter((file) => file.kind !== kind), []);
  }
  const chaos = all.map(({ path }) => path).filter((path) => path.startsWith("tests/chaos/"));
  assert.deepEqual([paths(["tests/chaos/"]), paths(["tests/chaos", "chaos"])], [chaos.sort(), chaos]);
  const [one, other] = chaos as [string, string];
  assert.deepEqual(paths([`./${one}`, `${PROJECT_DIR}/${other}`, one]), [one, other]);
});

Deno.test("a test that stands outside the folders of kinds is refused, with where to put it", () => {
  assert.equal(kindOf("tests/store/runs/x_test.ts"), "store");
  assert.throws(
    () => kindOf("tests/x_test.ts"),
    /^Error: Cannot tell the kind of tests\/x_test\.ts: move it below tests\/unit\/, /,
  );
});

Deno.test("no unit test can start a program or ask a server", () => {
  const [unit] = batchesOf(chooseTests(["unit"]));
  assert(unit?.flags?.includes("--deny-run"));
  for (const { path } of chooseTests(["unit"])) {
    assert.doesNotMatch(
      Deno.readTextFileSync(`${PROJECT_DIR}/${path}`),
      /\/support\/(stores|services|admin|cluster)\.ts"/,
      path,
    );
  }
});

Deno.test("all that needs no server is one batch, the longest come first, and none is known that is not there", () => {
  const all = chooseTests([]);
  const [unit, ...others] = batchesOf(all);
  assert.deepEqual(unit?.files, chooseTests(["unit"]).map(({ path }) => path));
  assert.equal(others.length, all.length - (unit?.files.length ?? 0));
  const longest = Object.keys(LONG_SECONDS).sort((a, b) => (LONG_SECONDS[b] as number) - (LONG_SECONDS[a] as number));
  const order = others.map(({ name }) => nameOf(name)).filter((name) => name in LONG_SECONDS);
  assert.deepEqual(order.map((name) => LONG_SECONDS[name]), longest.map((name) => LONG_SECONDS[name]));
  assert.deepEqual(order.sort(), longest.sort(), "tests/support/test_plan.ts names a file that is gone");
});

/** Test files in a folder of their own; `run` gives them to the command, with flags. */
async function withFiles(
  sources: Record<string, string>,
  test: (run: (flags?: string[], env?: Record<string, string>) => Promise<Said>, dir: string) => Promise<void>,
): Promise<void> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-run-" });
  const files = Object.entries(sources).map(([name, source]) => {
    Deno.writeTextFileSync(`${dir}/${name}_test.ts`, source);
    return `${dir}/${name}_test.ts`;
  });
  const run = async (flags: string[] = [], env: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "tests/run.ts", ...flags, ...files],
      cwd: PROJECT_DIR,
      env: {
        CI: "",
        NO_COLOR: "1",
        SCHEDULER_TEST_LIMIT_SECONDS: "",
        SCHEDULER_TEST_FILE_LIMIT_SECONDS: "",
        ...NO_SERVERS,
        ...env,
      },
      stdin: "null",
    }).output();
    const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)) as [string, string];
    return { code, lines: out.trimEnd().split("\n"), text: out + errors };
  };
  try {
    await test(run, dir);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}
