/** Guesses: how they end for strangers, what they cost, who hears of them, and that the user still gets in. */
import assert from "node:assert/strict";
import { english } from "../../../src/locale/english.ts";
import { HashQueue } from "../../../src/admin/hash_queue.ts";
import { hashing } from "../../../src/admin/auth/passwords.ts";
import { judgeAlerts } from "../../../src/alerts/alerts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { mayTry, rememberDevice } from "../../../src/access/login_attempts.ts";
import { setPassword } from "../../../src/access/users.ts";
import { aUser, type Browser, PASSWORD, withAdmin } from "../../support/admin.ts";
import { cliWith } from "../../support/cli.ts";
import { aTerm } from "../../support/factories.ts";
import { stored } from "../../../src/locale/message.ts";

/** So many wrong passwords as there may be from everywhere, five of each address. */
async function guesses(sql: Sql, name: string, ago = "0 s"): Promise<void> {
  await sql`
    insert into admin_login_attempt (name, address, at)
    select ${name}, '10.9.' || n / 5 || '.9', clock_timestamp() - ${ago}::interval from generate_series(0, 49) n`;
}

async function status(browser: Browser, name = "taro"): Promise<number> {
  return (await browser.logIn(name, PASSWORD)).status;
}

Deno.test("guesses from many addresses end for strangers, and not for a browser or address in which the user was logged in", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const own = stranger("10.1.1.1");
    assert.equal(await status(own), 303);
    await guesses(sql, "taro");
    assert.equal(await status(stranger("10.2.2.2")), 429, "a stranger");
    own.cookies.delete("dandori_session");
    const elsewhere = stranger("10.3.3.3"); // the same browser on the road
    elsewhere.cookies.set("dandori_device", own.cookie("device") as string);
    assert.equal(await status(elsewhere), 303, "a browser that is known");
    assert.equal(await status(stranger("10.3.3.3")), 303, "an address that is known, from now on");
    await aUser(sql, { name: "jiro", role: "viewer" });
    await guesses(sql, "jiro");
    assert.equal(await status(stranger("10.3.3.3"), "jiro"), 429, "it is known for another user alone");
    elsewhere.cookies.delete("dandori_session");
    assert.equal(await status(elsewhere, "jiro"), 429);
  });
});

Deno.test("a known browser has tries of its own, which are few and which nobody else uses up", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const own = stranger("10.1.1.1");
    assert.equal(await status(own), 303);
    own.cookies.delete("dandori_session");
    const thief = stranger("10.1.1.1"); // behind the same address
    for (let n = 0; n < 6; n++) await thief.logIn("taro", "guess");
    assert.equal(await status(thief), 429);
    for (let n = 0; n < 10; n++) assert.equal((await own.logIn("taro", "mistyped")).status, 403);
    assert.equal(await status(own), 429, "also of this browser they are few");
    await sql`delete from admin_login_attempt where device is not null`;
    assert.equal(await status(own), 303);
    assert.equal(
      (await sql`select from admin_login_attempt where device is not null`).length,
      0,
      "a login forgets them",
    );
  });
});

Deno.test("each login gives a browser a new token: one that another had put there is of nobody any more", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    for (const name of ["taro", "mallory"]) await aUser(sql, { name, role: "viewer" });
    const mallory = stranger("10.6.6.6");
    await status(mallory, "mallory");
    const planted = mallory.cookie("device") as string;
    const taro = stranger("10.1.1.1");
    taro.cookies.set("dandori_device", planted);
    assert.equal(await status(taro), 303);
    assert.notEqual(taro.cookie("device"), planted);
    await guesses(sql, "taro");
    const again = stranger("10.6.6.6");
    again.cookies.set("dandori_device", planted);
    assert.equal(await status(again), 429);
    await guesses(sql, "mallory");
    taro.cookies.delete("dandori_session");
    assert.equal(await status(taro, "mallory"), 303, "who shares the browser goes over to the new one");
    const [of] = await sql<{ id: number }[]>`select id from admin_user where name = 'taro'`;
    for (let n = 0; n < 30; n++) {
      await rememberDevice(sql, { admin_user_id: of?.id as number, address: "a", fresh: `d${n}`, before: undefined });
    }
    assert.equal((await sql`select from admin_device where admin_user_id = ${of?.id as number}`).length, 20);
  });
});

