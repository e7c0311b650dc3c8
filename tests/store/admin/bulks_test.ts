/** The pages about bulks: looked at, changed while they run, repeated where they failed, made from pasted text. */
import assert from "node:assert/strict";
import { createClient } from "../../../src/client.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import type { AdminScene } from "../../support/admin.ts";
import { withAdmin } from "../../support/admin.ts";
import { BulkScene, numbered } from "../../support/bulk_scene.ts";
import { aDefinition, aWorker } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

function withBulkPages(test: (on: AdminScene & { scene: BulkScene }) => Promise<void>): Promise<void> {
  return withAdmin(async (on) => {
    const { sql, database_url } = on;
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 }) as Term;
    await aWorker(sql, { worker_id: "w-me", slots: 1_000, lease_ms: 600_000 });
    await aDefinition(sql, { name: "each" });
    const client = createClient({ databaseUrl: database_url, maxConnections: 2 });
    try {
      await test({ ...on, scene: new BulkScene({ sql, term, client, database_url }) });
    } finally {
      await client.close();
    }
  });
}

const audited = async ({ sql }: Pick<AdminScene, "sql">, action: string) =>
  await sql<{ actor: string; target_id: string; reason: string | null; after_json: Record<string, unknown> }[]>`
    select actor, target_id, reason, after_json from admin_action_log where action = ${action} order by id`;

Deno.test("a bulk's page says how far it is, how fast, when it will be done, and why its runs fail", async () => {
  await withBulkPages(async ({ sql, login, scene }) => {
    const browser = await login("viewer");
    assert.match(await browser.text("/bulks"), /No bulks yet/);
    const { id } = await scene.client.bulk("each", numbered(40), { parallel: 10, name: EVIL });
    await scene.round();
    await scene.end(id, 4, "FAILED");
    await scene.end(id, 6);
    await sql`update job_run set error_name = 'Evil', error_summary = ${EVIL} where state = 'FAILED'`;
    const page = await browser.text(`/bulks/${id}`);
    assert.match(page, /10 of 40 ended \(25 %\)/);
    assert.match(page, /of at most 10 at once/);
    assert.match(page, /Why runs failed[\s\S]*>4<[\s\S]*Evil[\s\S]*&lt;script&gt;alert/);
    assert.match(page, /<rect class="bad"/);
    for (const text of [page, await browser.text("/bulks"), await browser.text(`/bulks/${id}/items`)]) {
      assert.doesNotMatch(text, /<script>|<img/);
    }
    assert.doesNotMatch(page, /data-opens|type="range"/, "a viewer has nothing to press");
    assert.equal((await browser.get("/bulks/new")).status, 403);
    assert.equal((await browser.post(`/bulks/${id}/pace`, { parallel: "20" })).status, 403);
    assert.equal((await browser.get("/bulks/999")).status, 404);
    const list = await browser.text("/bulks");
    assert.match(list, /10 \/ 40/);
    assert.match(await browser.text("/bulks?open=yes"), new RegExp(`href="/bulks/${id}"`));
  });
});

Deno.test("what is set while it runs holds at the next round, is audited, and says nothing; what makes no sense changes nothing", async () => {
  await withBulkPages(async (on) => {
    const { login, scene } = on;
    const { id } = await scene.client.bulk("each", numbered(100), { parallel: 8 });
    await scene.round();
    assert.equal((await scene.running(id)).length, 8);
    const browser = await login("operator");
    const live = { "hx-request": "true" };
    const answer = await browser.post(`/bulks/${id}/pace`, { parallel: "20", interval: "0", priority: "130" }, live);
    assert.deepEqual([answer.status, answer.headers.get("location")], [303, `/bulks/${id}`]);
    assert.equal(browser.cookies.has("dandori_flash"), false);
    await scene.round();
    assert.equal((await scene.running(id)).length, 20, "the leader took it at its next round");
    const bulk = await scene.bulk(id);
    assert.deepEqual([bulk.parallel, bulk.priority], [20, 130]);
    const wrong = await browser.post(`/bulks/${id}/pace`, { parallel: "0" }, live);
    assert.equal(wrong.headers.get("hx-redirect"), `/bulks/${id}`, "the page is loaded anew, to say why");
    assert.match(await browser.text(`/bulks/${id}`), /is a number from 1 to 1000000; nothing was changed/);
    assert.equal((await browser.post(`/bulks/${id}/pace`, {})).status, 400);
    assert.equal((await scene.bulk(id)).parallel, 20);
    const acts = await audited(on, "bulk.set");
    assert.deepEqual(acts.map(({ actor, after_json }) => [actor, after_json.parallel]), [["user:operator", 20]]);
  });
});

