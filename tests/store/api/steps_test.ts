/** Steps, messages, forks and waits through the API: who may, what is given, and what is refused. */
import assert from "node:assert/strict";
import { aDefinition, aRun } from "../../support/factories.ts";
import { withApi } from "../../support/api_scene.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { aStep } from "../../support/journal.ts";

const LATER = new Date(Date.UTC(2100, 0, 1));

async function aWaitingRun(sql: Sql): Promise<number> {
  const messages = {
    approval: {
      schema: { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] },
      from: "operate",
    },
    note: { schema: null, from: "emit" },
  };
  const job = await aDefinition(sql, { name: "wipe", messages });
  const { id } = await aRun(sql, { job_definition_id: job.id, state: "SUSPENDED", held: true, wakes_at: LATER });
  await aStep(sql, id, { key: "step:ask", seq: 1, result: { n: 1 } });
  await aStep(sql, id, {
    key: "message:approval",
    waits_for: "approval",
    prompt: { ask: "Wipe?", who: ["role:admin"] },
  });
  return id;
}

Deno.test("a run's steps are given as programs rely on them, and what belongs to it", () =>
  withApi(async ({ sql, call }) => {
    const id = await aWaitingRun(sql);
    const { body } = await call("GET", `/runs/${id}/steps`, { as: "read" });
    const items = body.items as Record<string, unknown>[];
    assert.deepEqual(items.map(({ key, kind, state, position, tries }) => ({ key, kind, state, position, tries })), [
      { key: "step:ask", kind: "step", state: "DONE", position: 1, tries: 1 },
      { key: "message:approval", kind: "message", state: "WAITING", position: null, tries: 1 },
    ]);
    const tree = (await call("GET", `/runs/${id}/tree`, { as: "read" })).body;
    assert.deepEqual([tree.root_id, (tree.runs as unknown[]).length, tree.group], [id, 1, []]);
    assert.equal((await call("GET", "/runs/99/steps", { as: "read" })).status, 404);
  }));

Deno.test("a message is sent once for each key, by who may, and refused with the place that does not fit", () =>
  withApi(async ({ sql, call }) => {
    const id = await aWaitingRun(sql);
    const note = () =>
      call("POST", `/runs/${id}/messages/note`, {
        as: "emit",
        body: { payload: 7 },
        headers: { "Idempotency-Key": "k" },
      });
    const [first, again] = [await note(), await note()];
    assert.deepEqual([first.status, again.status, again.body], [201, 200, { ...first.body, is_new: false }]);
    const approve = (as: "emit" | "operate" | "admin", payload: unknown) =>
      call("POST", `/runs/${id}/messages/approval`, { as, body: { payload } });
    const statuses = [
      (await approve("emit", { approved: true })).status,
      (await approve("operate", { approved: true })).status,
      (await approve("admin", { approved: "yes" })).status,
      (await approve("admin", { approved: true })).status,
      (await call("POST", `/runs/${id}/messages/nothing`, { as: "admin" })).status,
    ];
    assert.deepEqual(statuses, [422, 409, 422, 201, 404]);
    const sent = await sql`select name, sent_by from run_message order by id`;
    assert.deepEqual(sent.map(({ name, sent_by }) => [name, String(sent_by).startsWith("token:")]), [["note", true], [
      "approval",
      true,
    ]]);
    assert.equal((await sql`select from admin_action_log where action = 'run.send'`).length, 2);
  }));

Deno.test("a wait is ended and a run forked by operators, and what cannot be is refused", () =>
  withApi(async ({ sql, call }) => {
    const id = await aWaitingRun(sql);
    const wake = (as: "read" | "operate", step: string) => call("POST", `/runs/${id}/wake`, { as, body: { step } });
    assert.equal((await wake("read", "approval")).status, 403);
    assert.deepEqual((await wake("operate", "approval")).body, { id, step: "message:approval" });
    assert.equal((await wake("operate", "ask")).status, 404);
    const fork = (body?: unknown) => call("POST", `/runs/${id}/fork`, { as: "operate", body });
    assert.equal((await fork()).status, 409, "it has not ended");
    await sql`update job_run set state = 'FAILED', held = false, wakes_at = null, finished_at = clock_timestamp() where id = ${id}`;
    const again = await fork({ from: "approval" });
    assert.deepEqual([again.status, again.body.steps], [201, 1], "it asks anew");
    const whole = await fork();
    assert.deepEqual([whole.status, whole.body.rerun_of, whole.body.steps], [201, id, 1]);
  }));
