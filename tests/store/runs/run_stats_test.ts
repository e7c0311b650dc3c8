/** What ended is counted once: whenever it commits, whoever counts, however often and in whatever parts. */
import assert from "node:assert/strict";
import { Maintenance } from "../../../src/leader/maintenance.ts";
import type { LeaderContext } from "../../../src/leader/leader_context.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { depose, type Term } from "../../../src/nodes/leadership.ts";
import {
  readBacklog,
  readBacklogSeries,
  readNodeUse,
  readUseSeries,
  sampleLoad,
} from "../../../src/stats/load_stats.ts";
import {
  BOUNDS,
  quantile,
  readAllTime,
  readJobTotals,
  readSeries,
  readTotal,
  restartCounting,
  rollUp,
  trimRunStats,
} from "../../../src/stats/run_stats.ts";
import { skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { quarantine } from "../../../src/runs/lost_runs.ts";
import { TERMINAL } from "../../../src/runs/run_states.ts";
import { cancelRequested, finishRuns, forceClose, skipLate } from "../../../src/runs/states.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { sourcesIn } from "../../support/source_tree.ts";
import { waitFor } from "../../support/waiting.ts";

/** Runs that ran for `seconds` after they waited for two, and end now, in one transaction. */
async function end(sql: Sql, n: number, on: { job_definition_id: number; seconds?: number; outcome?: string }) {
  const { job_definition_id, seconds = 1, outcome = "SUCCEEDED" } = on;
  await sql`
    with made as (
      insert into job_run (job_definition_id, source, state, assigned_worker_id, leader_epoch, fence, start_token, due_at, started_at)
      select ${job_definition_id}, 'enqueue', 'RUNNING', 'w', 1, 1, 'token', clock_timestamp() - ${
    seconds + 2
  } * interval '1 s',
             clock_timestamp() - ${seconds} * interval '1 s' from generate_series(1, ${n}::int) returning id)
    select count(*) from made`;
  const runs = await sql<{ id: number }[]>`
    select id from job_run where job_definition_id = ${job_definition_id} and state = 'RUNNING' order by id`;
  await finishRuns(sql, "w", runs.map(({ id }) => ending(id, outcome)));
}

function ending(job_run_id: number, outcome = "SUCCEEDED") {
  return {
    job_run_id,
    attempt: 1,
    start_token: "token",
    outcome: outcome as "SUCCEEDED",
    exit_code: null,
    error_name: null,
    error_summary: null,
    result: null,
    retry_max: 0,
    retry_after_ms: 0,
    other_node: false,
  };
}

async function countAll(sql: Sql, term: Term, most?: number): Promise<number> {
  let counted = 0;
  for (;;) {
    const share = await rollUp(sql, term, most);
    counted += share?.counted ?? 0;
    if (!share?.more) return counted;
  }
}

/** Of all time, each grain must say the same. */
async function counted(sql: Sql): Promise<number> {
  const rows = await sql<{ n: number }[]>`
    select sum(succeeded + failed + timed_out + canceled + skipped)::int as n from run_stat
     group by grain_seconds, job_definition_id = 0 order by 1`;
  const numbers = new Set(rows.map(({ n }) => n));
  assert(numbers.size <= 1, `the grains differ: ${[...numbers]}`);
  return [...numbers][0] ?? 0;
}

Deno.test("runs are counted by outcome, with how long they waited and ran, for their job and for all", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const fine = await aDefinition(sql);
    const bad = await aDefinition(sql);
    await end(sql, 90, { job_definition_id: fine.id, seconds: 12 });
    await end(sql, 10, { job_definition_id: bad.id, seconds: 100, outcome: "FAILED" });
    assert.equal(await countAll(sql, term), 100);
    const total = await readTotal(sql, "1h");
    assert.deepEqual([total.succeeded, total.failed, total.error_rate], [90, 10, 0.1]);
    assert(total.run_p50 !== null && total.run_p50 > 10 && total.run_p50 <= 30, `p50 ${total.run_p50}`);
    assert(total.run_p95 !== null && total.run_p95 > 60 && total.run_p95 <= 300, `p95 ${total.run_p95}`);
    assert(total.wait_p50 !== null && total.wait_p50 > 1 && total.wait_p50 <= 2.5, `wait ${total.wait_p50}`);
    const jobs = await readJobTotals(sql, "24h");
    assert.deepEqual(jobs.map((one) => [one.job_name, one.failed, one.error_rate]), [[bad.name, 10, 1], [
      fine.name,
      0,
      0,
    ]]);
    for (const range of ["1h", "24h", "7d"] as const) {
      const steps = await readSeries(sql, range);
      assert.equal(steps.reduce((sum, one) => sum + one.succeeded, 0), 90, range);
      assert(steps.length >= 60 && steps.length <= 170, `${range}: ${steps.length} steps`);
    }
    const [first] = await readAllTime(sql);
    const all_seconds = first?.run_seconds ?? 0;
    assert(all_seconds >= 90 * 12 && all_seconds < 90 * 30, `90 x 12 s are ${all_seconds}`);
    const [row] = await sql`select last_failed_at > clock_timestamp() - interval '1 minute' as recent, last_failed_run
      from run_stat where grain_seconds = 0 and job_definition_id = ${bad.id}`;
    assert.equal(row?.recent, true);
    assert((row?.last_failed_run ?? 0) > 0);
  });
});

