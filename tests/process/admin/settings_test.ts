/** The page of settings, and the command line's `settings`: looked at, changed together, and taken back. */
import assert from "node:assert/strict";
import {
  changeSettings,
  DEFAULT_SETTINGS,
  problemsIn,
  readSettings,
  RELATIONS,
  relationText,
} from "../../../src/settings/settings.ts";
import { withAdmin } from "../../support/admin.ts";
import { cliWith } from "../../support/cli.ts";
import { withStores } from "../../support/stores.ts";
import { stored } from "../../../src/locale/message.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;

Deno.test("every setting is shown with what it does, its unit, bounds, default, and who changed it, in both languages", async () => {
  await withAdmin(async ({ sql, login }) => {
    await changeSettings(sql, { max_jobs_per_worker: 4 }, { actor: "user:hanako" });
    const browser = await login("viewer");
    const text = await browser.text("/settings");
    for (const name of Object.keys(DEFAULT_SETTINGS)) assert.match(text, new RegExp(`<code>${name}</code>`));
    for (const sign of [/Longest pause between two ticks/, /0\.05 … 60/, />4 bodies</, /user:hanako/, /14 days/]) {
      assert.match(text, sign);
    }
    for (const rule of RELATIONS) assert(text.includes(relationText(rule)));
    assert.doesNotMatch(text, /edit=|<form method="post" action="\/settings/, "a viewer changes nothing");
    const ja = await browser.text("/settings", { "accept-language": "ja" });
    assert.match(ja, /リーダーのティックの最長間隔/);
    assert.match(ja, /4 本体/);
  });
});

Deno.test("a change is shown beside what holds and applied in one go, with before and after in the audit", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("admin");
    assert.match(
      await browser.text("/settings?edit=leader"),
      /<input type="number" name="leader_tick_seconds" value="1"/,
    );
    const typed = {
      leader_tick_seconds: "2",
      leader_lease_seconds: "6",
      leader_stale_seconds: "6",
      leader_runs_jobs: "alone",
    };
    const review = await browser.act("/settings/review", typed);
    const asked = new URLSearchParams(review.to.split("?")[1]);
    assert.deepEqual(Object.fromEntries(asked), {
      leader_tick_seconds: "2",
      leader_lease_seconds: "6",
      leader_stale_seconds: "6",
    });
    const page = await browser.text(review.to);
    assert.match(page, /<strong>6 s<\/strong>/);
    const fields = Object.fromEntries([...asked.keys()].flatMap((name) => [
      [name, asked.get(name) ?? ""],
      [`was.${name}`, JSON.stringify(DEFAULT_SETTINGS[name as "leader_tick_seconds"])],
    ]));
    const done = await browser.act("/settings", { ...fields, reason: "a slow network" });
    assert.match(done.text, /^Changed: leader_lease_seconds, leader_stale_seconds, leader_tick_seconds$/);
    const now = await readSettings(sql);
    assert.deepEqual([now.leader_tick_seconds, now.leader_lease_seconds], [2, 6]);
    const moved = await browser.act("/settings", fields);
    assert.match(moved.text, /nothing changed/i, "sent twice");
    const acts = await sql`select actor, target_id, before_json, after_json, reason from admin_action_log
                            where action = 'settings.change' and target_id = 'leader_tick_seconds'`;
    assert.deepEqual([...acts], [{
      actor: "user:admin",
      target_id: "leader_tick_seconds",
      before_json: 1,
      after_json: 2,
      reason: "a slow network",
    }]);
  });
});

Deno.test("what is out of bounds or does not fit the others is said, cannot be applied, and nothing of it is", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("admin");
    const bad: [Record<string, string>, RegExp][] = [
      [
        { leader_tick_seconds: "2" },
        /leader_lease_seconds must be at least 2 x leader_tick_seconds: current values are 3 and 2/,
      ],
      [{ leader_tick_seconds: "-1" }, /must be a number from 0\.05 to 60/],
      [{ max_jobs_per_worker: "2.5" }, /must be a whole number from 1 to 1000/],
      [{ leader_tick_seconds: "soon" }, /must be a number from/],
      [{ leader_tick_seconds: "1e999" }, /must be a number from/],
      [{ dispatch: EVIL }, /dispatch must be one of running, paused/],
      [{ worker_margin_seconds: "24", max_jobs_per_worker: "5" }, /2 x worker_renew_seconds \+ worker_margin_seconds/],
    ];
    for (const [change, sign] of bad) {
      const text = await browser.text(`/settings?${new URLSearchParams(change)}`);
      assert.match(text, sign);
      assert.doesNotMatch(text, /<script>|<img|>Apply</);
      const was = Object.keys(change).map((
        name,
      ) => [`was.${name}`, JSON.stringify(DEFAULT_SETTINGS[name as "dispatch"])]);
      const refused = await browser.act("/settings", { ...change, ...Object.fromEntries(was) });
      assert.equal(refused.tone, "bad");
      assert.match(refused.text, sign);
    }
    assert.equal((await sql`select from scheduler_settings`).length, 0);
    assert.equal((await sql`select from admin_action_log where target_type = 'setting'`).length, 0);
  });
});

