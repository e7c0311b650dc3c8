/** A bulk under the hand of an operator, in a real Chromium. */
import assert from "node:assert/strict";
import { createClient } from "../../src/client.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { BulkScene, numbered } from "../support/bulk_scene.ts";
import { aDefinition, aWorker } from "../support/factories.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "a slider says what it would change while it moves, and changes the rate when it is let go",
  options,
  async () => {
    await withBrowser(async ({ sql, database_url, page, url, login }) => {
      const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 }) as Term;
      await aWorker(sql, { worker_id: "w-me", slots: 1_000, lease_ms: 600_000 });
      await aDefinition(sql, { name: "each" });
      const client = createClient({ databaseUrl: database_url, maxConnections: 2 });
      try {
        const scene = new BulkScene({ sql, term, client, database_url });
        const { id } = await client.bulk("each", numbered(5_000), { parallel: 8 });
        await login("operator");
        await page.goto(`${url}bulks/${id}`);
        const running = (n: number) =>
          page.waitForSelector(`.figure:has-text("of at most ${n} at once") strong:text-is("${n}")`);
        await scene.round();
        await running(8);
        await scene.end(id, 8);
        await scene.round();
        const rate = () => page.locator(".figure strong:has-text('per minute')").innerText();
        await page.waitForSelector(".figure strong:has-text('per minute'):not(:text-is('0.0 per minute'))");
        const before = await rate();
        const slider = page.locator("#parallel-slider");
        const box = await slider.boundingBox();
        assert(box);
        await page.mouse.move(box.x + box.width * 0.15, box.y + box.height / 2);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, { steps: 8 });
        const wished = Number(await page.inputValue("#parallel"));
        assert(wished > 20 && wished < 40, "the number goes with the slider");
        await page.waitForSelector(`.what-if:has-text('At ${wished} instead of 8: done')`);
        assert.equal((await client.bulkProgress(id))?.parallel, 8, "it is not let go yet");
        await page.mouse.up();
        while ((await client.bulkProgress(id))?.parallel !== wished) await page.waitForTimeout(20);
        await scene.round();
        await running(wished);
        await scene.end(id, wished);
        await scene.round();
        await page.waitForSelector(`.figure strong:has-text('per minute'):not(:text-is('${before}'))`);
        assert(
          parseFloat((await rate()).replace(",", "")) > parseFloat(before),
          `${await rate()} is more than ${before}`,
        );
        await client.changeBulk(id, { parallel: 3 });
        await page.waitForSelector("#parallel[value='3']");
        while (await page.inputValue("#parallel-slider") !== "3") await page.waitForTimeout(20); // somebody else's change
        await page.click("[data-opens=pause]");
        await page.fill("#pause input[name=reason]", "the database is slow");
        await page.click("#pause button[type=submit]");
        await page.waitForSelector(".now:has-text('the database is slow')");
      } finally {
        await client.close();
      }
    });
  },
);
