/** Texts that mean something to SQL, HTML or a terminal are texts: stored as they came, given back as JSON, and nothing else happens. */
import assert from "node:assert/strict";
import { serveAdmin } from "../../../src/admin/server.ts";
import { hear } from "../../../src/platform/facts.ts";
import { serveWorkerMetrics } from "../../../src/ops/metrics/worker.ts";
import { json } from "../../../src/postgres/connection.ts";
import { withApi } from "../../support/api_scene.ts";
import { aDefinition } from "../../support/factories.ts";
import { operationsIn, type Schema } from "../../support/openapi.ts";
import { withStores } from "../../support/stores.ts";

const HOSTILE = [
  `'; drop table job_run; --`,
  `" or 1=1 --`,
  `$1 \${x} %s {{7*7}}`,
  `<script>alert(1)</script><img src=x onerror=alert(1)>`,
  `\u001b[2J\r\nSet-Cookie: a=b`,
  `{"__proto__":{"admin":true}}`,
  `\u202e\ud83d\ude00 段取り \ufffd`,
  `../../etc/passwd`,
];

Deno.test("hostile texts come back as they were given, as JSON that no browser takes for a page", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "echo" });
    for (const text of HOSTILE) {
      const labels = Object.fromEntries(text.split(",").map((pair) => pair.split("=", 2).map((part) => part.trim())));
      await sql`insert into node (node_id, labels) values (${text}, ${json(sql, text.includes("=") ? labels : {})})`;
      const body = { job_name: "echo", args: { text, [text]: 1 }, serial_key: text, node: text, reason: text };
      const { body: { id } } = await call("POST", "/runs", { body });
      const { body: run, headers } = await call("GET", `/runs/${id}`);
      assert.deepEqual([run.args, run.serial_key, run.node], [{ text, [text]: 1 }, text, text]);
      assert.equal(headers.get("content-type"), "application/json");
      const found = await call("GET", `/runs?serial_key=${encodeURIComponent(text)}&node=${encodeURIComponent(text)}`);
      assert.deepEqual(found.body.items?.map((one) => one.id), [id]);
      const event = await call("POST", "/events", { body: { event_type: text, payload: { text }, dedupe_key: text } });
      assert.equal((await call("GET", `/events/${event.body.id}`)).body.event_type, text);
      await call("PUT", `/resources/${encodeURIComponent(text)}`, { body: { capacity: 1, reason: text } });
      const acts = await call("GET", `/audit?target_id=${encodeURIComponent(text)}`);
      assert.deepEqual(acts.body.items?.map((act) => [act.target_id, act.reason]), [[text, text]]);
      const refused = await call("GET", `/nodes/${encodeURIComponent(`${text}?`)}`);
      assert.equal(refused.headers.get("content-type"), "application/problem+json");
      assert(String(refused.body.detail).includes(text));
    }
    assert.equal((await sql`select from job_run`).length, HOSTILE.length);
  });
});

/** Fills every text of a request with the same. */
function filled(schema: Schema, text: string): unknown {
  if (schema.anyOf) return text;
  const types = [schema.type].flat();
  if (types.includes("object") && schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, inner]) => [name, filled(inner, text)]));
  }
  if (types.includes("array")) return [filled(schema.items ?? {}, text)];
  if (types.includes("integer") || types.includes("number")) return 1;
  return types.includes("boolean") ? true : text;
}

Deno.test("whatever text stands in whatever field, no route fails: it is taken or refused", async () => {
  await withApi(async ({ document, call }) => {
    for (const { method, path, operation } of operationsIn(document)) {
      const parameters = operation.parameters ?? [];
      for (const text of [`'; drop table job_run; -- "`, "\u0000", "x".repeat(5_000), "\ud800"]) {
        const well_formed = text.isWellFormed() ? text : "\ufffd";
        const place = encodeURIComponent(well_formed);
        const asked = path.replace(/\{[^}]+\}/g, place);
        const queries = parameters.filter((one) => one.in === "query").map((one) => `${one.name}=${place}`);
        const schema = operation.requestBody?.content["application/json"]?.schema;
        const body = schema && filled(schema, text);
        for (const query of ["", ...queries]) {
          const said = await call(method.toUpperCase(), query ? `${asked}?${query}` : asked, { body });
          assert(said.status < 500, `${method} ${path}?${query} ${JSON.stringify(text)}: ${JSON.stringify(said.body)}`);
        }
      }
    }
  });
});

