/** The OpenAPI document: whole, true, and with a guard on each route. */
import assert from "node:assert/strict";
import { buildApi } from "../../../src/admin/api/api.ts";
import type { Scope } from "../../../src/access/api_tokens.ts";
import { hear } from "../../../src/platform/facts.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { callerOf, withApi } from "../../support/api_scene.ts";
import { operationsIn, refsIn } from "../../support/openapi.ts";
import { withStores } from "../../support/stores.ts";

/** These may be asked by nobody who is known; one checks a signature. */
const OPEN = ["get /openapi.json", "post /hooks/{name}"];
const SCOPES: Scope[] = ["read", "emit", "operate", "admin"];

/** A body with which nothing is wrong but that it means nothing that exists. */
const BODIES: Record<string, unknown> = {
  "post /runs": { job_name: "nothing" },
};

Deno.test("the document is an OpenAPI document: ids, parameters, references and answers are all there", async () => {
  await withApi(({ document }) => {
    assert.equal(document.openapi, "3.1.0");
    assert.deepEqual(document.servers, [{ url: "../v1" }]); // holds behind any path
    const operations = operationsIn(document);
    assert(operations.length > 50, String(operations.length));
    const ids = operations.map(({ operation }) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length, ids.join(" "));
    for (const { name, path, operation } of operations) {
      assert(operation.summary, name);
      assert(Object.keys(operation.responses).some((status) => status.startsWith("2")), name);
      for (const [status, { description, content }] of Object.entries(operation.responses)) {
        assert(description, `${name} ${status}`);
        if (Number(status) >= 400) assert(content?.["application/problem+json"], `${name} ${status}`);
      }
      const named = (operation.parameters ?? []).filter((one) => one.in === "path").map((one) => one.name).sort();
      assert.deepEqual(named, [...path.matchAll(/\{([^}]+)\}/g)].map(([, one]) => one).sort(), name);
    }
    for (const ref of refsIn(document)) {
      assert(document.components.schemas[ref.replace("#/components/schemas/", "")], ref);
    }
  });
});

Deno.test("every route of the app is in the document", async () => {
  await withApi(({ document, sql }) => {
    const app = buildApi({ sql, callerOf: () => Promise.resolve(undefined) });
    const routed = app.routes.filter(({ path, method }) => path !== "/*" && method !== "ALL")
      .map(({ path, method }) => `${method.toLowerCase()} ${path.replaceAll(/:([a-z_]+)/g, "{$1}")}`);
    const documented = operationsIn(document).map(({ name }) => name);
    assert.deepEqual([...new Set(routed)].sort(), documented.sort());
  });
});

Deno.test("nobody passes without what the route needs, and what it needs is in the document", async () => {
  await withApi(async ({ document, call }) => {
    for (const { name, method, path, operation } of operationsIn(document)) {
      const needs = operation["x-needs"];
      assert.equal(needs === "nothing", OPEN.includes(name), `${name} needs ${needs}`);
      const asked = path.replace(/\{(id|[a-z_]+)\}/g, (_, key) => key === "id" ? "812" : "nothing");
      if (needs === "nothing") {
        assert.deepEqual(operation.security, [], name);
        continue;
      }
      assert.deepEqual(operation.security, [{ token: [needs] }, { session: [needs] }], name);
      const nobody = await call(method.toUpperCase(), asked, { as: "nobody" });
      assert.equal(nobody.status, 401, name);
      assert.equal(nobody.headers.get("www-authenticate"), "Bearer");
      for (const scope of SCOPES) {
        const body = BODIES[name] ?? (method === "get" || method === "delete" ? undefined : {});
        const said = await call(method.toUpperCase(), asked, { as: scope, body });
        const may = callerOf(`Bearer ${scope}`)?.allows(needs as Scope);
        assert.equal(said.status === 403, !may, `${name} as ${scope}: ${said.status}`);
      }
    }
  });
});

Deno.test("reads need read, and whatever changes something needs more", async () => {
  await withApi(({ document }) => {
    for (const { name, method, operation } of operationsIn(document)) {
      const needs = operation["x-needs"];
      if (OPEN.includes(name)) continue;
      if (name === "get /hooks" || name === "get /users") assert.equal(needs, "admin"); // it says where somebody could try to get in
      else if (method === "get") assert.equal(needs, "read", name);
      else assert.notEqual(needs, "read", name);
    }
  });
});

Deno.test("what there is no route for is a problem too", async () => {
  await withApi(async ({ call }) => {
    for (
      const [method, path] of [["GET", "/nothing"], ["POST", "/jobs"], ["DELETE", "/runs/1"], ["GET", "/"]] as const
    ) {
      const said = await call(method, path);
      assert.equal(said.body.type, "urn:dandori:problem:not_found");
      assert.match(String(said.body.detail), /there is no such route/);
    }
  });
});

async function askOf(sql: Sql): Promise<{ status: number; headers: Headers; text: string }> {
  const app = buildApi({ sql, callerOf: () => Promise.resolve({ actor: "user:ann", allows: () => true }) });
  const answer = await app.request("/runs");
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

Deno.test("with Postgres away the answer is 503 and when to ask again, and holds nothing of ours", async () => {
  const sql = connectDb("postgres://me:secret@127.0.0.1:1/secrets", { name: "test", max: 1 });
  try {
    const { status, headers, text } = await askOf(sql);
    assert.equal(status, 503);
    assert.equal(headers.get("retry-after"), "1");
    assert.equal(headers.get("content-type"), "application/problem+json");
    assert.equal(JSON.parse(text).type, "urn:dandori:problem:unreachable");
    assert(!/secret|127\.0/.test(text), text);
  } finally {
    await sql.end({ timeout: 1 });
  }
});

Deno.test("what fails here is a 500 with an id that the log knows, and nothing more", async () => {
  await withStores(async ({ sql }) => {
    await sql`alter table job_run rename column serial_key to other_key`;
    const heard: string[] = [];
    const silence = hear((name, fact) => void (name === "admin.failed" && heard.push(JSON.stringify(fact))));
    const { status, text } = await askOf(sql);
    silence();
    assert.equal(status, 500);
    assert(!/serial_key|column/.test(text), text);
    assert.equal(heard.length, 1);
    assert(heard[0]?.includes(JSON.parse(text).id) && heard[0].includes("serial_key"), String(heard));
  });
});
