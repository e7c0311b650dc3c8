/** What the pages do to runs: one of them, all that fit, one again with other args; each named, asked once and audited. */
import assert from "node:assert/strict";
import { json } from "../../../src/postgres/connection.ts";
import { type AdminScene, withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;
const SCHEMA = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };

const statesOf = async ({ sql }: Pick<AdminScene, "sql">, ids: number[]) =>
  (await sql<{ asked: boolean }[]>`
    select cancel_requested_at is not null as asked from job_run where id = any(array(select jsonb_array_elements_text(${
    json(sql, ids)
  })::bigint)) order by id`).map(({ asked }) => asked);

/** The hidden fields of a page's last form. */
function hidden(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="(wish|at)" value="([^"]+)"/g)].map((
      [, name, value],
    ) => [name, value]),
  );
}

Deno.test("an act on all that fit says how many and which first, and touches those alone that were there", async () => {
  await withAdmin(async (on) => {
    const { sql, login } = on;
    const of = await aDefinition(sql, { name: "many" });
    const waiting: number[] = [];
    for (let n = 0; n < 7; n++) waiting.push((await aRun(sql, { job_definition_id: of.id })).id);
    const ended = await aRun(sql, { job_definition_id: of.id, state: "FAILED", error_summary: EVIL });
    const other = await aRun(sql, { serial_key: EVIL });
    const browser = await login("operator");
    const path = "/runs/many?verb=cancel&job=many";
    const page = await browser.text(path);
    assert.match(page, /<h1>Cancel 7 runs\?<\/h1>/);
    assert.match(page, /The newest 5/);
    assert.match(page, /job = many/);
    const later = await aRun(sql, { job_definition_id: of.id });
    const answer = await browser.post(path, { ...hidden(page), reason: "wrong <b>list</b>" });
    assert.equal(answer.headers.get("location"), "/runs?job=many");
    assert.match(await browser.text("/runs?job=many"), /Cancel is requested for 7 runs/);
    assert.deepEqual(await statesOf(on, waiting), waiting.map(() => true));
    assert.deepEqual(await statesOf(on, [ended.id, other.id, later.id]), [false, false, false]);
    const acts = await sql`select from admin_action_log where action = 'run.cancel' and actor = 'user:operator'
                            and reason = 'wrong <b>list</b>'`;
    assert.equal(acts.length, 7);
    const evil = await browser.text(`/runs/many?verb=cancel&serial-key=${encodeURIComponent(EVIL)}`);
    assert.match(evil, /Cancel 1 run\?/);
    assert.doesNotMatch(evil, /<script>|<img/);
    assert.equal((await browser.get("/runs/many?verb=destroy")).status, 400);
    assert.equal((await browser.post(path, { at: "0" })).status, 400);
    const viewer = await login("viewer");
    assert.equal((await viewer.get(path)).status, 403);
    assert.equal((await viewer.post(path, hidden(page))).status, 403);
    assert.doesNotMatch(await viewer.text("/runs"), /runs\/many/);
  });
});

Deno.test("all that fit are run again once for each form, and get another priority", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "many" });
    for (let n = 0; n < 3; n++) await aRun(sql, { job_definition_id: of.id, state: "FAILED", args_json: { n } });
    const browser = await login("operator");
    const path = "/runs/many?verb=retry&job=many&state=FAILED";
    const form = hidden(await browser.text(path));
    await browser.post(path, form);
    await browser.post(path, form);
    const fresh = await sql<{ id: number }[]>`select id from job_run where rerun_of is not null`;
    assert.equal(fresh.length, 3, "sent twice, done once");
    const moving = "/runs/many?verb=reprioritize&job=many";
    const page = await browser.text(moving);
    assert.match(page, /Change the priority of 3 runs/);
    const wrong = await browser.post(moving, { ...hidden(page), priority: "1000" });
    assert.equal(wrong.status, 400);
    assert.match(await wrong.text(), /number from 0 to 999/);
    await browser.post(moving, { ...hidden(page), priority: "130" });
    const moved = await sql`select from job_run where priority = 130 and state = 'PENDING'`;
    assert.equal(moved.length, 3);
    assert.match(await browser.text("/runs/many?verb=retry&job=nobody"), /No ended run matches/);
  });
});

