/** Who gets in, for how long, and who does not. */
import assert from "node:assert/strict";
import { hashPassword, makePassword, passwordFits, problemWithPassword } from "../../../src/admin/auth/passwords.ts";
import { addApiToken, readApiToken, removeApiToken, scopesAllow } from "../../../src/access/api_tokens.ts";
import { mayTry } from "../../../src/access/login_attempts.ts";
import { openSession } from "../../../src/access/sessions.ts";
import { readCredentials, removeUser, setPassword, setRole } from "../../../src/access/users.ts";
import { readSettings } from "../../../src/settings/settings.ts";
import { aUser, PASSWORD, withAdmin } from "../../support/admin.ts";
import { untilLocked } from "../../support/waiting.ts";

Deno.test("a login opens a session, a logout ends it, and both leave cookies that only this server reads", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const browser = stranger();
    const turned_away = await browser.get("/runs?state=FAILED");
    assert.deepEqual([turned_away.status, turned_away.headers.get("location")], [
      303,
      "/login?back=%2Fruns%3Fstate%3DFAILED",
    ]);
    const opened = await browser.post("/login", { name: " Taro ", password: PASSWORD, back: "/runs?state=FAILED" });
    assert.deepEqual([opened.status, opened.headers.get("location")], [303, "/runs?state=FAILED"]);
    const cookie = browser.set.find((one) => one.startsWith("dandori_session="));
    assert.match(cookie ?? "", /; Path=\/; HttpOnly; SameSite=Strict$/);
    assert.equal((await browser.get("/runs")).status, 200);
    const [stored] = await sql<{ token_digest: string }[]>`select token_digest from admin_session`;
    assert.notEqual(stored?.token_digest, browser.cookies.get("dandori_session"), "what is stored lets nobody in");
    const [login] = await sql`select actor, after_json from admin_action_log where action = 'user.login'`;
    assert.deepEqual({ ...login }, { actor: "user:taro", after_json: { address: "10.0.0.1" } });
    const token = browser.cookies.get("dandori_session") as string;
    assert.equal((await browser.post("/logout", {})).status, 303);
    browser.cookies.set("dandori_session", token);
    assert.equal((await browser.get("/runs")).status, 303, "the session is over, not only its cookie");
    assert.equal((await browser.post("/logout", {})).status, 303, "as from another tab of the same browser");
    const logouts = await sql`select actor, target_id, after_json from admin_action_log where action = 'user.logout'`;
    const once = { actor: "user:taro", target_id: "taro", after_json: { address: "10.0.0.1" } };
    assert.deepEqual(logouts.map((row) => ({ ...row })), [once], "of a session that was over nothing is said");
  });
});

Deno.test("a wrong name and a wrong password are told alike, and without a user it says how to make one", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    assert.match(await stranger().text("/login"), /admin user add NAME --role admin/);
    await aUser(sql, { name: "taro", role: "viewer" });
    const page = async (name: string) => {
      const answer = await stranger().post("/login", { name, password: "guess", back: "/" });
      assert.equal(answer.status, 403);
      return (await answer.text()).replaceAll(name, "NAME").replace(/data-now="\d+"/, "");
    };
    assert.equal(await page("taro"), await page("nobody"));
    assert.doesNotMatch(await stranger().text("/login"), /user add/);
  });
});

Deno.test("tries are few for a name from an address, more for the address, and others still get in", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const tries = await Promise.all(
      Array.from({ length: 8 }, () => mayTry(sql, { name: "taro", address: "10.9.9.9" })),
    );
    assert.equal(tries.filter((may) => may).length, 5, "also when they come all at once");
    assert.equal((await stranger("10.9.9.9").logIn("taro", PASSWORD)).status, 429, "also with the right password");
    assert.equal((await stranger("10.1.1.1").logIn("taro", PASSWORD)).status, 303);
    for (let n = 0; n < 15; n++) {
      await sql`insert into admin_login_attempt (name, address) values (${`n${n}`}, '10.9.9.9')`;
    }
    assert.equal((await stranger("10.9.9.9").logIn("hanako", "guess")).status, 429);
    await sql`update admin_login_attempt set at = at - interval '16 minutes'`;
    assert.equal((await stranger("10.9.9.9").logIn("taro", PASSWORD)).status, 303);
  });
});

