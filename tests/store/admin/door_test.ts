/** What the admin server does with requests of strangers: whom it answers, how much of their bodies it takes, what it tells them. */
import assert from "node:assert/strict";
import { BodyRefused, OF_STRANGERS, readBody } from "../../../src/admin/body.ts";
import { addressOf, placeOf } from "../../../src/admin/base_url.ts";
import { isOwnHost } from "../../../src/platform/http_hosts.ts";
import { digestOf } from "../../../src/admin/auth/passwords.ts";
import { hear } from "../../../src/platform/facts.ts";
import { addApiToken } from "../../../src/access/api_tokens.ts";
import { type Browser, withAdmin } from "../../support/admin.ts";

Deno.test("only its own host names are answered, so no page of another site reads it under a name that leads here", async () => {
  await withAdmin(async ({ stranger }) => {
    for (const path of ["/healthz", "/metrics", "/login", "/api/v1/openapi.json", "/assets/x/style.css"]) {
      const status = async (host: string) => {
        const answer = await stranger("127.0.0.1").get(path, { host });
        const text = await answer.text();
        if (answer.status === 421) assert.match(text, /SCHEDULER_ADMIN_URL.*SCHEDULER_ADMIN_HOSTS/);
        return answer.status;
      };
      for (const own of ["admin.test", "ADMIN.test.:8420", "localhost:1", "127.0.0.1:8420", "[::1]:8420"]) {
        assert.notEqual(await status(own), 421, `${path} as ${own}`);
      }
      for (const other of ["evil.test", "evil.test:8420", "admin.test.evil.test", "10.0.0.9", "127.0.0.1.evil.test"]) {
        assert.equal(await status(other), 421, `${path} as ${other}`);
      }
    }
  });
  const named = placeOf({ public_url: new URL("https://jobs.example/x"), proxies: 1, host: "10.0.0.7" });
  const asked = ["jobs.example", "10.0.0.7:8420", "10.0.0.8", "other.example", "a b", ""];
  assert.deepEqual(asked.map((host) => isOwnHost(named, host)), [true, true, false, false, false, false]);
  const anywhere = placeOf({ public_url: undefined, proxies: 0, host: "0.0.0.0" });
  assert.deepEqual(["10.0.0.8:1", "[fd00::7]", "other.example"].map((host) => isOwnHost(anywhere, host)), [
    true,
    true,
    false,
  ]);
});

Deno.test("a client has one address, whatever port its proxy writes behind it and however the address is written", async () => {
  const place = placeOf({ public_url: undefined, proxies: 1 });
  const of = (told: string) => addressOf(place, new Headers({ "x-forwarded-for": told }), "10.0.0.9");
  const same: Record<string, string[]> = {
    "10.7.7.7": ["10.7.7.7", "10.7.7.7:4001", "6.6.6.6, 10.7.7.7:4002", "::ffff:10.7.7.7", "[::ffff:10.7.7.7]:3"],
    "2001:db8:1:2::/64": ["2001:db8:1:2::7", "[2001:db8:1:2:3:4:5:6]:4001", "[2001:DB8:1:2::9]"],
    "10.0.0.9": ["unknown", "_hidden", "10.0.0.999", "a:b:c", " , "],
  };
  for (const [address, ways] of Object.entries(same)) for (const way of ways) assert.equal(of(way), address, way);
  await withAdmin(async ({ sql, stranger }) => {
    const statuses: number[] = [];
    for (let port = 4001; port <= 4006; port++) {
      const from = { "x-forwarded-for": `10.7.7.7:${port}` };
      statuses.push((await stranger().post("/login", { name: "taro", password: "guess" }, from)).status);
    }
    assert.deepEqual(statuses, [403, 403, 403, 403, 403, 429], "each connection was another client");
    const rows = await sql<{ address: string }[]>`select distinct address from admin_login_attempt`;
    assert.deepEqual(rows.map(({ address }) => address), ["10.7.7.7"]);
  }, { proxies: 1 });
});

