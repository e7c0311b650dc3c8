/**
 * What the statistics cost with many runs in the database: counting them, and each question of the overview.
 *
 *   deno run -A bench/stats.ts [--runs 1000000] [--waiting 100000]
 */
import { judgeAlerts, listAlerts } from "../src/alerts/alerts.ts";
import type { Sql } from "../src/postgres/connection.ts";
import { readFigures } from "../src/stats/gauges.ts";
import { acquire, type Term } from "../src/nodes/leadership.ts";
import { readBacklog, readBacklogSeries, readNodeUse, readUseSeries, sampleLoad } from "../src/stats/load_stats.ts";
import { readAllTime, readJobTotals, readSeries, readTotal, rollUp } from "../src/stats/run_stats.ts";
import { finishRuns } from "../src/runs/states.ts";
import { aDefinition, aWorker } from "../tests/support/factories.ts";
import { withStores } from "../tests/support/stores.ts";

const option = (name: string, usual: number) => {
  const place = Deno.args.indexOf(`--${name}`);
  return place < 0 ? usual : Number(Deno.args[place + 1]);
};
const RUNS = option("runs", 1_000_000);
const WAITING = option("waiting", 100_000);
const JOBS = 100;
const LIMITS = {
  overdue_seconds: 300,
  no_code_seconds: 300,
  leader_runs: true,
  no_leader_seconds: 30,
  certificate_days: 14,
  clock_skew_seconds: 2,
};

await withStores(async ({ sql }) => {
  const term = await acquire(sql, { worker_id: "leader", lease_ms: 3_600_000, epoch_hint: 0 }) as Term;
  const base = await fill(sql);
  await measureCounting(sql, term, base);
  await measureReading(sql);
  await measureEnding(sql, base);
});
Deno.exit(0);

/** Gives the id of the first of its jobs. */
async function fill(sql: Sql): Promise<number> {
  for (let i = 0; i < JOBS; i++) await aDefinition(sql);
  await aWorker(sql);
  const [first] = await sql<{ id: number }[]>`select min(id) as id from job_definition`;
  const base = first?.id ?? 1;
  await sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`
      insert into job_run (job_definition_id, source, state, due_at, started_at, finished_at, ended_xid)
      select ${base} + n % ${JOBS}, 'enqueue', case when n % 50 = 0 then 'FAILED' else 'SUCCEEDED' end, t.at, t.at + interval '1 s' * random(),
             t.at + interval '1 s' + interval '3 s' * random(), pg_current_xact_id()
        from generate_series(1, ${RUNS}::int) n,
             lateral (select clock_timestamp() - interval '7 days' * n / ${RUNS}::float8 as at) t`;
    await tx`
      insert into job_run (job_definition_id, source, due_at) select ${base} + n % ${JOBS}, 'enqueue', clock_timestamp()
        from generate_series(1, ${WAITING}::int) n`;
  });
  return base;
}

async function measureCounting(sql: Sql, term: Term, base: number): Promise<void> {
  const shares: number[] = [];
  for (let more = true; more;) {
    const began = performance.now();
    more = (await rollUp(sql, term))?.more ?? false;
    shares.push(performance.now() - began);
  }
  show(`count ${RUNS} runs that ended within a week, in shares of 2000`, shares);
  await sql`
    insert into load_stat (kind, at, subject, sampled_at, samples, used_now, used_sum, used_max)
    select k, date_bin('1 minute', clock_timestamp(), 'epoch') - m * interval '1 minute', s::text, clock_timestamp() - m * interval '1 minute', 6, 10, 60, 10
      from generate_series(1, 10080) m, generate_series(120, 128) s, unnest(array['queue', 'node']) k`;
  await measure("count 1000 runs that ended now", () => rollUp(sql, term), () => endSome(sql, base, 1000));
  await measure("count when nothing ended", () => rollUp(sql, term));
  await measure(`sampleLoad, ${WAITING} runs wait`, () => sampleLoad(sql, term));
  await measure("judgeAlerts", () => judgeAlerts(sql, term, LIMITS));
}

async function measureReading(sql: Sql): Promise<void> {
  for (const range of ["1h", "24h", "7d"] as const) {
    await measure(`readSeries ${range}`, () => readSeries(sql, range));
    await measure(`readTotal ${range}`, () => readTotal(sql, range));
    await measure(`readJobTotals ${range}, ${JOBS} jobs`, () => readJobTotals(sql, range));
    await measure(`readBacklogSeries ${range}`, () => readBacklogSeries(sql, range));
    await measure(`readUseSeries ${range}`, () => readUseSeries(sql, range));
  }
  await measure("readAllTime", () => readAllTime(sql));
  await measure("readBacklog", () => readBacklog(sql));
  await measure("readNodeUse", () => readNodeUse(sql));
  await measure("readFigures", () => readFigures(sql));
  await measure("listAlerts", () => listAlerts(sql));
}

/** Whether ending costs more for being counted. */
async function measureEnding(sql: Sql, base: number): Promise<void> {
  for (const indexed of [true, false, true, false]) {
    if (indexed) {
      await sql`create index if not exists job_run_ended on job_run (ended_xid, id) where ended_xid is not null`;
    } else await sql`drop index job_run_ended`;
    const ms: number[] = [];
    for (let i = 0; i < 30; i++) ms.push(await endSome(sql, base, 200));
    show(`finishRuns of 200, ${indexed ? "with" : "without"} the index job_run_ended`, ms);
  }
}

async function endSome(sql: Sql, base: number, n: number): Promise<number> {
  const runs = await sql<{ id: number }[]>`
    insert into job_run (job_definition_id, source, state, assigned_worker_id, leader_epoch, fence, start_token, started_at)
    select ${base} + n % ${JOBS}, 'enqueue', 'RUNNING', 'w', 1, 1, 't', clock_timestamp() from generate_series(1, ${n}::int) n returning id`;
  const endings = runs.map(({ id }) => ({
    job_run_id: id,
    attempt: 1,
    start_token: "t",
    outcome: "SUCCEEDED" as const,
    exit_code: 0,
    error_name: null,
    error_summary: null,
    result: null,
    retry_max: 0,
    retry_after_ms: 0,
    other_node: false,
  }));
  const began = performance.now();
  await finishRuns(sql, "w", endings);
  return performance.now() - began;
}

async function measure(what: string, act: () => Promise<unknown>, before?: () => Promise<unknown>): Promise<void> {
  const ms: number[] = [];
  for (let i = 0; i < 15; i++) {
    await before?.();
    const began = performance.now();
    await act();
    ms.push(performance.now() - began);
  }
  show(what, ms);
}

function show(what: string, ms: number[]): void {
  const sorted = ms.toSorted((a, b) => a - b);
  const [middle, most] = [sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0];
  console.log(`${what.padEnd(64)} ${middle.toFixed(1).padStart(8)} ms   at most ${most.toFixed(1)}`);
}
