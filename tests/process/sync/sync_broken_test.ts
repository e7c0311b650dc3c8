/** Job files that are broken in every way: the sync says where and why, and changes nothing. */
import assert from "node:assert/strict";
import { readDefinitions } from "../../../src/definitions/definition_rows.ts";
import { assertApplied, job, withSync } from "../../support/job_files/bench.ts";

const BROKEN: { what: string; files: Record<string, string>; at: string; says: RegExp; fix: RegExp }[] = [
  {
    what: "does not parse",
    files: { "x.ts": "export default {\n  a: ((\n}\n" },
    at: "x.ts:3",
    says: /does not parse/,
    fix: /correct/,
  },
  {
    what: "throws on import",
    files: { "x.ts": 'const a = 1;\nthrow new Error("boom" + a);\n' },
    at: "x.ts:2",
    says: /boom/,
    fix: /move what it does into run/,
  },
  {
    what: "loops for ever",
    files: { "x.ts": `for (;;);\n${job()}` },
    at: "x.ts",
    says: /not loaded within 3 s/,
    fix: /loops/,
  },
  {
    what: "waits for ever",
    files: { "x.ts": `await new Promise(() => {});\n${job()}` },
    at: "x.ts",
    says: /./,
    fix: /run\(\)/,
  },
  {
    what: "reads at top level",
    files: { "x.ts": `Deno.readTextFileSync("/etc/hostname");\n${job()}` },
    at: "x.ts:1",
    says: /read/,
    fix: /run/,
  },
  {
    what: "excludes a day that does not exist",
    files: {
      "x.ts": job('schedule: {\n  dailyAt: "02:30",\n  exclude: [\n    "2026-12-31",\n    "2026-02-30",\n  ],\n},'),
    },
    at: "x.ts:9",
    says: /exclude\[1\]: "2026-02-30" names a day that does not exist/,
    fix: /correct the date/,
  },
  {
    what: "spreads its runs beyond the next slot",
    files: { "x.ts": job("schedule: { everyNMinutes: 5, jitterSeconds: 300 },") },
    at: "x.ts:5",
    says: /jitterSeconds must be less than the shortest time between two fires, 300 s: current value is 300/,
    fix: /give at most 299/,
  },
  { what: "ends its process", files: { "x.ts": `Deno.exit(0);\n${job()}` }, at: "x.ts", says: /./, fix: /run/ },
  {
    what: "has no default export",
    files: { "x.ts": "export const a = 1;\n" },
    at: "x.ts",
    says: /default/,
    fix: /export default defineJob/,
  },
  {
    what: "exports something else",
    files: { "x.ts": "export default 42;\n" },
    at: "x.ts",
    says: /./,
    fix: /defineJob/,
  },
  {
    what: "shares its name",
    files: { "a/x.ts": job(), "b/x.ts": job() },
    at: "a/x.ts",
    says: /b\/x\.ts/,
    fix: /rename/,
  },
  {
    what: "has an impossible cron",
    files: { "x.ts": job('schedule: { cron: "0 0 30 2 *" },') },
    at: "x.ts:5",
    says: /never comes/,
    fix: /date that exists/,
  },
  {
    what: "has a broken cron",
    files: { "x.ts": job('schedule: { cron: "61 * * * *" },') },
    at: "x.ts:5",
    says: /no cron pattern/,
    fix: /minute hour/,
  },
  {
    what: "has a bad time zone",
    files: { "x.ts": job('schedule: { dailyAt: "02:30", timezone: "Asia/Tokio" },') },
    at: "x.ts:5",
    says: /"Asia\/Tokio" is no IANA time zone/,
    fix: /./,
  },
  {
    what: "has args that are no schema",
    files: { "x.ts": job("args: { a: 1 },") },
    at: "x.ts",
    says: /args/,
    fix: /./,
  },
  {
    what: "has schedule args that do not fit",
    files: { "x.ts": job("schedule: { everyNMinutes: 5, args: { n: 'x' } }, args: z.object({ n: z.number() }),") },
    at: "x.ts:5",
    says: /args that do not fit/,
    fix: /args of this schedule/,
  },
  {
    what: "has a path trick in its name",
    files: { "..\\x.ts": job() },
    at: "..\\x.ts",
    says: /job name/,
    fix: /rename/,
  },
  {
    what: "imports from outside",
    files: { "x.ts": `import "../../../etc/passwd.ts";\n${job()}` },
    at: "x.ts:1",
    says: /leads out/,
    fix: /move it/,
  },
  {
    what: "has a misspelt option",
    files: { "x.ts": job("timeoutSecond: 5,") },
    at: "x.ts:5",
    says: /timeoutSecond is no option/,
    fix: /timeoutSeconds/,
  },
  {
    what: "limits by a key without saying how many",
    files: { "x.ts": job('concurrency: { key: "{tenant}" },') },
    at: "x.ts",
    says: /concurrency.limit is missing/,
    fix: /limit: 3/,
  },
  {
    what: "takes half a resource",
    files: { "x.ts": job("resources: { license: 0.5 },") },
    at: "x.ts:5",
    says: /whole numbers from 1/,
    fix: /license: 1/,
  },
  {
    what: "has a rate without a count",
    files: { "x.ts": job("rate: { seconds: 5 },") },
    at: "x.ts",
    says: /rate.count is missing/,
    fix: /count: 60/,
  },
  {
    what: "blocks a line that it does not have",
    files: { "x.ts": job('onFailure: "block",') },
    at: "x.ts:5",
    says: /no line of runs/,
    fix: /serialKey/,
  },
  {
    what: "asks for run outside of unsafe",
    files: { "x.ts": job("permissions: { run: ['git'] },") },
    at: "x.ts",
    says: /unsafe/,
    fix: /./,
  },
];

