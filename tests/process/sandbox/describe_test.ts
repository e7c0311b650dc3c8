/** What a job file declares, read without any permission; and every way in which a file declares nothing. */
import assert from "node:assert/strict";
import { checkBy } from "../../../src/actions/job_args.ts";
import type { Described } from "../../../src/sandbox/process_pool.ts";
import { bodyFile, withSandbox } from "../../support/bodies.ts";

const DEADLINE_MS = 10_000;
const IMPORT = 'import { defineJob } from "dandori";\n';

async function describeText(source: string, deadline_ms = DEADLINE_MS): Promise<Described> {
  let described: Described | undefined;
  await withSandbox(async (sandbox) => {
    const file = await Deno.makeTempFile({ prefix: "job with spaces é ", suffix: ".ts" });
    try {
      await Deno.writeTextFile(file, source);
      described = await sandbox.describe(file, deadline_ms);
    } finally {
      await Deno.remove(file);
    }
  });
  return described as Described;
}

Deno.test("a job file is described as plain data, its args as JSON Schema", () =>
  withSandbox(async (sandbox) => {
    const described = await sandbox.describe(bodyFile("add"), DEADLINE_MS);
    assert(described.ok, JSON.stringify(described));
    const { options, args_schema, has_args, default_args_problem, schedule_args_problems } = described.description;
    assert.deepEqual(options, {
      description: "Add two numbers",
      schedule: [
        { id: "good", dailyAt: "02:30", args: { a: 1, b: 2 } },
        { everyNMinutes: 5, args: { a: "one", b: 2 } },
      ],
    });
    assert.equal(has_args, true);
    assert.deepEqual((args_schema as { required: string[] }).required, ["a", "b"]);
    assert.match(default_args_problem ?? "", /^a: .*; b: /);
    assert.deepEqual(schedule_args_problems.map(({ place }) => place), [1]);
    assert.match(schedule_args_problems[0]?.problem ?? "", /^a: /);
  }));

const TAKEN: { args: string; takes: unknown; refuses?: unknown }[] = [
  { args: "z.object({ name: z.string().regex(/^\\p{L}+$/u) })", takes: { name: "東京" }, refuses: { name: 1 } },
  { args: "z.object({ code: z.string().min(2).regex(/^[a-f]+$/i) })", takes: { code: "AB" }, refuses: { code: "a" } },
  { args: "z.object({ code: z.string().trim().max(2) })", takes: { code: " ab " }, refuses: { code: 1 } },
  {
    args: "z.object({ n: z.coerce.number().int().min(1), m: z.number() })",
    takes: { n: "5", m: 1 },
    refuses: { n: "5" },
  },
  { args: "z.object({ yes: z.coerce.boolean(), m: z.number() })", takes: { m: 1 }, refuses: { yes: 1 } },
  { args: "z.object({ n: z.preprocess((v) => Number(v), z.number()) })", takes: { n: "5" } },
  {
    args: "z.object({ at: z.coerce.date(), ids: z.array(z.int()) })",
    takes: { at: "2026-11-23", ids: [1] },
    refuses: { at: "2026-11-23", ids: ["x"] },
  },
  { args: "z.object({ n: z.number().catch(1) })", takes: { n: "x" } },
  { args: "z.object({ code: z.string().regex(/^[a-f]+$/) })", takes: { code: "ab" }, refuses: { code: "AB" } },
];

Deno.test("what a schema takes is not refused by the JSON Schema that is said of it", async (test) => {
  for (const { args, takes, refuses } of TAKEN) {
    await test.step(args, async () => {
      const described = await describeText(
        `${IMPORT}import { z } from "zod";\nexport default defineJob({ args: ${args}, run() {} });`,
      );
      assert(described.ok, JSON.stringify(described));
      const check = checkBy(JSON.stringify(described.description.args_schema), "typed", "enqueue");
      check(takes);
      if (refuses !== undefined) assert.throws(() => check(refuses), /do not fit/);
    });
  }
});

