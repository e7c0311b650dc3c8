/** What every page keeps, whatever is on it: headers, escaping, roles, forms of its own only, languages, errors in words. */
import assert from "node:assert/strict";
import { ROLE_OF } from "../../../src/actions/action.ts";
import { assetPath } from "../../../src/admin/assets.ts";
import { PAGES } from "../../../src/admin/pages.ts";
import { pathWithin, placeOf } from "../../../src/admin/base_url.ts";
import type { Route } from "../../../src/admin/request_context.ts";
import { wishedLang } from "../../../src/admin/accept_language.ts";
import { hear } from "../../../src/platform/facts.ts";
import { ROLES, type UserRole } from "../../../src/access/users.ts";
import { appendLogs } from "../../../src/runs/run_logs.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { aFullHouse, pathsOf } from "../../support/full_house.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

Deno.test("every answer forbids inline code, frames and guesses, and no page is kept by anybody", async () => {
  await withAdmin(async ({ login, stranger }) => {
    const browser = await login("viewer");
    for (const answer of [await browser.get("/runs"), await stranger().get("/login"), await browser.get("/nowhere")]) {
      const policy = answer.headers.get("content-security-policy") ?? "";
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/);
      assert.match(policy, /frame-ancestors 'none'; base-uri 'none'$/);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
      assert.equal(answer.headers.get("cache-control"), "no-store");
      const text = await answer.text();
      assert.doesNotMatch(
        text,
        /<script(?![^>]* src=)|\son\w+=|\sstyle=|<style/,
        "nothing that the policy would refuse",
      );
    }
  });
});

Deno.test("assets are kept for ever under a path that changes with them, and only that path is answered", async () => {
  await withAdmin(async ({ stranger }) => {
    const browser = stranger();
    const [style] = /[^"]+style\.css/.exec(await browser.text("/login")) ?? [];
    assert.equal(style, assetPath("style.css"));
    const answer = await browser.get(style as string);
    assert.equal(answer.headers.get("cache-control"), "public, max-age=31536000, immutable");
    assert.match(answer.headers.get("content-type") ?? "", /^text\/css/);
    assert.equal((await browser.get("/assets/0000000000000000/style.css")).status, 404);
    for (const name of ["__proto__", "none.js"]) {
      assert.equal((await browser.get(assetPath("style.css").replace("style.css", name))).status, 404);
    }
  });
});

Deno.test("what users supply is text wherever it is shown", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "evil", node: EVIL });
    const texts = {
      error_name: EVIL,
      error_summary: EVIL,
      serial_key: EVIL,
      idempotency_key: EVIL,
      log_ref: `javascript:${EVIL}`,
    };
    const columns = {
      job_definition_id: of.id,
      args_json: { [EVIL]: EVIL },
      node: EVIL,
      assigned_worker_id: EVIL,
      ...texts,
    };
    await aWorker(sql, { worker_id: EVIL, node_id: EVIL });
    const run = await aRun(sql, { ...columns, state: "FAILED", result: { said: EVIL } });
    const running = { ...columns, idempotency_key: null, serial_key: null, progress: 0.5, progress_message: EVIL };
    await aRun(sql, { ...running, state: "RUNNING", cancel_requested_by: EVIL, cancel_requested_at: new Date(0) });
    const line = { job_run_id: run.id, attempt: 1, level: "info", message: EVIL, fields: { [EVIL]: EVIL } };
    await appendLogs(sql, [line]);
    const attempt = { job_run_id: run.id, attempt: 1, outcome: "FAILED", error_summary: EVIL, worker_id: EVIL };
    await sql`insert into job_run_attempt ${sql(attempt)}`;
    const browser = await login("admin");
    const query = new URLSearchParams({
      job: EVIL,
      "serial-key": EVIL,
      error: EVIL,
      "ran-on": EVIL,
      state: EVIL,
      before: EVIL,
    });
    const flash = encodeURIComponent(JSON.stringify({ tone: EVIL, text: EVIL }));
    for (
      const path of [
        "/runs",
        `/runs/${run.id}`,
        `/runs?${query}`,
        `/login?back=${query}`,
        `/runs/${query}`,
        `/${query}`,
      ]
    ) {
      browser.cookies.set("dandori_flash", flash);
      browser.cookies.set("dandori_zone", encodeURIComponent(EVIL));
      const text = await browser.text(path);
      assert.doesNotMatch(text, /<script>|<img|href="javascript:/, path);
    }
    assert.match(await browser.text(`/runs/${run.id}`), /&lt;script&gt;alert\(1\)/);
  });
});

