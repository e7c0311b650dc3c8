/**
 * Runs whose time is known are given to workers before it, and start at it: not before, and not at all if that was called off.
 * Short ones are sent beyond the slots, so that none of these waits for an order.
 */
import assert from "node:assert/strict";
import { monotonicMs, rest, restUntil } from "../../../src/platform/timers.ts";
import type { Digests } from "../../../src/sync/module_graph.ts";
import { Executor } from "../../../src/worker/executor.ts";
import { PendingStarts, type TimedOrder } from "../../../src/worker/pending_starts.ts";
import { choose, chooseAhead } from "../../../src/leader/scheduling.ts";
import { CapacitySnapshot, hostsOf } from "../../../src/leader/placement.ts";
import { beginsAt, type Started } from "../../../src/worker/start_batcher.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import type { Body, BodyOrder, Outcome, ProcessPool } from "../../../src/sandbox/process_pool.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { DatabaseClock } from "../../../src/postgres/database_clock.ts";
import { dueSchedules } from "../../../src/definitions/due_schedules.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { assignRuns, cancelRequested, START_AHEAD_MS, startRuns } from "../../../src/runs/states.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import type { NodeRow } from "../../../src/nodes/workers.ts";
import { readDispatchSnapshot, type RunQueue } from "../../../src/dispatch/dispatch_queues.ts";
import { CALM, withProcesses } from "../../support/cluster.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { type Stores, withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const ME = "w1-0000000a";

interface Scene extends Stores {
  pending_starts: PendingStarts;
  local: LocalWorkerState;
  term: Term;
  definition_id: number;
  executor: Executor;
  /** Runs whose body has begun. */
  begun: number[];
  /** When, by this machine's clock, which is the database's too. */
  begun_at: number[];
  /** Ends the bodies that go on, where they do not end by themselves. */
  end(job_run_id: number): void;
  expected: { job_file: string }[];
  /** A run that is due so soon, given to this worker. */
  ahead(ms: number, priority?: number): Promise<TimedOrder>;
}

function withHand(
  test: (scene: Scene) => Promise<void>,
  options: { slots: number; go_on: boolean } = { slots: 10, go_on: false },
): Promise<void> {
  return withStores(async (stores) => {
    const { sql } = stores;
    await aWorker(sql, { worker_id: ME });
    const definition = await aDefinition(sql, { name: "job", command_name: "job.ts", digest: "digest" });
    const term = await aTerm(sql);
    const local = new LocalWorkerState({
      worker_id: ME,
      node_id: "here",
      slots: options.slots,
      settings: DEFAULT_SETTINGS,
    });
    local.may_run_until_ms = Infinity;
    local.sawEpoch(term.epoch);
    const [begun, begun_at, expected]: [number[], number[], Scene["expected"]] = [[], [], []];
    const bodies = new Map<number, () => void>();
    const end = (job_run_id: number) => bodies.get(job_run_id)?.();
    const sandbox = {
      start: ({ job_run_id }: BodyOrder): Body => {
        begun.push(job_run_id);
        begun_at.push(performance.timeOrigin + performance.now());
        const ended = Promise.withResolvers<Outcome>();
        const end = () => ended.resolve({ kind: "SUCCEEDED", result: null, exit_code: 0 });
        if (options.go_on) bodies.set(job_run_id, end);
        else end();
        return { pid: 1, waits: false, outcome: ended.promise, cancel: () => {}, abandon: end };
      },
      expect: (kind: { job_file: string }) => expected.push(kind),
      roomBehind: () => 0,
      isQuick: () => false,
    } as unknown as ProcessPool;
    const digests = { of: () => Promise.resolve({ digest: "digest" }), last: () => "digest" } as unknown as Digests;
    const executor = new Executor({ sql, sandbox, digests, local, jobs_dir: "/jobs" });
    const pending_starts = new PendingStarts({ sql, executor, sandbox, digests, local, jobs_dir: "/jobs" });
    const ahead = async (ms: number, priority = 240) => {
      const due_at = new Date(Date.now() + ms);
      const early = ms > 0 ? { held: true, wakes_at: due_at } : {};
      const { id, version } = await aRun(sql, { job_definition_id: definition.id, due_at, priority, ...early });
      const [order] = await assignRuns(sql, term, [{ job_run_id: id, version, worker_id: ME }]);
      // On a busy machine what was to be due in a moment is due already.
      assert(order && (ms > 0 ? order.due_unix_us > 0 || ms < 1_000 : order.due_unix_us === 0));
      return order;
    };
    const scene = {
      pending_starts,
      executor,
      local,
      term,
      definition_id: definition.id,
      begun,
      begun_at,
      end,
      expected,
      ahead,
    };
    await test({ ...stores, ...scene });
    pending_starts.empty();
  });
}