Deno.test("a proxy that nobody told of is warned of once, with what to set", async () => {
  const warnings: string[] = [];
  const silence = hear((name, fact) => void (name === "admin.proxied" && warnings.push(JSON.stringify(fact))));
  const ask = (proxies: number) =>
    withAdmin(async ({ stranger }) => {
      await stranger().get("/login");
      for (const told of ["1.1.1.1", "2.2.2.2"]) await stranger().get("/login", { "x-forwarded-for": told });
    }, { proxies });
  await ask(1);
  assert.deepEqual(warnings, []);
  await ask(0);
  silence();
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /"x-forwarded-for".*set SCHEDULER_ADMIN_PROXIES/);
});

/** Sends bytes now and then, for ever. */
function endless(bytes: number): { body: ReadableStream<Uint8Array>; canceled: Promise<void> } {
  const canceled = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    pull: (stream) => bytes > 0 ? stream.enqueue(new Uint8Array(bytes)) : new Promise<void>(() => {}),
    cancel: () => canceled.resolve(),
  });
  return { body, canceled: canceled.promise };
}

Deno.test("a body of somebody who is not known is small and comes in time, or is let go of", async () => {
  assert.deepEqual(OF_STRANGERS, { bytes: 8_192, ms: 30_000 });
  const refused = async (bytes: number, bounds = OF_STRANGERS) => {
    const { body, canceled } = endless(bytes);
    const request = new Request("http://admin.test/login", { method: "POST", body });
    const error = await readBody(request, bounds).catch((error) => error);
    assert(error instanceof BodyRefused);
    await canceled;
    return error.status;
  };
  assert.equal(await refused(1_000), 413);
  assert.equal(await refused(0, { bytes: 8_192, ms: 20 }), 408);
  await withAdmin(async ({ sql, stranger, login }) => {
    const browser = await login("viewer");
    for (const path of ["/login", "/logout", "/preferences"]) {
      for (const who of [stranger(), browser]) {
        const long = await who.post(path, { back: "/", password: "x".repeat(8_192) });
        assert.equal(long.status, 413, path);
        const { body, canceled } = endless(1_000); // its length is not told before
        const chunks = await who.send(path, { method: "POST", body, headers: { origin: "http://admin.test" } });
        assert.equal(chunks.status, 413, path);
        await canceled;
      }
    }
    assert.equal((await sql`select from admin_login_attempt`).length, 0);
  });
});

Deno.test("of a form that needs a login nothing is read before there is one", async () => {
  await withAdmin(async ({ stranger }) => {
    let read = 0;
    const body = new ReadableStream({ pull: () => void (read += 1) }, { highWaterMark: 0 });
    const answer = await stranger().send("/queue/pause", { method: "POST", body, headers: { origin: "http://x" } });
    assert.deepEqual([answer.status, read], [303, 0]);
  });
});

Deno.test("metrics are for this machine, a token or somebody who is logged in, and never for whoever comes through a proxy", async () => {
  const status = async (browser: Browser, headers: Record<string, string> = {}) => {
    const answer = await browser.get("/metrics", headers);
    await answer.text();
    return answer.status;
  };
  await withAdmin(async ({ sql, stranger, login }) => {
    assert.equal(await status(stranger("127.0.0.1")), 200);
    assert.equal(await status(stranger("::1")), 200);
    assert.equal(await status(stranger("::ffff:127.0.0.1")), 200);
    assert.equal(await status(stranger("10.0.0.1")), 401);
    for (const header of ["x-forwarded-for", "forwarded", "x-real-ip"]) { // as nginx on this machine sends it
      assert.equal(await status(stranger("127.0.0.1"), { [header]: "127.0.0.1" }), 401, header);
    }
    assert.equal(await status(await login("viewer")), 200);
    for (const [name, scope, expected] of [["scrape", "read", 200], ["send", "emit", 401]] as const) {
      await addApiToken(sql, { name, token_digest: await digestOf(name), scopes: [scope], days: 1 }, { actor: "test" });
      assert.equal(await status(stranger(), { authorization: `Bearer ${name}` }), expected);
    }
  });
  await withAdmin(async ({ stranger, login }) => {
    assert.equal(await status(stranger("127.0.0.1")), 401, "a token is set, so it is asked for");
    assert.equal(await status(stranger(), { authorization: "Bearer letmein" }), 200);
    assert.equal(await status(stranger(), { authorization: "Bearer letmeout" }), 401);
    assert.equal(await status(await login("viewer")), 200);
  }, { metrics_token: "letmein" });
  for (const behind of [{ url: "https://example.test/" }, { proxies: 1 }]) {
    await withAdmin(async ({ stranger }) => {
      assert.equal(await status(stranger("127.0.0.1")), 401, "so may everybody look who asks through the proxy");
    }, behind);
  }
});