const NEVER: { args: string; refused?: RegExp }[] = [
  {
    args: "z.object({ at: z.date() })",
    refused: /^args\.at takes only a date: z\.coerce\.date\(\) reads one from a text; args are JSON/,
  },
  { args: "z.date().transform(String)", refused: /^args takes only a date/ },
  { args: "z.object({ who: z.object({ id: z.bigint().readonly() }) })", refused: /^args\.who\.id takes only a bigint/ },
  { args: "z.tuple([z.string(), z.map(z.string(), z.int())])", refused: /^args\.1 takes only a Map/ },
  { args: "z.object({ tags: z.set(z.string()).optional().nonoptional() })" },
  { args: "z.object({ at: z.coerce.date(), n: z.coerce.bigint() })" },
  {
    args:
      "z.object({ at: z.date().optional(), or: z.date().nullable(), list: z.array(z.date()), all: z.record(z.string(), z.date()) })",
  },
  {
    args:
      "z.object({ at: z.date().default(() => new Date()), or: z.union([z.date(), z.string()]), no: z.date().catch(new Date()) })",
  },
  {
    args:
      "z.object({ at: z.preprocess((v) => new Date(v as string), z.date()), to: z.iso.date().transform(Date).pipe(z.string()) })",
  },
  { args: "(() => { const node = z.object({ get nodes() { return z.array(node).optional(); } }); return node; })()" },
];

Deno.test("a schema of what JSON cannot hold is refused, since it would refuse every run", async (test) => {
  for (const { args, refused } of NEVER) {
    await test.step(args, async () => {
      const source = `${IMPORT}import { z } from "zod";\nexport default defineJob({ args: ${args}, run() {} });`;
      const described = await describeText(source);
      assert.equal(described.ok, refused === undefined, JSON.stringify(described));
      if (!described.ok) assert.match(described.reason, refused as RegExp);
    });
  }
});

Deno.test("what a file prints does not matter", async () => {
  const noise = 'for (let n = 0; n < 1_000; n++) console.log("\\x1e", n);\n' +
    "Deno.stdout.writeSync(new Uint8Array([0x1e, 0xff, 0x00]));\n";
  const described = await describeText(
    `${IMPORT}${noise}export default defineJob({ on: ["a", "b"], run() {} });`,
  );
  assert.deepEqual(described, {
    ok: true,
    description: { options: { on: ["a", "b"] }, args_schema: null, has_args: false, schedule_args_problems: [] },
  });
});

Deno.test("a schema that knows no JSON Schema is a schema all the same", async () => {
  const even = '{ "~standard": { version: 1, vendor: "own", validate: (value) => Number(value) % 2 === 0 ? { value } ' +
    ': { issues: [{ message: "must be even", path: ["n", 0] }] } } }';
  const described = await describeText(`${IMPORT}export default defineJob({ args: ${even} as never, run() {} });`);
  assert.deepEqual(described, {
    ok: true,
    description: {
      options: {},
      args_schema: null,
      has_args: true,
      default_args_problem: "n[0]: must be even",
      schedule_args_problems: [],
    },
  });
});