for (const { what, files, at, says, fix } of BROKEN) {
  Deno.test(`a file that ${what} fails the whole sync, and nothing changes`, async () => {
    await withSync({ "good.ts": job() }, async ({ sql, jobs, sync }) => {
      assertApplied(await sync());
      const before = await readDefinitions(sql);
      jobs.write("good.ts", job("priority: 1,"));
      for (const [file, source] of Object.entries(files)) jobs.write(file, source);
      const report = await sync();
      assert.equal(report.problems.length, 1, JSON.stringify(report.problems, null, 1));
      const problem = report.problems[0] as typeof report.problems[0];
      const place = [problem.file, ...(at.includes(":") ? [problem.line] : [])].join(":");
      assert.equal(place, at, JSON.stringify(problem));
      assert.match(problem.reason, says);
      assert.match(problem.fix, fix);
      assert.deepEqual([report.applied, report.plan], [false, null]);
      assert.deepEqual(await readDefinitions(sql), before);
    });
  });
}

for (const [what, changed] of [["a file", "x.ts"], ["a file that it imports", "_shared/part.ts"]] as const) {
  Deno.test(`${what} that changes while it is read is not stored half old and half new: the sync says so`, async () => {
    const whole = (part: string) => `export const options = { priority: ${part} };\n`;
    const source = `import { defineJob } from "dandori";\nimport { options } from "./_shared/part.ts";\n` +
      "export default defineJob({ ...options, run() {} });\n";
    const files = { "x.ts": source, "_shared/part.ts": whole("100") };
    await withSync({ "good.ts": job(), ...files }, async ({ sql, jobs, sync }) => {
      const newer = { "x.ts": `${source}// newer\n`, "_shared/part.ts": whole("900") }[changed];
      const report = await sync("apply", () => Promise.resolve(jobs.write(changed, newer)));
      assert.deepEqual(report.problems, [{
        file: "x.ts",
        reason: "it, or a file that it imports, changed while it was read",
        fix: "sync again",
      }]);
      assert.deepEqual([report.applied, report.plan, await readDefinitions(sql)], [false, null, []]);
      assertApplied(await sync());
      const [, stored] = await readDefinitions(sql);
      assert.equal(stored?.priority, changed === "x.ts" ? 100 : 900);
    });
  });
}

Deno.test("all problems of all files are told at once", async () => {
  const files = {
    "a.ts": job('priority: "first", timeoutSeconds: 0, retry: { maximum: 3 }, schedule: [{}, { everyNMinutes: 0 }],'),
    "b.ts": "export default ((",
    "C.ts": job(),
  };
  await withSync(files, async ({ sync }) => {
    const { problems } = await sync();
    const reasons = problems.map((problem) => `${problem.file} ${problem.reason}`);
    for (
      const said of [
        /a.ts .*priority/,
        /a.ts timeoutSeconds/,
        /a.ts retry.maximum/,
        /a.ts schedule\[0\]/,
        /a.ts schedule\[1\]/,
        /b.ts/,
        /C.ts/,
      ]
    ) {
      assert(reasons.some((reason) => said.test(reason)), `${said} in\n${reasons.join("\n")}`);
    }
    assert.equal(problems.length, 7, reasons.join("\n"));
  });
});

Deno.test("a plain value where an object belongs is shown as the object that was meant", async () => {
  const files = {
    "a.ts": job('schedule: "0 2 * * *", retry: 3,'),
    "b.ts": job("concurrency: 1, rate: 5, retry: { on: { Timeout: 2 } },"),
  };
  await withSync(files, async ({ sync }) => {
    const fixes = (await sync()).problems.map(({ fix }) => fix.replace("write it as ", "")).sort();
    assert.deepEqual(fixes, [
      "{ count: 5, seconds: 1 }",
      '{ cron: "0 2 * * *" }',
      "{ limit: 1 }",
      "{ max: 2 }",
      "{ max: 3 }",
    ]);
  });
});
