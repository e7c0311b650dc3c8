/** A suspended run beside all others: what it keeps, what it lets others have, and how it starts again. */
import assert from "node:assert/strict";
import { candidates, readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { readQueue } from "../../../src/dispatch/pauses.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { createRuns } from "../../../src/runs/create_runs.ts";
import { listJobs } from "../../../src/runs/job_view.ts";
import { wake } from "../../../src/runs/key_queues.ts";
import { hasEnded } from "../../../src/runs/requests.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { assignRuns, cancelRequested, endPastDeadline, forceClose } from "../../../src/runs/states.ts";
import { readSlotRuns } from "../../../src/schedules/slot_view.ts";
import { readBacklog, sampleLoad } from "../../../src/stats/load_stats.ts";
import { aDefinition, aRun, aTerm, aWorker, type RunRow } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const LONG_AGO = new Date(Date.UTC(2026, 0, 1));
const LATER = new Date(Date.UTC(2100, 0, 1));
const LOOK = { lease_ms: 60_000, reassign_after_ms: 1_000, late_seconds: 60, ahead_seconds: 60 };

/** Until something arrives, if no time is given. */
async function aSuspendedRun(sql: Sql, columns: Record<string, unknown> = {}): Promise<RunRow> {
  const run = await aRun(sql, { state: "SUSPENDED", held: true, due_at: LONG_AGO, ...columns });
  if (!columns.wakes_at) await sql`update job_run set wakes_at = 'infinity' where id = ${run.id}`;
  return run;
}

async function rowOf(sql: Sql, id: number) {
  return (await sql`select state, held, attempt, suspensions from job_run where id = ${id}`)[0];
}

Deno.test("a suspended run starts when it was let go and never before: a further execution of the same attempt, outside the rate", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id } = await aDefinition(sql, { rate_count: 1, rate_seconds: 60, rate_next_at: LATER });
    const ever = await aSuspendedRun(sql, { job_definition_id });
    const due = await aSuspendedRun(sql, { job_definition_id, wakes_at: LONG_AGO });
    const assign = (runs: RunRow[]) =>
      assignRuns(sql, term, runs.map(({ id, version }) => ({ job_run_id: id, version, worker_id })));
    assert.deepEqual([...await assign([ever, due])], [], "its time has come, but the leader has not let it go");
    await wake(sql, term);
    assert.deepEqual((await assign([ever, due])).map(({ job_run_id, attempt }) => [job_run_id, attempt]), [[
      due.id,
      2,
    ]]);
    assert.deepEqual({ ...await rowOf(sql, due.id) }, { state: "ASSIGNED", held: false, attempt: 2, suspensions: 1 });
    const view = await readRun(sql, due.id);
    assert.deepEqual([view?.attempt, view?.execution], [1, 2]);
    const [paced] = await sql`select rate_next_at from job_definition where id = ${job_definition_id}`;
    assert.deepEqual(paced?.rate_next_at, LATER);
    const other = await aRun(sql, { job_definition_id });
    await assign([other]);
    const [again] = await sql`select rate_next_at from job_definition where id = ${job_definition_id}`;
    assert.deepEqual(again?.rate_next_at, new Date(LATER.getTime() + 60_000));
  }));

Deno.test("a suspended run is no place in the line of its limit key: others are created and chosen as if it were not there", () =>
  withStores(async ({ sql }) => {
    const { id: job_definition_id, name } = await aDefinition(sql, { concurrency_key: "k", concurrency_limit: 1 });
    const asleep = await aSuspendedRun(sql, { job_definition_id, limit_key: `${job_definition_id}:k` });
    const [created] = await createRuns(sql, [{ job_name: name, args: {} }]);
    assert.equal((await rowOf(sql, created?.job_run_id ?? 0))?.held, false);
    const chosen = async () => {
      const { lanes } = await readDispatchSnapshot(sql);
      const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 10 })));
      return found.map(({ job_run_id, behind }) => [job_run_id, behind]);
    };
    assert.deepEqual(await chosen(), [[created?.job_run_id, false]]);
    await sql`update job_run set state = 'RUNNING', assigned_worker_id = 'w', started_at = now(), fence = 1, leader_epoch = 1, start_token = 't'
               where id = ${created?.job_run_id ?? 0}`;
    await sql`update job_run set held = false, wakes_at = null where id = ${asleep.id}`;
    assert.deepEqual(await chosen(), [[asleep.id, true]], "it takes its limit anew");
    const [next] = await createRuns(sql, [{ job_name: name, args: {} }]);
    assert.equal((await rowOf(sql, next?.job_run_id ?? 0))?.held, true, "and stands in its line again");
  }));

