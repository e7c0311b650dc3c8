/** The overview: what to do first, who leads and what waits, how it went as plots and as a table, alerts and who has seen them. */
import assert from "node:assert/strict";
import { stepOf } from "../../../src/admin/pages/overview/plots.tsx";
import { judgeAlerts } from "../../../src/alerts/alerts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { sampleLoad } from "../../../src/stats/load_stats.ts";
import { RANGES, rollUp } from "../../../src/stats/run_stats.ts";
import { finishRuns } from "../../../src/runs/states.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;
const LIMITS = {
  overdue_seconds: 60,
  no_code_seconds: 60,
  leader_runs: true,
  no_leader_seconds: 60,
  certificate_days: 14,
  clock_skew_seconds: 2,
};

/** Runs that end now, counted. */
async function end(sql: Sql, term: Term, on: { job_definition_id: number; good: number; bad: number }): Promise<void> {
  const endings = [];
  for (let n = 0; n < on.good + on.bad; n++) {
    const taken = { state: "RUNNING", assigned_worker_id: "w", start_token: "token" };
    const { id } = await aRun(sql, { job_definition_id: on.job_definition_id, ...taken });
    await sql`update job_run set due_at = clock_timestamp() - interval '6 s', started_at = clock_timestamp() - interval '4 s' where id = ${id}`;
    endings.push({
      job_run_id: id,
      attempt: 1,
      start_token: "token",
      outcome: n < on.good ? "SUCCEEDED" as const : "FAILED" as const,
      exit_code: null,
      error_name: null,
      error_summary: null,
      result: null,
      retry_max: 0,
      retry_after_ms: 0,
      other_node: false,
    });
  }
  await finishRuns(sql, "w", endings);
  await rollUp(sql, term);
}

Deno.test("an empty system says what to do first, and no longer once something has run", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("viewer");
    const home = await browser.get("/");
    assert.equal(home.headers.get("location"), "/overview");
    const empty = await browser.text("/overview");
    assert.match(empty, /deno task worker.*deno task new my_job.*deno task sync.*deno task run my_job --wait/s);
    assert.match(empty, /no leader/);
    assert.doesNotMatch(empty, />done</);
    await aDefinition(sql, { name: "hello" });
    await aWorker(sql);
    const half = await browser.text("/overview");
    assert.equal(half.match(/>done</g)?.length, 3);
    assert.match(half, /deno task run hello --wait/);
    await aRun(sql);
    assert.doesNotMatch(await browser.text("/overview"), /deno task run/);
    const japanese = await browser.text("/overview", { "accept-language": "ja" });
    assert.match(japanese, /リーダー.*不在/s);
  });
});

Deno.test("who leads, what waits and how it went are told as the leader counted them", async () => {
  await withAdmin(async ({ sql, login }) => {
    const { worker_id } = await aWorker(sql, { node_id: "tokyo-1", slots: 4 });
    await aWorker(sql, { node_id: "tokyo-2", slots: 4, subleader: true, worker_id: "w-sub" });
    const term = await aTerm(sql, worker_id);
    const good = await aDefinition(sql, { name: "good" });
    const poor = await aDefinition(sql, { name: "poor" });
    await end(sql, term, { job_definition_id: good.id, good: 8, bad: 0 });
    await end(sql, term, { job_definition_id: poor.id, good: 1, bad: 1 });
    await aRun(sql, { job_definition_id: good.id, priority: 120, due_at: new Date(0) });
    await aRun(sql, { job_definition_id: good.id, state: "RUNNING", assigned_worker_id: worker_id });
    await sampleLoad(sql, term);
    const browser = await login("viewer");
    const page = await browser.text("/overview");
    assert.match(page, new RegExp(`<strong>${worker_id}</strong><small><span>epoch 1, `));
    assert.match(page, /<strong>w-sub<\/strong>/);
    assert.match(page, /<strong>1 of 8<\/strong>/);
    assert.match(page, /<strong>10<\/strong>/, "ended");
    assert.match(page, /<strong>90 %<\/strong><small>1 failed or timed out/);
    assert.match(page, /p50; p95/);
    assert.match(page, /admin\.high<\/td><td class="number">1</);
    assert.match(page, /tokyo-1.*tokyo-2/s);
    assert.match(page, /href="\/jobs\/poor".*50 %.*href="\/jobs\/good".*100 %/s);
    const plots = async (range: string) => await (await browser.get(`/overview/plots?range=${range}`)).json();
    for (const [range, { seconds, step_seconds }] of Object.entries(RANGES)) {
      const figures = await plots(range);
      assert(Math.abs(figures.at.length - seconds / step_seconds) <= 2, range);
      for (const line of Object.values(figures) as unknown[][]) assert.equal(line.length, figures.at.length);
    }
    assert.equal((await plots("nonsense")).at.length, (await plots("1h")).at.length);
    const table = await browser.text("/overview?range=24h&table=1");
    assert.match(table, /Ended a minute: succeeded/);
    assert.doesNotMatch(table, /id="plots"/);
  });
});

