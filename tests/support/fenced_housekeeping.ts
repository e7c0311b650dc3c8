/** For tests/store/cluster/fencing_test.ts: what a leader does beside its ticks, each with rows that it would change. */
import { judgeAlerts, trimAlerts } from "../../src/alerts/alerts.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import type { Term } from "../../src/nodes/leadership.ts";
import { sampleLoad, trimLoadStats } from "../../src/stats/load_stats.ts";
import { moveLines } from "../../src/runs/retention/log_retention.ts";
import {
  deleteBulk,
  deleteItems,
  deleteLines,
  deleteOldEvents,
  deleteRuns,
} from "../../src/runs/retention/run_retention.ts";
import { restartCounting, rollUp, trimRunStats } from "../../src/stats/run_stats.ts";
import { aDefinition, aRun } from "./factories.ts";

/** Makes rows that the statement would change, and gives the call. */
export type Scene = (sql: Sql) => Promise<(term: Term) => Promise<unknown>>;

export const LONG_AGO = new Date(Date.UTC(2026, 0, 1));

export const OF_HOUSEKEEPING: Record<string, Scene> = {
  rollUp: async (sql) => {
    await countedFrom(sql, "pg_current_snapshot()");
    return (term) => rollUp(sql, term);
  },
  restartCounting: async (sql) => {
    await countedFrom(sql, "'9000000000:9000000000:'");
    return (term) => restartCounting(sql, term);
  },
  trimRunStats: async (sql) => {
    await sql`insert into run_stat (grain_seconds, at, job_definition_id, waits, runs) values (60, ${LONG_AGO}, 0, '{}', '{}')`;
    return (term) => trimRunStats(sql, term, { minute_days: 1, hour_days: 1 });
  },
  sampleLoad: (sql) => Promise.resolve((term) => sampleLoad(sql, term)),
  trimLoadStats: async (sql) => {
    await sql`
      insert into load_stat (kind, at, subject, sampled_at, used_now, used_sum, used_max) values ('queue', ${LONG_AGO}, '120', ${LONG_AGO}, 0, 0, 0)`;
    return (term) => trimLoadStats(sql, term, 1);
  },
  judgeAlerts: async (sql) => {
    await sql`insert into serial_key_pause (serial_key, stopped_by) values ('blocked', 'system')`;
    const limits = {
      overdue_seconds: 60,
      no_code_seconds: 60,
      leader_runs: true,
      no_leader_seconds: 60,
      certificate_days: 1,
      clock_skew_seconds: 1,
    };
    return (term) => judgeAlerts(sql, term, limits);
  },
  trimAlerts: async (sql) => {
    await sql`insert into alert (kind, subject, message, opened_by, closed_at) values ('key.blocked', 'old', '', 'test', ${LONG_AGO})`;
    return (term) => trimAlerts(sql, term, 1);
  },
  moveLines: async (sql) => {
    const { id } = await aRun(sql, { state: "SUCCEEDED" });
    const [line] = await sql<{ id: number }[]>`
      insert into job_run_log (job_run_id, attempt, level, message) values (${id}, 1, 'info', 'old') returning id`;
    const line_id = line?.id ?? 0;
    const moved = { job_run_id: id, was: null, log_ref: "elsewhere", first_id: line_id, last_id: line_id, lines: 1 };
    return (term) => moveLines(sql, term, [moved]);
  },
  deleteRuns: async (sql) => {
    const { id } = await endedTwice(sql);
    return (term) => deleteRuns(sql, term, { job_run_ids: [id], days: 30 });
  },
  deleteLines: async (sql) => {
    const { id } = await endedTwice(sql);
    await sql`insert into job_run_log (job_run_id, attempt, level, message) values (${id}, 1, 'info', 'old')`;
    return (term) => deleteLines(sql, term, { job_run_id: id, days: 30 });
  },
  deleteItems: async (sql) => {
    const bulk_id = await aBulk(sql, { items: 2, state: "FINISHED" });
    return (term) => deleteItems(sql, term, { bulk_id, seq: 1, days: 30 });
  },
  deleteBulk: async (sql) => {
    const bulk_id = await aBulk(sql, { state: "FINISHED" });
    return (term) => deleteBulk(sql, term, { bulk_id, days: 30 });
  },
  deleteOldEvents: async (sql) => {
    await sql`insert into event (event_type, created_at, processed_at) values ('old', ${LONG_AGO}, ${LONG_AGO})`;
    return (term) => deleteOldEvents(sql, term, { after: 0, days: 30 });
  },
};

/** The first of two runs of a job: the last one is kept. */
async function endedTwice(sql: Sql) {
  const { id: job_definition_id } = await aDefinition(sql);
  const first = await aRun(sql, { job_definition_id, state: "SUCCEEDED", scheduled_for: LONG_AGO });
  await aRun(sql, { job_definition_id, state: "SUCCEEDED" });
  return first;
}

export async function countedFrom(sql: Sql, snapshot: string): Promise<void> {
  await sql`update run_stat_mark set counted = ${sql.unsafe(snapshot)}`;
}

export async function aBulk(
  sql: Sql,
  { items = 0, max_failures, state = "RUNNING" }: { items?: number; max_failures?: number; state?: string } = {},
): Promise<number> {
  const { id } = await aDefinition(sql);
  const [bulk] = await sql<{ id: number }[]>`
    insert into bulk (job_definition_id, state, max_failures, finished_at)
    values (${id}, ${state}, ${max_failures ?? null}, ${state === "FINISHED" ? LONG_AGO : null}) returning id`;
  const bulk_id = bulk?.id ?? 0;
  await sql`insert into bulk_item (bulk_id, seq) select ${bulk_id}, n from generate_series(1, ${items}::int) n`;
  return bulk_id;
}
