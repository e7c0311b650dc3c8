/** The command that runs the tests. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../src/base/config.ts";

/** As `deno task test` does; the tests of one small file. Services that are never asked need not be there. */
async function runTests(...args: string[]): Promise<{ code: number; last_line: string }> {
  const nowhere = { DATABASE_URL: "postgres://localhost:1/nowhere", REDIS_URL: "redis://localhost:1" };
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "tests/run.ts", ...args, "tests/fleeting_test.ts"],
    cwd: PROJECT_DIR,
    env: nowhere,
    stdin: "null",
    stderr: "null",
  }).output();
  return { code, last_line: new TextDecoder().decode(stdout).trimEnd().split("\n").at(-1) ?? "" };
}

Deno.test("a report of the tests is written where --junit-path says, beside the counts", async () => {
  const folder = await Deno.makeTempDir({ prefix: "dandori-run-" });
  try {
    const report = `${folder}/report.xml`;
    for (const option of [[`--junit-path=${report}`], ["--junit-path", report]]) {
      const { code, last_line } = await runTests(...option);
      const tests = (await Deno.readTextFile(report)).match(/<testcase\b/g)?.length ?? 0;
      assert(tests > 0);
      assert.deepEqual([code, last_line], [0, `${tests} passed, 0 failed`]);
      await Deno.remove(report);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
