/** What runs ask people: shown as text, first to those who are asked, answered once through a form of the message's schema. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { readChanges } from "../../../src/postgres/change_feed.ts";
import { fieldsOf, withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";

const EVIL = `<script>alert(1)</script>`;
const APPROVAL = {
  type: "object",
  required: ["approved"],
  additionalProperties: false,
  properties: { approved: { type: "boolean" }, comment: { type: "string", maxLength: 100 } },
};
const LEVEL = {
  type: "object",
  required: ["level", "reason"],
  properties: { reason: { type: "string", minLength: 3 }, level: { enum: ["low", "high"] } },
};

async function aJob(sql: Sql) {
  return await aDefinition(sql, {
    name: "wipe",
    messages: { approval: { schema: APPROVAL }, level: { schema: LEVEL }, note: { schema: null } },
  });
}

async function anAsker(sql: Sql, definition_id: number, prompt: Record<string, unknown>, name = "approval") {
  const { id } = await aRun(sql, {
    job_definition_id: definition_id,
    state: "SUSPENDED",
    held: true,
    wakes_at: new Date("2099-01-01"),
  });
  await aStep(sql, id, { key: `message:${name}`, waits_for: name, prompt });
  return id;
}

function messagesOf(sql: Sql, id: number) {
  return sql<{ name: string; payload: unknown; sent_by: string }[]>`
    select name, payload, sent_by from run_message where job_run_id = ${id} order by id`;
}

Deno.test("the page shows first what the viewer may answer, and hostile questions as text", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aJob(sql);
    const of_boss = await anAsker(sql, id, { ask: "Only for the boss?", who: ["boss"] });
    const of_all = await anAsker(sql, id, { ask: EVIL, show: { [EVIL]: EVIL } });
    const own = await anAsker(sql, id, { ask: "Own wish?", notBy: "user:ann" });
    const ann = await login("operator", "ann");
    const page = await ann.text("/waiting");
    assert(!page.includes(EVIL));
    assert.match(page, /You asked for it/);
    assert.match(page, /class="count"[^>]*>3</);
    const places = [of_all, of_boss, own].map((run) => page.indexOf(`id="prompt-${run}-`));
    assert(places[0] !== -1 && places[0]! < places[1]! && places[1]! < places[2]!, String(places));
    const actions = [...page.matchAll(/action="\/runs\/(\d+)\/messages/g)].map(([, run]) => Number(run));
    assert.deepEqual(actions, [of_all], "a form only for what the viewer may answer");
    const viewer = await login("viewer");
    assert.doesNotMatch(await viewer.text("/waiting"), /action="\/runs\/\d+\/messages/);
    assert.match(await viewer.text("/waiting", { "accept-language": "ja" }), /<h1>回答待ち/);
  }));

Deno.test("without a question the page says how one comes here, and the header counts nothing", () =>
  withAdmin(async ({ sql, login }) => {
    await aRun(sql);
    const page = await (await login("operator")).text("/waiting");
    assert.match(page, /No run asks for anything/);
    assert.doesNotMatch(page, /class="count"/);
  }));

Deno.test("an answer is sent once by its button, in the user's name, and audited", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aJob(sql);
    const run = await anAsker(sql, id, { ask: "Wipe?", show: { device: 7 } });
    const ann = await login("operator", "ann");
    const path = `/runs/${run}/messages/approval`;
    const form = fieldsOf(await ann.text(path));
    const answer = { ...form, "a/approved": "true", "a/comment": "fine", reason: "looked at it" };
    assert.equal((await ann.act(path, answer)).to, `/runs/${run}`);
    await ann.act(path, answer);
    assert.deepEqual([...await messagesOf(sql, run)], [
      { name: "approval", payload: { approved: true, comment: "fine" }, sent_by: "user:ann" },
    ]);
    const audited = await sql`select actor, reason from admin_action_log where action = 'run.send'`;
    assert.deepEqual([...audited], [{ actor: "user:ann", reason: "looked at it" }]);
  }));

Deno.test("what does not fit comes back with all that was typed; the Enter key decides nothing", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aJob(sql);
    const run = await anAsker(sql, id, { ask: "How?" }, "level");
    const ann = await login("operator", "ann");
    const path = `/runs/${run}/messages/level`;
    const page = await ann.text(path);
    for (const level of ["low", "high"]) assert.match(page, new RegExp(`<button[^>]*name="a/level"[^>]*>${level}<`));
    const form = fieldsOf(page);
    const short = await ann.post(path, { ...form, "a/level": "1", "a/reason": "no" });
    assert.equal(short.status, 400);
    assert.match(await short.text(), /value="no"/);
    assert.equal((await ann.post(path, { ...form, "a/reason": "because" })).status, 400, "nothing was decided");
    assert.equal((await messagesOf(sql, run)).length, 0);
    await ann.act(path, { ...form, "a/level": "1", "a/reason": "because" });
    assert.deepEqual((await messagesOf(sql, run))[0]?.payload, { level: "high", reason: "because" });
  }));

Deno.test("who is not asked, the one who asked, and viewers cannot answer, whatever they send", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aJob(sql);
    const own = await anAsker(sql, id, { ask: "Own wish?", notBy: "ann" });
    const of_boss = await anAsker(sql, id, { ask: "Boss?", who: ["boss"] });
    const ann = await login("operator", "ann");
    const sent = { mode: "fields", "a/approved": "true", wish: crypto.randomUUID() };
    for (const run of [own, of_boss]) {
      const path = `/runs/${run}/messages/approval`;
      assert.doesNotMatch(await ann.text(path), /<form class="form"/);
      assert.equal((await ann.post(path, sent)).status, 400);
      assert.equal((await messagesOf(sql, run)).length, 0);
    }
    const viewer = await login("viewer");
    assert.equal((await viewer.post(`/runs/${own}/messages/approval`, sent)).status, 403);
    assert.equal((await ann.get(`/runs/${own}/messages/nobody`)).status, 404);
    assert.equal((await ann.get(`/runs/${own}/messages/constructor`)).status, 404);
  }));

Deno.test("a message that nobody waits for yet can be sent as JSON; to an ended run nothing is offered", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aJob(sql);
    const { id: run } = await aRun(sql, { job_definition_id: id });
    const ann = await login("operator", "ann");
    const path = `/runs/${run}/messages/note`;
    assert.match(await ann.text(path), /does not wait for this message now/);
    await ann.act(path, { mode: "json", json: `{"text": "hello"}`, wish: crypto.randomUUID() });
    assert.deepEqual((await messagesOf(sql, run))[0]?.payload, { text: "hello" });
    const { id: over } = await aRun(sql, { job_definition_id: id, state: "SUCCEEDED" });
    assert.doesNotMatch(await ann.text(`/runs/${over}/messages/note`), /<form class="form"/);
  }));

Deno.test("who watches the page is told of a new question, and of one that was answered", () =>
  withAdmin(async ({ sql }) => {
    const { id } = await aJob(sql);
    const mark = async () => (await readChanges(sql, ["waiting"])).get("waiting");
    const marks = [await mark()];
    const run = await anAsker(sql, id, { ask: "Wipe?" });
    marks.push(await mark());
    await sql`update run_step set state = 'CANCELED', ended_at = clock_timestamp() where job_run_id = ${run}`;
    marks.push(await mark());
    await anAsker(sql, id, { ask: "Again?" });
    marks.push(await mark());
    assert.equal(new Set(marks).size, 3, String(marks)); // none is open twice
  }));
