/**
 * Every (state x transition) pair, allowed and refused, against the real statements: a row is put into the state, the
 * transition is tried, and the state that comes out must be the one in the table below.
 */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { giveBack, orphanAssigned, orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { MAY_START, NOT_ENDED, type RunState, STATES, TERMINAL } from "../../../src/runs/run_states.ts";
import {
  assignRuns,
  cancelRequested,
  endPastDeadline,
  finishRuns,
  forceClose,
  skipLate,
  startRuns,
} from "../../../src/runs/states.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const ME = "w1-0000000a";
const DEAD = "w2-0000000b";
const DETACHED = "w3-0000000c";
const TOKEN = "token-of-this-start";

interface Tried {
  sql: Sql;
  term: Term;
  id: number;
  version: number;
}

interface Transition {
  name: string;
  /** Leaders write under the fence of their term. */
  by_leader?: true;
  /** From each state that allows it, the state it leads to. From all others nothing may change. */
  allowed: Partial<Record<RunState, RunState>>;
  /** Columns of the row before, beside its state. */
  row?: Record<string, unknown>;
  try: (on: Tried) => Promise<unknown>;
}

function ending(outcome: "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELED", retry_max = 0) {
  return ({ sql, id }: Tried) =>
    finishRuns(sql, ME, [{
      job_run_id: id,
      attempt: 1,
      start_token: TOKEN,
      outcome,
      exit_code: 0,
      error_name: null,
      error_summary: null,
      result: null,
      retry_max,
      retry_after_ms: 10,
      other_node: false,
    }]);
}

const long_ago = new Date("2020-01-01T00:00:00Z");
const asked = { cancel_requested_at: long_ago, cancel_requested_by: "me", cancel_reason: "test" };

/** All of these lead to one. */
const each = (from: readonly RunState[], to: RunState) => Object.fromEntries(from.map((state) => [state, to]));
const WITHOUT_BODY = NOT_ENDED.filter((state) => state !== "RUNNING");

const TRANSITIONS: Transition[] = [
  {
    name: "assign",
    by_leader: true,
    allowed: each(MAY_START, "ASSIGNED"),
    try: ({ sql, term, id, version }) => assignRuns(sql, term, [{ job_run_id: id, version, worker_id: ME }]),
  },
  {
    name: "start",
    allowed: { ASSIGNED: "RUNNING" },
    try: ({ sql, term, id }) =>
      startRuns(sql, { worker_id: ME, epoch: term.epoch }, [{
        job_run_id: id,
        attempt: 1,
        token: "new",
        digest: "digest",
      }]),
  },
  { name: "succeed", allowed: { RUNNING: "SUCCEEDED", ORPHANED: "SUCCEEDED" }, try: ending("SUCCEEDED") },
  { name: "fail for good", allowed: { RUNNING: "FAILED", ORPHANED: "FAILED" }, try: ending("FAILED") },
  { name: "fail with budget", allowed: { RUNNING: "RETRYING", ORPHANED: "RETRYING" }, try: ending("FAILED", 1) },
  { name: "time out for good", allowed: { RUNNING: "TIMED_OUT", ORPHANED: "TIMED_OUT" }, try: ending("TIMED_OUT") },
  { name: "time out with budget", allowed: { RUNNING: "RETRYING", ORPHANED: "RETRYING" }, try: ending("TIMED_OUT", 1) },
  {
    name: "fail with one try left",
    row: { failures: 1 },
    allowed: { RUNNING: "RETRYING", ORPHANED: "RETRYING" },
    try: ending("FAILED", 2),
  },
  {
    name: "fail with no try left",
    row: { failures: 2 },
    allowed: { RUNNING: "FAILED", ORPHANED: "FAILED" },
    try: ending("FAILED", 2),
  },
  {
    name: "time out with no try left",
    row: { failures: 1 },
    allowed: { RUNNING: "TIMED_OUT", ORPHANED: "TIMED_OUT" },
    try: ending("TIMED_OUT", 1),
  },
  { name: "end after a kill", allowed: { RUNNING: "CANCELED", ORPHANED: "CANCELED" }, try: ending("CANCELED", 1) },
  {
    name: "fail with budget, but canceled",
    row: asked,
    allowed: { RUNNING: "FAILED", ORPHANED: "FAILED" },
    try: ending("FAILED", 1),
  },
  {
    name: "take back what was refused",
    by_leader: true,
    allowed: { ASSIGNED: "ORPHANED" },
    try: ({ sql, term, id }) => orphanAssigned(sql, term, { refused: [{ job_run_id: id, attempt: 1 }] }),
  },
  {
    name: "take back what is stuck",
    by_leader: true,
    row: { assigned_at: long_ago, due_at: long_ago },
    allowed: { ASSIGNED: "ORPHANED" },
    try: ({ sql, term }) => orphanAssigned(sql, term, { assigned_longer_than_ms: 1000 }),
  },
  {
    name: "take back what a detached worker did not start",
    by_leader: true,
    row: { assigned_worker_id: DETACHED },
    allowed: { ASSIGNED: "ORPHANED" },
    try: ({ sql, term }) => orphanAssigned(sql, term, "to_detached"),
  },
  {
    name: "recover from a dead worker",
    by_leader: true,
    row: { assigned_worker_id: DEAD },
    allowed: { ASSIGNED: "ORPHANED", RUNNING: "ORPHANED" },
    try: ({ sql, term }) => orphanLost(sql, term),
  },
  { name: "recover from a living worker", allowed: {}, try: ({ sql, term }) => orphanLost(sql, term) },
  {
    name: "give back what was not started",
    allowed: { ASSIGNED: "ORPHANED" },
    try: ({ sql, id }) =>
      giveBack(sql, ME, [{ job_run_id: id, attempt: 1, from: "ASSIGNED", outcome: "GIVEN_BACK", cause: "drain" }]),
  },
  {
    name: "give back what lost its body",
    allowed: { RUNNING: "ORPHANED" },
    try: ({ sql, id }) =>
      giveBack(sql, ME, [{ job_run_id: id, attempt: 1, from: "RUNNING", outcome: "LOST", cause: "lost" }]),
  },
  {
    name: "give back another attempt",
    allowed: {},
    try: ({ sql, id }) =>
      giveBack(sql, ME, [{ job_run_id: id, attempt: 2, from: "RUNNING", outcome: "LOST", cause: "lost" }]),
  },
  {
    name: "quarantine",
    by_leader: true,
    row: { interruptions: 4 },
    allowed: { ORPHANED: "FAILED" },
    try: ({ sql, term }) => quarantine(sql, term),
  },
  {
    name: "quarantine too early",
    row: { interruptions: 3 },
    allowed: {},
    try: ({ sql, term }) => quarantine(sql, term),
  },
  {
    name: "skip what is late",
    by_leader: true,
    row: { source: "schedule", due_at: long_ago },
    allowed: { PENDING: "SKIPPED" },
    try: ({ sql, term }) => skipLate(sql, term, 0.5),
  },
  {
    name: "skip an enqueued run that is late",
    row: { source: "enqueue", due_at: long_ago },
    allowed: {},
    try: ({ sql, term }) => skipLate(sql, term, 3600),
  },
  {
    name: "cancel on request",
    by_leader: true,
    row: asked,
    allowed: each(WITHOUT_BODY, "CANCELED"),
    try: ({ sql, term }) => cancelRequested(sql, term),
  },
  {
    name: "cancel on request, its worker dead",
    by_leader: true,
    row: { ...asked, assigned_worker_id: DEAD },
    allowed: each(NOT_ENDED, "CANCELED"),
    try: ({ sql, term }) => cancelRequested(sql, term),
  },
  {
    name: "end past the deadline",
    by_leader: true,
    row: { deadline_at: long_ago },
    allowed: each(WITHOUT_BODY, "TIMED_OUT"),
    try: ({ sql, term }) => endPastDeadline(sql, term),
  },
  {
    name: "end before the deadline",
    row: { deadline_at: new Date("2100-01-01T00:00:00Z") },
    allowed: {},
    try: ({ sql, term }) => endPastDeadline(sql, term),
  },
  {
    name: "cancel what undoes its steps",
    row: { ...asked, deadline_at: long_ago, ending: "CANCELED" },
    allowed: {},
    try: async ({ sql, term }) => [await cancelRequested(sql, term), await endPastDeadline(sql, term)],
  },
  {
    name: "assign what undoes its steps",
    row: { ...asked, ending: "CANCELED" },
    allowed: each(MAY_START, "ASSIGNED"),
    try: ({ sql, term, id, version }) => assignRuns(sql, term, [{ job_run_id: id, version, worker_id: ME }]),
  },
  {
    name: "suspend",
    allowed: { RUNNING: "SUSPENDED" },
    try: ({ sql, id }) =>
      suspendRuns(sql, ME, [{ job_run_id: id, attempt: 1, start_token: TOKEN, wakes: 0, wakes_in_ms: null }]),
  },
  { name: "cancel without a request", allowed: {}, try: ({ sql, term }) => cancelRequested(sql, term) },
  {
    name: "close by force",
    allowed: each(NOT_ENDED, "FAILED"),
    try: ({ sql, id }) => forceClose(sql, id, { actor: "me", reason: "test" }),
  },
];

async function stage(sql: Sql): Promise<{ term: Term; definition: number }> {
  await aWorker(sql, { worker_id: ME });
  await aWorker(sql, { worker_id: DEAD, state: "DEAD" });
  await aWorker(sql, { worker_id: DETACHED, state: "DETACHED" });
  const definition = await aDefinition(sql, { name: "tried", digest: "digest", max_interruptions: 3 });
  const term = await acquire(sql, { worker_id: ME, lease_ms: 60_000, epoch_hint: 0 });
  assert(term);
  return { term, definition: definition.id };
}

async function rowIn(sql: Sql, state: RunState, row: Record<string, unknown>) {
  const live = state === "RUNNING" || state === "ORPHANED";
  return await aRun(sql, {
    state,
    assigned_worker_id: ME,
    leader_epoch: 1,
    ...(live ? { start_token: TOKEN, fence: 1, started_at: long_ago } : {}),
    ...row,
  });
}

Deno.test("each transition moves the states that the table allows, and no other", async (t) => {
  await withStores(async ({ sql }) => {
    const { term, definition } = await stage(sql);
    for (const transition of TRANSITIONS) {
      await t.step(transition.name, async () => {
        for (const state of STATES) {
          const run = await rowIn(sql, state, { job_definition_id: definition, ...transition.row });
          await transition.try({ sql, term, id: run.id, version: run.version });
          const [after] = await sql<
            { state: RunState; version: number }[]
          >`select state, version from job_run where id = ${run.id}`;
          const expected = transition.allowed[state] ?? state;
          assert.equal(after?.state, expected, `${transition.name} from ${state}`);
          assert.equal(
            after?.version,
            run.version + (expected === state ? 0 : 1),
            `version after ${transition.name} from ${state}`,
          );
          await sql`delete from job_run where id = ${run.id}`;
        }
      });
    }
  });
});

Deno.test("nothing in the table leads out of a terminal state", () => {
  for (const transition of TRANSITIONS) {
    for (const state of TERMINAL) {
      assert.equal(transition.allowed[state], undefined, `${transition.name} from ${state}`);
    }
  }
});

Deno.test("a leader whose term is over writes nothing", async (t) => {
  await withStores(async ({ sql }) => {
    const { term: old, definition } = await stage(sql);
    await sql`update leader_term set lease_until = '-infinity'`;
    assert(await acquire(sql, { worker_id: DEAD, lease_ms: 60_000, epoch_hint: 0 }));
    for (const transition of TRANSITIONS.filter((one) => one.by_leader)) {
      await t.step(transition.name, async () => {
        for (const state of Object.keys(transition.allowed) as RunState[]) {
          const run = await rowIn(sql, state, { job_definition_id: definition, ...transition.row });
          await transition.try({ sql, term: old, id: run.id, version: run.version });
          const [after] = await sql`select state from job_run where id = ${run.id}`;
          assert.equal(after?.state, state, `${transition.name} from ${state} under epoch ${old.epoch}`);
          await sql`delete from job_run where id = ${run.id}`;
        }
      });
    }
  });
});

Deno.test("a worker that is not the owner, or no longer active, moves nothing", async () => {
  await withStores(async ({ sql }) => {
    const { term, definition } = await stage(sql);
    const other = await rowIn(sql, "RUNNING", { job_definition_id: definition, assigned_worker_id: DEAD });
    await ending("SUCCEEDED")({ sql, term, id: other.id, version: other.version });
    const stale = await rowIn(sql, "RUNNING", { job_definition_id: definition, start_token: "of a later start" });
    await ending("SUCCEEDED")({ sql, term, id: stale.id, version: stale.version });
    const later = await rowIn(sql, "ASSIGNED", { job_definition_id: definition, attempt: 2 });
    const newer = await rowIn(sql, "ASSIGNED", { job_definition_id: definition, leader_epoch: term.epoch + 1 });
    const other_code = await rowIn(sql, "ASSIGNED", { job_definition_id: definition });
    const start = (id: number, digest = "digest") =>
      startRuns(sql, { worker_id: ME, epoch: term.epoch }, [{ job_run_id: id, attempt: 1, token: "t", digest }]);
    assert.deepEqual([...await start(later.id)], [], "an order for an attempt that is over");
    assert.deepEqual([...await start(newer.id)], [], "an order of an older leader");
    assert.deepEqual([...await start(other_code.id, "other")], [], "code that is not the definition's");
    await sql`update worker set state = 'DRAINING' where worker_id = ${ME}`;
    assert.deepEqual([...await start(other_code.id)], [], "a worker that drains");
    const states = await sql`select state, count(*)::int as n from job_run group by state order by state`;
    assert.deepEqual([...states], [{ state: "ASSIGNED", n: 3 }, { state: "RUNNING", n: 2 }]);
  });
});

Deno.test("two starts of one run at the same instant: one gets it", async () => {
  await withStores(async ({ sql }) => {
    const { term, definition } = await stage(sql);
    for (let round = 0; round < 20; round++) {
      const run = await rowIn(sql, "ASSIGNED", { job_definition_id: definition });
      const start = (token: string) =>
        startRuns(sql, { worker_id: ME, epoch: term.epoch }, [{
          job_run_id: run.id,
          attempt: 1,
          token,
          digest: "digest",
        }]);
      const answers = await Promise.all([start("a"), start("b"), start("c")]);
      assert.equal(answers.flat().length, 1);
    }
  });
});

Deno.test("slots of a forbid job are skipped while an older run of it has not ended", async () => {
  await withStores(async ({ sql }) => {
    const { term } = await stage(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "alone", concurrency_policy: "forbid" });
    const key = { job_definition_id, serial_key: "job:alone", source: "schedule" };
    const older = await rowIn(sql, "RUNNING", { ...key });
    const enqueued = await rowIn(sql, "PENDING", { ...key, source: "enqueue" });
    for (const state of ["ASSIGNED", "RUNNING", "SUSPENDED", "RETRYING", "ORPHANED"]) {
      await sql`update job_run set state = ${state} where id = ${older.id}`;
      const slot = await rowIn(sql, "PENDING", { ...key });
      await sql`update job_run set serial_key = null where id = ${enqueued.id}`; // it is a reason as well
      const { runs: skipped } = await skipForbidden(sql, term);
      assert.deepEqual(skipped.map((run) => run.job_run_id), [slot.id], state);
      await sql`update job_run set serial_key = 'job:alone' where id = ${enqueued.id}`;
      assert.deepEqual((await skipForbidden(sql, term)).runs, []);
    }
    const [kept] = await sql`select state from job_run where id = ${enqueued.id}`;
    assert.equal(kept?.state, "PENDING", "an explicit enqueue is never dropped");
  });
});

Deno.test("of a queueOne job one slot waits for the run that goes on, and later ones are skipped", async () => {
  await withStores(async ({ sql }) => {
    const { term } = await stage(sql);
    const { id: job_definition_id } = await aDefinition(sql, { name: "patient", concurrency_policy: "queue_one" });
    const key = { job_definition_id, serial_key: "job:patient", source: "schedule" };
    await rowIn(sql, "RUNNING", { ...key });
    const waits = await rowIn(sql, "PENDING", { ...key });
    const late = [await rowIn(sql, "PENDING", { ...key }), await rowIn(sql, "PENDING", { ...key })];
    const { runs: skipped } = await skipForbidden(sql, term);
    assert.deepEqual(new Set(skipped.map((run) => run.job_run_id)), new Set(late.map((run) => run.id)));
    const [kept] = await sql`select state from job_run where id = ${waits.id}`;
    assert.equal(kept?.state, "PENDING");
  });
});