Deno.test("an order that lies ahead is held, its process loaded, and started at its time by the database's clock", () =>
  withHand(async ({ sql, pending_starts, begun, expected, ahead }) => {
    const order = await ahead(600);
    assert.deepEqual(await pending_starts.take(order), { result: "ACCEPTED", message: "" });
    assert.deepEqual(await pending_starts.take(order), { result: "ACCEPTED", message: "" }, "told twice, held once");
    await waitFor("its process", () => Promise.resolve(expected.length > 0 || undefined));
    assert.equal((await readRun(sql, order.job_run_id))?.state, "ASSIGNED");
    await waitFor("its end", async () => (await readRun(sql, order.job_run_id))?.state === "SUCCEEDED" || undefined);
    assert.deepEqual(begun, [order.job_run_id]);
    const [row] = await sql<{ on_time: boolean }[]>`
      select assigned_at < due_at and started_at >= due_at as on_time from job_run where id = ${order.job_run_id}`;
    assert.equal(row?.on_time, true);
    assert.equal(expected.length, 1);
  }));

Deno.test("the start of a run asks the database's clock, whatever the worker takes the time to be", () =>
  withHand(async ({ sql, term, ahead }) => {
    const { job_run_id, attempt } = await ahead(60_000);
    const order = { job_run_id, attempt, token: "t", digest: "digest" };
    assert.equal((await startRuns(sql, { worker_id: ME, epoch: term.epoch }, [order])).length, 0);
  }));

Deno.test("a run may be RUNNING a moment before it is due, and its body begins no sooner, whoever gave the order", () =>
  withHand(async ({ sql, pending_starts, executor, begun, begun_at, ahead }) => {
    await sql`select 1`;
    const [told, untold] = [await ahead(400), await ahead(START_AHEAD_MS - 5)];
    assert.equal((await executor.accept(untold)).result, "ACCEPTED");
    await pending_starts.take(told);
    await waitFor("both to begin", () => Promise.resolve(begun.length === 2 || undefined));
    for (const [place, order] of [untold, told].entries()) {
      assert.equal(begun[place], order.job_run_id);
      assert((begun_at[place] as number) >= order.due_unix_us / 1000, `${begun_at[place]} is too soon`);
      await waitFor("its end", async () => (await readRun(sql, order.job_run_id))?.state === "SUCCEEDED" || undefined);
      const row = await readRun(sql, order.job_run_id);
      assert((row?.started_at as Date) >= (row?.due_at as Date));
    }
  }));

Deno.test("what was reckoned of the database's clock counts only as far as the start itself has not shown it to be wrong", () => {
  const run = { due_in_ms: 40, asked_ms: 1_000, answered_ms: 1_010 } as Started;
  assert.equal(beginsAt(run, 1_045), 1_045);
  assert.equal(beginsAt(run, 900), 1_040, "it was set back meanwhile");
  assert.equal(beginsAt(run, 5_000), 1_050, "it was set forward");
  assert.equal(beginsAt(run), 1_050);
});

Deno.test("a run that is canceled, paused or taken back while it is in hand does not start", () =>
  withHand(async ({ sql, pending_starts, term, begun, ahead }) => {
    const [canceled, taken, kept] = [await ahead(700), await ahead(700), await ahead(700)];
    for (const order of [canceled, taken, kept]) await pending_starts.take(order);
    await requestCancel(sql, canceled.job_run_id, { actor: "test", reason: "test" });
    await cancelRequested(sql, term);
    await sql`update job_run set assigned_worker_id = 'another' where id = ${taken.job_run_id}`;
    await waitFor("the end of the third", async () => {
      return (await readRun(sql, kept.job_run_id))?.state === "SUCCEEDED" || undefined;
    });
    assert.deepEqual(begun, [kept.job_run_id]);
    assert.equal((await readRun(sql, canceled.job_run_id))?.state, "CANCELED");
    assert.equal((await readRun(sql, taken.job_run_id))?.state, "ASSIGNED");
  }));

