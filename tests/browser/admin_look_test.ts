/** How pages look, in a real Chromium: on a phone in both languages, and while they are live. */
import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { json } from "../../src/postgres/connection.ts";
import { appendLogs } from "../../src/runs/run_logs.ts";
import { acquire } from "../../src/nodes/leadership.ts";
import { CHROMIUM, withBrowser } from "../support/browser.ts";
import { aDefinition, aRun, aWorker } from "../support/factories.ts";
import { aFullHouse, pathsOf } from "../support/full_house.ts";

/** Playwright's own pipes and timers outlive a page. */
const options = { ignore: !CHROMIUM, sanitizeOps: false, sanitizeResources: false };

const PHONE = { width: 360, height: 740, colorScheme: "dark" } as const;
/** Words that no English sentence does without, and that nothing which a job or a user says here holds. */
const ENGLISH = /\b(the|is|are|was|has|not|by|with|and|of|its|it|at most|must|there|from|nobody|failed|more)\b/;

Deno.test(
  "at 360 px nothing is wider than the page, in both languages, and Japanese pages speak Japanese",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login, expect }) => {
      expect(/status of 404/);
      const ids = await aFullHouse(sql);
      await login("admin");
      const found: string[] = [];
      for (const lang of ["en", "ja"]) {
        await page.context().addCookies([{ name: "dandori_lang", value: lang, url }]);
        for (const path of pathsOf(ids)) {
          await page.goto(url + path.slice(1), { waitUntil: "domcontentloaded" });
          assert.equal(await page.getAttribute("html", "lang"), lang);
          found.push(...(await overflowing(page)).map((what) => `${lang} ${path}: ${what}`));
          const spoken = lang === "ja" ? await englishIn(page) : [];
          found.push(...spoken.map((line) => `${path} says in English: ${line}`));
        }
      }
      assert.deepEqual(found, []);
    }, PHONE);
  },
);

Deno.test(
  "between a phone and a desk, why a node gets no work can be read, and the pages stand in one row of their own",
  options,
  async () => {
    await withBrowser(async ({ sql, page, url, login }) => {
      await aWorker(sql, { node_id: "gpu-1", worker_id: "w1" });
      await sql`update node set is_active = false, inactive_by = 'user:taro', inactive_reason = 'new disks', labels = ${
        json(sql, { gpu: "a100", zone: "tokyo" })
      }`;
      await login("operator");
      for (const width of [1_024, 768]) {
        await page.setViewportSize({ width, height: 900 });
        await page.goto(`${url}nodes`);
        const why = page.locator("td.main", { hasText: "user:taro: new disks" });
        assert((await why.boundingBox())!.width >= 160, `${width}`);
        assert.equal(await why.locator(".line").getAttribute("title"), "user:taro: new disks");
        assert.equal((await overflowing(page)).join(), "");
        const [brand, who] = [await page.locator(".brand").boundingBox(), await page.locator(".who").boundingBox()];
        assert(Math.abs(brand!.y - who!.y) < 12, "who is logged in stands beside the name, above the pages");
      }
    }, { width: 1_024 });
  },
);