Deno.test("whether it is ready is told to everybody, why not to this machine and the log alone", async () => {
  const away = Object.assign(new Error("password of postgres is wrong"), { code: "ECONNREFUSED" });
  let broken = false;
  const breaking = {
    apply: (target: object, self: unknown, args: unknown[]) => {
      if (broken) throw away;
      return Reflect.apply(target as () => unknown, self, args);
    },
  };
  const problems: string[] = [];
  const silence = hear((name, fact) =>
    void (name === "admin.not_ready" && problems.push((fact as { problem: string }).problem))
  );
  await withAdmin(async ({ stranger }) => {
    const told = async (address: string, headers: Record<string, string> = {}) =>
      await stranger(address).text("/readyz", headers);
    assert.equal(await told("10.0.0.1"), "ready\n");
    broken = true;
    assert.equal(await told("10.0.0.1"), "not ready\n");
    assert.equal(await told("127.0.0.1", { "x-forwarded-for": "10.0.0.1" }), "not ready\n");
    assert.equal(await told("127.0.0.1"), "not ready: Postgres cannot be reached\n");
    assert.deepEqual(problems, ["Postgres cannot be reached"], "the log hears of it once");
  }, { sql: (sql) => new Proxy<typeof sql>(sql, breaking) });
  silence();
});

Deno.test("the token of forms has other letters in each answer, and only those of this session are taken", async () => {
  await withAdmin(async ({ login }) => {
    const [browser, other] = [await login("operator", "taro"), await login("operator", "hanako")];
    const [one, next, theirs] = [await browser.csrf(), await browser.csrf(), await other.csrf()];
    assert.notEqual(one, next);
    const bare = (masked: string) => {
      const bytes = Uint8Array.fromBase64(masked, { alphabet: "base64url" });
      const half = bytes.length / 2;
      return bytes.subarray(0, half).map((byte, place) => byte ^ (bytes[half + place] as number)).toHex();
    };
    assert.equal(bare(one), bare(next), "both are of the same session");
    assert.equal(bare(one).length, 64);
    assert.notEqual(one.slice(0, 43), next.slice(0, 43), "the mask itself is another one");
    const status = async (csrf: string) => (await browser.post("/runs/1/cancel", { csrf })).status;
    for (const csrf of [one, next]) assert.equal(await status(csrf), 404, "there is no run 1");
    const turned = (one.startsWith("A") ? "B" : "A") + one.slice(1);
    for (const csrf of [theirs, turned, bare(one), one.slice(0, -2), ""]) assert.equal(await status(csrf), 403, csrf);
  });
});