Deno.test("a run whose transaction commits late is counted when it does, and once", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    await end(sql, 5, { job_definition_id });
    const { id } = await aRun(sql, {
      job_definition_id,
      state: "RUNNING",
      assigned_worker_id: "w",
      start_token: "token",
    });
    const { id: other } = await aRun(sql, {
      job_definition_id,
      state: "RUNNING",
      assigned_worker_id: "w",
      start_token: "token",
    });
    await sql.begin(async (late) => {
      await finishRuns(late, "w", [ending(id)]);
      assert.equal(await countAll(sql, term), 5);
      await end(sql, 3, { job_definition_id: (await aDefinition(sql)).id }); // younger transactions that end before it
      assert.equal(await countAll(sql, term, 2), 3);
      assert.equal(await countAll(sql, term), 0);
      await late`update job_run set finished_at = finished_at - interval '2 minutes' where id = ${id}`; // its clock went back
    });
    await finishRuns(sql, "w", [ending(other)]);
    assert.equal(await countAll(sql, term, 1), 2);
    assert.equal(await countAll(sql, term), 0);
    assert.equal(await counted(sql), 10);
  });
});

Deno.test("a share that is counted in parts ends with what was there when it began, and loses nothing that comes between", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    const { id } = await aRun(sql, {
      job_definition_id,
      state: "RUNNING",
      assigned_worker_id: "w",
      start_token: "token",
    });
    await sql.begin(async (late) => {
      await finishRuns(late, "w", [ending(id)]);
      for (let i = 0; i < 4; i++) await end(sql, 5, { job_definition_id: (await aDefinition(sql)).id });
      assert.deepEqual(await rollUp(sql, term, 7), { counted: 7, more: true });
      await end(sql, 5, { job_definition_id: (await aDefinition(sql)).id });
    });
    assert.deepEqual(await rollUp(sql, term, 100), { counted: 13, more: true });
    assert.deepEqual(await rollUp(sql, term, 100), { counted: 6, more: false });
    assert.equal(await countAll(sql, term, 7), 0);
    assert.equal(await counted(sql), 26);
  });
});

Deno.test("leaders that die between, count at once or come late count each run once", async () => {
  await withStores(async ({ sql }) => {
    let term = await aTerm(sql);
    const jobs = await Promise.all([1, 2, 3].map(() => aDefinition(sql)));
    let ending_runs = true;
    const load = Promise.all(jobs.map(async ({ id }) => {
      for (let i = 0; i < 25; i++) {
        await end(sql, 8, { job_definition_id: id, outcome: i % 3 === 0 ? "FAILED" : "SUCCEEDED" });
      }
    })).finally(() => ending_runs = false);
    for (let i = 0; ending_runs; i++) {
      const old = term;
      const tries = [rollUp(sql, old, 30), rollUp(sql, old, 30), rollUp(sql, old, 30)];
      const next = await depose(sql, { worker_id: `w${i}`, lease_ms: 60_000, epoch: old.epoch, epoch_hint: 0 });
      if (next) term = next;
      await Promise.all([...tries, rollUp(sql, term, 30), rollUp(sql, old, 30)]);
    }
    await load;
    // A leader that dies before its statement commits has counted nothing.
    await sql.begin(async (tx) => {
      await rollUp(tx, term, 30);
      throw new Error("killed");
    }).catch((error) => assert.equal(error.message, "killed"));
    await countAll(sql, term);
    assert.equal(await counted(sql), 600);
    const [row] = await sql`select succeeded, failed from run_stat where grain_seconds = 0 and job_definition_id = 0`;
    assert.deepEqual({ ...row }, { succeeded: 384, failed: 216 });
  });
});

