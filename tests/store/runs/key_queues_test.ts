/**
 * Who may start among runs that wait for each other: held while the key is taken, let go when it is free, found again
 * whatever commits late. And that a run queue's million waiting runs are not read.
 */
import assert from "node:assert/strict";
import { createRuns } from "../../../src/runs/create_runs.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { checkLines, hold, wake } from "../../../src/runs/key_queues.ts";
import { requestReplaced, skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { type Assignment, assignRuns, finishRuns, startRuns } from "../../../src/runs/states.ts";
import { candidates, readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitLine } from "../../../src/locale/wait_text.ts";
import { ENGLISH } from "../../../src/locale/english.ts";

const ME = "w-me";
const HOUR_MS = 3_600_000;
const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS);

interface Scene {
  sql: Sql;
  term: Term;
  /** What a tick of the leader would start, after it has looked at the lines and held what is behind. */
  next(): Promise<number[]>;
  /** Assigns, starts and ends a run. */
  through(job_run_id: number, outcome?: "SUCCEEDED" | "FAILED" | "TIMED_OUT", retry_max?: number): Promise<void>;
  start(job_run_id: number): Promise<void>;
  held(): Promise<number[]>;
}

function withLines(test: (scene: Scene) => Promise<void>): Promise<void> {
  return withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await aWorker(sql, { worker_id: ME });
    const start = async (job_run_id: number) => {
      const [row] = await sql<{ version: number }[]>`select version from job_run where id = ${job_run_id}`;
      const one: Assignment = { job_run_id, version: row?.version ?? -1, worker_id: ME };
      const [assigned] = await assignRuns(sql, term, [one]);
      assert(assigned, `run ${job_run_id} was not assigned`);
      const order = { job_run_id, attempt: assigned.attempt, token: "t", digest: "digest" };
      assert.equal((await startRuns(sql, { worker_id: ME, epoch: term.epoch }, [order])).length, 1);
    };
    await test({
      sql,
      term,
      start,
      async next() {
        await wake(sql, term);
        await checkLines(sql, term);
        const { lanes } = await readDispatchSnapshot(sql);
        const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 100 })));
        await hold(sql, term, found.filter((run) => run.behind).map((run) => run.job_run_id));
        return found.filter((run) => !run.behind).map((run) => run.job_run_id);
      },
      async through(job_run_id, outcome = "SUCCEEDED", retry_max = 0) {
        await start(job_run_id);
        const [row] = await sql<{ attempt: number }[]>`select attempt from job_run where id = ${job_run_id}`;
        const nothing = { exit_code: null, error_name: null, error_summary: null, result: null, other_node: false };
        const ending = { ...nothing, job_run_id, attempt: row?.attempt ?? 0, start_token: "t", outcome };
        await finishRuns(sql, ME, [{ ...ending, retry_max, retry_after_ms: 0 }]);
      },
      async held() {
        return (await sql<{ id: number }[]>`select id from job_run where held order by id`).map((row) => row.id);
      },
    });
  });
}

async function enqueued(
  sql: Sql,
  new_runs: { serial_key?: string; priority?: number; run_at?: Date }[],
) {
  const created = await createRuns(
    sql,
    new_runs.map((new_run) => ({ ...new_run, job_name: "job", args: {}, idempotency_key: crypto.randomUUID() })),
  );
  return created.map((one) => one.job_run_id as number);
}

Deno.test("runs come by priority, due time and id, across jobs and nodes", () =>
  withLines(async ({ sql, next }) => {
    const [a, b] = [await aDefinition(sql), await aDefinition(sql)];
    const at = (minutes: number) => new Date(Date.UTC(2026, 0, 1, 0, minutes));
    const run = async (more: Record<string, unknown>) =>
      (await aRun(sql, { job_definition_id: a.id, due_at: at(5), ...more })).id;
    const low = await run({ priority: 300 });
    const late = await run({ due_at: at(9), job_definition_id: b.id });
    const early = await run({ node: "x" });
    const early_too = await run({ job_definition_id: b.id });
    const first = await run({ priority: 100, node: "y" });
    await run({ due_at: new Date(Date.UTC(2100, 0, 1)) });
    await run({ held: true });
    await run({ cancel_requested_at: at(1), cancel_requested_by: "me", cancel_reason: "" });
    assert.deepEqual(await next(), [first, early, early_too, late, low]);
  }));

