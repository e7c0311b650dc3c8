/** Messages to runs, as an application and the command line send them: found, checked, once, and in the caller's own transaction. */
import assert from "node:assert/strict";
import postgres from "postgres";
import { sendToRun } from "../../../src/actions/messages.ts";
import { createClient, EnqueueError } from "../../../src/client.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { cliWith } from "../../support/cli.ts";
import { aStep } from "../../support/journal.ts";
import { type Stores, withStores } from "../../support/stores.ts";

const SCHEMA = { type: "object", properties: { by: { type: "string" } }, required: ["by"] };
const MESSAGES = { confirmed: { schema: SCHEMA, from: "operate" }, note: { schema: null, from: "emit" } };

function withRun(
  test: (
    on: Stores & { client: ReturnType<typeof createClient>; run_id: number; job_definition_id: number },
  ) => Promise<void>,
) {
  return withStores(async (stores) => {
    const { id } = await aDefinition(stores.sql, { name: "onboarding", messages: MESSAGES });
    const run = await aRun(stores.sql, { job_definition_id: id, idempotency_key: `enqueue:${id}:user-7` });
    const client = createClient({ databaseUrl: stores.database_url });
    try {
      await test({ ...stores, client, run_id: run.id, job_definition_id: id });
    } finally {
      await client.close();
    }
  });
}

const stored = (sql: Sql) =>
  sql`select id, job_run_id, name, payload, dedupe_key, sent_by from run_message order by id`;

Deno.test("a client sends by id, or by job and key; with a dedupe key once", () =>
  withRun(async ({ sql, client, run_id }) => {
    const first = await client.send(run_id, "confirmed", { by: "ada" }, { dedupeKey: "mail-1" });
    assert.deepEqual(first, { id: first.id, isNew: true });
    assert.deepEqual(await client.send(run_id, "confirmed", { by: "ada" }, { dedupeKey: "mail-1" }), {
      id: first.id,
      isNew: false,
    });
    const second = await client.send({ job: "onboarding", key: "user-7" }, "note");
    assert.deepEqual([...await stored(sql)], [
      {
        id: first.id,
        job_run_id: run_id,
        name: "confirmed",
        payload: { by: "ada" },
        dedupe_key: "mail-1",
        sent_by: "client",
      },
      { id: second.id, job_run_id: run_id, name: "note", payload: null, dedupe_key: null, sent_by: "client" },
    ]);
  }));

Deno.test("inside the application's transaction a message exists only if that commits", () =>
  withRun(async ({ sql, client, run_id, database_url }) => {
    const own = postgres(database_url, { max: 1 });
    await own.begin(async (tx) => {
      await client.within(tx).send(run_id, "note", "rolled back");
      throw new Error("rolled back");
    }).catch(() => {});
    await own.begin((tx) => client.within(tx).send(run_id, "note", "kept"));
    await own.end();
    assert.deepEqual((await stored(sql)).map(({ payload }) => payload), ["kept"]);
    assert.deepEqual([...await sql`select job_run_id from wake_check`], [{ job_run_id: run_id }]);
  }));

Deno.test("what nothing could read is refused where it is sent, and leaves nothing", () =>
  withRun(async ({ sql, client, run_id, job_definition_id }) => {
    const ended = await aRun(sql, { job_definition_id, state: "FAILED" });
    const refusals: [() => Promise<unknown>, RegExp][] = [
      [() => client.send(99, "note"), /Cannot send a message to run 99: there is none/],
      [
        () => client.send({ job: "onboarding", key: "user-8" }, "note"),
        /a run of "onboarding" with the key "user-8": there is none/,
      ],
      [() => client.send(ended.id, "note"), /it has ended as FAILED, so nothing would read it/],
      [() => client.send(run_id, "confirm", {}), /did you mean "confirmed"\? it takes note, confirmed/],
      [() => client.send(run_id, "confirmed", { by: 7 }), /by: /],
      [
        () => sendToRun(sql, run_id, { name: "confirmed", payload: { by: "a" } }, { sent_by: "token", emit: true }),
        /scope emit may not/,
      ],
    ];
    for (const [refusal, words] of refusals) {
      await assert.rejects(refusal(), (error) => error instanceof EnqueueError && words.test(error.message));
    }
    assert.deepEqual([...await stored(sql)], []);
  }));

Deno.test("where a run asks people only those who are asked may answer, and never the one who must not", () =>
  withRun(async ({ sql, run_id }) => {
    const prompt = { ask: "Wipe it?", who: ["role:admin", "ben"], notBy: "user:ada" };
    await aStep(sql, run_id, { key: "message:confirmed", waits_for: "confirmed", prompt });
    const answer = (name: string, role: "operator" | "admin") =>
      sendToRun(sql, run_id, { name: "confirmed", payload: { by: name } }, { sent_by: `user:${name}`, role });
    await assert.rejects(answer("ada", "admin"), /ada must not answer it \(notBy\)/);
    await assert.rejects(answer("cleo", "operator"), /it asks role:admin, ben, and not cleo/);
    await answer("ben", "operator");
    await answer("dora", "admin");
    assert.deepEqual((await stored(sql)).map(({ sent_by }) => sent_by), ["user:ben", "user:dora"]);
  }));

Deno.test("runs send sends, audits and says what it did; a payload that does not fit costs an error with its place", () =>
  withRun(async ({ sql, run_id, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const sent = await cli(
      "runs",
      "send",
      String(run_id),
      "confirmed",
      '{"by":"ada"}',
      "--json",
      "--reason",
      "she called",
    );
    const { id, is_new } = JSON.parse(sent.out);
    assert.equal(is_new, true);
    const [audit] = await sql`select action, target_id, reason, after_json from admin_action_log`;
    assert.deepEqual(audit, {
      action: "run.send",
      target_id: String(run_id),
      reason: "she called",
      after_json: { message_id: id, name: "confirmed" },
    });
    const unfit = await cli("runs", "send", String(run_id), "confirmed", '{"by":7}');
    assert.notEqual(unfit.code, 0);
    assert.match(unfit.err, /Cannot send "confirmed".*by: /);
    assert.match((await cli("runs", "send", String(run_id), "note")).out, /message \d+ "note" sent to run/);
  }));