Deno.test("the leader sleeps as if runs that wait for ever were not there, and gives none away ahead of its time", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const look = async () => (await renewAndReadWork(sql, term, LOOK))?.pending;
    await aSuspendedRun(sql);
    assert.deepEqual([(await look())?.asleep, (await look())?.next_due_ms], [false, undefined]);
    const [soon] = await sql<{ at: Date }[]>`select clock_timestamp() + interval '30 s' as at`;
    const timed = await aSuspendedRun(sql, { wakes_at: soon?.at });
    const again = await aRun(sql, { state: "RETRYING", attempt: 2, held: true, due_at: soon?.at, wakes_at: soon?.at });
    assert.deepEqual((await readDispatchSnapshot(sql, 60)).near.map((run) => run.job_run_id), [again.id]);
    assert((await look())?.next_due_ms as number <= 30_000, "it looks again when the time of it has come");
    await sql`delete from job_run where id in (${timed.id}, ${again.id})`;
    await sql`update job_run set deadline_at = ${soon?.at ?? null}`;
    assert((await look())?.next_due_ms as number <= 30_000, "and at its deadline");
    assert.equal((await look())?.deadlines, false);
    await sql`update job_run set deadline_at = ${LONG_AGO}`;
    assert.equal((await look())?.deadlines, true);
    await sql`update job_run set ending = 'TIMED_OUT'`;
    assert.equal((await look())?.deadlines, false, "it undoes what it did");
  }));

Deno.test("people see what is suspended apart from what waits to start", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id: job_definition_id, name } = await aDefinition(sql);
    const of = { job_definition_id };
    await aSuspendedRun(sql, of);
    await aSuspendedRun(sql, { ...of, wakes_at: LATER });
    await aSuspendedRun(sql, { ...of, wakes_at: LONG_AGO });
    await aRun(sql, { ...of, state: "RETRYING", attempt: 2, held: true, due_at: LATER, wakes_at: LATER });
    await wake(sql, term);
    const [line] = await readQueue(sql);
    const { waiting, running, held, later, suspended } = line ?? {};
    assert.deepEqual({ waiting, running, held, later, suspended }, {
      waiting: 2,
      running: 0,
      held: 0,
      later: 1,
      suspended: 2,
    });
    const [job] = await listJobs(sql, name);
    assert.deepEqual([job?.waiting, job?.suspended], [1, 3]);
    await sampleLoad(sql, term);
    const backlog = (await readBacklog(sql)).filter((row) => row.waiting > 0);
    assert.deepEqual(backlog.map((row) => row.waiting), [1]);
    assert((backlog[0]?.oldest_seconds ?? Infinity) < 3_600, "it has waited since it was let go, not since it was due");
  }));

Deno.test("a run says what it waits for, ten of all, that first which ends soonest", () =>
  withStores(async ({ sql }) => {
    const { id } = await aSuspendedRun(sql);
    const waits = async () => (await readRun(sql, id))?.waits;
    const said = async () => (await readRun(sql, id))?.wait_reason ?? "";
    assert.equal(await said(), "suspended");
    const step = { job_run_id: id, state: "WAITING", attempt: 1, code_digest: "c" };
    const [until] = [new Date("2100-01-01T00:00:00Z")];
    const steps = [
      { ...step, key: "message:approval", kind: "message", waits_for: "approval", until: null },
      { ...step, key: "sleep:#2", kind: "sleep", waits_for: null, until },
      { ...step, key: "step:charge", kind: "step", waits_for: null, until, state: "TRYING" },
    ];
    await sql`insert into run_step ${sql(steps)}`;
    assert.equal(
      await said(),
      "suspended, waiting for sleep #2 until 2100-01-01T00:00:00Z, " +
        'the next try of step "charge" until 2100-01-01T00:00:00Z, message "approval"',
    );
    await sql`insert into run_step (job_run_id, key, kind, state, attempt, code_digest, waits_for)
              select ${id}, 'message:m' || n, 'message', 'WAITING', 1, 'c', 'm' || n from generate_series(1, 20) n`;
    const many = await waits();
    assert.equal(many?.code, "suspended");
    assert.equal((many?.params as { waits: unknown[] }).waits.length, 10);
    assert.match(await said(), / and 13 more$/);
    await sql`update job_run set held = false, wakes_at = null`;
    assert.equal((await waits())?.code, "no_worker", "once it may start it waits for what others wait for");
  }));

