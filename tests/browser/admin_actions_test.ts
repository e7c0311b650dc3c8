/** Operators' and admins' pages as a person uses them, in a real Chromium. */
import assert from "node:assert/strict";
import type { Page, Route } from "playwright-core";
import { json } from "../../src/postgres/connection.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { PASSWORD } from "../support/admin.ts";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { aDefinition, aRun, aWorker } from "../support/factories.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "a worker is drained by a dialog that asks once, and a test's result comes onto the page by itself",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login }) => {
      await aWorker(sql, { node_id: "gpu-1", worker_id: "w1" });
      const of = await aDefinition(sql, { name: "export" });
      await aRun(sql, { job_definition_id: of.id, state: "RUNNING", assigned_worker_id: "w1" });
      await sql`update node set next_check_at = now() + interval '1 hour'`;
      await sql`update leader_term set epoch = 7, worker_id = 'w1', lease_until = now() + interval '1 hour'`;
      await login("operator");
      await page.click("nav a[href='/nodes']");
      await page.click("a[href='/workers/w1']");
      await page.click("[data-opens=drain]");
      await page.fill("#drain input[name=reason]", "an update");
      await sql`update worker set slots = 7`;
      await page.waitForSelector(".pairs:has-text('1/7')");
      assert.equal(await page.inputValue("#drain input[name=reason]"), "an update", "typed while the page moves");
      await page.click("#drain button[type=submit]");
      await page.waitForSelector(".flash.good:has-text('Drain: w1')");
      await page.waitForSelector("h1 .badge:has-text('DRAINING')");
      await page.waitForSelector("[data-opens=undrain]");
      const [act] = await sql`select actor, reason from admin_action_log where action = 'worker.drain'`;
      assert.deepEqual({ ...act }, { actor: "user:operator", reason: "an update" });

      await page.goto(`${url}nodes/gpu-1`);
      await page.click("text=Test connection");
      await page.waitForSelector(".badge:has-text('checking')");
      const parts = [{ name: "connection", ok: true, value: "", message: "", ms: 4 }];
      await sql`update node set next_check_at = now() + interval '1 hour', status = 'available', checked_at = now(),
              check_result = ${json(sql, { worker_id: "w1", problem: null, parts })}`;
      await page.waitForSelector("td:has-text('connection')");
      await page.waitForSelector(".badge:has-text('checking')", { state: "detached" });

      await page.click("[data-opens=detach]");
      await page.waitForSelector("#detach li:has-text('export')");
      await page.keyboard.press("Escape");
      assert.equal(await page.locator("#detach").isVisible(), false);
      await sql`update leader_term set epoch = 8`;
      await page.goto(`${url}nodes`);
      await page.click("[data-opens=degrade]");
      await page.click("#degrade button[type=submit]");
      await page.waitForSelector(".flash.good:has-text('w1 steps down')");
    });
  },
);

Deno.test(
  "who is logged out meanwhile is told so at once, and comes back to the page; what is gone is said to be gone",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login, expect }) => {
      expect(/status of 40[0134]/);
      await aWorker(sql, { node_id: "gpu-1", worker_id: "w1" });
      const { id: job_definition_id } = await aDefinition(sql, { name: "export" });
      const [bulk] = await sql<{ id: number }[]>`
      insert into bulk (job_definition_id, name, state, changed_by, parallel)
      values (${job_definition_id}, 'b', 'PAUSED', 'test', 3) returning id`;
      await login("operator");
      const again = async () => {
        await page.fill("input[name=name]", "operator");
        await page.fill("input[name=password]", PASSWORD);
        await page.click("main button[type=submit]");
        await page.waitForURL((at) => !at.pathname.endsWith("/login"));
      };
      await page.goto(`${url}bulks/${bulk?.id}`);
      await meanwhile(page, () => sql`delete from admin_session`);
      await page.fill("#parallel", "7");
      await page.keyboard.press("Tab");
      await page.waitForSelector("[role=alert]:has-text('Your session has ended')");
      await again();
      assert.equal(page.url(), `${url}bulks/${bulk?.id}`);
      await meanwhile(page, () => sql`update admin_user set role = 'viewer'`);
      await page.fill("#parallel", "8");
      await page.keyboard.press("Tab");
      await page.waitForSelector("[role=alert]:has-text('refused this or failed')");
      const asked = page.waitForRequest((request) => request.headers()["hx-request"] !== undefined);
      await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))"); // as who looks at it again
      await asked;
      assert(await page.isVisible("[role=alert]:has-text('refused this or failed')"), "a stream that begins hides it");
      await sql`update admin_user set role = 'operator'`;

      await page.goto(`${url}nodes/gpu-1`);
      await page.click("[data-opens=maintenance]");
      await page.fill("#maintenance input[name=reason]", "new disks");
      await meanwhile(page, () => sql`delete from admin_session`);
      await page.click("#maintenance button[type=submit]");
      await page.waitForSelector("[role=alert]:has-text('what you sent was not done')");
      await again();
      assert.equal(page.url(), `${url}nodes/gpu-1`);
      await sql`delete from worker`;
      await sql`delete from node`;
      await page.waitForSelector("h1:has-text('There is nothing here')");
    });
  },
);

Deno.test("settings are typed, looked at once more and applied; a token is shown once", options, async () => {
  await withBrowser(async ({ sql, page, url, login }) => {
    await login("admin");
    await page.goto(`${url}settings`);
    await page.click("a[href='/settings?edit=leader#edit']");
    await page.fill("input[name=leader_tick_seconds]", "2");
    await page.click("#edit button[type=submit]");
    await page.waitForSelector("#review .problem:has-text('at least 2 x leader_tick_seconds')");
    assert.equal(await page.locator("#review button[type=submit]").count(), 0);
    await page.click("#review a.button");
    await page.fill("input[name=leader_tick_seconds]", "1.5");
    await page.click("#edit button[type=submit]");
    await page.fill("#review input[name=reason]", "less load");
    await page.click("#review button[type=submit]");
    await page.waitForSelector(".flash.good:has-text('Changed: leader_tick_seconds')");
    assert.equal((await readSettings(sql)).leader_tick_seconds, 1.5);
    await page.waitForSelector(".setting:has-text('leader_tick_seconds') >> xpath=../../td[2] >> text=1.5 s");
    await page.goto(`${url}audit`);
    await page.waitForSelector("tr:has-text('less load') del:has-text('1')");

    await page.goto(`${url}access/tokens`);
    await page.click("[data-opens=add]");
    await page.fill("#add input[name=name]", "ci");
    await page.click("#add button[type=submit]");
    const secret = await page.innerText(".secret pre");
    assert.equal(secret.length, 43);
    await page.click(".secret a.button");
    await page.waitForSelector("td:has-text('ci')");
    assert(!(await page.content()).includes(secret));
  });
});

/** Does it when the page's next act is on its way: before, the page might learn of it by itself and be another one. */
async function meanwhile(page: Page, change: () => Promise<unknown>): Promise<void> {
  const changed = async (route: Route) => {
    if (route.request().method() !== "POST") return await route.fallback();
    await change();
    await route.continue();
    await page.unroute("**", changed);
  };
  await page.route("**", changed);
}
