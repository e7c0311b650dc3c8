/** Users, tokens, hooks and one's own account, on the page; and the page of alerts. What is secret is shown once. */
import assert from "node:assert/strict";
import { digestOf } from "../src/admin/passwords.ts";
import { json } from "../src/store/db.ts";
import { addWebhook } from "../src/store/webhooks.ts";
import { aUser, type Browser, PASSWORD, withAdmin } from "./support/admin.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;

/** What an act shows once. */
async function secretOf(browser: Browser, path: string, fields: Record<string, string>): Promise<string> {
  const answer = await browser.post(path, fields);
  assert.equal(answer.status, 200, path);
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const [, secret = ""] = /<pre class="code">([^<]+)<\/pre>/.exec(await answer.text()) ?? [];
  assert(secret.length > 20);
  return secret;
}

Deno.test("a user is added with a password that is shown once, and may what its role says from then on", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const admin = await login("admin");
    const password = await secretOf(admin, "/access/users", { name: "Taro", role: "operator", reason: "new here" });
    const taro = stranger();
    assert.equal((await taro.logIn("taro", password)).status, 303);
    assert.doesNotMatch(await admin.text("/access/users"), new RegExp(password));
    assert.equal((await taro.get("/access/users")).status, 403);
    assert.match((await admin.act("/access/users", { name: "taro", role: "viewer" })).text, /There is "taro" already/);
    assert.equal((await admin.act("/access/users", { name: EVIL, role: "viewer" })).tone, "bad");
    assert.equal((await admin.act("/access/users", { name: "jiro", role: "owner" })).tone, "bad");

    await admin.act("/access/users/taro/role", { role: "admin", reason: "on call" });
    assert.equal((await taro.get("/access/users")).status, 200);
    assert.match(
      (await taro.act("/access/users/taro/role", { role: "viewer" })).text,
      /Nobody can take away their own/,
    );
    assert.match((await taro.act("/access/users/taro/remove")).text, /Nobody can take away their own/);

    const renewed = await secretOf(admin, "/access/users/taro/password", { reason: "lost" });
    assert.equal((await taro.get("/runs")).status, 303, "logged out everywhere");
    assert.equal((await stranger("10.0.0.2").logIn("taro", password)).status, 403);
    const again = stranger("10.0.0.3");
    assert.equal((await again.logIn("taro", renewed)).status, 303);
    assert.match((await admin.act("/access/users/taro/sessions")).text, /1 session ended/);
    assert.equal((await again.get("/runs")).status, 303);
    assert.equal((await admin.act("/access/users/taro/remove", { reason: "left" })).text, "taro is removed");
    assert.equal((await admin.act("/access/users/taro/remove")).tone, "bad");
    const acts =
      await sql`select action, actor, reason from admin_action_log where target_id = 'taro' and action <> 'user.login' order by id`;
    assert.deepEqual(acts.map(({ action, reason }) => `${action}: ${reason}`), [
      "user.add: new here",
      "user.set_role: on call",
      "user.set_password: lost",
      "user.end_sessions: from the admin page",
      "user.remove: left",
    ]);
    assert(acts.every(({ actor }) => actor === "user:admin"));
    assert(!JSON.stringify([...await sql`select * from admin_action_log`]).includes(renewed));
  });
});

Deno.test("everybody changes their own password, knowing the old one, and is then logged in nowhere", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const viewer = await login("viewer");
    const other = stranger("10.9.9.9");
    await other.logIn("viewer", PASSWORD);
    assert.match(await viewer.text("/account"), /10\.9\.9\.9/);
    const fresh = "a much better secret";
    const refused: [Record<string, string>, RegExp][] = [
      [{ current: "not it at all", fresh, again: fresh }, /current password is not that/],
      [{ current: PASSWORD, fresh, again: "something else here" }, /differ/],
      [{ current: PASSWORD, fresh: "short", again: "short" }, /12 characters/],
    ];
    for (const [form, sign] of refused) assert.match((await viewer.act("/account/password", form)).text, sign);
    assert.match(
      (await viewer.act("/account/password", { current: PASSWORD, fresh, again: fresh })).text,
      /is changed/,
    );
    for (const browser of [viewer, other]) assert.equal((await browser.get("/runs")).status, 303);
    assert.equal((await stranger().logIn("viewer", PASSWORD)).status, 403);
    const back = stranger();
    assert.equal((await back.logIn("viewer", fresh)).status, 303);
    for (let n = 0; n < 6; n++) await back.act("/account/password", { current: `guess ${n}`, fresh, again: fresh });
    assert.match((await back.act("/account/password", { current: fresh, fresh, again: fresh })).text, /Too many tries/);
    for (const name of ["b", "c", "d"]) {
      const guesser = await login("viewer", name);
      for (let n = 0; n < 6; n++) {
        await guesser.act("/account/password", { current: `guess ${n}`, fresh, again: fresh });
      }
    }
    const another = await login("viewer", "another");
    const own = await another.act("/account/password", { current: PASSWORD, fresh, again: fresh });
    assert.match(own.text, /is changed/, "others' guesses keep nobody from changing their own");
    await back.act("/account/logout");
    assert.equal((await back.get("/runs")).status, 303);
    const acts =
      await sql`select actor from admin_action_log where action in ('user.set_password', 'user.end_sessions') order by id`;
    assert.deepEqual(acts.map(({ actor }) => actor), ["user:viewer", "user:another", "user:viewer"]);
  });
});