Deno.test("behind https cookies are of this host alone, and of this path by their name", async () => {
  for (const [path, name] of [["", "__Host-dandori_session"], ["/tools/", "__Host-dandori_session.tools"]]) {
    await withAdmin(async ({ login, stranger }) => {
      const browser = await login("viewer", "taro");
      const opened = browser.set.find((one) => one.includes("session"));
      assert.match(opened ?? "", new RegExp(`^${name?.replace(".", "\\.")}=[^;]+;`));
      assert.match(opened ?? "", /; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
      assert.equal((await browser.get("/runs")).status, 200);
      const kept = stranger();
      await kept.post("/preferences", { lang: "ja", theme: "dark", back: "/" });
      assert.deepEqual([...kept.cookies.keys()].map((one) => one.startsWith("__Host-dandori_")), [true, true]);
      const injected = stranger(); // what another host of the domain can set has no such name
      injected.cookies.set("dandori_session", browser.cookie("session") as string);
      assert.equal((await injected.get("/runs")).status, 303);
      assert.equal((await browser.post("/logout", {})).status, 303);
      assert.equal(browser.cookie("session"), undefined);
    }, { url: `https://example.test${path}` });
  }
});

Deno.test("whoever follows a link of another site, with which no cookie is sent, is led on by a page of ours", async () => {
  await withAdmin(async ({ login, stranger }) => {
    const from = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" };
    const answer = await stranger().get("/runs?state=FAILED", from);
    const [, to = ""] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(await answer.text()) ?? [];
    assert.deepEqual([answer.status, to], [200, "/login?back=%2Fruns%3Fstate%3DFAILED"]);
    const led = await (await login("viewer")).get(to);
    assert.deepEqual([led.status, led.headers.get("location")], [303, "/runs?state=FAILED"]);
  });
});

Deno.test("no page may use what it does not need of a browser", async () => {
  await withAdmin(async ({ stranger }) => {
    const policy = (await stranger().get("/login")).headers.get("permissions-policy") ?? "";
    for (const feature of ["camera", "microphone", "geolocation", "usb", "payment", "clipboard-read"]) {
      assert(policy.split(", ").includes(`${feature}=()`), `${feature}: ${policy}`);
    }
  });
});

Deno.test("preferences are kept for a form of ours, and not for one of another site", async () => {
  await withAdmin(async ({ login, stranger }) => {
    const browser = await login("viewer");
    const fields = { lang: "ja", theme: "dark", back: "/runs" };
    for (const who of [browser, stranger()]) {
      for (const headers of [{ origin: "https://evil.test" }, { origin: "null" }, { origin: "http://admin.test:81" }]) {
        assert.equal((await who.post("/preferences", fields, headers)).status, 403);
      }
      assert.equal(who.cookie("lang"), undefined);
    }
    assert.equal((await browser.post("/preferences", { ...fields, csrf: "guess" })).status, 403);
    assert.equal(browser.cookie("lang"), undefined);
    assert.equal((await browser.post("/preferences", fields)).status, 303);
    assert.equal(browser.cookie("lang"), "ja");
  });
});

Deno.test("a cookie uses the API from our own page alone: with its token, from its origin", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("admin");
    const done = async () => (await sql`select from admin_action_log where action like 'resource%'`).length > 0;
    const own = "http://admin.test";
    const call = async (headers: Record<string, string>) => {
      const all = { "content-type": "application/json", ...headers };
      const body = JSON.stringify({ capacity: 1, reason: "test" });
      return (await browser.send("/api/v1/resources/gpu", { method: "PUT", body, headers: all })).status;
    };
    const csrf = await browser.csrf();
    assert.equal(await call({ origin: "https://evil.test", "x-csrf": csrf }), 401, "of another site");
    assert.equal(await call({ "x-csrf": csrf }), 401, "of nobody says where");
    assert.equal(await call({ origin: own }), 401, "without what only our page knows");
    assert.equal(await call({ origin: own, "x-csrf": "guess" }), 401);
    assert.equal(
      (await browser.get("/api/v1/runs", { origin: "https://evil.test" })).status,
      200,
      "its answer is kept from that page by the browser",
    );
    assert.equal(await done(), false);
    assert.equal(await call({ origin: own, "x-csrf": csrf }), 200);
    assert.equal(await done(), true);
  });
});