Deno.test("an instant that Postgres has no text for is refused as one that does not fit", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "echo" });
    for (const at of ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]) {
      for (const path of ["/runs?since=", "/runs?until=", "/audit?since=", "/audit?until="]) {
        assert.equal((await call("GET", path + encodeURIComponent(at))).status, 422, path + at);
      }
      assert.equal((await call("POST", "/runs", { body: { job_name: "echo", run_at: at } })).status, 422);
      const filter = { job_name: "echo", since: at };
      assert.equal((await call("POST", "/runs/cancel", { body: { filter, dry_run: true } })).status, 422);
    }
    for (const at of ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]) {
      assert.equal((await call("GET", `/runs?since=${at}`)).status, 200);
    }
  });
});

Deno.test("a body in another encoding is refused: its letters would be stored as others", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "echo" });
    const text = '{"job_name":"echo","args":{"name":"Müller"}}';
    const latin1 = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const said = await call("POST", "/runs", { body: latin1 });
    assert.deepEqual([said.status, said.body.detail], [400, "Cannot read the body: it is not JSON in UTF-8"]);
    assert.equal((await sql`select from job_run`).length, 0);
    assert.equal((await call("POST", "/runs", { body: text })).status, 201);
    assert.deepEqual((await call("GET", "/runs/1")).body.args, { name: "Müller" });
  });
});

Deno.test("a number that is none here is refused, not stored as null", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "echo" });
    const said = await call("POST", "/runs", { body: '{"job_name": "echo", "args": {"rate": [1e400]}}' });
    assert.deepEqual([said.status, said.body.detail], [
      422,
      'Cannot store a run of "echo": args.rate[0] is Infinity; give null or a text instead',
    ]);
    assert.equal((await sql`select from job_run`).length, 0);
  });
});

Deno.test("JSON that is nested thousands of levels deep is refused, since no body could be given it and no page show it", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "echo" });
    for (const levels of [4_000, 50_000]) {
      const deep = JSON.parse("[".repeat(levels) + "]".repeat(levels));
      const asked: [string, unknown][] = [
        ["/events", { event_type: "deep", payload: deep }],
        ["/runs", { job_name: "echo", args: { deep } }],
        ["/bulks", { job_name: "echo", items: [{ deep }] }],
      ];
      for (const [path, body] of asked) assert.equal((await call("POST", path, { body })).status, 422, path);
    }
    assert.equal((await sql`select from event union all select from job_run`).length, 0);
  });
});

const CUT_OFF = {
  "of a known length": 'content-length: 500\r\n\r\n{"job_name":',
  "in chunks": 'transfer-encoding: chunked\r\n\r\nc\r\n{"job_name":\r\n',
};

for (const [what, sent] of Object.entries(CUT_OFF)) {
  Deno.test(`a sender who leaves within a body ${what} is no failure of the server`, () =>
    withApi(async ({ app }) => {
      const [arrived, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<Response>()];
      const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
        arrived.resolve();
        const answer = await app.request(request);
        answered.resolve(answer.clone());
        return answer;
      });
      const failed: string[] = [];
      const unhear = hear((name) => void (name === "admin.failed" && failed.push(name)));
      try {
        const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
        const head =
          "POST /runs HTTP/1.1\r\nhost: here\r\nauthorization: Bearer admin\r\ncontent-type: application/json\r\n";
        await connection.write(new TextEncoder().encode(head + sent));
        await arrived.promise;
        connection.close();
        const answer = await answered.promise;
        assert.deepEqual([answer.status, (await answer.json()).detail, failed], [
          400,
          "Cannot read the body: it was cut off",
          [],
        ]);
      } finally {
        unhear();
        await server.shutdown();
      }
    }));
}

/** The first line of the answer to a request whose Host is what no URL can hold. */
async function askAs(host: string, port: number): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(
    new TextEncoder().encode(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`),
  );
  const text = await new Response(connection.readable).text();
  return text.split("\r\n")[0] ?? "";
}

Deno.test("a Host that is none is refused by the admin server and by a worker's own, and fails neither", async () => {
  await withStores(async ({ sql }) => {
    const stop = new AbortController();
    const ready = Promise.withResolvers<string>();
    const config = { host: "127.0.0.1", port: 0, public_url: undefined, proxies: 0 };
    const serving = serveAdmin(config, { sql, stop: stop.signal, ready: ready.resolve });
    const worker = serveWorkerMetrics({ host: "127.0.0.1", port: 0, token: undefined }, () => undefined);
    try {
      for (const port of [Number(new URL(await ready.promise).port), worker.port]) {
        for (const host of ["a b", "[", "here:99999", "%00"]) {
          assert.equal(await askAs(host, port), "HTTP/1.1 400 Bad Request", host);
        }
        assert.equal(await askAs("localhost", port), "HTTP/1.1 200 OK");
      }
    } finally {
      stop.abort();
      await serving;
      await worker.close();
    }
  });
});
