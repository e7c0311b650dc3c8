/** Module graphs, digests, file names and plans: what a sync is made of, without a database. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { Digests, moduleGraph, moduleGraphs } from "../../../src/sync/module_graph.ts";
import { findJobFiles } from "../../../src/sync/job_files.ts";
import { wordLike } from "../../../src/platform/shown.ts";
import { type JobFolder, withJobs } from "../../support/job_files/folder.ts";

const JOB = 'import { defineJob } from "dandori";\nexport default defineJob({ run() {} });\n';

async function problemsOf(jobs: JobFolder, file: string): Promise<string[]> {
  const answer = await moduleGraph(jobs.path(file), { jobs_dir: jobs.dir, project_dir: PROJECT_DIR });
  assert(!answer.ok, `${file} was not refused`);
  return answer.problems.map(({ file, line, reason }) => `${file}:${line} ${reason}`);
}

async function digestOf(jobs: JobFolder, file: string): Promise<string> {
  const answer = await moduleGraph(jobs.path(file), { jobs_dir: jobs.dir, project_dir: PROJECT_DIR });
  assert(answer.ok, JSON.stringify(answer));
  return answer.graph.digest;
}

Deno.test("a digest changes with the job, with what it imports and with its name, and with nothing else", async () => {
  const files = {
    "a.ts":
      `import { n } from "./_shared/n.ts";\nimport q from "./q.sql" with { type: "text" };\n${JOB}console.log(n, q);`,
    "_shared/n.ts": 'import type { T } from "./types.ts";\nexport const n: T = 1;',
    "_shared/types.ts": "export type T = number;",
    "q.sql": "select 1",
    "other.ts": JOB,
  };
  const digest = await withJobs(files, (jobs) => digestOf(jobs, "a.ts"));
  const changed = (change: Record<string, string>, file = "a.ts") =>
    withJobs({ ...files, ...change }, (jobs) => digestOf(jobs, file));
  assert.match(digest, /^[0-9a-f]{64}$/);
  assert.equal(await changed({}), digest, "another folder");
  assert.equal(await changed({ "other.ts": "export default 1;" }), digest, "a file that is not imported");
  assert.equal(await changed({ "_shared/types.ts": "export type T = 1;" }), digest, "a type-only import");
  assert.notEqual(await changed({ "a.ts": `${files["a.ts"]} ` }), digest, "the job");
  assert.notEqual(await changed({ "_shared/n.ts": "export const n = 2;" }), digest, "a module");
  assert.notEqual(await changed({ "q.sql": "select 2" }), digest, "a text");
  assert.notEqual(await changed({ "b.ts": files["a.ts"] }, "b.ts"), digest, "the name");
  assert.notEqual(await changed({ "a.ts": `import "zod";\n${files["a.ts"]}` }), digest, "a package");
});

Deno.test("many jobs in folders with long names are read, also where a letter becomes many in a URL", async () => {
  const folder = "請求書の作成と送付".repeat(5);
  const names = Array.from({ length: 200 }, (_, n) => `${folder}/job_${n}.ts`);
  await withJobs(Object.fromEntries(names.map((name) => [name, JOB])), async (jobs) => {
    const paths = names.map((name) => jobs.path(name));
    const graphs = await moduleGraphs(paths, { jobs_dir: jobs.dir, project_dir: PROJECT_DIR });
    assert.deepEqual(paths.filter((path) => !graphs.get(path)?.ok), []);
  });
});

const OUTSIDE: { name: string; source: string; says: RegExp }[] = [
  {
    name: "an absolute path, as text",
    source: 'import k from "/etc/hostname" with { type: "text" };k;',
    says: /a.ts:1 .*leads out/,
  },
  { name: "a file URL", source: 'import k from "file:///etc/hostname" with { type: "bytes" };k;', says: /leads out/ },
  { name: "a path upwards", source: '\nimport "../outside.ts";', says: /a.ts:2 .*leads out/ },
  { name: "our own code", source: `import "${PROJECT_DIR}src/postgres/connection.ts";`, says: /leads out/ },
  { name: "a re-export", source: 'export * from "../outside.ts";', says: /leads out/ },
  { name: "a dynamic import", source: 'const x = () => import("../outside.ts");x;', says: /leads out/ },
  {
    name: "a link",
    source: 'import k from "./link.txt" with { type: "text" };k;',
    says: /through a link to \/etc\/hostname/,
  },
  { name: "a data URL", source: 'import "data:text/javascript,1";', says: /code from data:/ },
  { name: "https", source: 'import "https://example.com/x.ts";', says: /code from https:/ },
  { name: "jsr", source: 'import "jsr:@std/path";', says: /code from jsr:/ },
  { name: "an npm package by itself", source: 'import "npm:zod@4.6.7";', says: /names an npm package by itself/ },
  { name: "a name that deno.json does not have", source: 'import "left-pad";', says: /deno.json does not know/ },
  { name: "a file that is not there", source: '\n\nimport "./nope.ts";', says: /a.ts:3 .*finds nothing/ },
  {
    name: "a file that does not parse, two imports away",
    source: 'import "./_mid.ts";',
    says: /_broken.ts:2 does not parse/,
  },
];

for (const { name, source, says } of OUTSIDE) {
  Deno.test(`a job may not import ${name}`, async () => {
    const files = { "a.ts": source, "_mid.ts": 'import "./_broken.ts";', "_broken.ts": "const a = 1;\nlet let = ((;" };
    await withJobs(files, async (jobs) => {
      Deno.writeTextFileSync(`${jobs.dir}/../outside.ts`, "export const secret = 1;");
      Deno.symlinkSync("/etc/hostname", jobs.path("link.txt"));
      const problems = await problemsOf(jobs, "a.ts");
      assert.equal(problems.length, 1, problems.join("\n"));
      assert.match(problems[0] as string, says);
    });
  });
}

Deno.test("a job may import shared code, data, types from anywhere, Node's modules and what deno.json names", async () => {
  const source = `import { z } from "zod";
import { v } from "zod/v4";
import { readFile } from "node:fs/promises";
import type { Config } from "${PROJECT_DIR}src/platform/config.ts";
import data from "./data.json" with { type: "json" };
import { shared } from "./_shared/x.ts";
${JOB}`;
  const files = {
    "sub/a.ts": source,
    "sub/data.json": "{}",
    "sub/_shared/x.ts": "export const shared = 1;",
  };
  await withJobs(files, async (jobs) => {
    assert.match(await digestOf(jobs, "sub/a.ts"), /^[0-9a-f]{64}$/);
  });
});

Deno.test("a linked file is refused where it is imported, since it could not be loaded; one in a linked folder is not", async () => {
  const files = {
    "a.ts": `import "./_shared/linked.ts";\n${JOB}`,
    "b.ts": `import "./_linked/x.ts";\n${JOB}`,
    "_shared/x.ts": "export const x = 1;",
  };
  await withJobs(files, async (jobs) => {
    Deno.symlinkSync("x.ts", jobs.path("_shared/linked.ts"));
    Deno.symlinkSync("_shared", jobs.path("_linked"));
    const [problem] = await problemsOf(jobs, "a.ts");
    assert.match(problem ?? "", /^a\.ts:1 import "\.\/_shared\/linked\.ts" leads to .*linked\.ts, which is a link/);
    assert.match(await digestOf(jobs, "b.ts"), /^[0-9a-f]{64}$/);
  });
});

Deno.test("a worker's digests follow the files: a change, a change back, a removal", async () => {
  const files = { "a.ts": `import "./_x.ts";\n${JOB}`, "_x.ts": "export const x = 1;" };
  await withJobs(files, async (jobs) => {
    const digests = new Digests({ jobs_dir: jobs.dir, project_dir: PROJECT_DIR });
    assert.equal(digests.last("a.ts"), undefined, "never asked");
    const [first, same] = await Promise.all([digests.of("a.ts"), digests.of("a.ts")]);
    assert.deepEqual(first, { digest: await digestOf(jobs, "a.ts") });
    assert.deepEqual(same, first);
    assert.deepEqual(await digests.of("a.ts"), first);
    // The same length, within the same millisecond or so: only the contents tell.
    jobs.write("_x.ts", "export const x = 2;");
    const second = await digests.of("a.ts");
    assert.notDeepEqual(second, first);
    assert.deepEqual(second, { digest: await digestOf(jobs, "a.ts") });
    jobs.write("_x.ts", "export const x = 1;");
    assert.deepEqual(await digests.of("a.ts"), first);
    Deno.removeSync(jobs.path("_x.ts"));
    const gone = await digests.of("a.ts");
    assert("problem" in gone && /finds nothing/.test(gone.problem), JSON.stringify(gone));
    for (const trick of ["../outside.ts", "/etc/hostname", "nope.ts"]) {
      assert("problem" in await digests.of(trick), trick);
    }
  });
});

Deno.test("files below the jobs folder are jobs, but for tests, data and what begins with _ or a dot", async () => {
  const files = [
    "b.ts",
    "deep/er/a.ts",
    "c.js",
    "_d.ts",
    ".e.ts",
    "_shared/f.ts",
    ".git/g.ts",
    "h_test.ts",
    "i.json",
    "j.d.ts",
  ];
  await withJobs(Object.fromEntries(files.map((file) => [file, JOB])), async (jobs) => {
    const { files, problems } = await findJobFiles(jobs.dir);
    assert.deepEqual(problems, []);
    assert.deepEqual(files.map((file) => `${file.name} ${file.command_name}`), [
      "b b.ts",
      "c c.js",
      "a deep/er/a.ts",
    ]);
  });
});

Deno.test("names and places with tricks are refused, each with what to do", async () => {
  const names = [
    "..\\..\\evil.ts",
    "..%2fevil.ts",
    "...ts",
    "Upper.ts",
    "a b.ts",
    "-x.ts",
    "ü.ts",
    `${"x".repeat(65)}.ts`,
    "a\nb.ts",
  ];
  await withJobs(Object.fromEntries(names.map((name) => [name, JOB])), async (jobs) => {
    Deno.symlinkSync("/etc/hostname", jobs.path("out.ts"));
    Deno.symlinkSync("nowhere", jobs.path("dangling.ts"));
    Deno.symlinkSync("Upper.ts", jobs.path("linked.ts"));
    await new Deno.Command("mkfifo", { args: [jobs.path("pipe.ts")] }).output();
    const { files, problems } = await findJobFiles(jobs.dir);
    assert.deepEqual(files, []);
    assert.equal(problems.length, names.length + 4, JSON.stringify(problems, null, 1));
    const fix = (file: string) => problems.find((problem) => problem.file === file)?.fix;
    assert.equal(fix("Upper.ts"), "rename it to upper.ts");
    assert.equal(fix("a b.ts"), "rename it to a_b.ts");
    assert(problems.every((problem) => !/\p{Cc}/u.test(problem.reason + problem.file)), "no control characters");
  });
});

Deno.test("two files of one name are refused, and both are named", async () => {
  await withJobs({ "a/export.ts": JOB, "b/export.ts": JOB, "ok.ts": JOB }, async (jobs) => {
    const { files, problems } = await findJobFiles(jobs.dir);
    assert.deepEqual(files.map((file) => file.name), ["ok"]);
    assert.equal(problems.length, 1);
    assert.match(`${problems[0]?.file} ${problems[0]?.reason}`, /a\/export\.ts.*"export".*b\/export\.ts/);
  });
});

Deno.test("a misspelt word finds the one that was meant", () => {
  assert.equal(wordLike("timezon", ["timezone", "cron"]), "timezone");
  assert.equal(wordLike("dialyAt", ["dailyAt", "cron"]), "dailyAt");
  assert.equal(wordLike("permisions", ["permissions", "priority"]), "permissions");
  assert.equal(wordLike("banana", ["permissions", "priority"]), undefined);
});
