/** The page as a person sees it, in a real Chromium. */
import assert from "node:assert/strict";
import { json } from "../../src/postgres/connection.ts";
import { appendLogs } from "../../src/runs/run_logs.ts";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { aDefinition, aRun } from "../support/factories.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "a run's state, log and result come onto the screen by themselves, under the hand of who uses it",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login }) => {
      const of = await aDefinition(sql, { name: "export" });
      const run = await aRun(sql, { job_definition_id: of.id, state: "PENDING" });
      await login("operator");
      await page.goto(`${url}runs`);
      await page.click(`a[href="/runs/${run.id}"]`);
      await page.waitForSelector(".heading .badge:has-text('PENDING')");
      assert.equal(new URL(page.url()).pathname, `/runs/${run.id}`);
      const owned = { assigned_worker_id: "w1", leader_epoch: 1, fence: 1, start_token: "t" };
      await sql`update job_run set ${
        sql(owned)
      }, state = 'RUNNING', started_at = clock_timestamp() where id = ${run.id}`;
      await page.waitForSelector(".heading .badge:has-text('RUNNING')");
      await appendLogs(sql, [{
        job_run_id: run.id,
        attempt: 1,
        level: "info",
        message: "half <b>way</b>",
        fields: null,
      }]);
      await page.waitForSelector(".log >> text='half <b>way</b>'");
      await page.click("[data-opens=cancel]");
      await page.fill("#cancel input[name=reason]", "typed while it moves");
      await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), result = ${
        json(sql, { rows: 42 })
      }
               where id = ${run.id}`;
      await page.waitForSelector(".heading .badge:has-text('SUCCEEDED')");
      await page.waitForSelector('text="rows": 42');
      assert.equal(await page.inputValue("#cancel input[name=reason]"), "typed while it moves");
      await page.click("#cancel button[type=submit]");
      await page.waitForSelector(`.flash.bad:has-text('it has ended as SUCCEEDED')`);
      await page.goto(`${url}runs`);
      await page.waitForSelector("td .badge:has-text('SUCCEEDED')");
      const fresh = await aRun(sql, { job_definition_id: of.id });
      await page.waitForSelector(`a[href="/runs/${fresh.id}"]`);
      await sql`update job_run set state = 'SKIPPED', finished_at = clock_timestamp() where id = ${fresh.id}`;
      await page.waitForSelector("td .badge:has-text('SKIPPED')"); // a run that was not there when the page was opened
    });
  },
);

Deno.test("a lost connection is said, and comes back with what happened meanwhile", options, async () => {
  await withBrowser(async ({ sql, page, url, login, stop, start, expect }) => {
    expect(
      /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|htmx:error: Failed to fetch/,
    );
    const run = await aRun(sql, { state: "PENDING" });
    await login("viewer");
    await page.goto(`${url}runs/${run.id}`);
    await page.waitForSelector(".heading .badge:has-text('PENDING')");
    assert.equal(await page.locator("[data-opens]").count(), 0, "a viewer has nothing to press");
    await stop();
    await page.waitForSelector("[data-stream=lost]:visible");
    await sql`update job_run set state = 'SKIPPED', finished_at = clock_timestamp() where id = ${run.id}`;
    await start();
    await page.waitForSelector(".heading .badge:has-text('SKIPPED')");
    await page.waitForSelector("[data-stream=lost]", { state: "hidden" });
  });
});

Deno.test("times are the viewer's", options, async () => {
  await withBrowser(async ({ sql, page, url, login }) => {
    const run = await aRun(sql, { state: "FAILED" });
    await login("operator");
    await page.goto(`${url}runs/${run.id}`);
    assert.match(await page.locator(".timeline time").last().getAttribute("title") ?? "", /09:00:00 Asia\/Tokyo/);
  }, { timezoneId: "Asia/Tokyo" });
});
