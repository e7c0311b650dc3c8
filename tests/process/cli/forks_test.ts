/** `runs fork`, `runs wake` and `runs tree`, on rows as a worker leaves them. */
import assert from "node:assert/strict";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";
import { withStores } from "../../support/stores.ts";

const LATER = new Date(Date.UTC(2100, 0, 1));

Deno.test("runs fork --from a step makes a run with what came before, another result where it is set, and its id for programs", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const { id } = await aRun(sql, { state: "FAILED" });
    await aStep(sql, id, { key: "step:reserve", seq: 1, result: { stock: 7 } });
    await aStep(sql, id, { key: "step:fraud check", seq: 2, result: { ok: false } });
    await aStep(sql, id, {
      key: "step:charge",
      seq: 3,
      state: "FAILED",
      error_name: "StepFailed",
      error_summary: "no",
    });
    const asked = ["--from", "charge", "--set", 'fraud check={"ok":true}', "--reason", "checked by hand", "--json"];
    const fork = JSON.parse((await cli("runs", "fork", String(id), ...asked)).out);
    assert.deepEqual(fork, { id: fork.id, rerun_of: id, steps: 2 });
    const rows = await sql`select key, seq, result from run_step where job_run_id = ${fork.id} order by seq`;
    assert.deepEqual([...rows], [
      { key: "step:reserve", seq: 1, result: { stock: 7 } },
      { key: "step:fraud check", seq: 2, result: { ok: true } },
    ]);
    const [audit] = await sql`select target_id, reason from admin_action_log where action = 'run.fork'`;
    assert.deepEqual(audit, { target_id: String(id), reason: "checked by hand" });
    const unknown = await cli("runs", "fork", String(id), "--from", "pay");
    assert.notEqual(unknown.code, 0);
    assert.match(unknown.err, /it has no step "pay"; its steps are step:reserve, step:fraud check, step:charge/);
    assert.match((await cli("runs", "fork", String(id), "--set", "charge")).err, /give STEP=JSON/);
  }));

Deno.test("runs wake ends a sleep or a wait for a message now, audited; what waits for another run it does not end", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const child = await aRun(sql);
    const { id } = await aRun(sql, { state: "SUSPENDED", held: true, wakes_at: LATER });
    await aStep(sql, id, { key: "sleep:", until: LATER });
    await aStep(sql, id, { key: "call:render", child_run_id: child.id });
    assert.equal((await cli("runs", "wake", String(id), "--step", "sleep:")).code, 0);
    const [row] = await sql`select until <= clock_timestamp() as over from run_step where key = 'sleep:'`;
    assert.equal(row?.over, true);
    assert.deepEqual([...await sql`select wakes from job_run where id = ${id}`], [{ wakes: 1 }]);
    assert.deepEqual([...await sql`select job_run_id from wake_check`], [{ job_run_id: id }]);
    const call = await cli("runs", "wake", String(id), "--step", "render");
    assert.match(call.err, new RegExp(`it waits for run ${child.id}; cancel that to end it`));
    assert.match((await cli("runs", "wake", String(id), "--step", "mail")).err, /it waits for sleep:, call:render/);
    assert.deepEqual([...await sql`select action from admin_action_log`], [{ action: "run.wake" }]);
  }));

Deno.test("runs tree shows a run with those that it called, from the topmost on, and its group", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const night = await aDefinition(sql, { name: "nightly" });
    const report = await aDefinition(sql, { name: "report", after_jobs: ["nightly"] });
    const root = await aRun(sql, { job_definition_id: night.id, state: "SUCCEEDED" });
    await sql`update job_run set group_id = id`;
    const child = await aRun(sql, { parent_run_id: root.id, parent_key: "call:a", depth: 1, state: "SUCCEEDED" });
    const grandchild = await aRun(sql, { parent_run_id: child.id, depth: 2 });
    const follower = await aRun(sql, { job_definition_id: report.id, group_id: root.id, source: "after" });
    const { out } = await cli("runs", "tree", String(grandchild.id));
    const at = (id: number) => out.indexOf(`run ${id} of`);
    assert(at(root.id) === 0 && at(child.id) > 0 && at(grandchild.id) > at(child.id), out);
    assert.match(out, /call:a/);
    assert.match(out, /started, not awaited/);
    const of_root = JSON.parse((await cli("runs", "tree", String(root.id), "--json")).out);
    assert.deepEqual(of_root.runs.map(({ id }: { id: number }) => id), [root.id, child.id, grandchild.id]);
    assert.deepEqual(of_root.group.map(({ id }: { id: number }) => id), [root.id, follower.id]);
    assert.match((await cli("runs", "tree", String(root.id))).out, /of report {2}PENDING {2}after nightly/);
  }));
