/** Users, tokens, hooks and one's own account, on the page; and the page of alerts. What is secret is shown once. */
import assert from "node:assert/strict";
import { digestOf } from "../../../src/admin/auth/passwords.ts";
import { changeRole, disableUser, removeUserNamed } from "../../../src/actions/user_actions.ts";
import { addApiToken, readApiToken } from "../../../src/access/api_tokens.ts";
import { json, type Sql } from "../../../src/postgres/connection.ts";
import { removeUser } from "../../../src/access/users.ts";
import { addWebhook } from "../../../src/events/webhooks.ts";
import { type AdminScene, aUser, type Browser, PASSWORD, withAdmin } from "../../support/admin.ts";
import { untilLocked } from "../../support/waiting.ts";
import { cliWith } from "../../support/cli.ts";
import { stored } from "../../../src/locale/message.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;

const LOSING_AN_ADMIN = {
  "another role": (sql: Sql, name: string) => changeRole(sql, { name, role: "viewer" }, { actor: "test" }),
  "its removal": (sql: Sql, name: string) => removeUserNamed(sql, name, { actor: "test" }),
};

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
    assert.match((await admin.act("/access/users", { name: "taro", role: "viewer" })).text, /"taro" already exists/);
    assert.equal((await admin.act("/access/users", { name: EVIL, role: "viewer" })).tone, "bad");
    assert.equal((await admin.act("/access/users", { name: "jiro", role: "owner" })).tone, "bad");

    await admin.act("/access/users/taro/role", { role: "admin", reason: "on call" });
    assert.equal((await taro.get("/access/users")).status, 200);
    assert.match(
      (await taro.act("/access/users/taro/role", { role: "viewer" })).text,
      /You cannot change your own role/,
    );
    assert.match((await taro.act("/access/users/taro/remove")).text, /You cannot change your own role/);

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
      await sql`select action, actor, reason from admin_action_log where target_id = 'taro' and action not like 'user.login%' order by id`;
    assert.deepEqual(acts.map(({ action, reason }) => `${action}: ${reason}`), [
      "user.add: new here",
      "user.set_role: on call",
      "user.set_password: lost",
      `user.end_sessions: ${stored("reason.page")}`,
      "user.remove: left",
    ]);
    assert(acts.every(({ actor }) => actor === "user:admin"));
    assert(!JSON.stringify([...await sql`select * from admin_action_log`]).includes(renewed));
  });
});

/** A user with a session and with a token that it made; and what both may still do. */
async function withToken({ sql, login }: AdminScene, name: string) {
  const browser = await login("operator", name);
  const token = { name: `of-${name}`, token_digest: await digestOf(`secret of ${name}`), days: 30 };
  assert(await addApiToken(sql, { ...token, scopes: ["read"] }, { actor: `user:${name}` }));
  return async () => {
    const session = (await browser.get("/runs")).status;
    return [session, (await readApiToken(sql, token.token_digest)) !== undefined] as const;
  };
}

