/** What statements of journals read is as much as they are asked for, whatever Postgres believes of the tables. */
import assert from "node:assert/strict";
import { connectDb, type Db, type Sql } from "../../../src/postgres/connection.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { commitSteps, listSteps, readJournals } from "../../../src/steps/run_steps.ts";
import { sendMessage } from "../../../src/steps/run_messages.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { anOwnedRun, aWrite } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

/** What the tables held when they were last analyzed. */
const ANALYZED_WITH = [0, 1, 3_000] as const;
const RUNS = 10;

/** Ended runs; each tenth has steps and an open wait. */
async function fill(sql: Sql, job_definition_id: number, runs: number): Promise<void> {
  await sql`
    insert into job_run (job_definition_id, source, state, finished_at)
    select ${job_definition_id}, 'enqueue', 'SUCCEEDED', clock_timestamp() from generate_series(1, ${runs}::int)`;
  await sql`
    insert into run_step (job_run_id, key, kind, state, seq, ended_at, attempt, code_digest)
    select id, 'step:#' || n, 'step', 'DONE', n, clock_timestamp(), 1, 'c0de' from job_run, generate_series(1, 30) n where id % 10 = 0
    on conflict do nothing`;
  await sql`
    insert into run_step (job_run_id, key, kind, state, attempt, code_digest, waits_for)
    select id, 'message:go', 'message', 'WAITING', 1, 'c0de', 'go' from job_run where id % 10 = 0
    on conflict do nothing`;
  await sql`insert into run_message (job_run_id, name, sent_by, taken_by) select id, 'go', 'alice', 'message:go' from job_run`;
  await sql`
    insert into event (event_type, processed_at, created_at)
    select 'paid', clock_timestamp(), clock_timestamp() - interval '1 h' from generate_series(1, ${runs}::int)`;
  await sql`truncate wake_check`;
}

Deno.test("what is read of steps, runs, messages and events is as much as is asked for", async () => {
  await withStores(async ({ sql: setup, database_url }) => {
    const term = await aTerm(setup);
    const { id } = await aDefinition(setup, { messages: { go: {} } });
    for (const analyzed_with of ANALYZED_WITH) {
      await setup`truncate job_run, run_step, run_message, event, wake_check restart identity cascade`;
      await fill(setup, id, analyzed_with);
      await setup`analyze`;
      await fill(setup, id, 3_000);
      const runs = await Promise.all(Array.from({ length: RUNS }, () => anOwnedRun(setup, { job_definition_id: id })));
      const ids = runs.map(({ job_run_id }) => job_run_id);
      const [first] = ids as [number];
      await emitEvent(setup, { event_type: "paid", payload: { n: 1 } });
      const statements: Record<string, (tx: Db) => Promise<unknown>> = {
        commitSteps: (tx) =>
          commitSteps(tx, "w-of-nobody", runs.map((run) => aWrite(run, "event:paid", { waits_for: "paid" }))),
        readJournals: (tx) => readJournals(tx, ids),
        findArrivals: (tx) => findArrivals(tx, ids),
        listSteps: (tx) => listSteps(tx, first),
        sendMessage: (tx) => sendMessage(tx, { job_run_id: first, name: "go", payload: 1, sent_by: "alice" }),
        takeEvents: (tx) => takeEvents(tx, term),
        suspendRuns: (tx) =>
          suspendRuns(tx, "w-of-nobody", runs.map((run) => ({ ...run, wakes: 0, wakes_in_ms: null }))),
        applyWakeChecks: (tx) => applyWakeChecks(tx, term),
      };
      for (const [name, statement] of Object.entries(statements)) {
        const sql = connectDb(database_url, { name: "plans", max: 1, steady: true }); // its counts begin at 0
        const read = await sql.begin(async (tx) => {
          await statement(tx);
          return await tx<{ relation: string; rows: number }[]>`
            select relname as relation, pg_stat_get_xact_tuples_returned(oid)::int as rows from pg_class
             where relkind in ('r', 'i') and relnamespace = current_schema()::regnamespace and pg_stat_get_xact_tuples_returned(oid) > 500`;
        });
        await sql.end({ timeout: 2 });
        assert.deepEqual([...read], [], `${name}, analyzed with ${analyzed_with} runs`);
      }
    }
  });
});
