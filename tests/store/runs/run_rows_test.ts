/** What a run's row says after each step: what belonged to the attempt before is gone, and what comes next is written down. */
import assert from "node:assert/strict";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { beginConfirming } from "../../../src/dispatch/detach.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { giveBack, orphanAssigned, orphanLost } from "../../../src/runs/lost_runs.ts";
import { assignRuns, finishRuns, startRuns } from "../../../src/runs/states.ts";
import { aDefinition, aRun, aTerm, aWorker, type RunRow } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const LONG_AGO = new Date("2020-01-01T00:00:00Z");
const TOKEN = "of the start before";
const NOTHING = { exit_code: null, error_name: null, error_summary: null, result: null, other_node: false };

interface Scene {
  sql: Sql;
  term: Term;
  worker_id: string;
  row(run: { id: number }): Promise<Record<string, unknown>>;
  now(): Promise<number>;
}

function withWorker(test: (scene: Scene) => Promise<void>): Promise<void> {
  return withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { worker_id } = await aWorker(sql);
    await test({
      sql,
      term,
      worker_id,
      row: async ({ id }) => (await sql`select * from job_run where id = ${id}`)[0] ?? {},
      now: async () => Number((await sql`select extract(epoch from clock_timestamp())::float8 as now`)[0]?.now),
    });
  });
}

const assign = ({ sql, term, worker_id }: Scene, { id, version }: Pick<RunRow, "id" | "version">) =>
  assignRuns(sql, term, [{ job_run_id: id, version, worker_id }]);

const start = ({ sql, term, worker_id }: Scene, { id, attempt }: Pick<RunRow, "id" | "attempt">, epoch = term.epoch) =>
  startRuns(sql, { worker_id, epoch }, [{ job_run_id: id, attempt, token: "t", digest: "digest" }]);

Deno.test("who is assigned again is another attempt, of which nothing is known yet", () =>
  withWorker(async (scene) => {
    const before = { progress: 0.9, progress_message: "nearly", started_at: LONG_AGO, fence: 7, start_token: TOKEN };
    const run = await aRun(scene.sql, { state: "ORPHANED", attempt: 3, ...before });
    assert.deepEqual((await assign(scene, run)).map(({ attempt }) => attempt), [4]);
    const { progress, progress_message, started_at, fence, start_token, leader_epoch } = await scene.row(run);
    assert.deepEqual([progress, progress_message, started_at, fence, start_token], [null, null, null, null, null]);
    assert.equal(leader_epoch, scene.term.epoch);
    assert.equal((await finishRuns(scene.sql, scene.worker_id, [ended(run.id, 3)])).length, 0, "that start is over");
    const first = await aRun(scene.sql);
    assert.deepEqual((await assign(scene, first)).map(({ attempt }) => attempt), [1]);
  }));

function ended(job_run_id: number, attempt: number) {
  const retry = { retry_max: 0, retry_after_ms: 0 };
  return { ...NOTHING, ...retry, job_run_id, attempt, start_token: TOKEN, outcome: "SUCCEEDED" as const };
}

Deno.test("nothing is assigned that has changed since it was read, or that is held behind somebody", () =>
  withWorker(async (scene) => {
    const run = await aRun(scene.sql, { version: 5 });
    for (const version of [4, 6]) assert.equal((await assign(scene, { ...run, version })).length, 0);
    assert.equal((await assign(scene, run)).length, 1);
    const held = await aRun(scene.sql, { held: true });
    assert.equal((await assign(scene, held)).length, 0);
  }));

Deno.test("who starts has no error any more, and the epoch of whoever ordered it last", () =>
  withWorker(async (scene) => {
    const failed = { error_name: "Error", error_summary: "no", exit_code: 1 };
    const given = { state: "ASSIGNED", assigned_worker_id: scene.worker_id, leader_epoch: 1, ...failed };
    const run = await aRun(scene.sql, given);
    assert.equal((await start(scene, run, 8)).length, 1);
    const { error_name, error_summary, exit_code, leader_epoch, state } = await scene.row(run);
    assert.deepEqual([state, leader_epoch, error_name, error_summary, exit_code], ["RUNNING", 8, null, null, null]);
  }));

Deno.test("a run that is due in half a minute is not started", () =>
  withWorker(async (scene) => {
    const due_at = new Date((await scene.now() + 30) * 1000);
    const run = await aRun(scene.sql, {
      state: "ASSIGNED",
      assigned_worker_id: scene.worker_id,
      leader_epoch: scene.term.epoch,
      due_at,
    });
    const started = await start(scene, run);
    if (await scene.now() < due_at.getTime() / 1000 - 1) assert.equal(started.length, 0);
  }));

Deno.test("an outcome is for the attempt that it names, whatever its token", () =>
  withWorker(async (scene) => {
    const { sql, worker_id } = scene;
    const run = await aRun(sql, { state: "RUNNING", attempt: 2, assigned_worker_id: worker_id, start_token: TOKEN });
    assert.equal((await finishRuns(sql, worker_id, [ended(run.id, 1)])).length, 0);
    assert.equal((await finishRuns(sql, worker_id, [ended(run.id, 2)])).length, 1);
  }));