Deno.test("tries count for a quarter of an hour, not for a minute, and no longer", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const from = { name: "taro", address: "10.9.9.9" };
    for (let n = 0; n < 5; n++) assert(await mayTry(sql, from));
    const ages: [string, number][] = [["0 s", 429], ["2 minutes", 429], ["12 minutes", 429], ["30 s", 429]];
    for (const [more, expected] of ages) {
      await sql`update admin_login_attempt set at = at - ${more}::interval`;
      assert.equal(await status(stranger("10.9.9.9")), expected, more);
    }
    await sql`update admin_login_attempt set at = at - interval '31 s'`;
    assert.equal(await status(stranger("10.9.9.9")), 303);
    await guesses(sql, "taro", "14 minutes");
    assert.equal(await status(stranger("10.5.5.5")), 429);
  });
});

Deno.test("tries are forgotten with a new password and by an admin: on the page, the command line and the API", async () => {
  await withAdmin(async ({ sql, database_url, stranger, login }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const admin = await login("admin");
    const cli = cliWith({ DATABASE_URL: database_url });
    const ways: Record<string, () => Promise<unknown>> = {
      password: async () => {
        const [user] = await sql<{ password_hash: string }[]>`select password_hash from admin_user where name = 'taro'`;
        assert(
          await setPassword(sql, { name: "taro", password_hash: user?.password_hash as string }, { actor: "test" }),
        );
      },
      page: async () => {
        assert.match(await admin.text("/access/users"), /50 wrong passwords.*data-opens="unlock-taro"/s);
        assert.match(
          (await admin.act("/access/users/taro/unlock", { reason: "it is me" })).text,
          /50 failed logins cleared/,
        );
      },
      cli: async () => {
        const said = await cli("admin", "user", "unlock", "taro", "--reason", "phoned");
        assert.match(said.out, /taro can log in from everywhere again; 50 failed logins cleared/);
      },
      api: async () => {
        const headers = {
          origin: "http://admin.test",
          "x-csrf": await admin.csrf(),
          "content-type": "application/json",
        };
        const answer = await admin.send("/api/v1/users/taro/unlock", { method: "POST", headers, body: "{}" });
        assert.deepEqual([answer.status, await answer.json()], [200, { tries: 50 }]);
      },
    };
    let address = 0;
    for (const [way, unlock] of Object.entries(ways)) {
      await guesses(sql, "taro");
      assert.equal(await status(stranger(`10.20.0.${++address}`)), 429, way);
      await unlock();
      assert.equal(await status(stranger(`10.20.0.${++address}`)), 303, way);
    }
    assert.match((await cli("admin", "user", "unlock", "nobody")).err, /Cannot unlock user "nobody": there is none/);
    const acts =
      await sql`select actor, before_json, reason from admin_action_log where action = 'user.unlock' order by id`;
    assert.deepEqual(acts.map(({ before_json }) => before_json), [{ tries: 50 }, { tries: 50 }, { tries: 50 }]);
    assert.deepEqual(acts.map(({ reason }) => reason), ["it is me", "phoned", stored("reason.api")]);
  });
});

Deno.test("wrong passwords are in the audit with where they came from, and never what was typed for a name that nobody has", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    await stranger("10.9.9.9").logIn("taro", "guess");
    await stranger("10.9.9.8").logIn("my secret password", "taro");
    const own = stranger("10.1.1.1");
    await own.logIn("taro", PASSWORD);
    own.cookies.delete("dandori_session");
    await own.logIn("taro", "mistyped");
    const failed = () =>
      sql`
      select actor, target_id, after_json from admin_action_log where action = 'user.login_failed' order by id`;
    assert.deepEqual((await failed()).map((row) => ({ ...row })), [
      { actor: "nobody", target_id: "taro", after_json: { address: "10.9.9.9", from: "elsewhere" } },
      { actor: "nobody", target_id: "(no such user)", after_json: { address: "10.9.9.8", from: "elsewhere" } },
      { actor: "nobody", target_id: "taro", after_json: { address: "10.1.1.1", from: "a known browser" } },
    ]);
    await sql`
      insert into admin_login_attempt (name, address) select 'n' || n, '10.8.' || n || '.1' from generate_series(1, 100) n`;
    await stranger("10.9.9.7").logIn("nobody", "guess");
    assert.equal((await failed()).length, 3, "what costs nothing to send cannot fill what is never deleted");
    await stranger("10.9.9.7").logIn("taro", "guess");
    assert.equal((await failed()).length, 4);
  });
});