const BROKEN: { name: string; source: string; kind: string; reason: RegExp; line?: number; column?: number }[] = [
  {
    name: "does not parse",
    source: `${IMPORT}export default defineJob({\n  run() {\n    retur 1;\n  },\n});`,
    kind: "syntax",
    reason: /^Expected ';', '\}' or <eof>$/,
    line: 4,
    column: 11,
  },
  {
    name: "imports a file that is not there",
    source: `${IMPORT}import { nothing } from "./no_such_file.ts";\nexport default defineJob({ run: () => nothing });`,
    kind: "syntax",
    reason: /^Module not found ".*no_such_file\.ts"/,
    line: 2,
    column: 25,
  },
  {
    name: "imports a package that is not in the import map",
    source: `${IMPORT}import lodash from "lodash";\nexport default defineJob({ run: () => lodash });`,
    kind: "syntax",
    reason: /^Import "lodash" not a dependency/,
    line: 2,
    column: 20,
  },
  {
    name: "imports JSON without saying so",
    source: `${IMPORT}import lock from "${
      import.meta.resolve("../../../deno.json")
    }";\nexport default defineJob({ run: () => lock });`,
    kind: "syntax",
    reason: /JSON module without specifying "type": "json"/,
    line: 2,
    column: 18,
  },
  {
    name: "throws on import",
    source: `${IMPORT}function setUp() {\n  throw new RangeError("no set-up here");\n}\nsetUp();\n` +
      "export default defineJob({ run() {} });",
    kind: "threw",
    reason: /^RangeError: no set-up here$/,
    line: 3,
    column: 9,
  },
  {
    name: "asks for a permission on import",
    source: `${IMPORT}const token = Deno.env.get("CANARY_SECRET");\nexport default defineJob({ run: () => token });`,
    kind: "threw",
    reason: /^NotCapable: Requires env access to "CANARY_SECRET"/,
    line: 2,
    column: 24,
  },
  {
    name: "waits for what cannot come",
    source: `${IMPORT}await new Promise(() => {});\nexport default defineJob({ run() {} });`,
    kind: "threw",
    reason: /^its top-level await waits for something/,
    line: 2,
    column: 1,
  },
  {
    name: "has no default export",
    source: `${IMPORT}export const job = 1;`,
    kind: "no_default",
    reason: /no default export/,
  },
  {
    name: "exports something else",
    source: "export default [1];",
    kind: "not_a_job",
    reason: /not a job but an array/,
  },
  {
    name: "has no run",
    source: `${IMPORT}export default defineJob({ description: "x" } as never);`,
    kind: "invalid",
    reason: /^run must be a function: it is undefined$/,
  },
  {
    name: "has an option that is no data",
    source: `${IMPORT}export default defineJob({ retry: { max: 3n } as never, run() {} });`,
    kind: "invalid",
    reason: /^retry\.max is a BigInt \(3n\)/,
  },
  {
    name: "has args that are no schema",
    source: `${IMPORT}export default defineJob({ args: { tenant: "string" } as never, run() {} });`,
    kind: "invalid",
    reason: /^args is no schema: give one of a Standard Schema library/,
  },
  {
    name: "exits",
    source: `${IMPORT}Deno.exit(0);\nexport default defineJob({ run() {} });`,
    kind: "crashed",
    reason: /ends its process with exit code 0/,
  },
];

Deno.test("a file that is no job says why, and where", async (test) => {
  for (const { name, source, kind, reason, line, column } of BROKEN) {
    await test.step(name, async () => {
      const described = await describeText(source);
      assert(!described.ok, JSON.stringify(described));
      assert.equal(described.kind, kind, JSON.stringify(described));
      assert.match(described.reason, reason);
      assert.deepEqual([described.line, described.column], [line, column]);
    });
  }
});

Deno.test("a file that loops for ever is given up at the deadline", async () => {
  const described = await describeText(`${IMPORT}for (;;);\nexport default defineJob({ run() {} });`, 500);
  assert(!described.ok);
  assert.equal(described.kind, "timeout");
  assert.match(described.reason, /not loaded within 0\.5 s/);
});

Deno.test("an error in another file is told with that file's place", () =>
  withSandbox(async (sandbox, state_dir) => {
    await Deno.mkdir(`${state_dir}/jobs`);
    try {
      await Deno.writeTextFile(`${state_dir}/jobs/part.ts`, '\nthrow new Error("in a part");\nexport const part = 1;');
      await Deno.writeTextFile(`${state_dir}/jobs/whole.ts`, 'import { part } from "./part.ts";\nexport default part;');
      const described = await sandbox.describe(`${state_dir}/jobs/whole.ts`, DEADLINE_MS);
      assert(!described.ok);
      assert.match(described.reason, /^Error: in a part \(at .*\/jobs\/part\.ts:2:7\)$/);
      assert.equal(described.line, undefined);
    } finally {
      await Deno.remove(`${state_dir}/jobs`, { recursive: true });
    }
  }));