Deno.test("each route asks for its role, and hides from others what it would refuse", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const run = await aRun(sql, { state: "FAILED" });
    const routes = PAGES.flatMap((page) => page.routes);
    for (const role of ROLES) {
      const browser = await login(role);
      for (const route of routes.filter((one) => ROLES.indexOf(roleOf(one)) > ROLES.indexOf(role))) {
        const path = pathOf(route).replace(":id", String(run.id));
        const answer = "post" in route ? await browser.post(path, {}) : await browser.get(path);
        assert.equal(answer.status, 403, `${role} ${path}`);
      }
      const shows_button = (await browser.text(`/runs/${run.id}`)).includes('data-opens="retry"');
      assert.equal(shows_button, role !== "viewer");
    }
    for (const route of routes) {
      const path = pathOf(route).replace(":id", String(run.id));
      const answer = "post" in route ? await stranger().post(path, {}) : await stranger().get(path);
      if ("json" in route) assert.equal(answer.status, 401, path);
      else assert.match(answer.headers.get("location") ?? "", /^\/login/, path);
    }
    assert.equal((await stranger().get("/live?topics=runs")).status, 401);
    assert.equal((await stranger().get("/runs", { "hx-request": "true" })).status, 401, "no login within a page");
    assert.equal((await sql`select from job_run`).length, 1, "nothing was run again");
  });
});

/** A form's is the least that one of its acts needs. */
function roleOf(route: Route): UserRole {
  if ("role" in route) return route.role;
  const roles = [route.does].flat().map(({ needs }) => ROLE_OF[needs]);
  return roles.toSorted((one, other) => ROLES.indexOf(one) - ROLES.indexOf(other))[0] as UserRole;
}

function pathOf(route: Route): string {
  if ("get" in route) return route.get;
  if ("json" in route) return route.json;
  return "file" in route ? route.file : route.post;
}

Deno.test("a viewer sees no act on any page, and an operator none of an admin's", async () => {
  await withAdmin(async ({ sql, login }) => {
    const paths = pathsOf(await aFullHouse(sql)).filter((path) => !/^\/(account|nowhere)/.test(path));
    for (const role of ["viewer", "operator"] as const) {
      const browser = await login(role);
      const shown: string[] = [];
      for (const path of paths) {
        const answer = await browser.get(path);
        if (answer.status === 403) continue;
        assert.equal(answer.status, 200, `${role} ${path}`);
        const text = await answer.text();
        const forms = [...text.matchAll(/<form[^>]* method="post"[^>]* action="([^"]+)"/g)].map(([, to = ""]) => to);
        const acts = forms.filter((to) => !["/preferences", "/logout"].includes(to));
        shown.push(...acts.map((to) => `${path} has ${to}`));
        if (role === "viewer" && /data-opens=/.test(text)) shown.push(`${path} opens a dialog`);
      }
      const posts = PAGES.flatMap(({ routes }) => routes).filter((one) => "post" in one);
      const known = posts.filter((one) => roleOf(one) === "admin").map(pathOf);
      const beyond = role === "viewer" ? shown : shown.filter((line) => known.some((to) => line.endsWith(` ${to}`)));
      assert.deepEqual(beyond, [], role);
      if (role === "operator") assert(shown.length > 10, "acts that are allowed are there");
    }
  });
});