Deno.test("a what-if changes nothing, and says when it would be done", async () => {
  await withBulkPages(async ({ sql, login, scene }) => {
    const { id } = await scene.client.bulk("each", numbered(1_000), { parallel: 10 });
    await scene.round();
    const browser = await login("viewer");
    const at = async (parallel: string) =>
      /<p id="forecast">([^<]*)/.exec(await browser.text(`/bulks/${id}/what-if?parallel=${parallel}`))?.[1] ?? "";
    assert.match(await at("20"), /after three of its runs have ended/);
    await sql`update job_run set started_at = clock_timestamp() - interval '60 s' where bulk_id = ${id} and state = 'RUNNING'`;
    await scene.end(id, 10);
    assert.match(await at("20"), /^At 20 instead of 10: done .+ instead of .+/);
    assert.match(await at("5000"), /allow at most 1000 of its runs at once/);
    assert.match(await at("10"), /Move a slider/);
    assert.match(await at("many"), /Move a slider/);
    assert.equal((await scene.bulk(id)).parallel, 10);
    assert.equal((await browser.get("/bulks/999/what-if?parallel=3")).status, 404);
  });
});

Deno.test("pause, resume and cancel are audited with their reason; what has ended is left alone", async () => {
  await withBulkPages(async (on) => {
    const { login, scene } = on;
    const { id } = await scene.client.bulk("each", numbered(10), { parallel: 2 });
    await scene.round();
    const browser = await login("operator");
    await browser.post(`/bulks/${id}/pause`, { reason: EVIL });
    const paused = await browser.text(`/bulks/${id}`);
    assert.match(paused, /is paused by user:operator: &quot;&gt;&lt;script/);
    assert.match(paused, /data-opens="resume"/);
    assert.doesNotMatch(paused, /<script>|<img/);
    await browser.post(`/bulks/${id}/resume`, {});
    assert.equal((await scene.bulk(id)).state, "RUNNING");
    await browser.post(`/bulks/${id}/cancel`, { reason: "wrong list" });
    await scene.round();
    assert.equal((await scene.bulk(id)).state, "CANCELED");
    await browser.post(`/bulks/${id}/resume`, {});
    assert.match(await browser.text(`/bulks/${id}`), /it is canceled/);
    assert.equal((await scene.bulk(id)).state, "CANCELED");
    assert.equal((await audited(on, "bulk.cancel"))[0]?.reason, "wrong list");
    assert.equal((await browser.post("/bulks/999/pause", {})).status, 404);
  });
});

Deno.test("only what failed is repeated, once, and each names the other; the run at its end is linked", async () => {
  await withBulkPages(async ({ sql, login, scene }) => {
    await aDefinition(sql, { name: "report" });
    const { id } = await scene.client.bulk("each", numbered(5), { parallel: 5, onFinish: "report" });
    await scene.round();
    await scene.end(id, 2, "FAILED");
    await scene.end(id, 3);
    await scene.round();
    const browser = await login("operator");
    const before = await browser.text(`/bulks/${id}`);
    assert.match(before, /Retry 2 failed/);
    const [finish] = await sql<{ id: number }[]>`select id from job_run where idempotency_key = ${`bulk:${id}:finish`}`;
    assert(before.includes(`href="/runs/${finish?.id}"`));
    const answer = await browser.post(`/bulks/${id}/retry`, {});
    const again = /^\/bulks\/(\d+)$/.exec(answer.headers.get("location") ?? "")?.[1];
    assert.match(await browser.text(`/bulks/${again}`), new RegExp(`with the 2 failed items of bulk ${id}`));
    assert(before !== await browser.text(`/bulks/${id}`));
    assert.match(
      await browser.text(`/bulks/${id}`),
      new RegExp(`Failures retried by</dt><dd><a href="/bulks/${again}"`),
    );
    assert.doesNotMatch(await browser.text(`/bulks/${id}`), /data-opens="retry"/);
    await browser.post(`/bulks/${id}/retry`, {});
    assert.match(await browser.text(`/bulks/${id}`), /were already retried/);
  });
});

