/** Jobs and the overview as a person uses them, in a real Chromium. */
import assert from "node:assert/strict";
import { appendLogs } from "../../src/runs/run_logs.ts";
import { acquire } from "../../src/nodes/leadership.ts";
import { sampleLoad } from "../../src/stats/load_stats.ts";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { aDefinition, aRun, aWorker } from "../support/factories.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 2, default: "world" },
    tags: { type: "array", items: { type: "string" } },
    loud: { type: "boolean" },
  },
  required: ["tags"],
};

Deno.test(
  "a job is run from its form, with items added under the hand, and its log is seen to grow",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login, expect }) => {
      expect(/status of 400/);
      await aDefinition(sql, { name: "greet", args_schema: SCHEMA });
      await login("operator");
      await page.goto(`${url}jobs`);
      await page.click("text=Run now");
      await page.fill("[name='a/name']", "x");
      await page.focus("button[name=add]");
      await page.keyboard.press("Enter");
      await page.fill("[name='a/tags/0']", "first");
      await page.focus("button[name=add]");
      await page.keyboard.press("Enter");
      await page.waitForSelector("[name='a/tags/1']");
      assert.equal(await page.locator(":focus").getAttribute("name"), "add", "another Enter takes nothing away");
      await page.fill("[name='a/tags/1']", "second");
      await page.click("button[name=remove][value='/tags/0']");
      await page.waitForSelector("[name='a/tags/1']", { state: "detached" });
      assert.equal(await page.inputValue("[name='a/tags/0']"), "second");
      await page.click("form.form button.primary");
      await page.waitForSelector("[name='a/name'][aria-invalid=true]");
      assert.equal(await page.inputValue("[name='a/tags/0']"), "second", "nothing that was typed is lost");
      await page.fill("[name='a/name']", "Dandori");
      await page.press("[name='a/name']", "Enter"); // runs it, and does not press the first button that there is
      await page.waitForURL(/\/runs\/\d+$/);
      const [run] = await sql<{ id: number; args_json: unknown }[]>`select id, args_json from job_run`;
      assert.deepEqual(run?.args_json, { name: "Dandori", tags: ["second"] });
      for (const message of ["line one", "line two"]) {
        const line = { job_run_id: run?.id as number, attempt: 1, level: "info" as const, message, fields: null };
        await appendLogs(sql, [line]);
        await page.waitForSelector(`.log >> text=${message}`);
      }
    });
  },
);

Deno.test(
  "a schedule is edited with its next fires and the nights of the clock before it is saved",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login }) => {
      const { id } = await aDefinition(sql, { name: "report", type: "time" });
      const row = { schedule_id: "nightly", schedule_type: "daily_at", schedule_value: "12:00", timezone: "UTC" };
      await sql`insert into job_schedule ${sql({ job_definition_id: id, ...row })}`;
      await login("operator");
      await page.goto(`${url}jobs/report`);
      await page.click("text=Edit");
      await page.waitForSelector("#preview >> text=12:00+00:00 UTC");
      await page.fill("[name=timezone]", "Europe/Berlin");
      await page.fill("[name=value]", "02:30");
      await page.waitForSelector("#preview .warning >> text=does not exist in Europe/Berlin");
      await page.fill("[name=value]", "2:30");
      await page.waitForSelector("#preview .problem >> text=02:30");
      assert.equal((await sql`select from job_override`).length, 0, "a preview changes nothing");
      await page.fill("[name=value]", "02:45");
      await page.fill("[name=reason]", "the backup needs the disk until then");
      await page.waitForSelector("#preview .fires >> text=02:45+0");
      await page.click("form.form button.primary");
      await page.waitForSelector(".flash.good >> text=schedule.nightly.time");
      await page.waitForSelector("td >> text=dailyAt 12:00");
      await page.click("[data-opens='reset-schedule.nightly.time']");
      await page.click("[id='reset-schedule.nightly.time'] button[type=submit]");
      await page.waitForSelector(".flash.good >> text=back to the value in the file");
      const [now] = await sql`select schedule_value, timezone from job_schedule`;
      assert.deepEqual({ ...now }, { schedule_value: "12:00", timezone: "Europe/Berlin" });
    });
  },
);

Deno.test("the overview draws its plots, changes their range, and tells at once who leads", options, async () => {
  await withBrowser(async ({ sql, page, url, login }) => {
    const { worker_id } = await aWorker(sql);
    await aRun(sql, { due_at: new Date(0) });
    await login("viewer");
    await page.waitForURL(`${url}overview`);
    await page.waitForSelector(".plot .uplot canvas");
    assert.equal(await page.locator(".plot .uplot").count(), 6);
    await page.waitForSelector(".tiles .bad >> text=no leader");
    const term = await acquire(sql, { worker_id, lease_ms: 60_000, epoch_hint: 0 });
    assert(term);
    await page.waitForSelector(`.tiles strong >> text=${worker_id}`);
    await sampleLoad(sql, term);
    await page.click(".ranges >> text=7 days");
    await page.waitForSelector(".plots[data-range='7d'] .uplot");
    await page.click("text=As a table");
    await page.waitForSelector("th >> text=Waiting runs");
  });
});
