/** Check scripts are an operator's programs: each runs by itself, within its time, and leaves nothing behind. */
import assert from "node:assert/strict";
import { runScripts } from "../../../src/sandbox/check_scripts.ts";
import { stored } from "../../../src/locale/message.ts";

async function withScripts(
  scripts: Record<string, string>,
  test: (dir: string, file: (name: string) => string) => Promise<void>,
): Promise<void> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-checks-" });
  try {
    for (const [name, source] of Object.entries(scripts)) {
      Deno.writeTextFileSync(`${dir}/${name}`, source, { mode: name.endsWith(".txt") ? 0o644 : 0o755 });
    }
    await test(dir, (name) => `${dir}/${name}`);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

const said = async (dir: string, limit_ms = 60_000) =>
  (await runScripts(dir, limit_ms)).map(({ name, ok, message }) => [name, ok, message]);

Deno.test("exit code 0 means yes, any other no, with the first line that was printed as the reason", async () => {
  await withScripts({
    "a_license": "#!/bin/sh\necho 3 licenses are free\nexit 0\n",
    "b_mount": "#!/bin/sh\necho\necho /data is not mounted\necho more\nexit 3\n",
    "c_silent": "#!/bin/sh\nexit 4\n",
    "d_words": "#!/bin/sh\nprintf 'on stderr \\033[31m' >&2\nexit 1\n",
    "e_talks": "#!/bin/sh\necho first\nhead -c 3000000 /dev/zero\nexit 1\n",
    "f_broken": "#!/no/such/shell\n",
    ".hidden": "#!/bin/sh\nexit 1\n",
    "notes.txt": "not for running",
  }, async (dir) => {
    const [first, second, third, fourth, fifth, sixth, ...others] = await said(dir);
    assert.deepEqual(first, ["a_license", true, "3 licenses are free"]);
    assert.deepEqual(second, ["b_mount", false, "/data is not mounted"]);
    assert.deepEqual(third, ["c_silent", false, stored("nodes.script.exited", { exit_code: 4 })]);
    assert.deepEqual(fourth, ["d_words", false, "on stderr \uFFFD[31m"]);
    assert.deepEqual(fifth, ["e_talks", false, "first"]);
    assert.equal(sixth?.[1], false);
    assert.match(String(sixth?.[2]), /"nodes\.script\.cannot_run"/);
    assert.deepEqual(others, []);
  });
});

Deno.test("a script that takes too long has failed, and nothing that it started is left", async () => {
  await withScripts({
    "sleeps": "#!/bin/sh\nsleep 600 &\necho $! > child\nsleep 600\n",
    "leaves": "#!/bin/sh\nsleep 600 &\necho $! > left\nexit 0\n",
  }, async (dir, file) => {
    const [leaves, sleeps] = await said(dir, 3_000);
    assert.deepEqual(leaves, ["leaves", true, ""]);
    assert.deepEqual(sleeps, ["sleeps", false, stored("nodes.script.late", { ms: 3_000 })]);
    for (const name of ["child", "left"]) {
      const pid = Deno.readTextFileSync(file(name)).trim();
      const state = await Deno.readTextFile(`/proc/${pid}/stat`).then((text) => text.split(" ")[2], () => "gone");
      assert.match(String(state), /Z|X|gone/, `${name} ${pid} is still there`);
    }
  });
});

Deno.test("a script sees neither our environment nor our input", async () => {
  await withScripts(
    { "looks": '#!/bin/sh\ncat\necho "${HOME-none} ${DATABASE_URL-none} $PWD"\nexit 1\n' },
    async (dir) => {
      assert.deepEqual(await said(dir), [["looks", false, `none none ${Deno.realPathSync(dir)}`]]);
    },
  );
});

Deno.test("a folder of scripts that is not there is a failure that says so", async () => {
  const [only] = await said("/no/such/folder");
  assert.deepEqual(only, ["scripts", false, stored("nodes.script.no_folder", { dir: "/no/such/folder" })]);
});