Deno.test("a run again with other args is checked against the schema, loses nothing that was typed, and both name each other", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "typed", args_schema: SCHEMA });
    const run = await aRun(sql, { job_definition_id: of.id, state: "FAILED", args_json: { n: 1, note: EVIL } });
    const browser = await login("operator");
    const path = `/runs/${run.id}/edit`;
    const page = await browser.text(path);
    assert.match(page, /&quot;n&quot;: 1/);
    assert.doesNotMatch(page, /<script>|<img/);
    const form = hidden(page);
    const broken = await browser.post(path, { ...form, args: `{"n": ${EVIL}` });
    assert.equal(broken.status, 400);
    const again = await broken.text();
    assert.match(again, /this is no JSON/);
    assert.match(again, /<textarea[^>]*>\{&quot;n&quot;: &quot;&gt;&lt;script/);
    assert.doesNotMatch(again, /<script>|<img/);
    const unfit = await browser.post(path, { ...form, args: `{"n": "seven"}` });
    assert.equal(unfit.status, 400);
    assert.match(await unfit.text(), /do not fit: n:/);
    assert.equal((await sql`select from job_run`).length, 1, "nothing was made");
    const made = await browser.post(path, { ...form, args: `{"n": 7}`, reason: "it was 7" });
    const id = Number(/^\/runs\/(\d+)$/.exec(made.headers.get("location") ?? "")?.[1]);
    const twice = await browser.post(path, { ...form, args: `{"n": 7}` });
    assert.equal(twice.headers.get("location"), `/runs/${id}`);
    assert.match(await browser.text(`/runs/${id}`), new RegExp(`Retry of run</dt><dd><a href="/runs/${run.id}"`));
    assert.match(await browser.text(`/runs/${run.id}`), new RegExp(`Retried by</dt><dd><a href="/runs/${id}"`));
    const [act] = await sql`select actor, reason, after_json from admin_action_log where action = 'run.retry'`;
    assert.deepEqual({ ...act }, {
      actor: "user:operator",
      reason: "it was 7",
      after_json: { rerun: id, edited: true },
    });
    assert.equal((await browser.get("/runs/999/edit")).status, 404);
  });
});

Deno.test("one that waits gets another priority, one that nothing ends is closed with a reason, and what has ended is left alone", async () => {
  await withAdmin(async ({ sql, login }) => {
    const run = await aRun(sql);
    const lost = await aRun(sql, { state: "RUNNING" });
    const browser = await login("operator");
    await browser.post(`/runs/${run.id}/move`, { priority: "5" });
    assert.match(await browser.text(`/runs/${run.id}`), /now has priority 5/);
    await browser.post(`/runs/${run.id}/move`, { priority: "-1" });
    assert.match(await browser.text(`/runs/${run.id}`), /number from 0 to 999/);
    await browser.post(`/runs/${lost.id}/move`, { priority: "5" });
    assert.match(await browser.text(`/runs/${lost.id}`), /only what waits can be moved/);
    await browser.post(`/runs/${lost.id}/close`, { reason: "  " });
    assert.match(await browser.text(`/runs/${lost.id}`), /needs a reason/);
    await browser.post(`/runs/${lost.id}/close`, { reason: EVIL });
    const page = await browser.text(`/runs/${lost.id}`);
    assert.match(page, /is closed as FAILED \(Missing\)/);
    assert.match(page, /closed by user:operator: &quot;&gt;&lt;script/);
    assert.doesNotMatch(page, /<script>|<img/);
    await browser.post(`/runs/${lost.id}/close`, { reason: "again" });
    assert.match(await browser.text(`/runs/${lost.id}`), /it has ended as FAILED/);
    assert.equal((await sql`select from admin_action_log where action = 'run.close'`).length, 1);
    assert.equal((await browser.post("/runs/999/close", { reason: "x" })).status, 404);
  });
});

Deno.test("the timeline tells each attempt; a log elsewhere is a link only where it is one", async () => {
  await withAdmin(async ({ sql, login }) => {
    const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute));
    const run = await aRun(sql, {
      state: "SUCCEEDED",
      attempt: 3,
      started_at: at(30),
      finished_at: at(31),
      log_ref: "https://logs.example/812",
    });
    for (const attempt of [1, 2]) {
      await sql`insert into job_run_attempt (job_run_id, attempt, started_at, ended_at, outcome)
        values (${run.id}, ${attempt}, ${at(attempt * 10)}, ${at(attempt * 10 + 1)}, ${
        attempt === 1 ? "FAILED" : "LOST"
      })`;
    }
    const sly = await aRun(sql, { state: "SUCCEEDED", log_ref: "javascript:alert(1)" });
    const browser = await login("viewer");
    const page = await browser.text(`/runs/${run.id}`);
    const steps = [...page.matchAll(/<li[^>]*><strong>([^<]+)<\/strong>/g)].map(([, name]) => name);
    assert.deepEqual(steps, ["Created", "Attempt 1: FAILED", "Attempt 2: LOST", "Assigned", "Started", "SUCCEEDED"]);
    assert.match(page, /<a href="https:\/\/logs.example\/812" rel="noopener noreferrer"/);
    assert.doesNotMatch(await browser.text(`/runs/${sly.id}`), /href="javascript:/);
  });
});