Deno.test("whatever ends a run says which transaction it was, so that it is counted", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const long_ago = new Date(Date.UTC(2026, 0, 1));
    const forbidding = await aDefinition(sql, { concurrency_policy: "forbid" });
    const slot = { job_definition_id: forbidding.id, serial_key: "k", source: "schedule" };
    await aRun(sql, slot);
    await aRun(sql, slot);
    await skipForbidden(sql, term);
    await aRun(sql, { source: "schedule", due_at: long_ago });
    await skipLate(sql, term, 60);
    await requestCancel(sql, (await aRun(sql)).id, { actor: "test", reason: "test" });
    await cancelRequested(sql, term);
    await aRun(sql, { state: "ORPHANED", interruptions: 99 });
    await quarantine(sql, term);
    await forceClose(sql, (await aRun(sql)).id, { actor: "test", reason: "test" });
    await end(sql, 1, { job_definition_id: (await aDefinition(sql)).id, outcome: "TIMED_OUT" });
    const rows = await sql<{ state: string; ended_xid: string | null }[]>`
      select state, ended_xid::text from job_run where finished_at is not null order by state`;
    assert.deepEqual(rows.map(({ state }) => state), [
      "CANCELED",
      "FAILED",
      "FAILED",
      "SKIPPED",
      "SKIPPED",
      "TIMED_OUT",
    ]);
    assert.deepEqual(rows.filter(({ ended_xid }) => ended_xid === null), []);
    assert.equal(await countAll(sql, term), 6);
    const { skipped, canceled, failed, timed_out, quarantined } = await readTotal(sql, "1h");
    assert.deepEqual([skipped, canceled, failed, timed_out, quarantined], [2, 1, 2, 1, 1]);
  });
  const silent = sourcesIn("src").flatMap(({ path, text }) =>
    [...text.matchAll(/update job_run[^`]*finished_at = (?![^`]*ended_xid)/g)].map(() => path)
  );
  assert.deepEqual(silent, [], `sets finished_at without ended_xid; terminal states are ${TERMINAL}`);
});

Deno.test("after a restore into a cluster with lower numbers counting begins anew, and not with what ended before", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    await end(sql, 3, { job_definition_id });
    assert.equal(await restartCounting(sql, term), false);
    await sql`update run_stat_mark set counted = '9000000000:9000000000:'`;
    await sql`update job_run set ended_xid = '9000000001'`;
    assert.equal(await countAll(sql, term), 0);
    assert.equal(await restartCounting(sql, term), true);
    await end(sql, 2, { job_definition_id });
    assert.equal(await countAll(sql, term), 2);
    assert.equal(await restartCounting(sql, term), false);
  });
});

Deno.test("what is old is deleted by its grain, and the sums of all time stay", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    await end(sql, 4, { job_definition_id });
    await countAll(sql, term);
    await sql`update run_stat set at = at - interval '10 days' where grain_seconds > 0`;
    while (await trimRunStats(sql, term, { minute_days: 8, hour_days: 400 }, 1));
    const left = await sql<{ grain_seconds: number }[]>`select distinct grain_seconds from run_stat order by 1`;
    assert.deepEqual(left.map((row) => row.grain_seconds), [0, 3600]);
    assert.equal((await readAllTime(sql))[0]?.succeeded, 4);
  });
});

Deno.test("what is too old and more than one statement deletes is gone after a few rounds, and not one part in ten minutes", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql);
    await sql`
      insert into run_stat (grain_seconds, at, job_definition_id, wait_seconds, run_seconds, waits, runs)
      select 60, now() - interval '20 days' - n * interval '1 min', ${id}, 0, 0, '{}', '{}' from generate_series(1, 12000) n`;
    const rounds = async () => (await sql<{ version: number }[]>`select version from run_stat_mark`)[0]?.version ?? 0;
    const first = await rounds();
    const house = new Maintenance();
    const me = { sql, term, settings: { ...DEFAULT_SETTINGS, stat_interval_seconds: 0.001 } } as LeaderContext;
    await waitFor("five rounds", async () => {
      house.keep(me);
      return await rounds() >= first + 5 || undefined;
    });
    assert.equal((await sql`select from run_stat where grain_seconds = 60`).length, 0);
  });
});