Deno.test("who ends a suspended run leaves no open wait behind, and its journal as it is", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const ends: [string, Record<string, unknown>, (id: number) => Promise<unknown>][] = [
      [
        "CANCELED",
        { cancel_requested_at: LONG_AGO, cancel_requested_by: "me", cancel_reason: "r" },
        () => cancelRequested(sql, term),
      ],
      ["TIMED_OUT", { deadline_at: LONG_AGO }, () => endPastDeadline(sql, term)],
      ["FAILED", {}, (id) => forceClose(sql, id, { actor: "me", reason: "r" })],
    ];
    for (const [state, columns, end] of ends) {
      const run = await aSuspendedRun(sql, columns);
      const other = await aSuspendedRun(sql);
      const step = {
        attempt: 1,
        code_digest: "c",
        waits_for: "m",
        kind: "message",
        state: "WAITING",
        key: "message:m",
      };
      const done = { ...step, key: "message:d", state: "DONE", seq: 1, ended_at: LONG_AGO };
      await sql`insert into run_step ${sql([{ ...step, job_run_id: run.id }, { ...step, job_run_id: other.id }])}`;
      await sql`insert into run_step ${sql({ ...done, job_run_id: run.id })}`;
      await end(run.id);
      const [row] = await sql`select state, held, wakes_at from job_run where id = ${run.id}`;
      assert.deepEqual({ ...row }, { state, held: false, wakes_at: null });
      const steps = await sql`
        select key, state, ended_at is not null as ended from run_step where job_run_id in (${run.id}, ${other.id}) order by job_run_id, key`;
      assert.deepEqual(steps.map((one) => Object.values(one)), [
        ["message:d", "DONE", true],
        ["message:m", "CANCELED", true],
        ["message:m", "WAITING", false],
      ], state);
      await sql`delete from job_run`;
      assert.equal((await sql`select from run_step`).length, 0, "its steps go with it");
    }
  }));

Deno.test("attempts are counted without suspensions, and a slot began with its first execution", () =>
  withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const [schedule] = await sql<{ id: number }[]>`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
      values (${job_definition_id}, 's', 'daily_at', '02:30') returning id`;
    const { id } = await aRun(sql, {
      ...{
        job_definition_id,
        job_schedule_id: schedule?.id,
        source: "schedule",
        scheduled_for: LONG_AGO,
        due_at: LONG_AGO,
      },
      ...{ state: "RUNNING", attempt: 4, suspensions: 2, failures: 1, started_at: LATER },
    });
    await sql`insert into job_run_attempt (job_run_id, attempt, outcome, started_at, ended_at)
              select ${id}, n, case n when 2 then 'FAILED' else 'SUSPENDED' end, ${LONG_AGO}::timestamptz + n * interval '1 s', now()
                from generate_series(1, 3) n`;
    assert.deepEqual(
      (await readAttempts(sql, id)).map(({ attempt, execution, outcome }) => [attempt, execution, outcome]),
      [[1, 1, "SUSPENDED"], [1, 2, "FAILED"], [2, 3, "SUSPENDED"]],
    );
    assert.equal((await readRun(sql, id))?.attempt, 2);
    const { runs } = await readSlotRuns(sql, [schedule?.id ?? 0], { from: new Date(0), until: LATER });
    assert.deepEqual(runs.map(({ started_at }) => started_at), [new Date(LONG_AGO.getTime() + 1_000)]);
    assert.equal(await hasEnded(sql, { job_run_id: id, attempt: 4 }), false);
    await sql`update job_run set state = 'SUSPENDED'`;
    assert.equal(await hasEnded(sql, { job_run_id: id, attempt: 4 }), true, "that execution is over");
  }));

Deno.test("a child that is deleted before its end wakes its parent, and the end of one as well", () =>
  withStores(async ({ sql }) => {
    const { id: parent } = await aSuspendedRun(sql, { has_children: true });
    const child = (parent_key: string | null) => aRun(sql, { parent_run_id: parent, parent_key, depth: 1 });
    const checks = async () =>
      (await sql<{ id: number }[]>`delete from wake_check returning job_run_id as id`).map((row) => row.id);
    const [awaited, started, deleted] = [await child("call:a"), await child(null), await child("call:b")];
    await sql`delete from job_run where id = ${deleted.id}`;
    assert.deepEqual(await checks(), [parent]);
    await sql`update job_run set state = 'SKIPPED', finished_at = now() where id in (${awaited.id}, ${started.id})`;
    assert.deepEqual(await checks(), [parent], "nobody awaits what was only started");
    await sql`update job_run set state = 'CANCELED', finished_at = now(), held = false, wakes_at = null where id = ${parent}`;
    assert.deepEqual(await checks(), [parent], "for its own children");
  }));
