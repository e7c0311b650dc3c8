/** What job files say for workflows: messages, deadline, jobs that come after others, jobs that a body may call. Stored, planned, and refused where it cannot be. */
import assert from "node:assert/strict";
import { readDefinition, type StoredDefinition } from "../../../src/definitions/definition_rows.ts";
import { reportText } from "../../../src/sync/plan_text.ts";
import type { SyncReport } from "../../../src/sync/sync.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { assertApplied, job, withSync } from "../../support/job_files/bench.ts";

async function stored(sql: Sql, name: string): Promise<StoredDefinition> {
  const definition = await readDefinition(sql, name);
  assert(definition, name);
  return definition;
}

/** "b.ts:5 why | what to do" */
function told({ problems }: SyncReport): string[] {
  return problems.map(({ file, line, reason, fix }) => `${file}:${line} ${reason} | ${fix}`);
}

async function followed(sql: Sql): Promise<string[]> {
  return (await sql<{ name: string }[]>`select name from job_definition where has_followers order by name`).map((
    { name },
  ) => name);
}

const APPROVAL = "z.object({ zone: z.string(), approved: z.boolean(), a: z.number().optional() })";

Deno.test("messages are stored as JSON Schema in the order of the file, with who may send them; the other options beside them", async () => {
  const options =
    `messages: { approval: ${APPROVAL}, ping: { schema: z.string(), from: "emit" } }, onChange: "fail", ` +
    'deadlineSeconds: 86400, permissions: { call: ["b", "mail_*"] },';
  await withSync(
    { "a.ts": job(options), "b.ts": job('after: { jobs: ["a"], when: "end" },') },
    async ({ sql, sync }) => {
      const report = await sync();
      assertApplied(report);
      const a = await stored(sql, "a");
      assert.deepEqual(Object.keys(a.messages), ["approval", "ping"]);
      assert.equal(a.messages.ping?.from, "emit");
      const { properties } = a.messages.approval?.schema as { properties: Record<string, { type: string }> };
      assert.deepEqual(Object.keys(properties), ["zone", "approved", "a"], "a form shows its fields in this order");
      assert.deepEqual([a.on_change, a.deadline_seconds, a.permissions.call], ["fail", 86_400, ["b", "mail_*"]]);
      const b = await stored(sql, "b");
      assert.deepEqual([b.after_jobs, b.after_when, b.messages, b.on_change, b.deadline_seconds], [
        ["a"],
        "end",
        {},
        "continue",
        null,
      ]);
      assert.deepEqual(await followed(sql), ["a"]);
      const text = reportText(report, { color: false });
      assert.match(text, /permissions gained: call b, call mail_\*/);
      assert.match(text, /! a: permissions.call names "mail_\*", and no job's name begins so/);
      assert.equal((await sync()).drift, false, "what was stored is what the files say");
    },
  );
});

Deno.test("a plan tells which messages, calls and jobs to come after have changed, and a file that goes away frees who it followed", async () => {
  const files = {
    "a.ts": job(`messages: { go: z.string(), stop: z.string() },`),
    "b.ts": job('after: "a",'),
    "c.ts": job(),
  };
  await withSync(files, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    assert.deepEqual(await followed(sql), ["a"]);
    jobs.write(
      "a.ts",
      job(`messages: { go: z.number(), wait: { schema: z.string(), from: "emit" } }, permissions: { call: true },`),
    );
    jobs.write("b.ts", job('after: ["a", "c"], /* both */'));
    jobs.write("c.ts", job('after: ["a"],'));
    const report = await sync();
    assertApplied(report);
    const fields = (name: string) =>
      report.plan?.changed.find((one) => one.name === name)?.fields.filter(({ field }) => field !== "code").map(
        ({ field, before, after }) => [field, before, after],
      );
    const schema = (type: string) => ({ $schema: "https://json-schema.org/draft/2020-12/schema", type });
    assert.deepEqual(fields("a"), [
      ["permissions", {}, { call: true }],
      ["messages.go", { schema: schema("string") }, { schema: schema("number") }],
      ["messages.stop", { schema: schema("string") }, null],
      ["messages.wait", null, { schema: schema("string"), from: "emit" }],
    ]);
    assert.deepEqual(fields("b"), [["after", { jobs: ["a"], when: "success" }, { jobs: ["a", "c"], when: "success" }]]);
    assert.match(reportText(report, { color: false }), /permissions gained: call \(all\)/);
    assert.deepEqual(await followed(sql), ["a", "c"]);
    jobs.remove("b.ts");
    assertApplied(await sync());
    assert.deepEqual(await followed(sql), ["a"]);
  });
});