Deno.test("what is live does not make a page jump", options, async () => {
  await withBrowser(async ({ sql, page, url, login }) => {
    const { worker_id } = await aWorker(sql, { worker_id: "w1" });
    await acquire(sql, { worker_id, lease_ms: 600_000, epoch_hint: 0 });
    const of = await aDefinition(sql, { name: "export" });
    const ids: number[] = [];
    for (let n = 0; n < 12; n++) ids.push((await aRun(sql, { job_definition_id: of.id, state: "PENDING" })).id);
    const run_id = ids.at(-1) as number;
    await login("operator");
    const owned = { assigned_worker_id: worker_id, leader_epoch: 1, fence: 1, start_token: "t" };
    const start = (id: number) =>
      sql`update job_run set ${sql(owned)}, state = 'RUNNING', assigned_at = clock_timestamp(),
            started_at = clock_timestamp() where id = ${id}`;
    const end = (id: number) =>
      sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), result = ${json(sql, { rows: 42 })}
           where id = ${id}`;

    await page.goto(`${url}runs`);
    await page.waitForSelector("tbody tr >> nth=11");
    await watchShifts(page);
    await start(ids[0] as number);
    await page.waitForSelector("td .badge:has-text('RUNNING')");
    await end(ids[0] as number);
    await page.waitForSelector("td .badge:has-text('SUCCEEDED')");
    await still(page, "the list of runs");

    await page.goto(`${url}runs/${run_id}`);
    await page.waitForSelector(".heading .badge:has-text('PENDING')");
    await start(run_id);
    await page.waitForSelector(".heading .badge:has-text('RUNNING')");
    await watchShifts(page);
    for (let n = 0; n < 40; n++) {
      await appendLogs(sql, [{ job_run_id: run_id, attempt: 1, level: "info", message: `line ${n}`, fields: null }]);
    }
    await page.waitForSelector(".log >> text='line 39'");
    await still(page, "a run whose log grows");

    await page.goto(`${url}overview`);
    await page.waitForSelector(".plot .uplot canvas");
    await watchShifts(page);
    await sql`update worker set slots = 31 where worker_id = ${worker_id}`;
    await page.waitForSelector(".tiles >> text=of 31");
    const { id } = (await sql<{ id: number }[]>`
      insert into alert (kind, subject, message, detail, opened_by)
      values ('run.failed', 'export', 'run 1 failed', '{"job_run_id": 1}', 'leader') returning id`)[0] as {
      id: number;
    };
    await page.waitForSelector(".alerts summary >> text='1 alert'");
    await still(page, "the overview, on which an alarm opens");
    await page.focus(".alerts summary");
    await page.keyboard.press("Enter");
    await page.click(`[data-opens=ack-${id}]`); // a button that has just come has its dialog
    await page.fill(`#ack-${id} input[name=reason]`, "on it");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".flash >> text=Acknowledged");
  });
});

/** What reaches beyond the right edge, and does so in no box of its own that scrolls or cuts it off; also in dialogs. */
async function overflowing(page: Page): Promise<string[]> {
  return await page.evaluate(`(() => {
    const wide = [];
    const cut = (element) => {
      for (let up = element.parentElement; up && up !== document.body; up = up.parentElement) {
        if (getComputedStyle(up).overflowX !== "visible") return true;
      }
      return false;
    };
    const look = (root) => {
      for (const element of root.querySelectorAll("*")) {
        const { right, width } = element.getBoundingClientRect();
        if (width > 0 && right > innerWidth + 0.5 && !cut(element)) {
          wide.push(element.tagName + "." + element.className + " to " + Math.round(right) + ": " + element.textContent.slice(0, 40));
        }
      }
    };
    look(document.body);
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.showModal();
      look(dialog);
      if (dialog.scrollWidth > dialog.clientWidth) wide.push("dialog " + dialog.id);
      dialog.close();
    }
    if (document.documentElement.scrollWidth > innerWidth) wide.push("the page, " + document.documentElement.scrollWidth + " px");
    return wide.slice(0, 3);
  })()`) as string[];
}

/** Lines of what is shown, and of what dialogs would show, that are English: not names, code, logs, nor words of the database. */
async function englishIn(page: Page): Promise<string[]> {
  const lines = await page.evaluate(`(() => {
    const copy = document.body.cloneNode(true);
    for (const one of copy.querySelectorAll("code, pre, .log, .badge, option, script")) one.remove();
    return [...copy.querySelectorAll("*")].flatMap((one) => [...one.childNodes])
      .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent.trim());
  })()`) as string[];
  return lines.filter((line) => ENGLISH.test(line));
}

async function watchShifts(page: Page): Promise<void> {
  await page.evaluate(`(() => {
    globalThis.shifts = [];
    globalThis.watcher?.disconnect();
    globalThis.watcher = new PerformanceObserver((list) => {
      for (const { value, sources } of list.getEntries()) {
        shifts.push({ value, of: sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.textContent) });
      }
    });
    watcher.observe({ type: "layout-shift" });
  })()`);
}

/** Two frames later, so that what was painted last is counted as well. */
async function still(page: Page, what: string): Promise<void> {
  const shifts = await page.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const { value, sources } of watcher.takeRecords()) shifts.push({ value, of: sources.map(({ node }) => node?.outerHTML?.slice(0, 80)) });
    done(shifts);
  })))`) as { value: number; of: string[] }[];
  const sum = shifts.reduce((all, { value }) => all + value, 0);
  assert(sum < 0.01, `${what} moved by ${sum}: ${JSON.stringify(shifts)}`);
}