Deno.test("what somebody else changed meanwhile is not overwritten, and a default comes back as one", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("admin");
    await changeSettings(sql, { max_jobs_per_worker: 7 }, { actor: "user:hanako" });
    const late = await browser.act("/settings", { max_jobs_per_worker: "4", "was.max_jobs_per_worker": "10" });
    assert.match(late.text, /max_jobs_per_worker was changed by user:hanako in the meantime/);
    assert.equal((await readSettings(sql)).max_jobs_per_worker, 7);
    assert.match(await browser.text("/settings?max_jobs_per_worker=default"), /10 bodies \(back to the default\)/);
    await browser.act("/settings", { max_jobs_per_worker: "default", "was.max_jobs_per_worker": "7" });
    assert.equal((await sql`select from scheduler_settings`).length, 0);
    const [act] = await sql`select before_json, after_json from admin_action_log where action = 'settings.reset'`;
    assert.deepEqual({ ...act }, { before_json: 7, after_json: 10 });
  });
});

Deno.test("only an admin changes settings", async () => {
  await withAdmin(async ({ sql, login }) => {
    for (const role of ["viewer", "operator"] as const) {
      const browser = await login(role);
      assert.equal((await browser.post("/settings", { dispatch: "paused" })).status, 403);
      assert.equal((await browser.post("/settings/review", { dispatch: "paused" })).status, 403);
      assert.doesNotMatch(await browser.text("/settings?dispatch=paused&edit=leader"), />Apply<|>Review</);
    }
    assert.equal((await sql`select from scheduler_settings`).length, 0);
  });
});

Deno.test("two changes that fit alone and not together are made one after the other, and the second is refused", async () => {
  await withStores(async ({ sql }) => {
    const by = { actor: "test" };
    const both = await Promise.allSettled([
      changeSettings(sql, { leader_tick_seconds: 1.5 }, by),
      changeSettings(sql, { leader_lease_seconds: 2 }, by),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    assert.deepEqual(problemsIn(await readSettings(sql)), []);
  });
});

Deno.test("settings are listed, set and reset from the command line, and what does not fit is refused in words", async () => {
  await withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const set = await cli(
      "settings",
      "set",
      "leader_tick_seconds=2",
      "leader_lease_seconds=5",
      "leader_stale_seconds=5",
    );
    assert.equal(set.code, 0, set.err);
    assert.match(set.out, /leader_tick_seconds +2 \*.*Every process applies the change within 5 s/s);
    assert.equal((await readSettings(sql)).leader_lease_seconds, 5);
    const alone = await cli("settings", "reset", "leader_lease_seconds");
    assert.equal(alone.code, 1);
    assert.match(
      alone.err,
      /leader_lease_seconds must be at least 2 x leader_tick_seconds: current values are 3 and 2/,
    );
    assert.match((await cli("settings", "set", "nonsense=1")).err, /no such setting; see `deno task settings ls`/);
    assert.match(
      (await cli("settings", "set", "leader_tick_second=1")).err,
      /no such setting; did you mean leader_tick_seconds\?/,
    );
    const below = await cli("settings", "set", "max_jobs_per_worker=0");
    assert.deepEqual([below.code, /from 1 to 1000: current value is 0/.test(below.err)], [2, true], below.err);
    assert.match((await cli("settings", "set", "leader_tick_seconds=soon")).err, /to "soon": give a number/);
    assert.match((await cli("settings", "reset", "nonsense")).err, /nonsense is no setting/);
    const changed = JSON.parse((await cli("settings", "ls", "--changed", "--json")).out);
    assert.deepEqual(changed.map((one: { name: string }) => one.name), [
      "leader_tick_seconds",
      "leader_lease_seconds",
      "leader_stale_seconds",
    ]);
    const [act] =
      await sql`select actor like 'cli:%' as mine, reason from admin_action_log where target_type = 'setting' limit 1`;
    assert.deepEqual({ ...act }, { mine: true, reason: stored("reason.command_line") });
  });
});