Deno.test("a step that began a moment ago is shown, without the counts a minute that it cannot know yet", () => {
  const at = new Date("2026-11-22T02:10:00Z");
  const counts = { succeeded: 3, failed: 1, timed_out: 0, canceled: 0, skipped: 0, quarantined: 0, error_rate: 0.25 };
  const ended = { at, ...counts, wait_p50: 1.7, wait_p95: 2.4, run_p50: 3.7, run_p95: 4.8 };
  const after = (seconds: number) => {
    const now = new Date(at.getTime() + seconds * 1_000);
    return stepOf(ended, { now, range: "24h", waiting: 7, use: 0.5 });
  };
  const { succeeded, failed, other, ...told } = after(39);
  assert.deepEqual([succeeded, failed, other], [null, null, null]);
  assert.equal(told.waiting, 7);
  assert.equal(told.wait_p50, 1.7);
  assert.equal(after(300).succeeded, 0.6);
  assert.equal(after(6_000).succeeded, 0.3);
});

Deno.test("alerts are listed with where to look, seen once, and hostile texts in them are texts", async () => {
  await withAdmin(async ({ sql, login }) => {
    const term = await aTerm(sql, "leader");
    const of = await aDefinition(sql, { name: "poor" });
    await end(sql, term, { job_definition_id: of.id, good: 0, bad: 1 });
    await sql`insert into serial_key_pause (serial_key, stopped_by, reason) values (${EVIL}, 'system', ${EVIL})`;
    await aWorker(sql, { node_id: EVIL, worker_id: EVIL });
    await sampleLoad(sql, term);
    await judgeAlerts(sql, term, LIMITS);
    const viewer = await login("viewer");
    const seen_by_viewer = await viewer.text("/overview");
    assert.match(seen_by_viewer, /run failed.*href="\/runs\/1"/s);
    assert.match(seen_by_viewer, /key blocked/);
    assert.doesNotMatch(seen_by_viewer, /<script>|<img|data-opens/);
    assert.match(seen_by_viewer, /&lt;script&gt;/);
    const operator = await login("operator");
    const [, id = ""] = /data-opens="ack-(\d+)"/.exec(await operator.text("/overview")) ?? [];
    assert.equal((await viewer.post(`/overview/${id}/ack`, {})).status, 403);
    assert.equal((await operator.post(`/overview/${id}/ack`, { reason: "on it" })).status, 303);
    assert.match(await viewer.text("/overview"), /seen by user:operator/);
    await operator.post(`/overview/${id}/ack`, {});
    assert.match(await operator.text("/overview"), /The alert is closed or already acknowledged/);
    const acts = await sql`select actor, reason from admin_action_log where action = 'alert.ack'`;
    assert.deepEqual(acts.map((one) => ({ ...one })), [{ actor: "user:operator", reason: "on it" }]);
  });
});
