/** The time in which `dev` was stopped is no alert: nothing was meant to run in it. */
import assert from "node:assert/strict";
import { checkLeaderOnce } from "../../../src/cluster/leader_alert.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { judgeAlerts, listAlerts, watchFromNow } from "../../../src/alerts/alerts.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { resign, type Term } from "../../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { LIMITS } from "../../support/alert_limits.ts";
import { withDevFolder } from "../../support/dev_process.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const LONG_AGO = new Date(Date.UTC(2026, 0, 1));
const local = new LocalWorkerState({ worker_id: "w9", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
local.role = "subleader";

/** A slot, a run, a node and a leader, all of them long ago; the leader may have given its lock back. */
async function aStop(sql: Sql): Promise<Term> {
  const term = await aTerm(sql);
  await aRun(sql, { job_definition_id: (await aDefinition(sql, { name: "waits" })).id, due_at: LONG_AGO });
  const { id } = await aDefinition(sql, { name: "nightly" });
  await sql`
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone, last_slot, next_slot)
    values (${id}, 'n', 'cron', '* * * * *', 'UTC', ${LONG_AGO}, ${LONG_AGO})`;
  await aWorker(sql, { node_id: "gone", state: "DEAD", dead_epoch: 1, seen_at: LONG_AGO, lease_ms: -60_000 });
  await sql`update node set status = 'unavailable', checked_at = clock_timestamp() where node_id = 'gone'`;
  return term;
}

async function nobodyLeads(sql: Sql, term: Term): Promise<void> {
  await resign(sql, term);
  await sql`update leader_term set lease_until = ${LONG_AGO}, acquired_at = ${LONG_AGO}, resigned_at = ${LONG_AGO}`;
}

async function open(sql: Sql): Promise<string[]> {
  return (await listAlerts(sql, { open: true })).map(({ kind, subject }) => `${kind} ${subject}`).sort();
}

const ALL = ["node.away gone", "run.overdue nightly", "run.overdue waits"];

Deno.test("what was late, away or without a leader before a start is no alert, and what is so since then is", () =>
  withStores(async ({ sql }) => {
    const term = await aStop(sql);
    await watchFromNow(sql);
    assert.deepEqual([...await judgeAlerts(sql, term, LIMITS)], []);
    await nobodyLeads(sql, term);
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(sql), []);
    await sql`update leader_term set watched_from = clock_timestamp() - interval '10 minutes'`;
    await sql`update worker set seen_at = clock_timestamp() - interval '5 minutes'`;
    await checkLeaderOnce({ sql, local });
    assert.deepEqual(await open(sql), ["leader.none leader", "run.overdue nightly", "run.overdue waits"]);
    await judgeAlerts(sql, await aTerm(sql), LIMITS);
    assert.deepEqual(await open(sql), ALL);
  }));

Deno.test("where another worker is alive a start hides nothing", () =>
  withStores(async ({ sql }) => {
    const term = await aStop(sql);
    await aWorker(sql, { node_id: "here" });
    await watchFromNow(sql);
    await judgeAlerts(sql, term, LIMITS);
    assert.deepEqual(await open(sql), ALL);
  }));

Deno.test("dev says so of itself at each start", () =>
  withDevFolder(async (folder) => {
    const began = async () => {
      const dev = folder.start({ workers: 1 });
      await dev.says(/^ready /);
      const { database_url } = JSON.parse(Deno.readTextFileSync(`${folder.state_dir}/dev.json`));
      const sql = connectDb(database_url, { name: "test", max: 1 });
      const [row] = await sql<
        { watched_from: Date; acquired_at: Date }[]
      >`select watched_from, acquired_at from leader_term`;
      await sql.end({ timeout: 1 });
      dev.kill("SIGINT");
      await dev.ended;
      return row as NonNullable<typeof row>;
    };
    const [first, second] = [await began(), await began()];
    assert(
      first.watched_from < first.acquired_at && first.acquired_at < second.watched_from,
      JSON.stringify([first, second]),
    );
  }));
