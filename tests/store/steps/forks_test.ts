/** Forks: a new run has the rows before a step, and nothing of the old one changes. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { type Fork, forkRun } from "../../../src/steps/forks.ts";
import { readJournals } from "../../../src/steps/run_steps.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { anOwnedRun, aWrite, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

const by = { actor: "alice", reason: "charge again" };

/** reserve, a call, a failed charge; open: a wait. It has failed. */
async function aFailedRun(sql: Sql, columns: Record<string, unknown> = {}): Promise<number> {
  const args_schema = { type: "object", properties: { order: { type: "number" } }, required: ["order"] };
  const { id: job_definition_id } = await aDefinition(sql, { name: "order", args_schema });
  const child = await aRun(sql, { job_definition_id, state: "SUCCEEDED", result: { pages: 3 } });
  const run = await anOwnedRun(sql, { job_definition_id, args_json: { order: 7 }, priority: 77, ...columns });
  await write(
    sql,
    aWrite(run, "step:reserve", { seq: 1, result: { stock: 1 }, has_undo: true }),
    aWrite(run, "call:render", { seq: 2, child_run_id: child.id }),
    aWrite(run, "step:check", { seq: 3, state: "FAILED", error_name: "Fraud", error_summary: "no" }),
    aWrite(run, "[2]step:check", { seq: 4, result: 2 }),
    aWrite(run, "step:charge", { seq: 5, state: "FAILED", error_name: "Declined", error_summary: "no money" }),
    aWrite(run, "message:go", { waits_for: "go" }),
  );
  await sql`update job_run set state = 'FAILED', finished_at = clock_timestamp() where id = ${run.id}`;
  return run.id;
}

async function fork(sql: Sql, wish: Omit<Fork, "by">): Promise<number> {
  const forked = await forkRun(sql, { ...wish, by });
  return "id" in forked ? forked.id : assert.fail(forked.refused);
}

async function refusal(sql: Sql, wish: Omit<Fork, "by">): Promise<string> {
  const forked = await forkRun(sql, { ...wish, by });
  return "refused" in forked ? forked.refused : assert.fail(`it was forked: ${forked.id}`);
}

Deno.test("a fork has the rows before its step with their results, also when the called run is gone", async () => {
  await withStores(async ({ sql }) => {
    const old = await aFailedRun(sql, { serial_key: "own key", node: "here" });
    const before = await sql`select * from run_step where job_run_id = ${old} order by key`;
    const id = await fork(sql, { job_run_id: old, from: "charge" });
    await sql`delete from job_run where result is not null`;
    const [run] = await sql`
      select r.state, r.attempt, r.args_json, r.priority, r.rerun_of, r.serial_key, r.node, d.name from job_run r
        join job_definition d on d.id = r.job_definition_id where r.id = ${id}`;
    assert.deepEqual(run, {
      ...{ state: "PENDING", attempt: 1, args_json: { order: 7 }, priority: 77, rerun_of: old },
      ...{ serial_key: "own key", node: "here", name: "order" },
    });
    const { rows, open } = (await readJournals(sql, [id])).get(id)!;
    assert.deepEqual(rows.map(({ key, state, seq, result, error_name }) => [key, state, seq, result, error_name]), [
      ["step:reserve", "DONE", 1, { stock: 1 }, null],
      ["call:render", "DONE", 2, { pages: 3 }, null],
      ["step:check", "FAILED", 3, null, "Fraud"],
      ["[2]step:check", "DONE", 4, 2, null],
    ]);
    assert.deepEqual(open, []);
    assert.deepEqual([...await sql`select * from run_step where job_run_id = ${old} order by key`], [...before]);
    const acts = await sql`select actor, action, target_id, after_json, reason from admin_action_log`;
    assert.deepEqual([...acts], [{
      ...{ actor: "alice", action: "run.fork", target_id: String(old), reason: "charge again" },
      after_json: { fork: id, from: "charge", set: [] },
    }]);
  });
});

Deno.test("a fork can have other args and other results, and can begin after all that was given", async () => {
  await withStores(async ({ sql }) => {
    const old = await aFailedRun(sql);
    const set = { "step:check": { ok: true }, reserve: null };
    const id = await fork(sql, { job_run_id: old, from: "step:charge", set, args: { order: 8 } });
    assert.deepEqual((await sql`select args_json from job_run where id = ${id}`)[0]?.args_json, { order: 8 });
    const { rows } = (await readJournals(sql, [id])).get(id)!;
    assert.deepEqual(rows.map(({ state, result, error_name }) => [state, result, error_name]).slice(0, 3), [
      ["DONE", null, null],
      ["DONE", { pages: 3 }, null],
      ["DONE", { ok: true }, null],
    ]);
    const whole = await fork(sql, { job_run_id: old });
    assert.equal((await readJournals(sql, [whole])).get(whole)?.rows.length, 5);
    const from_wait = await fork(sql, { job_run_id: old, from: "message:go" });
    assert.equal((await readJournals(sql, [from_wait])).get(from_wait)?.rows.length, 5);
  });
});

Deno.test("what cannot be forked is refused, names what there is, and leaves nothing", async () => {
  await withStores(async ({ sql }) => {
    const old = await aFailedRun(sql);
    const runs = await sql`select from job_run`;
    const refused = (wish: Partial<Fork>) => refusal(sql, { job_run_id: old, ...wish });
    assert.equal(
      await refused({ from: "chrage" }),
      `Cannot fork run ${old} from "chrage": it has no step "chrage"; its steps are step:reserve, call:render, step:check, [2]step:check, step:charge, message:go`,
    );
    assert.match(
      await refused({ from: "check" }),
      /: "check" is the name of step:check, \[2\]step:check; give one of these$/,
    );
    assert.match(await refused({ from: "charge", set: { charge: 1 } }), /: step:charge is not before that/);
    assert.match(await refused({ from: "charge", set: { pay: 1 } }), /: it has no step "pay"; its steps are /);
    assert.match(await refused({ from: "charge", args: { order: "x" } }), /: the args do not fit: order: /);
    assert.equal(await refusal(sql, { job_run_id: 4711 }), "Cannot fork run 4711: there is no such run");
    const going = await anOwnedRun(sql);
    assert.match(
      await refusal(sql, { job_run_id: going.id }),
      /: it is RUNNING; cancel it first, or wait for its end$/,
    );
    const bare = await aRun(sql, { state: "FAILED" });
    assert.match(await refusal(sql, { job_run_id: bare.id, from: "x" }), /: it has no steps; run it again as a whole$/);
    await sql`
      insert into run_step (job_run_id, key, kind, state, seq, ended_at, attempt, code_digest)
      values (${old}, 'undo:reserve', 'undo', 'DONE', 6, clock_timestamp(), 1, 'c0de')`;
    assert.match(
      await refused({ from: "charge" }),
      /: step:reserve before that has been undone; fork from "step:reserve"$/,
    );
    assert.equal((await readJournals(sql, [await fork(sql, { job_run_id: old, from: "reserve" })])).size, 1);
    await sql`update job_definition set enabled = false, removed_at = clock_timestamp() where name = 'order'`;
    assert.match(await refused({ from: "reserve" }), /: its job order takes no runs any more$/);
    assert.equal((await sql`select from job_run`).length, runs.length + 3, "two for these tests, and the one fork");
    assert.equal((await sql`select from admin_action_log`).length, 1);
  });
});
