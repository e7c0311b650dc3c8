/**
 * What the statements of every run read, whatever Postgres took the tables for when it planned them: the rows that they name and
 * few more, not all of a definition's. A plan is made once per session and kept, so a bad one would stay.
 */
import assert from "node:assert/strict";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { connectDb, type Db, type Sql } from "../../../src/postgres/connection.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { dueSchedules } from "../../../src/definitions/due_schedules.ts";
import { feed, letGo } from "../../../src/bulks/bulk_dispatch.ts";
import { checkLines, wake } from "../../../src/runs/key_queues.ts";
import { requestReplaced, skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { assignRuns, cancelRequested, finishRuns, skipLate, startRuns } from "../../../src/runs/states.ts";
import { candidates } from "../../../src/dispatch/dispatch_queues.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aWorker } from "../../support/factories.ts";
import { type Stores, withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const ME = "w1-0000000a";
const RUNS = 3_000;
const EACH = 10;
const LIVE = 200;
const KEYS = 1_000;
const FIRST_OF_KEY = { behind: false, limit_left: 1 };

/** With how many runs that wait the table was last analyzed; undefined: never; "ended": with as many that had ended, and none that waited. */
const ANALYZED_WITH = [undefined, 0, 1, 40, RUNS, "ended"] as const;

async function fill(sql: Db, definition_id: number, when: typeof ANALYZED_WITH[number]): Promise<void> {
  await sql`truncate job_run cascade`;
  const analyzed_with = when === "ended" ? 0 : when;
  await created(sql, definition_id, analyzed_with ?? 0);
  if (when === "ended") {
    await sql`
      insert into job_run (job_definition_id, source, state, finished_at, ended_xid, serial_key)
      select ${definition_id}, 'enqueue', 'SUCCEEDED', clock_timestamp(), pg_current_xact_id(), 'key ' || n % ${KEYS}::int
        from generate_series(1, ${RUNS}::int) n`;
  }
  if (analyzed_with !== undefined) await sql`analyze job_run, job_definition, worker, leader_term`;
  await created(sql, definition_id, RUNS - (analyzed_with ?? 0));
}

async function created(sql: Db, definition_id: number, runs: number): Promise<void> {
  await sql`
    insert into job_run (job_definition_id, source, state)
    select ${definition_id}, 'enqueue', 'PENDING' from generate_series(1, ${runs}::int)`;
}

/** Rows of a table that this transaction has read so far, and entries of its indexes. */
async function fetched(sql: Db, table = "job_run"): Promise<number> {
  const [row] = await sql<{ rows: number }[]>`
    select (pg_stat_get_xact_tuples_returned(${table}::text::regclass) + (
      select sum(pg_stat_get_xact_tuples_returned(indexrelid)) from pg_index where indrelid = ${table}::text::regclass))::int as rows`;
  return row?.rows as number;
}

/** Ten runs from PENDING to their end; how many rows of `job_run` each of the three statements read. */
async function readBy(sql: Db, term: Term, digest: string): Promise<Record<string, number>> {
  const chosen = await sql<{ job_run_id: number; version: number }[]>`
    select id as job_run_id, version from job_run where state = 'PENDING' order by id limit ${EACH}::int`;
  const orders = chosen.map(({ job_run_id }) => ({ job_run_id, attempt: 1, token: `of ${job_run_id}`, digest }));
  const rows: number[] = [await fetched(sql)];
  const assigned = await assignRuns(sql, term, chosen.map((run) => ({ ...run, worker_id: ME })));
  rows.push(await fetched(sql));
  const started = await startRuns(sql, { worker_id: ME, epoch: term.epoch }, orders);
  rows.push(await fetched(sql));
  const ended = await finishRuns(
    sql,
    ME,
    orders.map(({ token, job_run_id, attempt }) => ({
      job_run_id,
      attempt,
      start_token: token,
      outcome: "SUCCEEDED",
      exit_code: 0,
      error_name: null,
      error_summary: null,
      result: null,
      retry_max: 0,
      retry_after_ms: 0,
      other_node: false,
    })),
  );
  rows.push(await fetched(sql));
  assert.deepEqual([assigned.length, started.length, ended.length], [EACH, EACH, EACH]);
  const [assign = 0, start = 0, end = 0] = rows.slice(1).map((count, place) => count - (rows[place] as number));
  return { assign, start, end };
}

/** A look where some runs go on and the others wait. */
async function lookAt(sql: Db, term: Term): Promise<Record<string, number>> {
  await sql`
    update job_run set state = 'ASSIGNED', assigned_worker_id = ${ME}, assigned_at = clock_timestamp()
     where id in (select id from job_run where state = 'PENDING' order by id limit ${LIVE}::int)`;
  const before = await fetched(sql);
  const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 600, ahead_seconds: 30 };
  const looked = await renewAndReadWork(sql as unknown as Sql, term, look);
  const look_read = await fetched(sql) - before;
  assert.deepEqual(looked?.snapshot.workers.map(({ load }) => load), [LIVE]);
  assert.deepEqual(looked?.snapshot.lanes.map(({ running }) => running), [LIVE]);
  return { look: look_read };
}

/** The first ten of runs that have keys are chosen and end, and their lines are looked at. */
async function keyedBy(sql: Db, term: Term, digest: string): Promise<Record<string, number>> {
  await sql`update job_definition set concurrency_limit = 1, concurrency_key = 'any'`;
  await sql`
    update job_run set serial_key = 'key ' || id % ${KEYS}::int, limit_key = job_definition_id || ':' || id % ${KEYS}::int,
           held = id >= ${KEYS}::int + (select min(id) from job_run where state = 'PENDING')
     where state = 'PENDING'`;
  const [definition] = await sql<{ id: number }[]>`select id from job_definition`;
  const before = await fetched(sql);
  const first = await candidates(sql, [{ job_definition_id: definition?.id as number, node: "", most: EACH }]);
  const choose = await fetched(sql) - before;
  assert.deepEqual(first.map(({ behind, limit_left }) => ({ behind, limit_left })), Array(EACH).fill(FIRST_OF_KEY));
  await readBy(sql, term, digest);
  const ended = await fetched(sql);
  await checkLines(sql, term);
  const check = await fetched(sql) - ended;
  assert.equal(
    (await sql`select from job_run where not held and state = 'PENDING'`).count,
    KEYS,
    "the next of each key is let go",
  );
  return { choose, check };
}

/** Ten of those that sleep wake up. */
async function wokenBy(sql: Db, term: Term): Promise<Record<string, number>> {
  await sql`update job_run set held = true, wakes_at = clock_timestamp() where state = 'PENDING'`;
  const before = await fetched(sql);
  assert.deepEqual(await wake(sql, term, EACH), { more: true, slots: false });
  return { wake: await fetched(sql) - before };
}

/** Ten of those slots that are too late, and then ten of those requests to cancel. */
async function swept(sql: Db, term: Term): Promise<Record<string, number>> {
  await sql`update job_run set source = 'schedule', due_at = to_timestamp(id) where state = 'PENDING'`;
  const before = await fetched(sql);
  assert.equal((await skipLate(sql, term, 60, EACH)).length, EACH);
  const late = await fetched(sql) - before;
  await sql`
    update job_run set cancel_requested_at = clock_timestamp(), cancel_requested_by = 'ann', cancel_reason = 'not needed' where state = 'PENDING'`;
  const asked = await fetched(sql);
  assert.equal((await cancelRequested(sql, term, EACH)).length, EACH);
  return { late, cancel: await fetched(sql) - asked };
}

/** Ten of those that a newer slot replaces, and then ten of those that an older one forbids. */
async function overlapped(sql: Db, term: Term): Promise<Record<string, number>> {
  await sql`update job_definition set concurrency_policy = 'replace'`;
  await sql`update job_run set serial_key = 'job:many', held = true, due_at = to_timestamp(id) where state = 'PENDING'`;
  await sql`
    update job_run set source = 'schedule', due_at = clock_timestamp() where id = (select max(id) from job_run where state = 'PENDING')`;
  const before = await fetched(sql);
  assert.equal((await requestReplaced(sql, term, EACH)).runs.length, EACH);
  const replace = await fetched(sql) - before;
  await sql`update job_definition set concurrency_policy = 'forbid'`;
  await sql`update job_run set source = 'schedule', cancel_requested_at = null where state = 'PENDING'`;
  const asked = await fetched(sql);
  assert.equal((await skipForbidden(sql, term, EACH)).runs.length, EACH);
  return { replace, forbid: await fetched(sql) - asked };
}

/** Ten of a bulk's runs that are held are let go. */
async function letGoOf(sql: Db, term: Term): Promise<Record<string, number>> {
  await sql`
    insert into bulk (job_definition_id, parallel, started_at)
    select id, ${EACH}, clock_timestamp() from job_definition where not exists (select from bulk)`;
  const [bulk] = await sql<{ id: number }[]>`select id from bulk`;
  const bulk_id = bulk?.id as number;
  await sql`update job_run set bulk_id = ${bulk_id}, held = true where state = 'PENDING'`;
  const before = await fetched(sql);
  assert.equal((await letGo(sql, term, bulk_id)).runs, EACH);
  return { let_go: await fetched(sql) - before };
}

/** What `act` read, for each of the things that Postgres may believe of the table. */
async function measured(
  { sql, database_url }: Stores,
  act: (sql: Db, term: Term) => Promise<Record<string, number>>,
  most: number,
): Promise<void> {
  await aWorker(sql, { worker_id: ME });
  const definition = await aDefinition(sql, { name: "many", digest: "d" });
  const term = await acquire(sql, { worker_id: ME, lease_ms: 60_000, epoch_hint: 0 }) as Term;
  const found: Record<string, Record<string, number>> = {};
  for (const analyzed_with of ANALYZED_WITH) {
    await fill(sql, definition.id, analyzed_with);
    const fresh = connectDb(database_url, { name: "plans", max: 1, steady: true });
    try {
      found[`analyzed with ${analyzed_with}`] = await fresh.begin((tx) => act(tx, term)) as Record<string, number>;
    } finally {
      await fresh.end({ timeout: 2 });
    }
  }
  const read = Math.max(...Object.values(found).flatMap((by) => Object.values(by)));
  assert(read <= most, JSON.stringify(found, null, 1));
}

Deno.test("what moves ten runs reads about ten rows, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, (sql, term) => readBy(sql, term, "d"), 8 * EACH)));

// Of each its entries, of when it had no key too, its row, and a look at each of its two lines.
Deno.test("choosing ten of many keys and looking at their lines reads those lines, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, (sql, term) => keyedBy(sql, term, "d"), 24 * EACH)));

Deno.test("waking ten runs reads about ten rows, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, wokenBy, 8 * EACH)));

Deno.test("skipping and canceling ten of many reads about ten rows, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, swept, 8 * EACH)));

// Each of those that wait in the line is read, but not for each of them.
Deno.test("what overlaps is told by its line, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, overlapped, 8 * RUNS)));

// Of each that goes on its entry and its row, and what it left where it waited.
Deno.test("a look reads what goes on once and the first of what waits, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, lookAt, 3 * LIVE + 100)));

Deno.test("letting go ten of a bulk reads about ten rows, whatever Postgres believes of the table", () =>
  withStores((stores) => measured(stores, letGoOf, 8 * EACH)));

Deno.test("feeding bulks reads the items that become runs, not all of all bulks, whatever Postgres believes of the table", () =>
  withStores(async ({ sql, database_url }) => {
    await aDefinition(sql, { name: "many" });
    const term = await acquire(sql, { worker_id: ME, lease_ms: 60_000, epoch_hint: 0 }) as Term;
    const found: Record<string, number> = {};
    for (const analyzed_with of [undefined, 0, 1, RUNS]) {
      await sql`truncate job_run, bulk, bulk_item cascade`;
      const bulks = await sql<{ id: number }[]>`
        insert into bulk (job_definition_id, parallel)
        select d.id, ${EACH} from job_definition d, generate_series(1, ${EACH}::int) returning id`;
      const fill = async (from: number, to: number) =>
        await sql`insert into bulk_item (bulk_id, seq) select b.id, n from bulk b, generate_series(${from}::int, ${to}::int) n`;
      await fill(1, analyzed_with ?? 0);
      if (analyzed_with !== undefined) await sql`analyze bulk, bulk_item, job_definition`;
      await fill((analyzed_with ?? 0) + 1, RUNS);
      const fresh = connectDb(database_url, { name: "plans", max: 1, steady: true });
      try {
        found[`analyzed with ${analyzed_with}`] = await fresh.begin(async (tx) => {
          const fed = await feed(tx, term, bulks.map(({ id }) => ({ bulk_id: id, next_seq: 1, items: EACH })));
          assert.deepEqual(fed.map(({ runs }) => runs), Array(EACH).fill(EACH));
          return await fetched(tx, "bulk_item");
        });
      } finally {
        await fresh.end({ timeout: 2 });
      }
    }
    assert(Math.max(...Object.values(found)) <= 8 * EACH * EACH, JSON.stringify(found, null, 1));
  }));

Deno.test("the command line asks what waits without reading all that has ended", () =>
  withStores(async ({ sql, database_url }) => {
    const definition = await aDefinition(sql, { name: "many" });
    await fill(sql, definition.id, "ended");
    await sql`analyze`;
    const scanned = async () =>
      (await sql<
        { rows: number }[]
      >`select seq_tup_read as rows from pg_stat_all_tables where relid = 'job_run'::regclass`)[0]?.rows;
    await sql`select pg_stat_force_next_flush()`;
    const before = await scanned();
    const { code, out } = await cliWith({ DATABASE_URL: database_url })("queue", "ls", "--json");
    assert.equal(code, 0);
    assert.equal(JSON.parse(out).jobs[0].waiting, RUNS);
    await waitFor("the end of its session, which counts what it read", async () => {
      const left =
        await sql`select from pg_stat_activity where datname = current_database() and application_name = 'dandori cli'`;
      return left.count === 0 || undefined;
    });
    assert.equal(await scanned(), before);
  }));

Deno.test("what schedules have come due is told by those, not by all that there are", () =>
  withStores(async ({ sql, database_url }) => {
    await sql`
      insert into job_definition (name, command_name, type, digest)
      select 'job_' || n, 'job.ts', 'time', 'digest' from generate_series(1, ${RUNS}::int) n`;
    await sql`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, next_slot)
      select id, 'nightly', 'daily_at', '02:30', clock_timestamp() + case when id > ${EACH} then interval '1 h' else '0' end
        from job_definition`;
    for (const analyzed of [false, true]) {
      if (analyzed) await sql`analyze job_schedule, job_definition`;
      const fresh = connectDb(database_url, { name: "plans", max: 1, steady: true });
      try {
        await fresh.begin(async (tx) => {
          const { schedules } = await dueSchedules(tx as unknown as Sql, 200, 5);
          assert.equal(schedules.length, EACH);
          const rows = await fetched(tx, "job_schedule");
          assert(rows <= 3 * EACH, `${rows} rows and entries were read for ${EACH}`);
        });
      } finally {
        await fresh.end();
      }
    }
  }));