Deno.test("a quantile lies in its bucket, and one beyond all bounds is the last bound", () => {
  const histogram = (place: number, count: number) => BOUNDS.map((_, here) => here === place ? count : 0).concat(0);
  assert.equal(quantile([], 0.5), null);
  assert.equal(quantile(histogram(7, 10), 0.5), 1.75); // between 1 and 2.5
  assert.equal(quantile(histogram(0, 2), 1), 0.01);
  assert.equal(quantile([...BOUNDS.map(() => 0), 3], 0.95), 86_400);
});

Deno.test("counting what waits keeps no renewal of the term waiting", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const held = await sql.reserve();
    await held`begin`;
    await held`select from leader_term for update`; // whoever asks for the term's lock waits, as a renewal would for who has it
    const sampled = sampleLoad(sql, term);
    const waits = async () => {
      const [row] = await sql<{ query: string }[]>`
        select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return row?.query;
    };
    const query = await waitFor("the sample to ask for the term's lock", waits);
    await held`commit`;
    held.release();
    await sampled;
    assert(!query.includes("job_run"), "what is counted while the lock is held: " + query);
    assert.equal((await readBacklog(sql)).length, 9);
  }));

Deno.test("what waits is seen by priority with its age, held or not, and what nodes do", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const due_at = new Date(Date.now() - 120_000);
    await aRun(sql, { priority: 121, due_at });
    await aRun(sql, { priority: 120, held: true, serial_key: "k" });
    await aRun(sql, { priority: 999 });
    await aRun(sql, {
      due_at: new Date(Date.now() + 3_600_000),
      held: true,
      wakes_at: new Date(Date.now() + 3_600_000),
    });
    await aRun(sql, { state: "SUCCEEDED" });
    const { worker_id } = await aWorker(sql, { node_id: "one", slots: 4 });
    await aWorker(sql, { node_id: "one", slots: 4 });
    await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    await sampleLoad(sql, term);
    const waiting = (await readBacklog(sql)).filter((one) => one.waiting > 0);
    assert.deepEqual(waiting.map((one) => [one.priority, one.waiting]), [["admin.high", 2], ["system.low", 1]]);
    assert(Math.abs((waiting[0]?.oldest_seconds ?? 0) - 120) < 30);
    assert.deepEqual((await readNodeUse(sql)).map(({ node_id, running, slots }) => [node_id, running, slots]), [[
      "one",
      1,
      8,
    ]]);
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), held = false where state = 'PENDING' and wakes_at is null`;
    await sampleLoad(sql, term);
    assert.deepEqual((await readBacklog(sql)).filter((one) => one.waiting > 0), []);
    for (const range of ["1h", "24h", "7d"] as const) { // whichever minute it is, of which a week reads every fifth
      const seen = (await readBacklogSeries(sql, range)).filter((one) => (one.most ?? 0) > 0);
      assert.equal(seen.length, 1, range);
    }
    const [most] = (await readBacklogSeries(sql, "1h")).filter((one) => (one.most ?? 0) > 0);
    assert.equal(most?.most, 3);
    assert(((await readUseSeries(sql, "1h")).find((one) => one.use !== null)?.use ?? 0) > 0);
    await sql`delete from load_stat`;
    await sql`
      insert into load_stat (kind, at, subject, sampled_at, samples, used_now, used_sum, used_max, capacity_now, capacity_sum)
      select kind, date_bin('1 minute', now(), 'epoch') - m * interval '1 minute', s::text, now(), 2, 3, 6, 4, 12, 24
        from generate_series(0, 20160, 1) m, generate_series(1, 2) s, unnest(array['queue', 'node']) kind`;
    for (const range of ["1h", "24h", "7d"] as const) {
      const [waits, uses] = await Promise.all([readBacklogSeries(sql, range), readUseSeries(sql, range)]);
      // The last step may have just begun.
      assert.deepEqual(new Set(waits.slice(0, -1).map((one) => `${one.waiting} ${one.most}`)), new Set(["6 8"]), range);
      assert.deepEqual(new Set(uses.slice(0, -1).map((one) => one.use)), new Set([0.25]), range);
    }
  });
});
