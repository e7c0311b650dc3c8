/** The pages behind a proxy under a path, in a real Chromium. */
import assert from "node:assert/strict";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { aDefinition } from "../support/factories.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

const PROXIES = [
  { says: "takes away a path that is named like a page", path: "/jobs", strips: true },
  { says: "passes such a path on", path: "/jobs", strips: false },
  { says: "takes away any other path", path: "/ops/tools", strips: true },
];

for (const { says, ...behind } of PROXIES) {
  Deno.test(
    `a job is run from its form, and its run is seen to end, behind a proxy that ${says}`,
    options,
    async () => {
      await withBrowser(async ({ sql, page, url, proxy, login }) => {
        await aDefinition(sql, { name: "greet", args_schema: null });
        await login("operator");
        await page.waitForURL(`${url}overview`);
        await page.click("nav a:has-text('Jobs')");
        await page.waitForURL(`${url}jobs`);
        await page.click("a:has-text('Run now')");
        await page.waitForURL(`${url}jobs/greet/run`);
        await page.click("form.form button.primary");
        await page.waitForURL(/\/runs\/\d+$/);
        const [run] = await sql<{ id: number }[]>`select id from job_run`;
        assert(run);
        assert.equal(page.url(), `${url}runs/${run.id}`);
        const sent = `${behind.path}/jobs/greet/run`;
        assert.deepEqual(proxy?.posts.at(-1), { path: sent, status: 303, leads: `${behind.path}/runs/${run.id}` });
        await page.waitForSelector(".flash.good");
        await sql`update job_run set state = 'CANCELED', finished_at = now() where id = ${run.id}`;
        await page.waitForSelector(".badge:has-text('CANCELED')"); // by the live stream through the proxy
      }, { behind });
    },
  );
}
