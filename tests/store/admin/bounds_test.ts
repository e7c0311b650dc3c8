/** What a reader can make the server do for long: streams that outlive their session, and schedules that hardly ever come. */
import assert from "node:assert/strict";
import { FewAtOnce, OF_PAGES, TooManyAtOnce } from "../../../src/admin/few_at_once.ts";
import { boundedSlots } from "../../../src/schedules/preview.ts";
import type { ScheduleTimes } from "../../../src/schedules/calendar.ts";
import { disableUser } from "../../../src/actions/user_actions.ts";
import { removeUser, setPassword } from "../../../src/access/users.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { withAdmin } from "../../support/admin.ts";
import { withApi } from "../../support/api_scene.ts";

/** A leap day that is a Monday: every 28 years. */
const RARE = "/schedules/preview?cron=" + encodeURIComponent("0 0 29 2 +1");

Deno.test("streams end with their session: at a logout, a new password, and when the user is disabled or removed", async () => {
  await withAdmin(async ({ sql, live, login }) => {
    const by = { actor: "test", reason: "test" };
    const open = async (name: string) => {
      const browser = await login("viewer", name);
      const reader = (await browser.get("/live?topics=runs")).body?.getReader() ?? assert.fail();
      return { browser, reader };
    };
    const other = await open("other");
    const ends: Record<string, (browser: Awaited<ReturnType<typeof open>>["browser"]) => Promise<unknown>> = {
      out: (browser) => browser.post("/logout", {}),
      changed: () => setPassword(sql, { name: "changed", password_hash: "another" }, by),
      disabled: () => disableUser(sql, "disabled", by),
      removed: () => removeUser(sql, "removed", by),
    };
    for (const [name, end] of Object.entries(ends)) {
      const { browser, reader } = await open(name);
      await live.look();
      assert.match(new TextDecoder().decode((await reader.read()).value), /watching/, name);
      await end(browser);
      await live.look();
      assert.equal((await reader.read()).done, true, name);
      assert.equal((await browser.get("/live?topics=runs")).status, 401);
    }
    assert.match(new TextDecoder().decode((await other.reader.read()).value), /watching/);
    await other.browser.post("/logout", {});
    await live.look();
    assert.equal((await other.reader.read()).done, true, "it went on until then");
  });
});

Deno.test("a schedule that hardly ever comes is previewed for 50 years, and not for thousands", async () => {
  await withApi(async ({ call }) => {
    const { status, body } = await call("GET", `${RARE}&count=1000&from=2026-01-01T00:00:00Z`);
    const [item] = body.items as { slots: string[] }[];
    assert.deepEqual([status, item?.slots], [200, ["2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z"]]);
    const often = await call("GET", "/schedules/preview?every_n_minutes=1&count=1000");
    assert.equal((often.body.items as { slots: string[] }[])[0]?.slots.length, 1000);
  });
});

Deno.test("a preview ends when its time is over, with what it found until then", async () => {
  const spec = {
    schedule_type: "cron",
    schedule_value: "0 0 1 1 *",
    timezone: "UTC",
    dst_gap: "after",
    dst_overlap: "first",
    exclude: [],
  } satisfies ScheduleTimes;
  const after = Temporal.Instant.from("2026-01-01T00:00:00Z");
  assert.equal((await boundedSlots(spec, { after, count: 1000, budget_ms: 0 })).length, 1);
  assert.equal((await boundedSlots(spec, { after, count: 1000, budget_ms: 60_000 })).length, 50);
});

Deno.test("of one caller few computations are under way at once, and others find their places", async () => {
  const few = new FewAtOnce();
  const held = Promise.withResolvers<string>();
  const work = () => held.promise;
  const under_way = [few.run("taro", work), few.run("taro", work)];
  await assert.rejects(few.run("taro", work), /Cannot compute more for taro now: 2 of its requests are under way/);
  under_way.push(few.run("hanako", work));
  held.resolve("done");
  assert.deepEqual(await Promise.all(under_way), ["done", "done", "done"]);
  await assert.rejects(few.run("taro", () => Promise.reject(new Error("broken"))), /broken/);
  assert.equal(await few.run("taro", () => Promise.resolve(1)), 1);
});

Deno.test("what waits for its turn gets the place of who ends, and beyond that nobody waits", async () => {
  const few = new FewAtOnce({ at_once: 1, waiting: 1 });
  const held = Promise.withResolvers<string>();
  const first = few.run("taro", () => held.promise);
  let begun = false;
  const second = few.run("taro", () => Promise.resolve(begun = true));
  await assert.rejects(few.run("taro", () => Promise.resolve(1)), TooManyAtOnce);
  assert.equal(begun, false);
  held.resolve("done");
  assert.deepEqual(await Promise.all([first, second]), ["done", true]);
});

/** Asks for all of them while the database answers nobody, and lets it answer then. */
async function manyAtOnce(sql: Sql, ask: () => Promise<Response>, count: number): Promise<Response[]> {
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const lock = sql.begin(async (tx) => {
    await tx`lock table job_schedule, job_run, admin_action_log in access exclusive mode`;
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  const asked = Array.from({ length: count }, ask);
  const first = await Promise.race(asked);
  held.resolve();
  await lock;
  assert.equal(first.status, 429);
  return await Promise.all(asked);
}

Deno.test("of pages that a reader can make long few of one user are under way, and more are told when to come back", async () => {
  await withAdmin(async ({ sql, login }) => {
    const [taro, hanako] = [await login("viewer", "taro"), await login("viewer", "hanako")];
    const { at_once, waiting } = OF_PAGES;
    for (const path of ["/calendar", "/runs", "/audit.csv"]) {
      const answers = await manyAtOnce(sql, () => taro.get(path), at_once + waiting + 3);
      const refused = answers.filter(({ status }) => status === 429);
      assert.equal(refused.length, 3, path);
      for (const answer of refused) assert.equal(answer.headers.get("retry-after"), "2");
      for (const { status } of answers) assert([200, 429, 503].includes(status), `${path}: ${status}`);
      assert.equal((await hanako.get(path)).status, 200);
      assert.equal((await taro.get(path)).status, 200, "they found their places again");
    }
  });
});