Deno.test("what an operator has stopped meanwhile does not start when its time comes: all dispatch, its node, its job", () =>
  withHand(async ({ sql, pending_starts, begun, ahead }) => {
    const stops: [() => Promise<unknown>, () => Promise<unknown>][] = [
      [
        () => sql`insert into scheduler_settings (name, value) values ('dispatch', '"paused"')`,
        () => sql`delete from scheduler_settings`,
      ],
      [() => sql`update node set is_active = false`, () => sql`update node set is_active = true`],
      [() => sql`update job_definition set paused_at = clock_timestamp(), paused_by = 'test'`, () => Promise.resolve()],
    ];
    for (const [stop, resume] of stops) {
      const order = await ahead(300);
      await stop(); // before it is in hand: on a busy machine the time comes before a statement that is sent after that is done
      await pending_starts.take(order);
      await waitFor("it to be given back", async () => {
        return (await readRun(sql, order.job_run_id))?.state === "ORPHANED" || undefined;
      });
      const [kept] = await sql`select error_summary from job_run_attempt where job_run_id = ${order.job_run_id}`;
      assert.match(kept?.error_summary, /its job, its node or all dispatch was stopped$/);
      await resume();
    }
    assert.deepEqual(begun, []);
  }));

Deno.test("a worker that takes no work any more gives back what it has in hand, and that sleeps again until it is due", () =>
  withHand(async ({ sql, pending_starts, local, begun, ahead }) => {
    const order = await ahead(60_000);
    await pending_starts.take(order);
    local.draining = true;
    pending_starts.empty();
    await waitFor("it to be given back", async () => {
      return (await readRun(sql, order.job_run_id))?.state === "ORPHANED" || undefined;
    });
    const [row] = await sql`select held, wakes_at = due_at as until_due, interruptions from job_run`;
    assert.deepEqual({ ...row }, { held: true, until_due: true, interruptions: 0 });
    assert.deepEqual((await readAttempts(sql, order.job_run_id)).map(({ outcome }) => outcome), ["GIVEN_BACK"]);
    assert.equal((await pending_starts.take({ ...order, attempt: 2 })).result, "REJECTED_DRAINING");
    assert.deepEqual(begun, []);
  }));

Deno.test("an order beyond the slots starts when a body ends, in the order in which they came, and is else given back soon", () =>
  withHand(async ({ sql, pending_starts, begun, end, ahead }) => {
    const orders = [];
    for (let n = 0; n < 5; n++) orders.push(await ahead(-1_000));
    const [first, second, third, ...others] = orders.map((order) => order.job_run_id) as [number, number, number];
    const answers = await Promise.all(orders.map((order) => pending_starts.take(order)));
    assert.deepEqual(new Set(answers.map(({ result }) => result)), new Set(["ACCEPTED"]));
    assert.deepEqual(begun, [first, second]);
    end(first);
    await waitFor("the third", () => Promise.resolve(begun.length === 3 || undefined));
    assert.deepEqual(begun, [first, second, third]);
    assert(!pending_starts.late);
    await waitFor("the others to be given back", async () => {
      const states = await Promise.all(others.map(async (id) => (await readRun(sql, id))?.state));
      return states.every((state) => state === "ORPHANED") || undefined;
    });
    assert(pending_starts.late, "its leader is told to send no more");
    for (const id of others) assert.equal((await readRun(sql, id))?.interruptions, 0);
    assert.deepEqual(begun, [first, second, third]);
    await waitFor("it to be forgotten", () => Promise.resolve(!pending_starts.late));
    for (const id of [second, third]) end(id);
  }, { slots: 2, go_on: true }));