Deno.test("a token is shown once, lets a program in as far as it says, and no longer when it is taken back", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const admin = await login("admin");
    const token = await secretOf(admin, "/access/tokens", {
      name: "ci",
      scope: "read",
      days: "30",
      reason: "for builds",
    });
    const [row] =
      await sql`select token_digest, scopes, expires_at - created_at = interval '30 days' as month from api_token`;
    assert.deepEqual([row?.token_digest, row?.scopes.join()], [await digestOf(token), "read"]);
    const ask = (path: string) => stranger().get(path, { authorization: `Bearer ${token}` });
    assert.equal((await ask("/api/v1/runs")).status, 200);
    assert.match(await admin.text("/access/tokens"), /ci.*read/s);
    const bad = [{ name: "CI!" }, { name: "ci" }, { days: "0" }, { days: "99999" }, { scope: "everything" }];
    for (const one of bad) {
      assert.equal((await admin.act("/access/tokens", { name: "x", scope: "read", days: "1", ...one })).tone, "bad");
    }
    assert.equal((await admin.act("/access/tokens/ci/remove", { reason: "done" })).tone, "good");
    assert.equal((await ask("/api/v1/runs")).status, 401);
    const acts = await sql`select action, reason from admin_action_log where target_type = 'token' order by id`;
    assert.deepEqual([...acts], [{ action: "token.add", reason: "for builds" }, {
      action: "token.remove",
      reason: "done",
    }]);
  });
});

Deno.test("a hook's secret is shown once, and its name and rate are checked", async () => {
  await withAdmin(async ({ sql, login }) => {
    const admin = await login("admin");
    const hook = { name: "shop", event_type: "order.placed", signature: "github", rate: "60" };
    const secret = await secretOf(admin, "/access/hooks", hook);
    assert.equal((await sql`select from webhook where secret = ${secret}`).length, 1);
    const page = await admin.text("/access/hooks");
    assert.match(page, /\/api\/v1\/hooks\/shop/);
    assert.doesNotMatch(page, new RegExp(secret));
    for (
      const one of [{ name: "shop" }, { name: "Shop" }, { rate: "0" }, { rate: "x" }, { signature: "none" }, {
        event_type: "",
      }]
    ) {
      assert.equal(
        (await admin.act("/access/hooks", { ...hook, name: "other", ...one })).tone,
        "bad",
        JSON.stringify(one),
      );
    }
    assert.equal((await admin.act("/access/hooks/shop/remove")).tone, "good");
    assert.equal((await admin.act("/access/hooks/shop/remove")).tone, "bad");
  });
});

Deno.test("alerts are seen by all, acknowledged by operators once, and the webhook's answer to a test is shown", async () => {
  await withAdmin(async ({ sql, login }) => {
    await sql`insert into alert (kind, subject, message, detail, opened_by) values
      ('run.failed', ${EVIL}, ${EVIL}, ${json(sql, { job_run_id: 3 })}, ${EVIL})`;
    await sql`insert into alert (kind, subject, message, opened_by, closed_at) values ('leader.none', 'leader', 'nobody has led', 'w1', now())`;
    const viewer = await login("viewer");
    const page = await viewer.text("/alerts");
    assert.match(page, /nobody has led/);
    assert.doesNotMatch(page, /<script>|<img|<dialog|data-opens/);
    const operator = await login("operator");
    assert.match(await operator.text("/alerts"), /data-opens="ack-1"/);
    assert.equal((await operator.act("/alerts/1/ack", { reason: "I look" })).tone, "good");
    assert.equal((await operator.act("/alerts/1/ack")).tone, "bad");
    assert.match(await operator.text("/alerts"), /user:operator/);
    const admin = await login("admin");
    const { to } = await admin.act("/alerts/test");
    assert.match(to, /^\/alerts\?test=\d+$/);
    assert.match(await admin.text(to), /No worker has sent the test yet/);
    await sql`update alert_delivery set attempts = 2, last_error = ${`503 ${EVIL}`}`;
    const failed = await admin.text(to);
    assert.match(failed, /did not take the test, tried 2 times.*503 /s);
    assert.doesNotMatch(failed, /<script>|<img/);
    await sql`update alert_delivery set delivered_at = now(), claimed_by = 'w1'`;
    assert.match(await admin.text(to), /The webhook took the test, sent by w1/);
    assert.equal((await admin.get(`/alerts?test=${encodeURIComponent(EVIL)}`)).status, 200);
  });
});

Deno.test("who is no admin sees and does none of this", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    await addWebhook(sql, { name: "shop", event_type: "e", signature: "github", secret: "s", rate_per_minute: 1 }, {
      actor: "test",
      reason: "test",
    });
    for (const role of ["viewer", "operator"] as const) {
      const browser = await login(role);
      for (const area of ["users", "tokens", "hooks"]) assert.equal((await browser.get(`/access/${area}`)).status, 403);
      assert.doesNotMatch(await browser.text("/runs"), /\/access\//);
      const posts = [
        "/access/users",
        "/access/users/taro/role",
        "/access/users/taro/password",
        "/access/users/taro/remove",
        "/access/tokens",
        "/access/hooks/shop/remove",
        "/alerts/test",
      ];
      for (const path of posts) {
        const form = { name: role, role: "admin", scope: "admin", days: "1" };
        assert.equal((await browser.post(path, form)).status, 403, path);
      }
    }
    assert.deepEqual([...await sql`select role from admin_user where name = 'taro'`], [{ role: "viewer" }]);
    assert.equal((await sql`select from api_token`).length, 0);
    assert.equal((await sql`select from webhook`).length, 1);
  });
});