Deno.test("a form is taken only from a page of ours, with what only that page knew", async () => {
  await withAdmin(async ({ sql, login }) => {
    const run = await aRun(sql, { state: "PENDING" });
    const browser = await login("operator");
    const other = await login("admin");
    const path = `/runs/${run.id}/cancel`;
    const refused = [
      await browser.post(path, {}, { origin: "http://evil.test" }),
      await browser.post(path, {}, { origin: "null" }),
      await browser.post(path, { csrf: "guess" }),
      await browser.post(path, { csrf: "" }),
      await browser.post(path, { csrf: await other.csrf() }),
      await browser.post("/logout", { csrf: "guess" }),
      await browser.post("/login", { name: "x", password: "y", csrf: "" }, { origin: "http://evil.test" }),
    ];
    assert.deepEqual(refused.map(({ status }) => status), refused.map(() => 403));
    const cut_off = { "x-csrf": await browser.csrf(), "content-type": "multipart/form-data; boundary=never" };
    assert.equal(
      (await browser.post(path, { reason: "all of it?" }, cut_off)).status,
      400,
      "it is not taken for an empty form",
    );
    const [row] = await sql`select cancel_requested_at from job_run`;
    assert.equal(row?.cancel_requested_at, null);
    assert.equal((await browser.post(path, { reason: "too late" })).status, 303);
    const [act] = await sql`select actor, reason from admin_action_log where action = 'run.cancel'`;
    assert.deepEqual({ ...act }, { actor: "user:operator", reason: "too late" });
  });
});

