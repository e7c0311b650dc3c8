/**
 * What is charged to a run, and when it is used up: its failures, by which it is tried again, and its interruptions, by which it
 * is taken out of service. Each by the statements that workers and the leader use, on rows.
 */
import assert from "node:assert/strict";
import { endingOf } from "../../../src/runs/retry_policy.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Ending } from "../../../src/runs/finished_runs.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { giveBack, orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { assignRuns, finishRuns, startRuns } from "../../../src/runs/states.ts";
import { readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withLeader } from "../../support/leader_scene.ts";
import { withStores } from "../../support/stores.ts";

const ME = { worker_id: "w-me", node_id: "mine" };
const FAILED = { kind: "FAILED", error_name: "Error", error_summary: "no", retry: "policy", exit_code: 1 } as const;
const TIMED_OUT = { kind: "TIMED_OUT", error_summary: "late", exit_code: null } as const;
type Failure = typeof TIMED_OUT | (Omit<typeof FAILED, "error_name"> & { error_name: string });

/** A run of such a job, and what tries it once: what was said of its end, and its row after it. */
async function withTries(
  job: Record<string, unknown>,
  test: (on: { sql: Sql; id: number; fail(how: Failure): Promise<[Ending, Tried]> }) => Promise<void>,
): Promise<void> {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await aWorker(sql, ME);
    const { id: job_definition_id } = await aDefinition(sql, job);
    const { id } = await aRun(sql, { job_definition_id });
    const fail = async (how: Failure): Promise<[Ending, Tried]> => {
      const [row] = await sql<{ version: number }[]>`
        update job_run set due_at = clock_timestamp() where id = ${id} returning version`;
      const assignment = { job_run_id: id, version: row?.version ?? -1, worker_id: ME.worker_id };
      const [assigned] = await assignRuns(sql, term, [assignment]);
      assert(assigned);
      const order = { job_run_id: id, attempt: assigned.attempt, token: crypto.randomUUID(), digest: "digest" };
      const [started] = await startRuns(sql, { worker_id: ME.worker_id, epoch: term.epoch }, [order]);
      assert(started);
      const ending = endingOf(started, how, 0.5);
      await finishRuns(sql, ME.worker_id, [ending]);
      const [after] = await sql<Tried[]>`select state, failures, avoid_node from job_run where id = ${id}`;
      return [ending, after as Tried];
    };
    await test({ sql, id, fail });
  });
}

interface Tried {
  state: string;
  failures: number;
  avoid_node: string | null;
}

Deno.test("a run is tried again as often as its job says and no oftener, a time-out counts as a failure, and each wait is longer", async () => {
  const ways: [Failure, Failure, Failure][] = [
    [FAILED, TIMED_OUT, FAILED],
    [TIMED_OUT, TIMED_OUT, TIMED_OUT],
  ];
  for (const [first, second, last] of ways) {
    await withTries({ max_retries: 2, retry_backoff_seconds: 10, retry_factor: 3 }, async ({ sql, id, fail }) => {
      const seen = [];
      for (const how of [first, second, last]) {
        const [{ retry_after_ms }, { state, failures }] = await fail(how);
        seen.push([state, failures, retry_after_ms]);
      }
      assert.deepEqual(seen, [["RETRYING", 1, 10_000], ["RETRYING", 2, 30_000], [last.kind, 3, 90_000]]);
      const kept = (await readAttempts(sql, id)).map(({ outcome }) => outcome);
      assert.deepEqual(kept, [first.kind, second.kind], "the last attempt is the run itself");
    });
  }
});

Deno.test("who asked for another node after a failure avoids the one it failed on, until a failure that does not ask", async () => {
  const retry_on = { SolverError: { max: 3, otherNode: true } };
  await withTries({ max_retries: 3, retry_on }, async ({ fail }) => {
    const [, asked] = await fail({ ...FAILED, error_name: "SolverError" });
    assert.deepEqual(asked, { state: "RETRYING", failures: 1, avoid_node: ME.node_id });
    const [, another] = await fail(FAILED);
    assert.deepEqual(another, { state: "RETRYING", failures: 2, avoid_node: null });
  });
});

