/**
 * The API over a real Postgres, asked as HTTP asks. Each answer is held against what the OpenAPI document says of it: its
 * status, its type, and its fields, all of them and no others.
 */
import type { Context } from "hono";
import assert from "node:assert/strict";
import type { Archive } from "../../src/archive/archive.ts";
import { buildApi } from "../../src/admin/api/api.ts";
import type { ApiCaller } from "../../src/admin/auth/callers.ts";
import { type Scope, scopesAllow } from "../../src/access/api_tokens.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { complaintsOf, type Document, operationOf } from "./openapi.ts";
import { withStores } from "./stores.ts";

export interface Said {
  status: number;
  // What each route gives is held against the document; tests name the fields that they look at.
  body: Record<string, unknown> & { items?: Record<string, unknown>[] };
  headers: Headers;
}

export interface Asked {
  /** Default "admin"; "nobody": without a token. */
  as?: Scope | "nobody";
  body?: unknown;
  headers?: Record<string, string>;
}

export interface ApiScene {
  sql: Sql;
  document: Document;
  app: ReturnType<typeof buildApi>;
  /** `path` from /api/v1 on. */
  call(method: string, path: string, asked?: Asked): Promise<Said>;
}

const SCOPES = ["read", "emit", "operate", "admin"];

/** Takes "Bearer SCOPE". */
export function callerOf(authorization: string | undefined): ApiCaller | undefined {
  const scope = authorization?.replace("Bearer ", "") as Scope | undefined;
  if (!scope || !SCOPES.includes(scope)) return undefined;
  return { actor: `token:${scope}`, allows: (needed) => scopesAllow([scope], needed) };
}

export async function withApi(
  test: (scene: ApiScene) => Promise<void> | void,
  { archive, body_ms }: { archive?: Archive; body_ms?: number } = {},
): Promise<void> {
  await withStores(async ({ sql }) => {
    const known = (c: Context) => Promise.resolve(callerOf(c.req.header("authorization")));
    const app = buildApi({ sql, archive, body_ms, callerOf: known });
    const ask = async (method: string, path: string, { as = "admin", body, headers = {} }: Asked = {}) => {
      const all = new Headers(headers);
      if (as !== "nobody") all.set("authorization", `Bearer ${as}`);
      const isRaw = typeof body === "string" || body instanceof Uint8Array;
      if (body !== undefined && !all.has("content-type")) all.set("content-type", "application/json");
      const sent = body === undefined ? undefined : isRaw ? body as string : JSON.stringify(body);
      const answer = await app.request(path, { method, headers: all, body: sent });
      const text = await answer.text();
      return { status: answer.status, headers: answer.headers, body: text === "" ? {} : JSON.parse(text) };
    };
    const document = (await ask("GET", "/openapi.json", { as: "nobody" })).body as unknown as Document;
    await test({
      sql,
      document,
      app,
      async call(method, path, asked) {
        const said = await ask(method, path, asked);
        judge(document, { method, path }, said);
        return said;
      },
    });
  });
}

function judge(document: Document, { method, path }: { method: string; path: string }, said: Said): void {
  assert.equal(said.headers.get("cache-control"), "no-store", path);
  const operation = operationOf(document, method, path.split("?")[0] as string);
  if (!operation) return assert.equal(said.status, 404, `${method} ${path} is not in the document`);
  const declared = operation.responses[said.status];
  assert(declared, `${method} ${path} may not answer ${said.status}: ${JSON.stringify(said.body)}`);
  const type = said.headers.get("content-type") ?? "";
  const content = declared.content?.[type];
  if (!declared.content) return assert.deepEqual(said.body, {});
  assert(content, `${method} ${path} answers ${said.status} as ${type}`);
  assert.deepEqual(complaintsOf(document, content.schema, said.body), [], `${method} ${path}`);
}