Deno.test("jobs that wait for each other in a circle are refused, and the circle is named", async () => {
  const files = {
    "a.ts": job('after: ["c"],'),
    "b.ts": job('after: ["a"],'),
    "c.ts": job('after: ["b"],'),
    "d.ts": job('after: "d",'),
  };
  await withSync(files, async ({ sync }) => {
    assert.deepEqual(told(await sync()), [
      "a.ts:5 after goes in a circle, in which each waits for the next: a -> c -> b -> a | take one of these names out of the `after` of its job",
      "d.ts:5 after goes in a circle, in which each waits for the next: d -> d | take one of these names out of the `after` of its job",
    ]);
  });
});

Deno.test("jobs that come from no common job cannot be followed together; those that do can, also through others", async () => {
  const graph = {
    "nightly.ts": job('schedule: { dailyAt: "02:00" },'),
    "orders.ts": job('after: "nightly",'),
    "users.ts": job('after: "nightly",'),
    "clean_users.ts": job('after: "users",'),
    "merge.ts": job('after: ["orders", "clean_users"],'),
    "report.ts": job('after: ["nightly", "merge"],'),
  };
  await withSync(graph, async ({ jobs, sync }) => {
    assertApplied(await sync());
    jobs.write("other.ts", job('schedule: { dailyAt: "02:00" },'));
    jobs.write("both.ts", job('\n  after: ["merge", "other"],'));
    assert.deepEqual(told(await sync()), [
      "both.ts:6 after names merge and other, which do not come from one common job: no run of one belongs to a run of the other | " +
      "let them come after one job themselves, or write one job that calls them in its body",
    ]);
  });
});

Deno.test("names of jobs that no file has are refused, also once the file of an unchanged job's forerunner is gone", async () => {
  const files = { "load.ts": job(), "b.ts": job('after: ["load"],'), "c.ts": job('permissions: { call: ["load"] },') };
  await withSync(files, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    jobs.write("c.ts", job('permissions: { call: ["laod"] },'));
    assert.deepEqual(told(await sync()), [
      'c.ts:5 permissions.call names "laod", and no file has a job of that name | did you mean "load"?',
    ]);
    jobs.write("c.ts", job());
    jobs.remove("load.ts");
    assert.deepEqual(told(await sync()), [
      'b.ts:5 after names "load", and no file has a job of that name | correct the name, or put the file back',
    ]);
    assert.equal((await stored(sql, "load")).removed_at, null, "nothing was changed");
  });
});

const WRONG: [what: string, options: string, problem: RegExp][] = [
  [
    "a message's name",
    "messages: { 'Go On': z.string() },",
    /^messages\.Go On is no name of a message \| give 1 to 64 lower case/,
  ],
  [
    "a message that is no schema",
    "messages: { go: { ok: true } },",
    /^messages\.go is no schema: give one of a Standard Schema/,
  ],
  [
    "a date as message",
    "messages: { go: z.object({ at: z.date() }) },",
    /^messages\.go\.at takes only a date: z\.coerce\.date\(\)/,
  ],
  [
    "another sender",
    "messages: { go: { schema: z.string(), from: 'anyone' } },",
    /^messages\.go\.from must be one of "emit"/,
  ],
  [
    "what stands beside a schema",
    "messages: { go: { schema: z.string(), form: 'emit' } },",
    /^messages\.go\.form is no option .*did you mean from/,
  ],
  ["messages as a list", "messages: [z.string()],", /^messages must be an object of names and schemas: it is an array/],
  ["a choice of changes", "onChange: 'stop',", /^onChange must be one of "continue", "fail", "restart"/],
  ["a deadline", "deadlineSeconds: 0,", /^deadlineSeconds must be a whole number from 1 to 315360000/],
  ["an empty after", "after: [],", /^after must be names of jobs, at least one: found \[\]/],
  [
    "a rule of after",
    "after: { jobs: ['x'], when: 'done' },",
    /^after\.when must be one of "success", "failure", "end"/,
  ],
  [
    "a pattern of calls",
    "permissions: { call: ['*_mail'] },",
    /^permissions\.call holds "\*_mail"; give names of jobs such as "resize"/,
  ],
];

Deno.test("what cannot be is refused by name", async () => {
  const files = Object.fromEntries(WRONG.map(([, options], place) => [`j${place}.ts`, job(options)]));
  await withSync({ ...files, "x.ts": job() }, async ({ sync }) => {
    const { problems } = await sync();
    for (const [place, [what, , problem]] of WRONG.entries()) {
      const found = problems.filter(({ file }) => file === `j${place}.ts`).map(({ reason, fix }) =>
        `${reason} | ${fix}`
      );
      assert.equal(found.length, 1, `${what}: ${found}`);
      assert.match(found[0] as string, problem);
    }
  });
});
