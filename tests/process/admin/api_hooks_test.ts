/** Webhooks: deliveries with a good signature become events, all others learn nothing. */
import { OF_STRANGERS } from "../../../src/admin/body.ts";
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { type ApiScene, type Said, withApi } from "../../support/api_scene.ts";
import { cliWith } from "../../support/cli.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

async function aHook({ call }: ApiScene, hook: Record<string, unknown> = {}): Promise<string> {
  const made = await call("POST", "/hooks", { body: { name: "shop", event_type: "order.placed", ...hook } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.secret as string;
}

function hex(secret: string, text: string): string {
  return createHmac("sha256", secret).update(text).digest("hex");
}

interface Sent {
  secret: string;
  body?: string;
  id?: string;
  seconds: number;
}

function signed({ secret, body = '{"order":7}', id = "d-1", seconds }: Sent) {
  return {
    body,
    headers: {
      "X-Dandori-Delivery": id,
      "X-Dandori-Signature": `t=${seconds},v1=${hex(secret, `${seconds}.${id}.${body}`)}`,
    },
  };
}

async function nowSeconds({ sql }: ApiScene): Promise<number> {
  const [row] = await sql<{ now: number }[]>`select floor(extract(epoch from clock_timestamp()))::int as now`;
  return row?.now as number;
}

function deliver(
  { call }: ApiScene,
  given: { body: string; headers: Record<string, string> },
  name = "shop",
): Promise<Said> {
  return call("POST", `/hooks/${name}`, { as: "nobody", ...given });
}

Deno.test("a signed delivery becomes an event, once for each id", async () => {
  await withApi(async (scene) => {
    const { sql } = scene;
    const [secret, seconds] = [await aHook(scene), await nowSeconds(scene)];
    const first = await deliver(scene, signed({ secret, seconds }));
    assert.equal(first.status, 202, JSON.stringify(first.body));
    assert.deepEqual((await deliver(scene, signed({ secret, seconds: seconds + 1 }))).body, first.body);
    const other = await deliver(scene, signed({ secret, seconds, id: "d-2", body: "[1]" }));
    assert.notEqual(other.body.event_id, first.body.event_id);
    const events = await sql`select id, event_type, payload_json, dedupe_key from event order by id`;
    assert.deepEqual([...events], [
      { id: first.body.event_id, event_type: "order.placed", payload_json: { order: 7 }, dedupe_key: "hook:shop:d-1" },
      { id: other.body.event_id, event_type: "order.placed", payload_json: [1], dedupe_key: "hook:shop:d-2" },
    ]);
    const { body } = await scene.call("GET", "/hooks");
    assert.equal(typeof body.items?.[0]?.delivered_at, "string");
  });
});

Deno.test("the signature of GitHub is taken by hooks that say so, and by no others", async () => {
  await withApi(async (scene) => {
    const secret = await aHook(scene, { signature: "github" });
    const own = await aHook(scene, { name: "own" });
    const body = '{"ref":"refs/heads/main"}';
    const headers = (key: string) => ({
      "X-Hub-Signature-256": `sha256=${hex(key, body)}`,
      "X-GitHub-Delivery": "g-1",
    });
    assert.equal((await deliver(scene, { body, headers: headers(secret) })).status, 202);
    assert.equal((await deliver(scene, { body, headers: headers(own) }, "own")).status, 401);
    const seconds = await nowSeconds(scene);
    assert.equal((await deliver(scene, signed({ secret, seconds, body }))).status, 401);
    const { "X-GitHub-Delivery": _, ...without } = headers(secret);
    const said = await deliver(scene, { body, headers: without as Record<string, string> });
    assert.equal(said.status, 422);
    assert.match(String(said.body.detail), /give one in X-GitHub-Delivery/);
  });
});

Deno.test("an unknown hook and a wrong signature are refused with the very same words", async () => {
  await withApi(async (scene) => {
    const [secret, seconds] = [await aHook(scene), await nowSeconds(scene)];
    const good = signed({ secret, seconds });
    const signature = good.headers["X-Dandori-Signature"];
    const wrong: [string, { body: string; headers: Record<string, string> }][] = [
      ["nothing", good],
      ["SHOP", good],
      ["shop", signed({ secret: "of another", seconds })],
      ["shop", { ...good, body: '{"order":8}' }],
      ["shop", { ...good, headers: { ...good.headers, "X-Dandori-Delivery": "d-9" } }],
      ["shop", {
        ...good,
        headers: { ...good.headers, "X-Dandori-Signature": signature.replace(/t=\d+/, `t=${seconds + 1}`) },
      }],
      ["shop", { ...good, headers: { ...good.headers, "X-Dandori-Signature": signature.slice(0, -2) } }],
      ["shop", { ...good, headers: { ...good.headers, "X-Dandori-Signature": `t=${seconds},v1=${"z".repeat(64)}` } }],
      ["shop", { ...good, headers: { ...good.headers, "X-Dandori-Signature": "" } }],
      ["shop", { body: good.body, headers: {} }],
      ["shop", { body: "no json", headers: {} }],
      ["shop", signed({ secret: "of another", seconds: seconds - 1000 })],
    ];
    const answers = new Set<string>();
    for (const [name, given] of wrong) {
      const said = await deliver(scene, given, name);
      assert.equal(said.status, 401, `${name} ${JSON.stringify(given)}`);
      answers.add(JSON.stringify(said.body));
    }
    assert.equal(answers.size, 1);
    assert(![...answers][0]?.includes(secret));
    assert.equal((await scene.sql`select from event`).length, 0);
    assert.equal((await deliver(scene, good)).status, 202);
  });
});

Deno.test("a delivery whose body does not come in time is refused, and nothing is kept of it", async () => {
  await withApi(async (scene) => {
    const secret = await aHook(scene);
    const { headers } = signed({ secret, seconds: await nowSeconds(scene) });
    let canceled = false;
    const begun = new ReadableStream<Uint8Array>({
      start: (stream) => stream.enqueue(new TextEncoder().encode('{"order":')),
      cancel: () => void (canceled = true),
    });
    const answer = await scene.app.request("/hooks/shop", { method: "POST", headers, body: begun });
    assert.equal(answer.status, 408);
    assert.match((await answer.json()).detail, /Cannot read the body: it did not come within 0.05 s/);
    assert.equal(canceled, true, "the rest of it is not read");
    assert.equal((await scene.sql`select from event`).length, 0);
  }, { body_ms: 50 });
  assert.deepEqual(OF_STRANGERS.ms, 30_000);
});

Deno.test("who knows the secret is told what else is wrong: an old signature, no JSON, too much of it, too often", async () => {
  await withApi(async (scene) => {
    const secret = await aHook(scene, { rate_per_minute: 2 });
    const seconds = await nowSeconds(scene);
    const refused = async (given: Partial<Sent>, status: number, text: RegExp) => {
      const said = await deliver(scene, signed({ secret, seconds, ...given }));
      assert.equal(said.status, status, JSON.stringify(said.body));
      assert.match(String(said.body.detail), text);
      return said.headers;
    };
    await refused({ seconds: seconds - 400 }, 422, /it was signed 4\d\d s ago, at most 300 s/);
    await refused({ seconds: seconds + 400 }, 422, /it was signed \d+ s ahead/);
    await refused({ body: "{" }, 400, /not JSON/);
    await refused({ body: '"\\u0000"' }, 422, /\\u0000/);
    await refused({ id: "" }, 422, /X-Dandori-Delivery/);
    await refused({ body: JSON.stringify("x".repeat(262_144)) }, 413, /more than 262144 bytes/);
    for (const id of ["1", "2"]) assert.equal((await deliver(scene, signed({ secret, seconds, id }))).status, 202);
    const headers = await refused({ id: "3" }, 429, /deliveries of this minute/);
    assert.equal(headers.get("retry-after"), "60");
    await scene.sql`update webhook set window_at = window_at - interval '1 minute'`; // a minute passes
    assert.equal((await deliver(scene, signed({ secret, seconds, id: "3" }))).status, 202);
  });
});

Deno.test("a secret is shown when its hook is made, and never again", async () => {
  await withApi(async (scene) => {
    const { call, sql } = scene;
    const secret = await aHook(scene);
    assert(secret.length >= 43);
    assert.equal((await call("POST", "/hooks", { body: { name: "shop", event_type: "x" } })).status, 409);
    const wrong = [{}, { name: "a b", event_type: "x" }, { name: "a" }, { name: "a", event_type: "x", secret: "mine" }];
    for (const body of [...wrong, { name: "a", event_type: "x", rate_per_minute: 0 }]) {
      assert.equal((await call("POST", "/hooks", { body })).status, 422, JSON.stringify(body));
    }
    for (const path of ["/hooks", "/audit"]) {
      assert(!JSON.stringify((await call("GET", path)).body).includes(secret), path);
    }
    const rows = JSON.stringify([...await sql`select * from admin_action_log`]);
    assert(rows.includes("hook.add") && !rows.includes(secret));
    assert.equal((await call("DELETE", "/hooks/shop")).status, 204);
    assert.equal((await call("DELETE", "/hooks/shop")).status, 404);
    const seconds = await nowSeconds(scene);
    assert.equal((await deliver(scene, signed({ secret, seconds }))).status, 401);
  });
});

Deno.test("a delivery that an earlier hook of the name took for another event is refused, and nothing fails", async () => {
  await withApi(async (scene) => {
    const seconds = await nowSeconds(scene);
    const misspelt = await aHook(scene, { event_type: "order.plcaed" });
    assert.equal((await deliver(scene, signed({ secret: misspelt, seconds }))).status, 202);
    assert.equal((await scene.call("DELETE", "/hooks/shop")).status, 204);
    const secret = await aHook(scene);
    const said = await deliver(scene, signed({ secret, seconds }));
    assert.equal(said.status, 409, JSON.stringify(said.body));
    assert.match(String(said.body.detail), /a hook "shop" that was here before/);
    assert.equal((await deliver(scene, signed({ secret, seconds, id: "d-2" }))).status, 202);
  });
});

Deno.test("deliveries to a hook whose row somebody keeps leave connections to everybody else", async () => {
  await withApi(async (scene) => {
    const { sql, call } = scene;
    const [secret, seconds] = [await aHook(scene), await nowSeconds(scene)];
    const deliveries = await sql.begin(async (tx) => {
      await tx`update webhook set rate_per_minute = 100`;
      const asked = Array.from({ length: 20 }, (_, n) => deliver(scene, signed({ secret, seconds, id: `d-${n}` })));
      // The first waits for this transaction, those behind it for the row's version.
      const waiting = async () =>
        (await tx`select from pg_locks where not granted and (pg_backend_pid() = any(pg_blocking_pids(pid))
          or database = (select oid from pg_database where datname = current_database()))`).length;
      await waitFor("a delivery that waits for the row", async () => await waiting() > 0 || undefined);
      for (let n = 0; n < 5; n++) assert.equal((await call("GET", "/runs")).status, 200);
      assert(await waiting() <= 2, `${await waiting()} wait for it`);
      return asked;
    });
    const statuses = new Set((await Promise.all(deliveries)).map(({ status }) => status));
    assert(statuses.has(202), [...statuses].join()); // on a slow machine the first have waited too long: 503
  });
});

Deno.test("hooks are made, listed and removed on the command line as well", async () => {
  await withStores(async ({ database_url, sql }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const made = JSON.parse((await cli("hooks", "add", "shop", "--event", "order.placed", "--json")).out);
    const [row] = await sql`select event_type, signature, secret, created_by from webhook`;
    assert.deepEqual([row?.event_type, row?.signature, row?.secret], ["order.placed", "dandori", made.secret]);
    const listed = await cli("hooks", "ls");
    assert.match(listed.out, /shop +order\.placed +dandori +60/);
    assert(!listed.out.includes(made.secret));
    const refusals: [string[], number, RegExp][] = [
      [["add", "shop", "--event", "x"], 1, /there is one of that name/],
      [["add", "A b", "--event", "x"], 2, /lower case letters/],
      [["add", "b", "--event", "x", "--signature", "md5"], 2, /give dandori or github/],
      [["rm", "nothing"], 1, /there is none of that name/],
    ];
    for (const [args, code, text] of refusals) {
      const said = await cli("hooks", ...args);
      assert.equal(said.code, code, args.join(" "));
      assert.match(said.err, text);
    }
    assert.equal((await cli("hooks", "rm", "shop")).code, 0);
    assert.equal((await sql`select from webhook`).length, 0);
  });
});