for (const way of ["page", "command line", "API"] as const) {
  Deno.test(`a user who is disabled on the ${way} is out at once, with its tokens, and comes back with its password alone`, async () => {
    await withAdmin(async (on) => {
      const { sql, database_url, login, stranger } = on;
      const admin = await login("admin");
      const [may, others] = [await withToken(on, "taro"), await withToken(on, "hanako")];
      const cli = cliWith({ DATABASE_URL: database_url });
      const api = async (verb: string, name: string) => {
        const headers = {
          origin: "http://admin.test",
          "x-csrf": await admin.csrf(),
          "content-type": "application/json",
        };
        const body = JSON.stringify({ reason: `${verb} it` });
        const answer = await admin.send(`/api/v1/users/${name}/${verb}`, { method: "POST", headers, body });
        return `${answer.status} ${await answer.text()}`;
      };
      const act = async (verb: "disable" | "enable", name: string) => {
        if (way === "page") return (await admin.act(`/access/users/${name}/${verb}`, { reason: `${verb} it` })).text;
        if (way === "API") return await api(verb, name);
        const { out, err } = await cli("admin", "user", verb, name, "--reason", `${verb} it`);
        return out + err;
      };
      assert.deepEqual(await may(), [200, true]);
      assert.match(await act("disable", "taro"), /1 session and 1 token|"sessions":1,"tokens":1/);
      assert.deepEqual(await may(), [303, false]);
      assert.deepEqual(await others(), [200, true], "and nobody else");
      assert.equal((await stranger("10.2.2.2").logIn("taro", PASSWORD)).status, 403);
      assert.match(await act("disable", "taro"), /disabled already/);
      assert.match(await admin.text("/access/users"), /disabled.*data-opens="enable-taro"/s);
      assert.match((await cli("admin", "user", "ls", "--json")).out, /"disabled_at": ?"2/);
      assert.doesNotMatch(await act("enable", "taro"), /Cannot/);
      assert.match(await act("enable", "taro"), /is not disabled/);
      assert.match(await act("enable", "nobody"), /none of that name|There is none|Cannot find|none/);
      assert.equal((await stranger("10.2.2.2").logIn("taro", PASSWORD)).status, 303);
      assert.equal((await may())[1], false, "a token that has ended stays so");
      const acts = await sql`
        select action, after_json, reason from admin_action_log where action in ('user.disable', 'user.enable') order by id`;
      assert.deepEqual(acts.map((row) => ({ ...row })), [
        { action: "user.disable", after_json: { sessions: 1, tokens: 1 }, reason: "disable it" },
        { action: "user.enable", after_json: null, reason: "enable it" },
      ]);
    });
  });
}

Deno.test("the last admin cannot be disabled, nor can two admins disable each other at a time", async () => {
  await withAdmin(async ({ sql, login }) => {
    const admin = await login("admin", "taro");
    assert.match((await admin.act("/access/users/taro/disable")).text, /You cannot disable yourself/);
    const by = { actor: "test", reason: "test" };
    await assert.rejects(disableUser(sql, "taro", by), /it is the last admin; give another user that role first/);
    await aUser(sql, { name: "gone", role: "admin" });
    await disableUser(sql, "gone", by);
    await assert.rejects(disableUser(sql, "taro", by), /it is the last admin/, "one that is disabled is none");
    await aUser(sql, { name: "hanako", role: "admin" });
    const both = await Promise.allSettled(["taro", "hanako"].map((name) => disableUser(sql, name, by)));
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    const left = await sql`select from admin_user where role = 'admin' and disabled_at is null`;
    assert.equal(left.length, 1);
  });
});

for (const [doing, act] of Object.entries(LOSING_AN_ADMIN)) {
  Deno.test(`the last admin cannot be lost by ${doing}, and two admins cannot do it to each other at a time`, async () => {
    await withAdmin(async ({ sql, database_url }) => {
      await aUser(sql, { name: "taro", role: "admin" });
      await aUser(sql, { name: "gone", role: "admin" });
      const by = { actor: "test", reason: "test" };
      await disableUser(sql, "gone", by);
      await assert.rejects(act(sql, "taro"), /it is the last admin; give another user that role first/);
      const cli = cliWith({ DATABASE_URL: database_url });
      const given = doing === "another role" ? ["set-role", "taro", "viewer"] : ["rm", "taro"];
      assert.match((await cli("admin", "user", ...given)).err, /"taro": it is the last admin/);
      await act(sql, "gone"); // it could not log in before, so nothing is lost
      await aUser(sql, { name: "hanako", role: "admin" });
      const both = await sql.begin(async (tx) => {
        await tx`select from admin_user for update`;
        const acts = ["taro", "hanako"].map((name) => act(sql, name));
        await untilLocked(tx, 2); // both have begun, and neither has seen what the other does
        return { ended: Promise.allSettled(acts) };
      }).then(({ ended }) => ended);
      assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
      const left = await sql`select from admin_user where role = 'admin' and disabled_at is null`;
      assert.equal(left.length, 1);
      const acts = await sql`select from admin_action_log where action in ('user.set_role', 'user.remove')`;
      assert.equal(acts.length, 2, "what was refused is no act");
    });
  });
}

Deno.test("a removed user's tokens end with it", async () => {
  await withAdmin(async (on) => {
    const may = await withToken(on, "taro");
    assert.equal(await removeUser(on.sql, "taro", { actor: "test" }), "done");
    assert.deepEqual(await may(), [303, false]);
  });
});

Deno.test("a session is marked as used, once in a minute, so that it goes on while somebody uses it", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("viewer");
    const seen = async () => {
      const [row] = await sql<{ ago: number }[]>`
        select extract(epoch from clock_timestamp() - seen_at)::float8 as ago from admin_session`;
      return row?.ago as number;
    };
    await sql`update admin_session set seen_at = clock_timestamp() - interval '50 s'`;
    await browser.get("/runs");
    assert(await seen() > 49, "a click writes no row");
    await sql`update admin_session set seen_at = clock_timestamp() - interval '11 hours'`;
    await browser.get("/runs");
    assert(await seen() < 49);
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
      [{ current: "not it at all", fresh, again: fresh }, /current password is wrong/],
      [{ current: PASSWORD, fresh, again: "something else here" }, /differ/],
      [{ current: PASSWORD, fresh: "short", again: "short" }, /12 to 1000 characters/],
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
    assert.match(
      (await back.act("/account/password", { current: fresh, fresh, again: fresh })).text,
      /too many attempts/,
    );
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
    assert.match(failed, /did not accept the test after 2 attempts.*503 /s);
    assert.doesNotMatch(failed, /<script>|<img/);
    await sql`update alert_delivery set delivered_at = now(), claimed_by = 'w1'`;
    assert.match(await admin.text(to), /The webhook accepted the test, sent by w1/);
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
