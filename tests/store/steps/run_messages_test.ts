/** Messages: they wait for the run, are refused with the reason, and leave a check for the leader in their own transaction. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { MOST_UNREAD, sendMessage } from "../../../src/steps/run_messages.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { anOwnedRun, aWrite, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const MESSAGES = { go: {}, stop: {} };

function send(sql: Sql, job_run_id: number, more: { name?: string; dedupe_key?: string; payload?: unknown } = {}) {
  return sendMessage(sql, { job_run_id, name: "go", payload: { n: 1 }, sent_by: "alice", ...more });
}

Deno.test("a message waits for its run in any state but an ended one, and its worker is notified at once", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, { messages: MESSAGES });
    const heard: string[] = [];
    const { unlisten } = await sql.listen("run_arrived", (id) => heard.push(id));
    for (const state of ["PENDING", "ASSIGNED", "SUSPENDED", "RETRYING", "ORPHANED", "RUNNING"]) {
      const run = await aRun(sql, { job_definition_id, state });
      const sent = await send(sql, run.id);
      assert("id" in sent && sent.is_new);
      const [row] = await sql`
        select r.wakes, r.version, m.payload, m.sent_by, m.taken_by, c.job_run_id from job_run r
          join run_message m on m.job_run_id = r.id join wake_check c on c.job_run_id = r.id where r.id = ${run.id}`;
      const expected = {
        wakes: 0,
        version: 0,
        payload: { n: 1 },
        sent_by: "alice",
        taken_by: null,
        job_run_id: run.id,
      };
      assert.deepEqual(row, expected, state);
      if (state === "RUNNING") await waitFor("the notification", async () => await heard[0] === String(run.id));
    }
    assert.equal(heard.length, 1, "of a run without a body the leader takes care");
    await unlisten();
  });
});

Deno.test("what cannot be sent is refused with the reason, and leaves nothing", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, { messages: MESSAGES });
    const run = await aRun(sql, { job_definition_id });
    const ended = await aRun(sql, { job_definition_id, state: "TIMED_OUT" });
    const deaf = await aRun(sql);
    const refusal = async (job_run_id: number, name = "go") => {
      const sent = await send(sql, job_run_id, { name });
      assert("refused" in sent);
      return sent.refused;
    };
    assert.deepEqual(await refusal(99), { code: "unknown_run" });
    assert.deepEqual(await refusal(ended.id), { code: "ended", state: "TIMED_OUT" });
    assert.deepEqual(await refusal(run.id, "og"), { code: "unknown_message", known: ["go", "stop"] });
    assert.deepEqual(await refusal(deaf.id), { code: "unknown_message", known: [] });
    await sql`
      insert into run_message (job_run_id, name, sent_by, for_key)
      select ${run.id}, 'paid', 'event', 'event:paid' from generate_series(1, 5)`;
    await sql`
      insert into run_message (job_run_id, name, sent_by) select ${run.id}, 'stop', 'bob' from generate_series(2, ${MOST_UNREAD})`;
    assert("id" in await send(sql, run.id, { dedupe_key: "last" }));
    assert.deepEqual(await refusal(run.id), { code: "box_full", most: MOST_UNREAD });
    assert("id" in await send(sql, run.id, { dedupe_key: "last" }), "it was sent before");
    assert.equal((await sql`select from run_message where name = 'go'`).length, 1);
    await sql`update run_message set taken_by = 'message:stop' where id in (select min(id) from run_message where name = 'stop')`;
    assert("id" in await send(sql, run.id));
  });
});

Deno.test("a dedupe key gives back the first message, also to those who send at once, and after the end", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, { messages: MESSAGES });
    const run = await anOwnedRun(sql, { job_definition_id });
    const other = await anOwnedRun(sql, { job_definition_id });
    const all = await Promise.all(Array.from({ length: 20 }, () => send(sql, run.id, { dedupe_key: "mail-7" })));
    const sent = all.map((one) => "id" in one ? one : assert.fail());
    assert.equal(new Set(sent.map(({ id }) => id)).size, 1);
    assert.equal(sent.filter(({ is_new }) => is_new).length, 1);
    const message_id = sent[0]!.id;
    assert.equal((await sql`select from wake_check`).length, 1);
    assert.notDeepEqual(await send(sql, other.id, { dedupe_key: "mail-7" }), { id: message_id, is_new: false });
    await write(sql, aWrite(run, "message:go", { seq: 1, message_id }));
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${run.id}`;
    assert.deepEqual(await send(sql, run.id, { dedupe_key: "mail-7" }), { id: message_id, is_new: false });
  });
});

Deno.test("an operator's message is audited with it, and one of a transaction that is rolled back never was", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, { messages: MESSAGES });
    const run = await aRun(sql, { job_definition_id });
    const act = (db: Sql, name = "go") =>
      sendMessage(db, {
        job_run_id: run.id,
        name,
        payload: 1,
        sent_by: "bob",
        by: { actor: "bob", reason: "asked by mail" },
      });
    await assert.rejects(sql.begin(async (tx) => {
      await act(tx as unknown as Sql);
      throw new Error("rolled back");
    }));
    assert("refused" in await act(sql, "og"));
    const sent = await act(sql);
    const acts = await sql`select actor, action, target_type, target_id, after_json, reason from admin_action_log`;
    assert.deepEqual([...acts], [{
      ...{ actor: "bob", action: "run.send", target_type: "run", target_id: String(run.id) },
      ...{ after_json: { message_id: "id" in sent && sent.id, name: "go" }, reason: "asked by mail" },
    }]);
    assert.equal((await sql`select from wake_check`).length, 1);
    assert.equal((await sql`select from run_message`).length, 1);
  });
});
