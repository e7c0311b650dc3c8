/** Callback addresses: whoever has one sends that message to that run, once for each key, and nobody else anything; a GET changes nothing. */
import assert from "node:assert/strict";
import { Hono } from "hono";
import { mountCallbacks } from "../../../src/admin/callbacks.tsx";
import type { HonoEnv } from "../../../src/admin/auth/authentication.ts";
import { placeOf } from "../../../src/admin/base_url.ts";
import { hear } from "../../../src/platform/facts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { callbackToken, makeCallbackSecret } from "../../../src/steps/callback_address.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const SECRET = makeCallbackSecret();
const SCHEMA = { type: "object", properties: { ok: { type: "boolean" } }, additionalProperties: false };
const STRICT = { ...SCHEMA, required: ["ok"] };

async function aJob(sql: Sql) {
  return await aDefinition(sql, {
    name: "secret_job",
    messages: {
      confirmed: { schema: SCHEMA },
      strict: { schema: STRICT },
      any: { schema: null },
      none: { schema: { type: "null" } },
    },
  });
}

function addressOf(job_run_id: number, { name = "confirmed", expires_unix_ms = 0, secret = SECRET } = {}): string {
  return `/m/${callbackToken(secret, { job_run_id, name, expires_unix_ms })}`;
}

async function messagesOf(sql: Sql) {
  return [
    ...await sql<{ job_run_id: number; name: string; payload: unknown; sent_by: string }[]>`
    select job_run_id, name, payload, sent_by from run_message order by id`,
  ];
}

/** Asked without a browser: no cookie, no origin. */
async function withDoor(
  test: (on: Asker & { sql: Sql }) => Promise<void>,
  more: { secret?: string | undefined; ms?: number } = {},
) {
  await withStores(async ({ sql }) => {
    const app = new Hono<HonoEnv>();
    const callback_secret = "secret" in more ? more.secret : SECRET;
    const callback_body = more.ms === undefined ? undefined : { bytes: 1_048_576, ms: more.ms };
    mountCallbacks(app, { sql, place: placeOf({ public_url: undefined, proxies: 0 }), callback_secret, callback_body });
    const ask = (path: string, init: RequestInit = {}) =>
      Promise.resolve(app.fetch(new Request(`http://admin.test${path}`, init), { address: "10.0.0.1" }));
    const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      ask(path, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        headers: { "content-type": "application/json", ...headers },
      });
    await test({ sql, ask, post });
  });
}