Deno.test("behind a proxy every link, form and cookie holds the path, whether or not the proxy takes it away", async () => {
  await withAdmin(async ({ sql, login, stranger }) => {
    const run = await aRun(sql, { state: "FAILED" });
    const browser = await login("operator");
    assert.match(
      browser.set.join(),
      /__Host-dandori_session\.jobs=[^;]+;.* Path=\/; HttpOnly; Secure; SameSite=Strict/,
    );
    for (const path of ["/runs", `/runs/${run.id}`, "/nowhere"]) {
      const text = await browser.text(path);
      const leads = [...text.matchAll(/ (?:href|src|action|hx-get)="([^"]*)"/g)].map(([, to = ""]) => to);
      assert(leads.length > 5);
      const astray = leads.filter((to) => !/^(\/jobs\/|data:|#)/.test(to));
      assert.deepEqual(astray, [], path);
    }
    assert.equal((await browser.get("/")).headers.get("location"), "/jobs/overview");
    assert.equal((await stranger().get("/runs")).headers.get("location"), "/jobs/login?back=%2Fruns");
    const done = await browser.post(`/runs/${run.id}/retry`, { wish: crypto.randomUUID() });
    assert.match(done.headers.get("location") ?? "", /^\/jobs\/runs\/\d+$/);
  }, { url: "https://example.test/jobs/" });
  const place = placeOf({ public_url: new URL("https://example.test/jobs/"), proxies: 1 });
  const within = (paths: string[], at = place) =>
    paths.map((path) => pathWithin(at, path, new Set(["jobs", "runs", "queue"])));
  assert.deepEqual(within(["/jobs/runs", "/jobs/runs/7", "/jobs/jobs/greet/run"]), [
    "/runs",
    "/runs/7",
    "/jobs/greet/run",
  ]);
  assert.deepEqual(within(["/jobs/", "/jobs/queue"]), ["/", "/queue"]);
  const taken = ["/", "/runs", "/runs/7", "/jobs", "/jobs/greet/run", "/jobsite"];
  assert.deepEqual(within(taken), taken, "a path that the proxy took away is not taken away again from a page's name");
  const other = placeOf({ public_url: new URL("https://example.test/tools"), proxies: 1 });
  const asked = ["/tools", "/tools/", "/tools/jobs/greet", "/jobs/greet", "/tools/nowhere"];
  assert.deepEqual(within(asked, other), ["/", "/", "/jobs/greet", "/jobs/greet", "/nowhere"]);
});

Deno.test("who asks again for the answer to a form is led to the page above it, whatever the form was", async () => {
  await withAdmin(async ({ login }) => {
    const browser = await login("admin");
    const above = async (path: string) => (await browser.get(path)).headers.get("location");
    const routes = PAGES.flatMap((page) => page.routes);
    const shown = routes.flatMap((route) => "get" in route ? [route.get] : []);
    for (const route of routes) {
      if (!("post" in route) || shown.includes(route.post)) continue;
      const path = route.post.replace(/:\w+/g, "1");
      const there = await above(path);
      assert(there !== null && `/dandori${path}`.startsWith(there), `${path}: ${there}`);
    }
    assert.equal(await above("/jobs/a%20b/pause?x=1"), "/dandori/jobs/a%20b");
    assert.equal(await above("/leader/degrade"), "/dandori/");
    assert.equal(await above("/access/users/me/role"), "/dandori/access/users");
  }, { url: "https://example.com/dandori/" });
});

Deno.test("no link leads to another site through the login", async () => {
  await withAdmin(async ({ login }) => {
    const browser = await login("viewer");
    for (const back of ["https://evil.test/", "//evil.test/", "/\\evil.test", "javascript:alert(1)", "/\t/evil.test"]) {
      const answer = await browser.get(`/login?back=${encodeURIComponent(back)}`);
      assert.equal(answer.headers.get("location"), "/", back);
    }
  });
});

Deno.test("it speaks the browser's language, or the one that was switched to", async () => {
  await withAdmin(async ({ stranger }) => {
    const browser = stranger();
    assert.match(await browser.text("/login", { "accept-language": "ja,en;q=0.8" }), /<html lang="ja".*ログイン/s);
    assert.match(await browser.text("/login", { "accept-language": "fr" }), /<html lang="en".*Log in/s);
    const kept = await browser.post("/preferences", { lang: "ja", theme: "dark", back: "/login" });
    assert.deepEqual([kept.status, kept.headers.get("location")], [303, "/login"]);
    assert.match(await browser.text("/login", { "accept-language": "en" }), /<html lang="ja" data-theme="dark"/);
    assert.match(
      await browser.text("/login", { cookie: "dandori_lang=xx; dandori_theme=xx" }),
      /lang="en" data-theme="auto"/,
    );
  });
  assert.equal(wishedLang("en;q=0.5, ja-JP"), "ja");
  assert.equal(wishedLang(undefined), "en");
});

Deno.test("what goes wrong is told in words, its details only to the log, and a Postgres that is away is named", async () => {
  let broken: Error | undefined;
  const breaking = {
    apply: (target: object, self: unknown, args: unknown[]) => {
      if (broken) throw broken;
      return Reflect.apply(target as () => unknown, self, args);
    },
  };
  const facts: string[] = [];
  const silence = hear((name, fact) => void (name === "admin.failed" && facts.push(JSON.stringify(fact))));
  await withAdmin(async ({ login, stranger }) => {
    const browser = await login("viewer");
    assert.equal((await browser.get("/runs/999")).status, 404);
    assert.equal((await browser.get("/runs/abc")).status, 404);
    assert.match(await (await browser.get("/nowhere", { "accept-language": "ja" })).text(), /見つかりません/);
    broken = new Error("column secret_thing");
    const failed = await browser.get("/runs");
    assert.equal(failed.status, 500);
    const text = await failed.text();
    assert.doesNotMatch(text, /secret_thing/);
    const [, id = ""] = /under ([0-9a-f]{8})/.exec(text) ?? [];
    assert(facts.some((fact) => fact.includes(`"id":"${id}"`) && fact.includes("secret_thing")));
    broken = Object.assign(new Error("gone"), { code: "ECONNREFUSED" });
    const away = await browser.get("/runs");
    assert.equal(away.status, 503);
    assert.match(await away.text(), /http-equiv="refresh".*Postgres cannot be reached/s);
    const referer = "http://admin.test/runs?state=PENDING";
    const sent = await browser.post("/runs/7/cancel", { csrf: "any" }, { referer });
    assert.equal(sent.status, 503);
    const told = await sent.text();
    assert.match(told, /What you sent may not have been done.*href="\/runs\?state=PENDING">Back to the page/s);
    assert.doesNotMatch(told, /http-equiv="refresh"/, "its address is no page: it said that the run was deleted");
    assert.equal((await stranger().get("/healthz")).status, 200);
    assert.equal((await stranger().get("/readyz")).status, 503);
    broken = undefined;
    assert.equal((await stranger().get("/readyz")).status, 200);
  }, { sql: (sql) => new Proxy<typeof sql>(sql, breaking) });
  silence();
});

Deno.test("runs are found by what the URL says, page after page, and nothing twice", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "many" });
    for (let n = 0; n < 120; n++) await aRun(sql, { job_definition_id: of.id, state: n % 2 ? "FAILED" : "SUCCEEDED" });
    await aRun(sql, { state: "SKIPPED" });
    const browser = await login("viewer");
    const ids = (text: string) => [...text.matchAll(/href="\/runs\/(\d+)"/g)].map(([, id]) => Number(id));
    const link = (text: string, name: string) =>
      new RegExp(`href="([^"]+)">${name}<`).exec(text)?.[1]?.replaceAll("&amp;", "&");
    const first = await browser.text("/runs?job=many&state=FAILED&state=SKIPPED");
    const older = link(first, "Older") as string;
    const second = await browser.text(older);
    assert.deepEqual([ids(first).length, ids(second).length], [50, 10]);
    assert.equal(new Set([...ids(first), ...ids(second)]).size, 60);
    assert.equal(link(second, "Older"), undefined);
    assert.deepEqual(ids(await browser.text(link(second, "Newer") as string)), ids(first));
    assert.match(await browser.text("/runs?job=none"), /No run matches/);
    assert.equal(ids(await browser.text("/runs?state=NONSENSE&bulk=x&within=y&before=z")).length, 50, "as if not said");
  });
});