Deno.test("a retry is due, and let go, when it was to wait no longer; until then it is held", () =>
  withWorker(async (scene) => {
    const { sql, worker_id, now } = scene;
    const run = await aRun(sql, {
      state: "RUNNING",
      assigned_worker_id: worker_id,
      start_token: TOKEN,
      due_at: LONG_AGO,
    });
    const before = await now();
    const failure = { ...ended(run.id, 1), outcome: "FAILED" as const, retry_max: 1, retry_after_ms: 60_000 };
    await finishRuns(sql, worker_id, [failure]);
    const after = await now();
    const { state, held, due_at, wakes_at } = await scene.row(run);
    assert.deepEqual([state, held], ["RETRYING", true]);
    for (const at of [due_at, wakes_at] as Date[]) {
      const due = at.getTime() / 1000;
      assert(due > before + 59.9 && due < after + 60.1, `${due} is not a minute after ${before} to ${after}`);
    }
  }));

Deno.test("who asked whether its body may go on asks no more once that has ended, is lost or given back", () =>
  withWorker(async (scene) => {
    const { sql, term, worker_id } = scene;
    const asking = async () => {
      const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id, start_token: TOKEN });
      await sql`update worker set state = 'DETACHED' where worker_id = ${worker_id}`;
      await beginConfirming(sql, worker_id);
      assert.equal((await scene.row(run)).continuation_state, "CONFIRMING");
      return run;
    };
    const steps: [string, (run: RunRow) => Promise<unknown>][] = [
      ["SUCCEEDED", ({ id }) => finishRuns(sql, worker_id, [ended(id, 1)])],
      [
        "ORPHANED",
        ({ id: job_run_id }) =>
          giveBack(sql, worker_id, [{ job_run_id, attempt: 1, from: "RUNNING", outcome: "LOST", cause: "test" }]),
      ],
      ["ORPHANED", async () => {
        await sql`update worker set state = 'DEAD', lease_until = '-infinity' where worker_id = ${worker_id}`;
        await orphanLost(sql, term);
      }],
    ];
    for (const [ends, step] of steps) {
      const run = await asking();
      await step(run);
      const { state, continuation_state } = await scene.row(run);
      assert.deepEqual([state, continuation_state], [ends, "NONE"]);
    }
  }));

Deno.test("a rate that was idle makes up for a tenth of its time, at most a second, and each start is counted from there", () =>
  withWorker(async (scene) => {
    const { sql, term, worker_id, now } = scene;
    for (const [rate_seconds, made_up] of [[100, 1], [5, 0.5]] as const) {
      const { id: job_definition_id } = await aDefinition(sql, { rate_count: 10, rate_seconds });
      const runs = [await aRun(sql, { job_definition_id }), await aRun(sql, { job_definition_id })];
      const before = await now();
      await assignRuns(sql, term, runs.map(({ id, version }) => ({ job_run_id: id, version, worker_id })));
      const after = await now();
      const [row] = await sql<{ next: number }[]>`
        select extract(epoch from rate_next_at)::float8 as next from job_definition where id = ${job_definition_id}`;
      const ahead = 2 * rate_seconds / 10 - made_up;
      const next = row?.next ?? NaN;
      assert(next > before + ahead - 0.01 && next < after + ahead + 0.01, `${next - before} s ahead, not ${ahead}`);
    }
  }));

Deno.test("a run is stuck when it was assigned and due long ago: not one given ahead of its time, nor one that waited long for a worker", () =>
  withWorker(async (scene) => {
    const { sql, term, worker_id } = scene;
    const now = new Date(await scene.now() * 1000);
    const later = new Date(Date.UTC(2100, 0, 1));
    const given = (assigned_at: Date, due_at: Date) =>
      aRun(sql, { state: "ASSIGNED", assigned_worker_id: worker_id, assigned_at, due_at });
    const look = { lease_ms: 60_000, reassign_after_ms: 600_000, late_seconds: 0, ahead_seconds: 0 };
    let renewed = term;
    const isStuck = async () => {
      const looked = await renewAndReadWork(sql, renewed, look);
      renewed = looked?.term ?? renewed;
      return looked?.pending.stuck;
    };
    const stuck = () => orphanAssigned(sql, renewed, { assigned_longer_than_ms: look.reassign_after_ms });
    for (const [assigned_at, due_at] of [[LONG_AGO, later], [now, LONG_AGO]] as const) {
      await given(assigned_at, due_at);
      assert.deepEqual([await isStuck(), (await stuck()).length], [false, 0]);
    }
    const { id } = await given(LONG_AGO, LONG_AGO);
    assert.equal(await isStuck(), true);
    assert.deepEqual((await stuck()).map(({ job_run_id }) => job_run_id), [id]);
  }));

Deno.test("a worker gives back nothing of another's", () =>
  withWorker(async (scene) => {
    const { sql, worker_id } = scene;
    const other = await aWorker(sql);
    for (const from of ["ASSIGNED", "RUNNING"] as const) {
      const run = await aRun(sql, { state: from, assigned_worker_id: other.worker_id });
      const given = { job_run_id: run.id, attempt: 1, from, outcome: "LOST" as const, cause: "test" };
      assert.equal((await giveBack(sql, worker_id, [given])).length, 0);
      assert.deepEqual([(await scene.row(run)).state, (await scene.row(run)).version], [from, 0]);
      assert.equal((await giveBack(sql, other.worker_id, [given])).length, 1);
    }
  }));