Deno.test("guesses from one place do not lock a user out everywhere, however many they are", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    for (let n = 0; n < 60; n++) await stranger("10.9.9.9").logIn("taro", "guess");
    assert.equal((await stranger("10.1.1.1").logIn("taro", PASSWORD)).status, 303);
  });
});

Deno.test("the address is the peer's, and a proxy's word only where one is trusted", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await stranger("10.0.0.7").post("/login", { name: "a", password: "b" }, { "x-forwarded-for": "1.1.1.1, 2.2.2.2" });
    await stranger("2001:db8:1:2:3:4:5:6").logIn("a", "b");
    const rows = await sql<{ address: string }[]>`select address from admin_login_attempt order by id`;
    assert.deepEqual(rows.map((row) => row.address), ["10.0.0.7", "2001:db8:1:2::/64"]);
  });
  await withAdmin(async ({ sql, stranger }) => {
    await stranger("10.0.0.7").post("/login", { name: "a", password: "b" }, { "x-forwarded-for": "6.6.6.6, 2.2.2.2" });
    const [row] = await sql<{ address: string }[]>`select address from admin_login_attempt`;
    assert.equal(row?.address, "2.2.2.2", "what the client wrote before it is not believed");
  }, { proxies: 1 });
});

Deno.test("a session ends when it is not used, at its last hour, with its password and with its user", async () => {
  await withAdmin(async ({ sql, login }) => {
    const open = async (browser: Awaited<ReturnType<typeof login>>) => (await browser.get("/runs")).status === 200;
    const [idle, old, changed, removed] = [
      await login("viewer", "idle"),
      await login("viewer", "old"),
      await login("viewer", "changed"),
      await login("viewer", "removed"),
    ];
    for (const browser of [idle, old, changed, removed]) assert(await open(browser));
    await sql`update admin_session set seen_at = seen_at - interval '11 hours'`;
    assert(await open(idle), "used again before it is over, it goes on");
    const by = { actor: "test" };
    await setPassword(sql, { name: "changed", password_hash: await hashPassword("another password") }, by);
    await removeUser(sql, "removed", by);
    const of = (name: string) => sql`admin_user_id = (select id from admin_user where name = ${name})`;
    await sql`update admin_session set seen_at = seen_at - interval '13 hours' where ${of("idle")}`;
    await sql`update admin_session set expires_at = clock_timestamp() where ${of("old")}`;
    for (const browser of [idle, old, changed, removed]) assert.equal(await open(browser), false);
  });
});

Deno.test("a form of a session that is over is not done, says so, and its login leads back to the page of the form", async () => {
  for (const [url, base] of [["https://example.test/tools/", "/tools"], ["http://admin.test/", ""]] as const) {
    await withAdmin(async ({ sql, login }) => {
      const browser = await login("operator");
      const referer = `${url}jobs?text=a+b`;
      const send = (headers: Record<string, string>) =>
        browser.post("/queue/pause", { csrf: "any", do: "pause" }, headers);
      const stale = await send({ referer });
      assert.equal(stale.status, 403, "the session is another one than the form's");
      assert.match(await stale.text(), /a session that is over.*nothing was done/);
      await sql`delete from admin_session`;
      const to = async (headers: Record<string, string>) => (await send(headers)).headers.get("location") ?? "";
      assert.equal(await to({ referer }), `${base}/login?back=%2Fjobs%3Ftext%3Da%2Bb&undone=1`);
      assert.equal(await to({}), `${base}/login?back=%2F&undone=1`);
      assert.equal(await to({ referer: "about:blank" }), `${base}/login?back=%2F&undone=1`);
      assert.match(await browser.text("/login?back=%2Fjobs&undone=1"), /what you sent was not done/);
      assert.match(await browser.text("/login?back=%2Fjobs"), /Your session has ended/);
      await browser.post("/logout", {});
      assert.doesNotMatch(await browser.text("/login"), /session has ended/, "who logged out knows");
      assert.equal((await readSettings(sql)).dispatch, "running");
    }, { url });
  }
});