Deno.test("of those that wait for a slot the one of the highest priority goes first, whenever it came", () =>
  withHand(async ({ pending_starts, begun, end, ahead }) => {
    const orders = [];
    for (const priority of [240, 240, 360, 120]) orders.push(await ahead(-1_000, priority));
    const [goes_on, usual, low, urgent] = orders.map((order) => order.job_run_id) as [number, number, number, number];
    await Promise.all(orders.map((order) => pending_starts.take(order)));
    await pending_starts.take({ ...orders[3] as TimedOrder, priority: 360 }); // the same once more, as it is read by a renewal after a change
    for (const [ends, then] of [[goes_on, urgent], [urgent, usual], [usual, low]] as const) {
      end(ends);
      await waitFor(`the one after ${ends}`, () => Promise.resolve(begun.at(-1) === then || undefined));
    }
    end(low);
    assert.deepEqual(begun, [goes_on, urgent, usual, low]);
  }, { slots: 1, go_on: true }));

Deno.test("a slot's run is born so long before it, unless runs of its job exclude each other", () =>
  withStores(async ({ sql }) => {
    const definitions = { allow: 0, forbid: 0 };
    for (const policy of ["allow", "forbid"] as const) {
      definitions[policy] = (await aDefinition(sql, { name: policy, concurrency_policy: policy })).id;
      await sql`
        insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, next_slot)
        values (${definitions[policy]}, 'often', 'every_n_minutes', '1', clock_timestamp() + interval '30 s')`;
    }
    const due = async (seconds: number) => {
      const { schedules } = await dueSchedules(sql, 10, seconds);
      const ids = schedules.map(({ id }) => id);
      const rows = await sql<{ job_definition_id: number }[]>`
        select job_definition_id from job_schedule where id = any(${ids}::bigint[])`;
      return rows.map(({ job_definition_id }) => job_definition_id);
    };
    assert.deepEqual(await due(0), []);
    assert.deepEqual(await due(60), [definitions.allow]);
    await sql`update job_schedule set next_slot = clock_timestamp()`;
    assert.deepEqual((await due(0)).sort(), [definitions.allow, definitions.forbid]);
  }));

Deno.test("a free slot elsewhere goes before a place behind others", () => {
  const node = (node_id: string): NodeRow => ({
    ...{ node_id, is_active: true, status: "available", labels: {}, max_concurrent: null, left_behind: 0 },
    ...{ problem: null, checked: true, inactive_by: null, inactive_reason: null },
  });
  const host = (node_id: string, place: { free: number; idle: number; load: number }) => {
    return {
      node: node(node_id),
      load: 0,
      free: place.free,
      places: [{ worker_id: node_id, node_id, ahead: 0, line_ms: 8_000, ...place }],
      staff: [node_id],
    };
  };
  const hosts = [host("busy", { free: 9, idle: -1, load: 2 }), host("idle", { free: 1, idle: 1, load: 7 })];
  const queue = {
    job_definition_id: 1,
    node: "",
    concurrency_key: null,
    concurrency_limit: null,
    rate_count: null,
    resources: {},
  };
  const run = { job_definition_id: 1, version: 0, node: "", digest: "d", avoid_node: null };
  const free = { serial_key: null, limit_key: null, limit_left: null, bulk_id: null, bulk_left: null };
  const waiting = [1, 2].map((job_run_id) => ({ job_run_id, ...run, ...free, worn_out: false, behind: false }));
  const capacity = new CapacitySnapshot({ hosts });
  const chosen = choose(waiting, [{ queue: queue as unknown as RunQueue, room: 10 }], capacity);
  assert.deepEqual(chosen.map(({ worker_id }) => worker_id), ["idle", "busy"]);
});

Deno.test("only what waits for nothing but its time is near", () =>
  withHand(async ({ sql, definition_id }) => {
    const due_at = new Date(Date.now() + 20_000);
    const soon = { job_definition_id: definition_id, due_at, held: true, wakes_at: due_at };
    const plain = await aRun(sql, soon);
    const alone = await aRun(sql, { ...soon, serial_key: "alone" });
    for (let n = 0; n < 2; n++) await aRun(sql, { ...soon, serial_key: "shared" });
    await aRun(sql, { ...soon, limit_key: `${definition_id}:x` });
    await aRun(sql, { ...soon, cancel_requested_at: new Date(), cancel_requested_by: "test", cancel_reason: "test" });
    const limited = await aDefinition(sql, { name: "limited", concurrency_limit: 5 });
    await aRun(sql, { ...soon, job_definition_id: limited.id });
    const paused = await aDefinition(sql, { name: "paused", paused_at: new Date(), paused_by: "test" });
    await aRun(sql, { ...soon, job_definition_id: paused.id });
    const near = async (seconds: number) =>
      (await readDispatchSnapshot(sql, seconds)).near.map(({ job_run_id }) => job_run_id);
    assert.deepEqual(await near(30), [plain.id, alone.id]);
    assert.deepEqual(await near(1), []);
    assert.deepEqual(await near(0), []);
  }));