Deno.test("a NUL in an address or a form, which no text of Postgres holds, is refused in words and fails nothing", async () => {
  await withAdmin(async ({ login, stranger }) => {
    const failed: unknown[] = [];
    const silence = hear((name, fact) => name === "admin.failed" && failed.push(fact));
    try {
      const admin = await login("admin");
      const paths = [
        "/jobs/a%00",
        "/workers/%00",
        "/runs?job=%00",
        "/runs?error=a%00b",
        "/events?type=%00",
        "/audit?actor=%00",
      ];
      for (const path of [...paths, "/audit.csv?target=%00"]) assert.equal((await admin.get(path)).status, 400, path);
      assert.match(await admin.text(paths[0] as string), /<h1>This makes no sense<\/h1>/);
      assert.equal((await admin.post("/access/tokens/%00/remove", {})).status, 400);
      assert.equal((await admin.post("/access/tokens/none/remove", { reason: "a\0b" })).status, 400);
      assert.equal((await stranger().post("/login", { name: "a\0b", password: "guess" })).status, 400);
      assert.equal((await admin.get("/runs?job=%2500")).status, 200, "a percent sign is none");
    } finally {
      silence();
    }
    assert.deepEqual(failed, []);
  });
});

Deno.test("each column has a name to be read out, also one of buttons, and the queue leads to its jobs", async () => {
  await withAdmin(async ({ sql, login }) => {
    const paths = pathsOf(await aFullHouse(sql));
    await sql`insert into resource (name, capacity) values ('license', 1)`;
    const browser = await login("admin");
    const nameless: string[] = [];
    for (const path of paths) {
      const heads = [...(await browser.text(path)).matchAll(/<th[^>]*>(.*?)<\/th>/gs)].map(([, head = ""]) => head);
      if (heads.some((head) => head.replaceAll(/<[^>]*>/g, "").trim() === "")) nameless.push(path);
    }
    assert.deepEqual(nameless, []);
    assert.match(await browser.text("/queue"), /<td[^>]*><a href="\/jobs\/a_job_with_a_name/);
  });
});