Deno.test("a password that is changed while the old one is checked lets nobody in, and is not overwritten by the old one's owner", async () => {
  await withAdmin(async ({ sql, stranger, login }) => {
    const browser = await login("viewer", "taro");
    const fresh = "scrypt$1024$8$1$AA$AA";
    let old: Promise<Response> | undefined, account: Promise<Response> | undefined;
    await sql.begin(async (tx) => { // as an admin does who sets another one
      await tx`select from admin_user where name = 'taro' for update`;
      old = stranger("10.2.2.2").logIn("taro", PASSWORD);
      const theirs = "of somebody who took it";
      account = browser.post("/account/password", { current: PASSWORD, fresh: theirs, again: theirs });
      await untilLocked(tx, 2);
      await tx`update admin_user set password_hash = ${fresh} where name = 'taro'`;
      await tx`delete from admin_session`;
    });
    assert.equal((await old)?.status, 403);
    await account;
    assert.equal((await sql`select from admin_session`).length, 0, "who knew the old password is out");
    const [user] = await sql`select password_hash from admin_user where name = 'taro'`;
    assert.equal(user?.password_hash, fresh);
    assert.equal((await sql`select from admin_action_log where action = 'user.set_password'`).length, 0);
  });
});

Deno.test("a new password ends also the session that is being opened with the old one", async () => {
  await withAdmin(async ({ sql }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const { id, password_hash } = await readCredentials(sql, "taro") ?? assert.fail();
    const of = { admin_user_id: id, password_hash, token_digest: "d", address: "10.2.2.2", user_agent: "" };
    let changed: Promise<boolean> | undefined;
    await sql.begin(async (tx) => {
      assert(await openSession(tx, of));
      changed = setPassword(sql, { name: "taro", password_hash: "another" }, { actor: "test" });
      await untilLocked(tx, 1);
    });
    assert(await changed);
    assert.equal((await sql`select from admin_session`).length, 0);
    assert.equal(await openSession(sql, of), false, "its password is another one now");
    await removeUser(sql, "taro", { actor: "test" });
    assert.equal(await openSession(sql, of), false, "the user is gone");
    assert.equal((await sql`select from admin_action_log where action = 'user.login'`).length, 1);
  });
});

Deno.test("a role that changes holds from the next click on", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("viewer", "taro");
    assert.equal((await browser.post("/runs/1/cancel", {})).status, 403);
    await setRole(sql, { name: "taro", role: "operator" }, { actor: "test" });
    assert.equal((await browser.post("/runs/1/cancel", {})).status, 404, "there is no run 1");
  });
});

Deno.test("passwords are hashed each with its own salt, and made ones are good", async () => {
  const [one, other] = await Promise.all([hashPassword("pässword of taro"), hashPassword("pässword of taro")]);
  assert.notEqual(one, other);
  assert(await passwordFits("pässword of taro", one), "however the letters are composed");
  assert.equal(await passwordFits("another", one), false);
  assert.equal(await passwordFits("A", undefined), false);
  assert.equal(problemWithPassword(makePassword()), undefined);
  assert.notEqual(makePassword(), makePassword());
  assert.match(problemWithPassword("short") ?? "", /give 12 or more/);
});

Deno.test("an API token is good for its scopes until it expires or is removed, and every change is audited", async () => {
  await withAdmin(async ({ sql }) => {
    const [token, by] = [{ name: "ci", token_digest: "d", scopes: ["emit" as const], days: 30 }, {
      actor: "user:taro",
    }];
    assert(await addApiToken(sql, token, by));
    assert.equal(await addApiToken(sql, token, by), false);
    assert.deepEqual(await readApiToken(sql, "d"), { name: "ci", scopes: ["emit"] });
    assert.equal(scopesAllow(["emit"], "read"), false);
    assert.equal(scopesAllow(["operate"], "emit"), true);
    await sql`update api_token set expires_at = clock_timestamp()`;
    assert.equal(await readApiToken(sql, "d"), undefined);
    assert(await removeApiToken(sql, "ci", by));
    const acts = await sql<{ action: string }[]>`select action from admin_action_log order by id`;
    assert.deepEqual(acts.map(({ action }) => action), ["token.add", "token.remove"]);
  });
});