Deno.test("items are listed by their state, page after page, and each once", async () => {
  await withBulkPages(async ({ login, scene }) => {
    const { id } = await scene.client.bulk("each", numbered(120), { parallel: 60 });
    await scene.round();
    await scene.end(id, 55, "FAILED");
    const browser = await login("viewer");
    const numbers = (text: string) =>
      [...text.matchAll(/<td class="number">(\d+)<\/td><td ?><span class="badge/g)].map(([, n]) => Number(n));
    const next = (text: string) => /href="([^"]+)">Next</.exec(text)?.[1]?.replaceAll("&amp;", "&");
    const walk = async (path: string | undefined) => {
      const seen: number[][] = [];
      for (; path; path = next(await browser.text(path))) seen.push(numbers(await browser.text(path)));
      return seen;
    };
    const all = await walk(`/bulks/${id}/items`);
    assert.deepEqual(all.flat(), Array.from({ length: 120 }, (_, place) => place + 1));
    assert.deepEqual((await walk(`/bulks/${id}/items?state=FAILED`)).map((page) => page.length), [50, 5]);
    assert.deepEqual((await walk(`/bulks/${id}/items?state=UNFED`)).flat().length, 60);
    assert.deepEqual(numbers(await browser.text(`/bulks/${id}/items?before=51`)), all[0]);
    assert.match(await browser.text(`/bulks/${id}/items?state=SKIPPED`), /No items in this state/);
  });
});

Deno.test("a bulk is made from pasted lines or CSV, once for each form; a line that is wrong loses nothing", async () => {
  await withBulkPages(async ({ sql, login, scene }) => {
    const browser = await login("operator");
    const form = await browser.text("/bulks/new?job=each");
    const wish = /name="wish" value="([^"]+)"/.exec(form)?.[1] ?? "";
    const typed = { job: "each", name: "night", parallel: "3", wish };
    const wrong = await browser.post("/bulks/new", { ...typed, items: `{"n": 1}\n{"n": ${EVIL}` });
    assert.equal(wrong.status, 400);
    const again = await wrong.text();
    assert.match(again, /Line 2 is no JSON/);
    assert.match(again, /<textarea[^>]*>\{&quot;n&quot;: 1\}\n/, "what was typed is there still");
    assert.doesNotMatch(again, /<script>|<img/);
    assert.match(
      await (await browser.post("/bulks/new", { ...typed, job: "nobody", items: "1" })).text(),
      /no such job/,
    );
    assert.match(await (await browser.post("/bulks/new", { ...typed, parallel: "0", items: "1" })).text(), /from 1 to/);
    const made = await browser.post("/bulks/new", { ...typed, items: `device,zone\n7,tokyo\n"8","a, b"\n` });
    const id = Number(/^\/bulks\/(\d+)$/.exec(made.headers.get("location") ?? "")?.[1]);
    const twice = await browser.post("/bulks/new", { ...typed, items: `{"n": 1}` });
    assert.equal(twice.headers.get("location"), `/bulks/${id}`);
    const items = await sql<
      { args_json: unknown }[]
    >`select args_json from bulk_item where bulk_id = ${id} order by seq`;
    assert.deepEqual(items.map(({ args_json }) => args_json), [{ device: 7, zone: "tokyo" }, {
      device: 8,
      zone: "a, b",
    }]);
    assert.deepEqual([(await scene.bulk(id)).created_by, (await scene.bulk(id)).parallel], ["user:operator", 3]);
  });
});
