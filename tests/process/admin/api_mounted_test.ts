/** The API within the admin server: real tokens and sessions, from any page or none. */
import assert from "node:assert/strict";
import { buildAdmin } from "../../../src/admin/app.ts";
import { Live } from "../../../src/admin/live.ts";
import { digestOf } from "../../../src/admin/auth/passwords.ts";
import { placeOf } from "../../../src/admin/base_url.ts";
import { addApiToken, type Scope } from "../../../src/access/api_tokens.ts";
import { aDefinition } from "../../support/factories.ts";
import { cliWith } from "../../support/cli.ts";
import { withStores } from "../../support/stores.ts";

Deno.test("a token may what its scopes say, under its own name, also behind a path; an unknown one nothing", async () => {
  await withStores(async ({ sql }) => {
    for (const [token, scope] of [["reads", "read"], ["emits", "emit"], ["operates", "operate"]] as [string, Scope][]) {
      const token_digest = await digestOf(token);
      assert(await addApiToken(sql, { name: token, token_digest, scopes: [scope], days: 1 }, { actor: "test" }));
    }
    await aDefinition(sql, { name: "hello" });
    const place = placeOf({ public_url: new URL("https://example.com/jobs"), proxies: 0 });
    const app = buildAdmin({ sql, place, live: new Live(sql), stop: AbortSignal.abort() });
    const ask = async (method: string, path: string, token: string, body?: unknown) => {
      const headers = {
        authorization: token.includes(" ") ? token : `Bearer ${token}`,
        "content-type": "application/json",
      };
      const request = new Request(
        `https://example.com/jobs/api/v1${path}`,
        { method, headers, body: body && JSON.stringify(body) } as RequestInit,
      );
      const answer = await app.fetch(request, { address: "10.0.0.1" });
      return [answer.status, await answer.json()] as const;
    };
    const run = { job_name: "hello" };
    assert.equal((await ask("GET", "/runs", "reads"))[0], 200);
    assert.equal((await ask("POST", "/runs", "reads", run))[0], 403);
    assert.deepEqual(await ask("POST", "/runs", "emits", run), [201, { id: 1, is_new: true }]);
    assert.equal((await ask("GET", "/runs", "emits"))[0], 403);
    assert.equal((await ask("POST", "/runs/1/cancel", "operates", {}))[0], 202);
    assert.equal((await ask("GET", "/hooks", "operates"))[0], 403);
    assert.equal((await ask("GET", "/runs", "nobody's"))[0], 401);
    assert.equal((await ask("GET", "/runs", "bearer reads"))[0], 200); // some libraries write it so
    assert.equal((await ask("GET", "/runs", "Basic reads"))[0], 401);
    assert.equal((await ask("GET", "/nothing", "reads"))[0], 404);
    assert.equal((await ask("GET", "/openapi.json", ""))[1].servers[0].url, "../v1");
    const large = { job_name: "hello", items: Array.from({ length: 40_000 }, (_, n) => ({ n, text: "x".repeat(30) })) };
    assert.equal((await ask("POST", "/bulks", "operates", large))[0], 201); // more than a form of the page may hold
    const acts = await sql`select actor, action from admin_action_log where actor like 'token:%' order by id`;
    assert.deepEqual([...acts], [
      { actor: "token:emits", action: "run.enqueue" },
      { actor: "token:operates", action: "run.cancel" },
      { actor: "token:operates", action: "bulk.start" },
    ]);
  });
});

Deno.test("tokens are made, listed and taken back on the command line, and seen there once", async () => {
  await withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const made = await cli("admin", "token", "add", "deploy", "--scope", "emit", "read");
    const token = made.out.trim();
    const [row] =
      await sql`select token_digest, scopes, expires_at > now() + interval '89 days' as lasts from api_token`;
    assert.deepEqual([row?.token_digest, row?.scopes, row?.lasts], [await digestOf(token), ["emit", "read"], true]);
    assert.match((await cli("admin", "token", "ls")).out, /deploy +emit,read +cli:/);
    for (
      const [args, code] of [[["b", "--scope", "root"], 2], [["A", "--scope", "read"], 2], [[
        "deploy",
        "--scope",
        "read",
      ], 1]] as const
    ) {
      assert.equal((await cli("admin", "token", "add", ...args)).code, code);
    }
    assert.equal((await cli("admin", "token", "rm", "deploy")).code, 0);
    assert.equal((await cli("admin", "token", "rm", "deploy")).code, 1);
  });
});
