/** The steps on a run's page: in both languages, with what jobs wrote shown as text, and told to who watches. */
import assert from "node:assert/strict";
import { readChanges } from "../../../src/postgres/change_feed.ts";
import { withAdmin } from "../../support/admin.ts";
import { aRun } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";

const EVIL = `<script>alert(1)</script>`;
const AT = new Date(Date.UTC(2026, 10, 25));

Deno.test("a run's page shows its steps, what it waits for and what failed; what a job wrote is text", () =>
  withAdmin(async ({ sql, login }) => {
    const child = await aRun(sql, { state: "SUCCEEDED" });
    const { id } = await aRun(sql, { state: "SUSPENDED", held: true, wakes_at: AT, started_at: AT });
    await aStep(sql, id, { key: "step:make account", seq: 1, began_at: AT, result: { name: EVIL } });
    await aStep(sql, id, {
      key: `step:${EVIL}`,
      seq: 2,
      began_at: AT,
      state: "FAILED",
      tries: 3,
      error_name: "E",
      error_summary: EVIL,
    });
    await aStep(sql, id, { key: "call:render", seq: 3, began_at: AT, child_run_id: child.id });
    await aStep(sql, id, { key: "step:charge", began_at: AT, state: "BEGUN", has_undo: true });
    await aStep(sql, id, { key: "message:approval", began_at: AT, until: AT, waits_for: "approval" });
    const browser = await login("viewer");
    const page = await browser.text(`/runs/${id}`);
    for (
      const words of [
        "step:make account",
        "3 tries",
        "begun, no result",
        "has an undo",
        "message:approval",
        `/runs/${child.id}"`,
      ]
    ) {
      assert(page.includes(words), words);
    }
    assert.equal(page.match(/class="step-bar/g)?.length, 5);
    assert(!page.includes(EVIL));
    const japanese = await browser.text(`/runs/${id}`, { "accept-language": "ja" });
    assert.match(japanese, /<h2>ステップ/);
  }));

Deno.test("a run without steps has no such section", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aRun(sql);
    assert.doesNotMatch(await (await login("viewer")).text(`/runs/${id}`), /id="steps"/);
  }));

Deno.test("who watches a run is told of each of its steps", () =>
  withAdmin(async ({ sql }) => {
    const { id } = await aRun(sql);
    const mark = async () => (await readChanges(sql, [`run:${id}`])).get(`run:${id}`);
    const marks = [await mark()];
    await aStep(sql, id, { key: "step:a", seq: 1 });
    marks.push(await mark());
    await aStep(sql, id, { key: "sleep:", until: AT });
    marks.push(await mark());
    await sql`update run_step set until = clock_timestamp() where key = 'sleep:'`;
    marks.push(await mark());
    assert.equal(new Set(marks).size, 4, String(marks));
  }));

Deno.test("an operator ends a wait on a page of its own, and forks an ended run with other results; a viewer sees neither", () =>
  withAdmin(async ({ sql, login }) => {
    const { id } = await aRun(sql, {
      state: "SUSPENDED",
      held: true,
      wakes_at: new Date("2099-01-01"),
      started_at: AT,
    });
    await aStep(sql, id, { key: "sleep:", until: new Date("2099-01-01") });
    const operator = await login("operator");
    const path = `/runs/${id}/wake?step=sleep%3A`;
    assert((await operator.text(`/runs/${id}`)).includes(`href="${path}"`));
    assert(!(await (await login("viewer")).text(`/runs/${id}`)).includes("/wake"));
    assert.equal((await operator.act(path, { reason: "enough" })).to, `/runs/${id}`);
    const [step] = await sql<{ over: boolean }[]>`
      select until <= clock_timestamp() as over from run_step where job_run_id = ${id}`;
    assert.equal(step?.over, true);
    assert.equal((await operator.get(`/runs/${id}/wake?step=nothing`)).status, 404);

    const { id: ended } = await aRun(sql, { state: "FAILED", started_at: AT });
    await aStep(sql, ended, { key: "step:list", seq: 1, began_at: AT, result: [1] });
    await aStep(sql, ended, {
      key: "step:charge",
      seq: 2,
      began_at: AT,
      state: "FAILED",
      error_name: "E",
      error_summary: "e",
    });
    const from = `/runs/${ended}/fork?from=step%3Acharge`;
    assert((await operator.text(`/runs/${ended}`)).includes(`href="${from}"`));
    assert.equal((await operator.post(from, { set: `{"no such": 1}` })).status, 400);
    const { to } = await operator.act(from, { args: `{"n": 2}`, set: `{"list": [1, 2]}`, reason: "again" });
    const fresh = Number(to.split("/").at(-1));
    const [run] = await sql`select rerun_of, args_json from job_run where id = ${fresh}`;
    assert.deepEqual({ ...run }, { rerun_of: ended, args_json: { n: 2 } });
    const rows = await sql`select key, result from run_step where job_run_id = ${fresh}`;
    assert.deepEqual(rows.map((row) => ({ ...row })), [{ key: "step:list", result: [1, 2] }]);
  }));