Deno.test("of a serial key the first is let go when it is born, and each next one when the one before has ended", () =>
  withLines(async ({ sql, term, next, through, held }) => {
    await aDefinition(sql, { name: "job" });
    const [one, two, urgent] = await enqueued(sql, [
      { serial_key: "k" },
      { serial_key: "k" },
      { serial_key: "k", priority: 100 },
    ]) as [number, number, number];
    const [free] = await enqueued(sql, [{}]);
    assert.deepEqual(await held(), [one, two]);
    assert.deepEqual(await next(), [urgent, free]);
    await through(urgent);
    await checkLines(sql, term);
    assert.deepEqual(await held(), [two], "no more than one");
    assert.deepEqual(await next(), [one, free]);
    await through(one);
    assert.deepEqual(await next(), [two, free]);
    await through(two);
    assert.deepEqual(await sql`select * from key_recheck`.then((rows) => rows.length), 1);
    await next();
    assert.equal((await sql`select from key_recheck`).length, 0);
  }));

Deno.test("a more urgent run goes before one that was let go already", () =>
  withLines(async ({ sql, next, through, held }) => {
    await aDefinition(sql, { name: "job" });
    const [calm] = await enqueued(sql, [{ serial_key: "k" }]) as [number];
    assert.deepEqual(await next(), [calm]);
    const [urgent] = await enqueued(sql, [{ serial_key: "k", priority: 1 }]) as [number];
    assert.deepEqual(await next(), [urgent]);
    assert.deepEqual(await held(), [calm]);
    await through(urgent);
    assert.deepEqual(await next(), [calm]);
  }));

Deno.test("a run that is tried again keeps its key", () =>
  withLines(async ({ sql, term, next, through, held }) => {
    await aDefinition(sql, { name: "job" });
    const [one, two] = await enqueued(sql, [{ serial_key: "k" }, { serial_key: "k" }]) as [number, number];
    await through(one, "FAILED", 3);
    await checkLines(sql, term);
    assert.deepEqual(await held(), [one, two]);
    assert.deepEqual(await next(), [one]);
    assert.deepEqual(await held(), [two]);
  }));