interface Asker {
  ask(path: string, init?: RequestInit): Promise<Response>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

Deno.test("a POST of JSON is a message by its key once, without one each time", () =>
  withDoor(async ({ sql, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const path = addressOf(id);
    for (const key of ["a", "a", "b"]) {
      assert.equal((await post(path, { ok: true }, { "idempotency-key": key })).status, 202);
    }
    assert.equal((await post(path, {})).status, 202);
    const message = { job_run_id: id, name: "confirmed", payload: { ok: true }, sent_by: "callback" };
    assert.deepEqual(await messagesOf(sql), [message, message, { ...message, payload: {} }]);
  }));

Deno.test("a GET shows a button and sends nothing; the button sends {}, or null where only that fits", () =>
  withDoor(async ({ sql, ask, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const shown = await ask(addressOf(id), { headers: { "accept-language": "ja" } });
    assert.equal(shown.status, 200);
    assert.match(shown.headers.get("x-robots-tag") ?? "", /noindex/);
    assert.equal(shown.headers.get("referrer-policy"), "no-referrer");
    const text = await shown.text();
    assert.match(text, /<form method="post">/);
    assert.match(text, /確認する/);
    assert.doesNotMatch(text, /secret_job|confirmed|style=/);
    assert.deepEqual(await messagesOf(sql), []);
    const form = { "content-type": "application/x-www-form-urlencoded" };
    assert.equal((await post(addressOf(id), "payload=%3Cscript%3E", form)).status, 200);
    assert.deepEqual((await messagesOf(sql)).map(({ payload }) => payload), [{}]);
    assert.equal((await post(addressOf(id, { name: "strict" }), "", form)).status, 422);
    assert.equal((await post(addressOf(id, { name: "none" }), "", form)).status, 200);
    assert.deepEqual((await messagesOf(sql)).map(({ payload }) => payload), [{}, null]);
  }));

Deno.test("another run's token, another name, another time, another key: one answer, and nothing is sent", () =>
  withDoor(async ({ sql, ask, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const { id: other } = await aRun(sql, { job_definition_id });
    const soon = Date.now() + 3_600_000;
    const [said, mac] = [`${id}.confirmed.${soon}`, addressOf(id, { expires_unix_ms: soon }).split(".").at(-1)];
    assert.equal((await ask(`/m/${said}.${mac}`)).status, 200);
    const wrong = [
      `/m/${other}.confirmed.${soon}.${mac}`,
      `/m/${id}.any.${soon}.${mac}`,
      `/m/${id}.confirmed.${soon + 1}.${mac}`,
      `/m/${id}.confirmed.0.${mac}`,
      addressOf(id, { secret: makeCallbackSecret() }),
      `/m/${said}.`,
      "/m/x",
      "/m/%00",
    ];
    const answers = new Set<string>();
    for (const path of wrong) {
      const answer = await post(path, {});
      answers.add(`${answer.status} ${await answer.text()}`);
      assert.equal((await ask(path)).status, 404, path);
    }
    assert.equal(answers.size, 1, [...answers].join("\n"));
    assert.match([...answers][0] ?? "", /^404 /);
    assert.deepEqual(await messagesOf(sql), []);
  }));

Deno.test("what is over is answered alike: expired by the database's clock, ended, or not taken by the job any more", () =>
  withDoor(async ({ sql, ask, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const { id: ended } = await aRun(sql, { job_definition_id, state: "SUCCEEDED" });
    const [row] = await sql<{ now: number }[]>`select extract(epoch from clock_timestamp()) * 1000 as now`;
    const past = Math.floor(Number(row?.now)) - 1;
    const over = [
      addressOf(id, { expires_unix_ms: past }),
      addressOf(ended),
      addressOf(id, { name: "renamed" }),
      addressOf(999_999),
    ];
    const answers = new Set<string>();
    for (const path of over) {
      const answer = await post(path, {});
      answers.add(`${answer.status} ${await answer.text()}`);
    }
    assert.equal(answers.size, 1, [...answers].join("\n"));
    assert.match([...answers][0] ?? "", /^410 /);
    assert.equal((await ask(addressOf(ended))).status, 410);
    assert.deepEqual(await messagesOf(sql), []);
  }));

Deno.test("a body that is no JSON, does not fit, is huge or slow is refused, and the job is not named", () =>
  withDoor(async ({ sql, ask, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const path = addressOf(id);
    const unfit = await post(path, { ok: "<script>alert(1)</script>" });
    assert.equal(unfit.status, 422);
    assert.match(unfit.headers.get("content-type") ?? "", /problem\+json/);
    assert.doesNotMatch(await unfit.text(), /secret_job|<script>/);
    assert.equal((await post(path, "{")).status, 400);
    assert.equal((await post(path, `"${"x".repeat(1_048_577)}"`)).status, 413);
    assert.equal((await post(path, {}, { "idempotency-key": "k".repeat(401) })).status, 422);
    const slow = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode("{")) });
    assert.equal((await ask(path, { method: "POST", body: slow })).status, 408);
    assert.deepEqual(await messagesOf(sql), []);
  }, { ms: 300 }));

Deno.test("a run gets so many in a minute; another one is not kept from its own", () =>
  withDoor(async ({ sql, post }) => {
    const { id: job_definition_id } = await aJob(sql);
    const { id } = await aRun(sql, { job_definition_id });
    const { id: other } = await aRun(sql, { job_definition_id });
    const statuses: number[] = [];
    for (let n = 0; n < 61; n++) statuses.push((await post(addressOf(id), {}, { "idempotency-key": "a" })).status);
    assert.deepEqual(statuses, [...Array(60).fill(202), 429]);
    assert.equal((await post(addressOf(other), {})).status, 202);
  }));

Deno.test("without a secret no address leads anywhere", () =>
  withDoor(async ({ ask, post }) => {
    assert.equal((await post(addressOf(1), {})).status, 404);
    assert.equal((await ask(addressOf(1))).status, 404);
  }, { secret: undefined }));

Deno.test("the admin server has the door, without a session and with its headers; an error's log has no address", async () => {
  const heard: string[] = [];
  const stop = hear((name, fact) => void heard.push(JSON.stringify({ name, fact })));
  try {
    await withAdmin(async ({ sql, stranger }) => {
      const { id: job_definition_id } = await aJob(sql);
      const { id } = await aRun(sql, { job_definition_id });
      const path = addressOf(id);
      const shown = await stranger().get(path);
      assert.equal(shown.status, 200);
      assert.match(shown.headers.get("content-security-policy") ?? "", /default-src 'none'/);
      assert.equal((await stranger().post(path, {})).status, 200);
      assert.equal((await messagesOf(sql)).length, 1);
      await sql`alter table run_message rename to gone`;
      assert((await stranger().post(path, {})).status >= 500);
      const failed = heard.filter((line) => line.includes("admin.failed"));
      assert.equal(failed.length, 1);
      assert(!String(failed).includes(path.slice(-20)), String(failed));
    }, { callback_secret: SECRET });
  } finally {
    stop();
  }
});
