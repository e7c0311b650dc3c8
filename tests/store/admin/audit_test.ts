/** The audit: found by what the URL says, kept as a file, and never changed. */
import assert from "node:assert/strict";
import { differencesOf } from "../../../src/admin/pages/audit/differences.ts";
import { recordAudit } from "../../../src/access/audit.ts";
import { withAdmin } from "../../support/admin.ts";
import { withStores } from "../../support/stores.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;

Deno.test("an act is shown with who, what, what changed and why, and leads to what it was done to", async () => {
  await withAdmin(async ({ sql, login }) => {
    const before = { max_concurrent: null, is_active: true, labels: { gpu: "a100" } };
    await recordAudit(sql, {
      actor: "user:taro",
      action: "node.set",
      target_type: "node",
      target_id: "gpu-1",
      before,
      after: { ...before, is_active: false },
      reason: "new disk",
    });
    await recordAudit(sql, { actor: "token:ci", action: "user.add", target_type: "user", target_id: "jiro" });
    const text = await (await login("viewer")).text("/audit");
    for (
      const sign of [
        /user:taro/,
        /new disk/,
        /<b>is_active<\/b>\s*<del>true<\/del> → <ins>false<\/ins>/,
        /href="\/nodes\/gpu-1"/,
      ]
    ) {
      assert.match(text, sign);
    }
    assert.doesNotMatch(text, /a100/, "what stayed is not told");
    assert.doesNotMatch(text, /href="\/access\/users"/, "no link to what a viewer may not see");
    assert.match(await (await login("admin")).text("/audit"), /href="\/access\/users"/);
  });
});

Deno.test("acts are found by actor, action or its first part, target and time, page after page, and nothing twice", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("viewer");
    await sql`insert into admin_action_log (at, actor, action, target_type, target_id)
      select '2026-03-01T00:00:00Z'::timestamptz + n * interval '1 hour', 'user:' || (array['taro', 'hanako'])[1 + n % 2],
             (array['run.cancel', 'run.retry', 'runaway.x'])[1 + n % 3], 'run', (n % 5)::text from generate_series(0, 179) n`;
    const count = async (query: string) => {
      const seen: string[] = [];
      let path: string | undefined = `/audit?${query}`;
      while (path !== undefined) {
        const text = await browser.text(path);
        const [, table = ""] = /<tbody>(.*?)<\/tbody>/s.exec(text) ?? [];
        seen.push(...[...table.matchAll(/datetime="([^"]+)"/g)].map(([, at = ""]) => at));
        path = /<a class="button" href="([^"]*before=[^"]*)"/.exec(text)?.[1]?.replaceAll("&amp;", "&");
      }
      assert.equal(new Set(seen).size, seen.length, query);
      return seen.length;
    };
    assert.equal(await count("actor=user:taro"), 90);
    assert.equal(await count("action=run.cancel"), 60);
    assert.equal(await count("action=run"), 120, "not runaway");
    assert.equal(await count("target-type=run&target=3"), 36);
    assert.equal(await count("target-type=run&since=2026-03-02&until=2026-03-03"), 24);
    assert.equal(await count("target-type=run&since=2026-03-02T09:00%2B09:00&until=2026-03-02+01:00"), 1);
    assert.equal(await count("actor=user:taro&action=run.cancel"), 30);
    assert.match(await browser.text("/audit?actor=nobody"), /No entry matches/);
    const last = await browser.text("/audit?actor=user:taro");
    const older = /href="([^"]*before=[^"]*)"/.exec(last)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const newer = /href="([^"]*after=[^"]*)"/.exec(await browser.text(older))?.[1]?.replaceAll("&amp;", "&") ?? "";
    const rows = (text: string) => /<tbody>(.*?)<\/tbody>/s.exec(text)?.[1];
    assert.equal(rows(await browser.text(newer)), rows(last), "there and back");
  });
});