Deno.test("a birth that saw the key taken is let go though the key became free before it committed", () =>
  withLines(async ({ sql, next, through, start, held }) => {
    await aDefinition(sql, { name: "job" });
    const [one] = await enqueued(sql, [{ serial_key: "k" }]) as [number];
    await start(one);
    await sql.begin(async (tx) => {
      await enqueued(tx as unknown as Sql, [{ serial_key: "k" }]);
      await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${one}`;
      assert.deepEqual(await next(), [], "the end was seen, the birth not yet");
    });
    const [two] = await held();
    assert.deepEqual(await next(), [two]);
    await through(two as number);
  }));

Deno.test("a hold that raced with the end of the key's run is undone by the check that the end left", () =>
  withLines(async ({ sql, term, next, start }) => {
    await aDefinition(sql, { name: "job" });
    const { id: first } = await aRun(sql, { serial_key: "k", priority: 1 });
    const { id: second } = await aRun(sql, { serial_key: "k" });
    await start(first);
    await checkLines(sql, term);
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${first}`;
    await hold(sql, term, [second]); // decided while the first one ran
    assert.deepEqual(await next(), [second]);
  }));

Deno.test("a hold that is carried out after its key became free and was checked is undone by the next check", () =>
  withLines(async ({ sql, term, next, held }) => {
    await aDefinition(sql, { name: "job", concurrency_limit: 2, concurrency_key: "{tenant}" });
    const [keyed, limited] = await enqueued(sql, [{ serial_key: "k" }, {}]) as [number, number];
    assert.deepEqual(await next(), [keyed, limited]);
    await hold(sql, term, [keyed, limited]); // sent while others had the keys, on a connection that broke meanwhile
    assert.deepEqual(await held(), [keyed, limited]);
    assert.deepEqual(await next(), [keyed, limited]);
  }));

Deno.test("as many of a limit key run at once as the job allows, each key for itself", () =>
  withLines(async ({ sql, next, through, start }) => {
    const { id } = await aDefinition(sql, { name: "job", concurrency_limit: 2, concurrency_key: "{tenant}" });
    const created = await createRuns(
      sql,
      ["a", "a", "a", "b", "a"].map((tenant) => ({
        job_name: "job",
        args: { tenant },
        idempotency_key: crypto.randomUUID(),
      })),
    );
    const [a1, a2, a3, b1, a4] = created.map((one) => one.job_run_id) as [number, number, number, number, number];
    assert.deepEqual((await sql`select limit_key from job_run where id = ${a1}`)[0]?.limit_key, `${id}:a`);
    assert.deepEqual(await next(), [a1, a2, b1]);
    await start(a1);
    await through(a2);
    assert.deepEqual(await next(), [a3, b1]);
    await start(a3);
    assert.deepEqual(await next(), [b1]);
    await sql`update job_run set state = 'ORPHANED' where id = ${a1}`;
    assert.deepEqual(await next(), [a1, b1], "it goes before the one that came later");
    await start(a1);
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where state = 'RUNNING'`;
    assert.deepEqual(await next(), [b1, a4]);
    await start(a4);
    await sql`update job_run set held = false, limit_key = ${`${id}:a`} where id = ${b1}`; // let go under a higher limit
    assert.deepEqual(await next(), [b1], "one goes on, two may");
    await sql`update job_definition set concurrency_limit = 1`;
    assert.deepEqual(await next(), []);
  }));

Deno.test("a run behind its serial key does not use up the room of its limit key", () =>
  withLines(async ({ sql, next, start }) => {
    await aDefinition(sql, { name: "job", concurrency_limit: 2, concurrency_key: "t" });
    const [one, two] = await enqueued(sql, [{ serial_key: "k" }, { serial_key: "k" }]) as [number, number];
    await start(one);
    const [other] = await enqueued(sql, [{}]) as [number];
    assert.deepEqual(await next(), [other]);
    await sql`insert into key_recheck (line) select distinct 'limit:' || limit_key from job_run where id = ${two}`;
    assert.deepEqual(await next(), [other]);
  }));

Deno.test("a run that is not due sleeps outside of dispatch until it is, then takes its place in its line", () =>
  withLines(async ({ sql, term, next, held }) => {
    await aDefinition(sql, { name: "job" });
    const [later, keyed] = await enqueued(sql, [
      { run_at: inHours(0.5) },
      { run_at: new Date(Date.UTC(2100, 0, 1)), serial_key: "k" },
    ]) as [number, number];
    const [now] = await enqueued(sql, [{ serial_key: "k" }]) as [number];
    assert.deepEqual(await next(), [now], "one that is not due holds nobody up");
    assert.deepEqual(await held(), [later, keyed]);
    await sql`update job_run set due_at = clock_timestamp(), wakes_at = clock_timestamp() where held`;
    assert.equal((await wake(sql, term)).more, false);
    assert.deepEqual(await held(), []);
    assert.deepEqual(new Set(await next()), new Set([later, now]));
    assert.deepEqual(await held(), [keyed]);
  }));

for (const outcome of ["FAILED", "TIMED_OUT"] as const) {
  Deno.test(`a run that ends ${outcome} stops its serial key when the job says so, until the stop is taken away`, () =>
    withLines(async ({ sql, term, next, through, held }) => {
      await aDefinition(sql, { name: "job", on_failure: "block" });
      const [one, two] = await enqueued(sql, [{ serial_key: "k" }, { serial_key: "k" }]) as [number, number];
      await through(one, outcome);
      await checkLines(sql, term);
      assert.deepEqual(await held(), [two]);
      assert.deepEqual(await next(), []);
      const [why] = await sql`select wait_reason(r) as reason from job_run r where id = ${two}`;
      assert.equal(
        waitLine(ENGLISH, why?.reason),
        `serial key "k" is paused by system: run ${one} ended ${outcome}; let it go: deno task queue unblock "k"`,
      );
      await sql`delete from serial_key_pause`;
      assert.deepEqual(await next(), [two]);
    }));
}

Deno.test("who waits behind what somebody deletes by plain SQL is let go; a bulk that goes on cannot be deleted", () =>
  withLines(async ({ sql, next, start, held }) => {
    await aDefinition(sql, { name: "job" });
    const [one, two] = await enqueued(sql, [{ serial_key: "k" }, { serial_key: "k" }]) as [number, number];
    await start(one);
    assert.deepEqual([await next(), await held()], [[], [two]]);
    await sql`delete from job_run where id = ${one}`;
    assert.deepEqual(await next(), [two]);
    await sql`insert into serial_key_pause (serial_key, stopped_by) values ('k', 'ops')`;
    assert.deepEqual([await next(), await held()], [[], [two]]);
    await sql`delete from serial_key_pause`;
    assert.deepEqual(await next(), [two]);
    const [bulk] = await sql<{ id: number }[]>`
      insert into bulk (job_definition_id) select job_definition_id from job_run where id = ${two} returning id`;
    await assert.rejects(() => sql`delete from bulk`, /bulk \d+ goes on, so its row is kept/);
    await sql`update bulk set state = 'CANCELED', finished_at = clock_timestamp() where id = ${bulk?.id ?? 0}`;
    assert.equal((await sql`delete from bulk returning id`).length, 1);
  }));

Deno.test("of many lanes no more is read than was asked for: what comes first in all of them", () =>
  withLines(async ({ sql }) => {
    await sql`insert into job_definition (name, command_name, type, digest) select 'many-' || n, 'x', 'demand', 'd' from generate_series(1, 50) n`;
    const lanes = await sql<{ id: number }[]>`select id from job_definition where name like 'many-%' order by id`;
    await sql`
      insert into job_run (job_definition_id, source, due_at)
      select id, 'enqueue', clock_timestamp() - n * interval '1 min' + id * interval '1 ms'
        from job_definition, generate_series(1, 4) n where name like 'many-%'`;
    const shares = lanes.map(({ id }) => ({ job_definition_id: id, node: "", most: 3 }));
    const all = await candidates(sql, shares);
    assert.equal(all.length, 150);
    assert.deepEqual([...await candidates(sql, shares, 70)], all.slice(0, 70));
  }));

Deno.test("what waits behind held keys or in a lane that is not asked for is not read", () =>
  withLines(async ({ sql }) => {
    const [busy, wanted] = [await aDefinition(sql, { name: "busy" }), await aDefinition(sql, { name: "wanted" })];
    await sql`
      insert into job_run (job_definition_id, source, serial_key, held, priority)
      select ${busy.id}, 'enqueue', 'k' || n % 100, n % 2 = 0, 1 from generate_series(1, 20000) n`;
    for (let n = 0; n < 3; n++) await aRun(sql, { job_definition_id: wanted.id });
    await sql`analyze job_run`;
    const shares = [{ job_definition_id: wanted.id, node: "", most: 100 }];
    await sql.begin(async (tx) => {
      const found = await candidates(tx as unknown as Sql, shares);
      const { lanes } = await readDispatchSnapshot(tx as unknown as Sql);
      const [read] =
        await tx`select (idx_tup_fetch + seq_tup_read)::int as rows from pg_stat_xact_user_tables where relname = 'job_run'`;
      assert.equal(found.length, 3);
      assert.deepEqual(lanes.map((queue) => queue.job_name), ["busy", "wanted"]);
      assert(read?.rows < 100, `${read?.rows} rows were read to find 3`);
    });
  }));

Deno.test("what a slot finds at its start is who was there then: jitter and runs that are due later do not change that", () =>
  withLines(async ({ sql, term }) => {
    const scene = async (concurrency_policy: string, other: Record<string, unknown>) => {
      const { id, name } = await aDefinition(sql, { concurrency_policy });
      const of_job = { job_definition_id: id, serial_key: `job:${name}` };
      // Of a slot three hours ago, which starts two hours after it.
      const slot = () => aRun(sql, { ...of_job, source: "schedule", created_at: inHours(-3), due_at: inHours(-1) });
      const rival = () => aRun(sql, { ...of_job, ...other });
      if (other.first) return (delete other.first, { other: (await rival()).id, slot: (await slot()).id });
      return { slot: (await slot()).id, other: (await rival()).id };
    };
    const skipped = async () => (await skipForbidden(sql, term)).runs.map((run) => run.job_run_id);
    const replaced = async () => (await requestReplaced(sql, term)).runs.map((run) => run.job_run_id);
    const meanwhile = { state: "RUNNING", created_at: inHours(-2), due_at: inHours(-2) };
    const after = { state: "RUNNING", created_at: inHours(-0.5), due_at: inHours(-0.5) };
    const later = { first: true, created_at: inHours(-4), due_at: inHours(1), held: true, wakes_at: inHours(1) };

    const { slot } = await scene("forbid", { ...meanwhile });
    assert.deepEqual(await skipped(), [slot]);
    await scene("forbid", { ...after });
    await scene("forbid", { ...later });
    assert.deepEqual(await skipped(), [], "it waits behind what came after it, and is not kept by what is due later");
    const again = await scene("forbid", { ...meanwhile, state: "RETRYING", due_at: inHours(2) });
    assert.deepEqual(await skipped(), [again.slot], "a retry keeps its place");

    const { other } = await scene("replace", { ...meanwhile });
    assert.deepEqual(await replaced(), [other]);
    await scene("replace", { ...after });
    await scene("replace", { ...later });
    assert.deepEqual(await replaced(), []);
  }));

Deno.test("a run that is to be tried again is no worn-out one, however often it was interrupted before", () =>
  withLines(async ({ sql }) => {
    const job = await aDefinition(sql, { max_interruptions: 0 });
    for (const [state, worn_out] of [["RETRYING", false], ["ORPHANED", true]] as const) {
      const { id } = await aRun(sql, { job_definition_id: job.id, state, interruptions: 1 });
      const { lanes } = await readDispatchSnapshot(sql);
      const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 100 })));
      assert.equal(found.find((run) => run.job_run_id === id)?.worn_out, worn_out, state);
    }
  }));
