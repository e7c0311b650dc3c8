/** A plan that changes the code of runs under way: how many have a journal, what they wait for, and what of it the new code does not name. */
import assert from "node:assert/strict";
import { reportText } from "../../../src/sync/plan_text.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { aRun } from "../../support/factories.ts";
import { job, withSync } from "../../support/job_files/bench.ts";

async function aStep(sql: Sql, run_id: number, key: string, more: Record<string, unknown> = {}): Promise<void> {
  const done = { state: "DONE", ended_at: new Date(), seq: null as number | null };
  const [{ n }] = await sql`select count(*)::int + 1 as n from run_step where job_run_id = ${run_id}` as unknown as [
    { n: number },
  ];
  const row = {
    job_run_id: run_id,
    key,
    kind: /(?:^|\])([a-z]+):/.exec(key)![1]!,
    attempt: 1,
    code_digest: "x",
    ...(more.state ? {} : { ...done, seq: n }),
    ...more,
  };
  await sql`insert into run_step ${sql(row)}`;
}

const CONFIRMED = "messages: { confirmed: z.string() },";
const body = (lines: string, options = "") =>
  job(options).replace("run() {},", `async run({ step }: any) {\n${lines}\n  },`);

Deno.test("a plan says what runs under way have recorded and what of it the new code does not name; the old names that stand in it are left out", async () => {
  const file = body('await step("charge", () => 1); await step("send [x] invoice", () => 1);', CONFIRMED);
  await withSync({ "pay.ts": file, "_names.ts": "" }, async ({ sql, jobs, sync }) => {
    await sync();
    const [job] = await sql<{ id: number }[]>`select id from job_definition`;
    const of_job = { job_definition_id: job!.id, state: "SUSPENDED", held: true };
    const [first, second] = [await aRun(sql, of_job), await aRun(sql, of_job)];
    await aRun(sql, { job_definition_id: job!.id, state: "RUNNING" }); // has none
    const ended = await aRun(sql, { job_definition_id: job!.id, state: "SUCCEEDED" });
    for (const { id } of [first, second, ended]) {
      await aStep(sql, id, "step:charge");
      await aStep(sql, id, "step:charge#2");
      await aStep(sql, id, "[a:1]step:send [x] invoice[k]#2", {
        began_at: new Date(Date.now() - 12 * 86_400_000 - 3_600_000),
      });
      await aStep(sql, id, "step:welcome mail");
      await aStep(sql, id, "step:from a shared file");
      await aStep(sql, id, "sleep:", { state: "DONE", ended_at: new Date(), seq: 50 });
    }
    await aStep(sql, first.id, "message:confirmed", { state: "WAITING", waits_for: "confirmed" });
    jobs.write("_names.ts", 'export const shared = "from a shared file";');
    jobs.write(
      "pay.ts",
      `import { shared } from "./_names.ts";\n${
        body(
          "for (const w of ['welcome']) await step(`${w} mail`, () => 1); await step('charge', () => shared);",
          CONFIRMED,
        )
      }`,
    );
    const planned = await sync("plan");
    const text = reportText(planned, { color: false });
    assert.match(
      text,
      new RegExp(
        String.raw`^~ pay .*\n    code: "\w{12}" -> "\w{12}"\n` +
          String
            .raw`    2 runs under way have a journal, the oldest since 12 days \(1 run waits for message "confirmed"\)\n` +
          String
            .raw`    not in the new code: step "send \[x\] invoice" \(2 runs have recorded it; [^)]*orphaned\)\nfrom `,
        "m",
      ),
    );
    assert.equal((await sync()).applied, true, "it is no problem");
    for (
      const [on_change, becomes] of [["fail", "they will fail as CodeChanged"], [
        "restart",
        "they will begin again",
      ]] as const
    ) {
      jobs.write("pay.ts", body("", `onChange: "${on_change}",`));
      const said = reportText(await sync("plan"), { color: false });
      assert.match(said, new RegExp(String.raw`\(1 run waits for message "confirmed"\): ${becomes}\n`));
      assert.doesNotMatch(said, /not in the new code/);
    }
  });
});

Deno.test("a plan is silent about journals where only ended runs have one, or the code stays", async () => {
  await withSync({ "a.ts": job() }, async ({ sql, jobs, sync }) => {
    await sync();
    const [{ id }] = await sql`select id from job_definition` as unknown as [{ id: number }];
    const ended = await aRun(sql, { job_definition_id: id, state: "FAILED" });
    await aStep(sql, ended.id, "step:charge");
    await aRun(sql, { job_definition_id: id, state: "RUNNING" });
    jobs.write("a.ts", job("priority: 1,"));
    const report = await sync("plan");
    assert.equal(report.plan?.changed.length, 1);
    assert.equal(report.plan?.changed[0]?.journals, undefined);
  });
});
