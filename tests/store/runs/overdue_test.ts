/** What is overdue: work that may start and does not, and nothing that waits for its time, its next try or its turn. */
import assert from "node:assert/strict";
import { judgeAlerts, listAlerts, watchLeader } from "../../../src/alerts/alerts.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { wake } from "../../../src/runs/key_queues.ts";
import { LIMITS } from "../../support/alert_limits.ts";
import { aDefinition, aRun, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const LONG_AGO = new Date(Date.UTC(2026, 0, 1));

async function judged(sql: Sql, term: Term): Promise<string[]> {
  return (await judgeAlerts(sql, term, LIMITS)).map(({ kind, subject, what }) => `${what} ${kind} ${subject}`);
}

/** An attempt that ended so long ago; `started`: its body had begun. */
async function ended(sql: Sql, run: { id: number; attempt: number }, seconds: number, started: boolean): Promise<void> {
  await sql`
    insert into job_run_attempt (job_run_id, attempt, outcome, started_at, ended_at)
    values (${run.id}, ${run.attempt}, 'LOST', case when ${started} then clock_timestamp() - interval '1 hour' end,
            clock_timestamp() - ${seconds} * interval '1 s')`;
}

Deno.test("what waits for its time, its next try or its turn is not overdue", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    const later = new Date(Date.now() + 3_600_000);
    const asleep = { job_definition_id, held: true, wakes_at: later };
    await aRun(sql, { ...asleep, due_at: later });
    await aRun(sql, { ...asleep, due_at: later, state: "RETRYING", attempt: 2, failures: 1 });
    await aRun(sql, { ...asleep, due_at: LONG_AGO, scheduled_for: LONG_AGO });
    await aRun(sql, { job_definition_id, due_at: LONG_AGO, held: true, serial_key: "k" });
    await aRun(sql, { job_definition_id, due_at: LONG_AGO, state: "ASSIGNED" });
    await aRun(sql, { job_definition_id, due_at: LONG_AGO, state: "RUNNING" });
    assert.deepEqual(await judged(sql, term), []);
    await watchLeader(sql, { worker_id: "w", overdue: true }, LIMITS);
    assert.equal((await listAlerts(sql)).length, 0, "seen from outside");
  }));

Deno.test("a run that was cut short has waited since then, one that was only given back since it was due", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "long" });
    const run = await aRun(sql, { job_definition_id, due_at: LONG_AGO, state: "ORPHANED", attempt: 2 });
    await ended(sql, { ...run, attempt: 1 }, 3_600, true);
    await ended(sql, run, 5, true);
    assert.deepEqual(await judged(sql, term), [], "it ran for an hour, and waits for 5 s");
    await sql`update job_run_attempt set ended_at = ended_at - interval '1 minute'`;
    assert.deepEqual(await judged(sql, term), ["opened run.overdue long"]);

    const other = await aDefinition(sql, { name: "round" });
    const back = await aRun(sql, { job_definition_id: other.id, due_at: LONG_AGO, state: "ORPHANED" });
    await ended(sql, back, 5, false);
    assert.deepEqual(await judged(sql, term), ["opened run.overdue round"], "no worker has begun it since it was due");
  }));

Deno.test("a suspended run is overdue when it was let go long ago, whenever it was due", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "patient" });
    const suspended = { job_definition_id, due_at: LONG_AGO, state: "SUSPENDED" };
    const { id } = await aRun(sql, { ...suspended, held: true, wakes_at: LONG_AGO });
    assert.deepEqual(await judged(sql, term), [], "it waits");
    await wake(sql, term);
    assert.deepEqual(await judged(sql, term), [], "it waited until now");
    await sql`update job_run set woken_at = ${LONG_AGO} where id = ${id}`;
    assert.deepEqual(await judged(sql, term), ["opened run.overdue patient"]);
  }));

Deno.test("an alert of work that does not start stays open while a worker is asked to start it, and closes when it has", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "late" });
    await aRun(sql, { job_definition_id, due_at: LONG_AGO });
    assert.deepEqual(await judged(sql, term), ["opened run.overdue late"]);
    for (const state of ["ASSIGNED", "ORPHANED", "ASSIGNED", "PENDING", "ASSIGNED"]) {
      await sql`update job_run set state = ${state}, assigned_worker_id = 'w'`;
      assert.deepEqual(await judged(sql, term), [], state);
    }
    await sql`
      update job_run set state = 'RUNNING', leader_epoch = 1, start_token = 't', fence = 1, started_at = clock_timestamp()`;
    assert.deepEqual(await judged(sql, term), ["closed run.overdue late"]);
  }));