Deno.test("a filter is kept as CSV and JSON; no cell of it is a formula", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const act = { actor: "user:taro", action: "node.set", target_type: "node" };
    await recordAudit(sql, { ...act, target_id: "=1+1", after: { a: 1 }, reason: 'says "no",\nthen yes' });
    await recordAudit(sql, { ...act, target_id: "@SUM(A1)", reason: EVIL });
    await recordAudit(sql, { ...act, actor: "user:jiro", target_id: "b" });
    const browser = await login("viewer");
    const answer = await browser.get("/audit.csv?actor=user:taro");
    assert.equal(answer.headers.get("content-type"), "text/csv; charset=utf-8");
    assert.equal(answer.headers.get("content-disposition"), 'attachment; filename="audit.csv"');
    const [head, ...rows] = (await answer.text()).split("\r\n");
    assert.equal(head, "id,at,actor,action,target_type,target_id,before,after,reason");
    assert.equal(rows.length, 3, "two acts and the last line's end");
    assert.match(rows[0] ?? "", /,'@SUM\(A1\),/);
    assert.match(rows[1] ?? "", /,'=1\+1,,"\{""a"":1\}","says ""no"",\nthen yes"$/);
    const acts = JSON.parse(await browser.text("/audit.json?actor=user:taro"));
    assert.deepEqual(acts.map((one: { target_id: string }) => one.target_id), ["@SUM(A1)", "=1+1"]);
    assert.equal((await stranger().get("/audit.csv")).status, 303);
  });
});

Deno.test("rows of the audit can be added and nothing else", async () => {
  await withStores(async ({ sql }) => {
    await recordAudit(sql, { actor: "a", action: "b.c", target_type: "d", target_id: "e" });
    for (
      const attempt of [
        sql`update admin_action_log set actor = 'x'`,
        sql`delete from admin_action_log`,
        sql`truncate admin_action_log`,
      ]
    ) {
      await assert.rejects(attempt, /admin_action_log: the audit is only added to/);
    }
    assert.equal((await sql`select from admin_action_log where actor = 'a'`).length, 1);
  });
});

Deno.test("hostile actors, targets, values and reasons are text, and hostile filters find nothing", async () => {
  await withAdmin(async ({ sql, login }) => {
    await recordAudit(sql, {
      actor: EVIL,
      action: EVIL,
      target_type: "node",
      target_id: EVIL,
      before: { [EVIL]: EVIL },
      after: { [EVIL]: [EVIL] },
      reason: EVIL,
    });
    await recordAudit(sql, {
      actor: EVIL,
      action: EVIL,
      target_type: "__proto__",
      target_id: "javascript:alert(1)",
      after: EVIL,
    });
    const browser = await login("admin");
    const all = Object.fromEntries(
      ["actor", "action", "target", "target-type", "since", "until", "before"].map((name) => [name, EVIL]),
    );
    for (const path of ["/audit", `/audit?${new URLSearchParams(all)}`]) {
      const answer = await browser.get(path);
      assert.equal(answer.status, 200);
      assert.doesNotMatch(await answer.text(), /<script>|<img|href="javascript:/);
    }
    for (const time of ["0000-01-01", "9999-12-31T23:59-23:00", "0001-01-01T00:00+23:00"]) { // none that Postgres can read
      const answer = await browser.get(`/audit?${new URLSearchParams({ since: time, until: time })}`);
      assert.equal(answer.status, 200, time);
    }
  });
});

Deno.test("of two objects only what differs is told, of anything else all of it", () => {
  assert.deepEqual(differencesOf({ a: 1, b: 2 }, { a: 1, b: 3, c: "x" }), [
    { name: "b", before: "2", after: "3" },
    { name: "c", before: undefined, after: "x" },
  ]);
  assert.deepEqual(differencesOf(null, 3), [{ name: "", before: undefined, after: "3" }]);
  assert.deepEqual(differencesOf(null, null), []);
  assert.deepEqual(differencesOf({ a: 1 }, null), [{ name: "a", before: "1", after: undefined }]);
  assert.deepEqual(differencesOf([1], { a: 1 }), [{ name: "", before: "[1]", after: '{"a":1}' }]);
});
