/**
 * Each index of `job_run` is written by the steps of runs, so each is named here with the statements that need it. They are run as they are,
 * over 30,000 runs, and Postgres tells which indexes it read; an index that enforces a rule is tried with what it refuses.
 */
import assert from "node:assert/strict";
import { letGo, readBulks } from "../../../src/bulks/bulk_dispatch.ts";
import { forecastBulk } from "../../../src/bulks/bulk_view.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { candidates, readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { countOpen, readQueue } from "../../../src/dispatch/pauses.ts";
import { emitEvent, listEvents, takeEvents } from "../../../src/events/events.ts";
import { followEnds } from "../../../src/events/followers.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { connectDb, isUniqueViolation, type Sql } from "../../../src/postgres/connection.ts";
import { checkLines, wake } from "../../../src/runs/key_queues.ts";
import { cancelsToDeliver, followPriority } from "../../../src/runs/requests.ts";
import { searchRuns } from "../../../src/runs/run_search.ts";
import { listRunsOf, readReruns, readRun } from "../../../src/runs/run_view.ts";
import { listJobs } from "../../../src/runs/job_view.ts";
import { orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { endPastDeadline, skipLate } from "../../../src/runs/states.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { readSlotRuns } from "../../../src/schedules/slot_view.ts";
import { sampleLoad } from "../../../src/stats/load_stats.ts";
import { rollUp } from "../../../src/stats/run_stats.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

type Statement = (sql: Sql, term: Term) => Promise<unknown>;

const work: Statement = (sql, term) =>
  renewAndReadWork(sql, term, { lease_ms: 60_000, reassign_after_ms: 1_000, late_seconds: 60, ahead_seconds: 1 });
const ended = (filter: Parameters<typeof searchRuns>[1]): Statement => (sql) => searchRuns(sql, filter, { most: 10 });

/** Of each index the statements by their names: every one of them reads it. */
const READ_BY: Record<string, Record<string, Statement>> = {
  job_run_pkey: { readRun: (sql) => readRun(sql, 5) },
  job_run_event_key: {
    takeEvents: async (sql, term) => {
      await emitEvent(sql, { event_type: "changed", payload: { key: "7" } });
      await takeEvents(sql, term);
    },
  },
  job_run_ready: {
    readDispatchSnapshot: (sql) => readDispatchSnapshot(sql),
    candidates: (sql) => candidates(sql, [{ job_definition_id: 1, node: "", most: 5 }] as never),
    readQueue: (sql) => readQueue(sql),
    sampleLoad,
  },
  job_run_held: { followPriority: (sql, term) => followPriority(sql, term) },
  job_run_asleep: { wake: (sql, term) => wake(sql, term, 10), renewAndReadWork: work },
  job_run_slots: { renewAndReadWork: work, skipLate: (sql, term) => skipLate(sql, term, 60, 10) },
  job_run_orphans: { quarantine: (sql, term) => quarantine(sql, term, 10) },
  job_run_live: { orphanLost: (sql, term) => orphanLost(sql, term), readQueue: (sql) => readQueue(sql) },
  job_run_cancel: { renewAndReadWork: work, cancelsToDeliver: (sql) => cancelsToDeliver(sql) },
  job_run_deadline: { renewAndReadWork: work, endPastDeadline: (sql, term) => endPastDeadline(sql, term, 10) },
  job_run_suspended: {
    search: ended({ job_name: "job-3", states: ["SUSPENDED"] }),
    listJobs: (sql) => listJobs(sql, "job-3", 100),
    followPriority: async (sql, term) => {
      await sql`insert into priority_change (job_definition_id, was) values (3, 100)`;
      await followPriority(sql, term);
    },
  },
  job_run_children: {
    applyWakeChecks: async (sql, term) => {
      await sql`insert into wake_check (job_run_id) values (15)`;
      await applyWakeChecks(sql, term);
    },
  },
  job_run_group: {
    followEnds: async (sql, term) => {
      await sql`insert into group_check (group_id, job_definition_id) values (15, 1)`;
      await followEnds(sql, term);
    },
  },
  job_run_keyed: {
    countOpen: (sql) => countOpen(sql, { serial_key: "open 5" }),
    checkLines: async (sql, term) => {
      await sql`insert into key_recheck (line) values ('serial:open 15')`;
      await checkLines(sql, term);
    },
  },
  job_run_limited: {
    checkLines: async (sql, term) => {
      await sql`insert into key_recheck (line) values ('limit:2:a')`;
      await checkLines(sql, term);
    },
  },
  job_run_waiting: { listRunsOf: (sql) => listRunsOf(sql, 1, 10) },
  job_run_past_slots: { listRunsOf: (sql) => listRunsOf(sql, 1, 10) },
  job_run_of_event: { listEvents: (sql) => listEvents(sql, { id: 1, most: 1 }) },
  job_run_reruns: { readReruns: (sql) => readReruns(sql, 5, 10) },
  job_run_in_bulk: { readBulks: (sql) => readBulks(sql, [1]), search: ended({ bulk_id: 1, states: ["FAILED"] }) },
  job_run_bulk_ended: { forecastBulk: (sql) => forecastBulk(sql, 1, 10) },
  job_run_ended: { rollUp: (sql, term) => rollUp(sql, term, 100) },
  job_run_past: { search: ended({ job_name: "job-3", states: ["FAILED"] }) },
  job_run_keyed_past: { search: ended({ serial_key: "key 3", states: ["SUCCEEDED"] }) },
  job_run_errors: { search: ended({ error_name: "Error 3" }) },
  job_run_of_schedule: {
    readSlotRuns: (sql) => readSlotRuns(sql, [1], { from: new Date(0), until: new Date() }),
  },
  job_run_behind: { readQueue: (sql) => readQueue(sql), sampleLoad },
  job_run_bulk_held: { letGo: (sql, term) => letGo(sql, term, 1, 10) },
};

/** What is refused by it. */
const ENFORCED: Record<string, Statement> = {
  job_run_idempotency: (sql) => aRun(sql, { job_definition_id: 1, idempotency_key: "key of 5" }),
  job_run_serial: (sql) => aRun(sql, { job_definition_id: 1, state: "ORPHANED", serial_key: "open 5" }),
};

/** 20,000 that have ended, and 10,000 of all kinds that have not. */
async function fill(sql: Sql): Promise<void> {
  const { worker_id } = await aWorker(sql);
  for (let number = 1; number <= 20; number++) await aDefinition(sql, { name: `job-${number}` });
  await sql`update job_definition set event_types = '{changed}', event_rules = '{"changed": {"throttle_seconds": 1, "key": "{key}"}}' where id = 4`;
  await sql`update job_definition set concurrency_limit = 1, concurrency_key = '{a}' where id = 2`;
  await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value) values (1, 's', 'daily_at', '02:30')`;
  await sql`insert into event (event_type, processed_at) select 'old', now() from generate_series(1, 100)`;
  await sql`insert into bulk (job_definition_id, started_at, parallel, throttle_above) values (1, now(), 50, 0.5)`;
  await sql`
    insert into job_run (job_definition_id, source, state, finished_at, ended_xid, started_at, scheduled_for, serial_key, error_name,
                         job_schedule_id, event_id, event_key, rerun_of, bulk_id, idempotency_key, created_at)
    select 1 + n % 20, 'enqueue', case n % 10 when 0 then 'FAILED' else 'SUCCEEDED' end, t.at, pg_current_xact_id(), t.at, t.at,
           case n % 4 when 0 then 'key ' || n % 50 end, case n % 10 when 0 then 'Error ' || n % 40 end, case n % 20 when 0 then 1 end,
           case n % 7 when 0 then n % 100 end, case n % 20 when 3 then (n % 40)::text end, case n % 9 when 0 then n / 2 end,
           case n % 5 when 0 then 1 end, 'key of ' || n, t.at
      from generate_series(1, 20000) n cross join lateral (select now() - (20001 - n) * interval '10 s' as at) t`;
  await sql`
    insert into job_run (job_definition_id, source, state, due_at, held, wakes_at, serial_key, limit_key, bulk_id, assigned_worker_id,
                         interruptions, cancel_requested_at)
    select 1 + n % 20, case when k = 2 then 'schedule' else 'enqueue' end,
           case when k = 8 then 'ASSIGNED' when k = 9 then 'ORPHANED' else 'PENDING' end, now() - interval '1 hour', k in (3, 4, 5, 6, 7),
           case when k = 3 then now() + (n - 5000) * interval '1 s' end, case when k = 4 or n = 5 then 'open ' || n % 1000 / 10 * 10 + 5 end,
           case when k = 5 then '2:' || chr(97 + n % 26) end, case when k = 6 then 1 end, case when k = 8 then ${worker_id} end,
           case when k = 9 then 9 else 0 end, case when n % 1000 = 8 then now() end
      from (select n, n / 20 % 10 as k from generate_series(1, 10000) n) kinds`;
  await sql`update job_run set state = 'ORPHANED', held = false where id = (select min(id) from job_run where serial_key = 'open 5')`;
  await sql`
    insert into bulk_item (bulk_id, seq, job_run_id) select 1, row_number() over (order by id), id from job_run where bulk_id = 1`;
  await sql`
    insert into job_run (job_definition_id, source, state, held, wakes_at, deadline_at)
    select 1 + n % 20, 'call', 'SUSPENDED', true, 'infinity', now() + (n - 100) * interval '1 s' from generate_series(1, 2000) n`;
  await sql`update job_run set parent_run_id = id / 10, parent_key = 'call:x', group_id = id / 10, has_children = true where id % 10 = 5`;
  await sql`update job_definition set after_jobs = '{job-1}' where name = 'job-2'`;
  await sql`update worker set lease_until = now() - interval '1 hour'`;
  await sql`insert into priority_change (job_definition_id, was) values (1, 100)`;
  await sql`analyze`;
}

async function scansOf(sql: Sql): Promise<Map<string, number>> {
  await sql`select pg_stat_force_next_flush()`;
  const rows = await sql<{ name: string; scans: number }[]>`
    select indexrelname::text as name, idx_scan as scans from pg_stat_user_indexes where relname = 'job_run'`;
  return new Map(rows.map(({ name, scans }) => [name, scans]));
}

Deno.test("each index of job_run is read by the statements that are named for it, or enforces a rule; there is no other", async () => {
  await withStores(async ({ sql, database_url }) => {
    const filling = connectDb(database_url, { name: "fill", max: 1, statement_timeout_ms: 0 });
    await fill(filling).finally(() => filling.end({ timeout: 2 }));
    const term = await aTerm(sql);
    const own = connectDb(database_url, { name: "leader", max: 1 });
    const unread: string[] = [];
    try {
      for (const [index, statements] of Object.entries(READ_BY)) {
        for (const [name, run] of Object.entries(statements)) {
          const before = (await scansOf(own)).get(index) ?? 0;
          await run(own, term);
          if (((await scansOf(own)).get(index) ?? 0) <= before) unread.push(`${index} by ${name}`);
        }
      }
      for (const [index, run] of Object.entries(ENFORCED)) {
        await assert.rejects(run(own, term), (error) => isUniqueViolation(error, index), index);
      }
      const there = [...(await scansOf(own)).keys()].sort();
      assert.deepEqual(unread, []);
      assert.deepEqual(
        there,
        [...Object.keys(READ_BY), ...Object.keys(ENFORCED)].sort(),
        "an index without a statement that needs it",
      );
    } finally {
      await own.end({ timeout: 2 });
    }
  });
});