Deno.test("what is given ahead takes no slot, needs one that is free now, and counts for a node that has a limit", () =>
  withHand(async ({ sql, ahead }) => {
    await ahead(60_000);
    const { workers } = await readDispatchSnapshot(sql);
    assert.deepEqual(workers.map(({ load, ahead }) => ({ load, ahead })), [{ load: 0, ahead: 1 }]);
    const near = [1, 2, 3].map((job_run_id) => ({ job_run_id, version: 0, node: "", digest: "d", avoid_node: null }));
    const given = (slots: number, max_concurrent: number | null) => {
      const limited = workers.map((worker) => ({ ...worker, slots, node: { ...worker.node, max_concurrent } }));
      const places = limited.map(({ worker_id, node_id, load, ahead }) => {
        return { worker_id, node_id, load, ahead, free: slots - load, idle: slots - load, line_ms: 0 };
      });
      const capacity = new CapacitySnapshot({ hosts: hostsOf(limited, { places, staff: [] }) });
      const chosen = chooseAhead(near, capacity).length;
      assert.equal(places[0]?.free, slots, "a slot was taken");
      return chosen;
    };
    assert.equal(given(10, null), 3);
    assert.equal(given(2, null), 1);
    assert.equal(given(1, null), 0);
    assert.equal(given(10, 3), 2);
    assert.equal(given(10, 1), 0);
  }));

Deno.test("the local instant at which the database's clock shows a time is never before it does", () =>
  withStores(async ({ sql }) => {
    const clock = new DatabaseClock(sql);
    for (let n = 0; n < 5; n++) {
      const [row] = await sql<{ in_a_moment: number }[]>`
        select (extract(epoch from clock_timestamp()) * 1000 + 20)::float8 as in_a_moment`;
      const { in_a_moment } = row as { in_a_moment: number };
      const at_ms = await clock.reaches(in_a_moment);
      await restUntil(at_ms);
      assert(monotonicMs() >= at_ms);
      const [read] = await sql<{ reached: boolean }[]>`
        select extract(epoch from clock_timestamp()) * 1000 >= ${in_a_moment}::float8 as reached`;
      assert.equal(read?.reached, true);
    }
  }));

Deno.test("of several answers about the database's clock the one counts that promises a time soonest", async () => {
  const slow = [{ before_ms: 400, after_ms: 0 }, { before_ms: 0, after_ms: 300 }, { before_ms: 0, after_ms: 300 }];
  const answers = slow.values();
  const sql = async () => {
    const { before_ms, after_ms } = answers.next().value as typeof slow[0];
    await rest(before_ms);
    const now_ms = monotonicMs(); // the two clocks are one
    await rest(after_ms);
    return [{ now_ms }];
  };
  const clock = new DatabaseClock(sql as unknown as Sql);
  const late_ms = await clock.reaches(0);
  assert(late_ms < 300, `${late_ms} ms late, as the answers with the shorter round trips are`);
});

Deno.test("runs whose time is known are assigned before it and started after it, by real workers", () =>
  withProcesses(2, async (cluster) => {
    await cluster.hears("leader.elected");
    const at = new Date(Date.now() + 5_000);
    const ids = [];
    for (let n = 0; n < 5; n++) ids.push((await cluster.client.enqueue("append_one_row", {}, { runAt: at })).id);
    for (const id of ids) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    const rows = await cluster.sql<{ ahead: boolean; early: boolean; attempt: number }[]>`
      select assigned_at < due_at as ahead, started_at < due_at as early, attempt from job_run`;
    assert.deepEqual(rows.map((row) => ({ ...row })), ids.map(() => ({ ahead: true, early: false, attempt: 1 })));
  }, { settings: { ...CALM, reassign_after_seconds: 60 } }));