Deno.test("of runs that end alike, those avoid their node that asked to", async () => {
  await withStores(async ({ sql }) => {
    await aWorker(sql, ME);
    const ending = async (other_node: boolean): Promise<Ending> => {
      const { id } = await aRun(sql, { state: "RUNNING", assigned_worker_id: ME.worker_id, start_token: "t" });
      const nothing = { exit_code: 1, error_name: null, error_summary: null, result: null };
      const retry = { retry_max: 1, retry_after_ms: 0, other_node };
      return { ...nothing, job_run_id: id, attempt: 1, start_token: "t", outcome: "FAILED", ...retry };
    };
    const asked = [false, true, false, true];
    const endings: Ending[] = [];
    for (const one of asked) endings.push(await ending(one));
    await finishRuns(sql, ME.worker_id, endings);
    const rows = await sql`select avoid_node from job_run order by id`;
    assert.deepEqual(rows.map((row) => row.avoid_node), asked.map((one) => one ? ME.node_id : null));
  });
});

Deno.test("what had begun is charged as an interruption, what was only given to a worker is not", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const dead = await aWorker(sql, { state: "DEAD" });
    const me = await aWorker(sql, ME);
    const of = async (state: "ASSIGNED" | "RUNNING", { worker_id }: { worker_id: string }) =>
      (await aRun(sql, { state, assigned_worker_id: worker_id })).id;
    const charged = async (id: number) => {
      const run = await readRun(sql, id);
      assert.deepEqual([run?.state, run?.failures], ["ORPHANED", 0]);
      return run?.interruptions;
    };
    const lost = [await of("ASSIGNED", dead), await of("RUNNING", dead)] as const;
    assert.equal((await orphanLost(sql, term)).length, 2);
    assert.deepEqual([await charged(lost[0]), await charged(lost[1])], [0, 1], "its worker is dead");

    const back = async (from: "ASSIGNED" | "RUNNING", outcome: "GIVEN_BACK" | "LOST") => {
      const job_run_id = await of(from, me);
      await giveBack(sql, me.worker_id, [{ job_run_id, attempt: 1, from, outcome, cause: "test" }]);
      return await charged(job_run_id);
    };
    assert.equal(await back("ASSIGNED", "GIVEN_BACK"), 0);
    assert.equal(await back("RUNNING", "GIVEN_BACK"), 0, "a drain is nobody's fault");
    assert.equal(await back("RUNNING", "LOST"), 1);
  });
});

Deno.test("a run that was interrupted as often as its job allows goes on, now and when its time comes; one more ends it", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    await aWorker(sql, ME);
    const { id: job_definition_id } = await aDefinition(sql, { max_interruptions: 2 });
    const orphan = (interruptions: number, more = {}) =>
      aRun(sql, { job_definition_id, state: "ORPHANED", interruptions, ...more });
    const [soon] = await sql<{ at: Date }[]>`select clock_timestamp() + interval '30 s' as at`;
    const later = { held: true, due_at: soon?.at, wakes_at: soon?.at };
    const [allowed, near] = [await orphan(2), await orphan(2, later)];
    assert.deepEqual(await quarantine(sql, me.term).then((runs) => runs.length), 0);
    assert.deepEqual((await readDispatchSnapshot(sql, 60)).near.map((run) => run.job_run_id), [near.id]);
    const [worn, worn_later] = [await orphan(3), await orphan(3, later)];
    assert.deepEqual((await readDispatchSnapshot(sql, 60)).near.map((run) => run.job_run_id), [near.id]);
    await round();
    assert.deepEqual(orders.map((order) => order.job_run_id), [allowed.id]);
    const ended = await sql<{ id: number }[]>`select id from job_run where error_name = 'Quarantined' order by id`;
    assert.deepEqual(ended.map(({ id }) => id), [worn.id, worn_later.id]);
  });
});

Deno.test("a run's deadline counts from its first start, whatever is done again or changed after it; without one it has none", async () => {
  const deadline = async (sql: Sql, id: number) =>
    (await sql<{ after_s: number | null }[]>`
      select extract(epoch from deadline_at - started_at)::float8 as after_s from job_run where id = ${id}`)[0]
      ?.after_s;
  await withTries({ max_retries: 3, deadline_seconds: 600 }, async ({ sql, id, fail }) => {
    assert.equal(await deadline(sql, id), null, "it has not started");
    await fail(FAILED);
    const after_s = await deadline(sql, id) ?? NaN;
    assert(after_s >= 600 && after_s < 660, `${after_s} s after its start`); // by two looks at the clock
    const first = await sql`select deadline_at from job_run where id = ${id}`;
    await sql`update job_definition set deadline_seconds = 5`;
    await fail(FAILED);
    assert.deepEqual(await sql`select deadline_at from job_run where id = ${id}`, first);
  });
  await withTries({ max_retries: 3 }, async ({ sql, id, fail }) => {
    await fail(FAILED);
    assert.equal(await deadline(sql, id), null);
  });
});