Deno.test("an alert says that a user's password is guessed, until the tries are over", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const term = await aTerm(sql);
    const judged = async () => {
      const limits = {
        overdue_seconds: 300,
        no_code_seconds: 60,
        no_leader_seconds: 30,
        certificate_days: 14,
        clock_skew_seconds: 2,
        leader_runs: true,
      };
      return (await judgeAlerts(sql, term, limits)).map(({ what, kind, subject, message }) =>
        `${what} ${kind} ${subject}: ${english(message)}`
      );
    };
    await sql`
      insert into admin_login_attempt (name, address) select 'taro', '10.9.9.' || n / 5 from generate_series(0, 23) n`;
    await guesses(sql, "nobody");
    const own = stranger("10.1.1.1");
    await status(own);
    own.cookies.delete("dandori_session");
    for (let n = 0; n < 3; n++) await own.logIn("taro", "mistyped");
    assert.deepEqual(await judged(), [], "not of a name that nobody has, nor of the user's own mistakes");
    await stranger("10.7.7.7").logIn("taro", "guess");
    const text = "login.guessed taro: 25 wrong passwords within 15 minutes, from 6 addresses";
    assert.deepEqual(await judged(), [`opened ${text}`]);
    await sql`update admin_login_attempt set at = at - interval '16 minutes'`;
    assert.deepEqual(await judged(), [`closed ${text}`]);
  });
});

Deno.test("few may wait for a password to be looked at, of one address fewer; known ones have places of their own and come first", async () => {
  const queue = new HashQueue();
  const strangers = Array.from({ length: 20 }, (_, n) => queue.enter({ known: false, from: `10.0.0.${n}` }));
  assert.equal(strangers.filter(Boolean).length, 8);
  assert(queue.enter({ known: true, from: "device" }), "nor do strangers take their places");
  strangers[0]?.();
  const one = Array.from({ length: 5 }, () => queue.enter({ known: false, from: "10.9.9.9" }));
  assert.equal(one.filter(Boolean).length, 1);
  const other = new HashQueue();
  assert.equal(
    Array.from({ length: 5 }, () => other.enter({ known: false, from: "10.9.9.9" })).filter(Boolean).length,
    3,
  );
  const done: string[] = [];
  const first = Promise.withResolvers<void>();
  let at_once = 0;
  const work = (name: string, known: boolean) =>
    queue.run(known, async () => {
      assert.equal(++at_once, 1, "one after another");
      if (name === "first") await first.promise;
      else await Promise.resolve();
      at_once -= 1;
      done.push(name);
    });
  const all = [work("first", false), work("stranger", false), work("late stranger", false), work("known", true)];
  first.resolve();
  await Promise.all(all);
  assert.deepEqual(done, ["first", "known", "stranger", "late stranger"]);
  await assert.rejects(queue.run(true, () => Promise.reject(new Error("bad hash"))), /bad hash/);
  await queue.run(true, () => Promise.resolve()); // and it goes on
});

Deno.test("where no place is left a login is told to come back soon, and costs nothing; a known browser gets in", async () => {
  await withAdmin(async ({ sql, stranger }) => {
    await aUser(sql, { name: "taro", role: "viewer" });
    const own = stranger("10.1.1.1");
    assert.equal(await status(own), 303);
    own.cookies.delete("dandori_session");
    const places = Array.from({ length: 8 }, (_, n) => hashing.enter({ known: false, from: `10.0.1.${n}` }));
    assert(places.every(Boolean));
    const busy = await stranger("10.2.2.2").logIn("taro", PASSWORD);
    assert.deepEqual([busy.status, busy.headers.get("retry-after")], [503, "5"]);
    assert.match(await busy.text(), /Too many are logging in at this moment/);
    assert.equal((await sql`select from admin_login_attempt`).length, 0, "it is no try");
    assert.equal(await status(own), 303);
    for (const leave of places) leave?.();
    assert.equal(await status(stranger("10.2.2.2")), 303);
  });
});
