/** Rows that somebody's open transaction keeps: the leader waits for them once, and then goes on with the others. */
import assert from "node:assert/strict";
import { Wakeup } from "../../../src/platform/timers.ts";
import { lookAfterBulks } from "../../../src/leader/bulks.ts";
import { checkLine, writeAssignments } from "../../../src/leader/assignment.ts";
import type { LeaderContext } from "../../../src/leader/leader_context.ts";
import { planEvents, settleOverlaps } from "../../../src/leader/planning.ts";
import { connectDb, json, type Sql, type TransactionSql } from "../../../src/postgres/connection.ts";
import { emitEvent } from "../../../src/events/events.ts";
import { longestLockHolder } from "../../../src/postgres/row_locks.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { checkLines, hold, wake } from "../../../src/runs/key_queues.ts";
import { followPriority, requestCancel } from "../../../src/runs/requests.ts";
import { giveBack, orphanAssigned, orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { cancelRequested, skipLate } from "../../../src/runs/states.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const LONG_AGO = new Date("2026-01-01");

/** Inside a transaction that is open for as long as `act` takes, and then is taken back. */
async function keeping(database_url: string, act: (tx: TransactionSql) => Promise<void>): Promise<void> {
  const app = connectDb(database_url, { name: "shop", max: 1, statement_timeout_ms: 0 });
  const over = new Error("taken back");
  try {
    await app.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await act(tx);
      throw over;
    });
  } catch (error) {
    if (error !== over) throw error;
  } finally {
    await app.end();
  }
}

Deno.test("a bulk whose row is kept holds up no other, and is looked at when that has ended", () =>
  withBulks(async (scene) => {
    const { id: kept } = await scene.client.bulk("each", numbered(4), { parallel: 2 });
    await scene.round();
    await keeping(scene.database_url, async (tx) => {
      await scene.client.within(tx).changeBulk(kept, { parallel: 4 });
      await scene.end(kept, 2);
      const { id: other } = await scene.client.bulk("each", numbered(2), { parallel: 2 });
      await assert.rejects(lookAfterBulks(scene.me), /lock timeout/);
      for (let look = 0; look < 2; look++) await lookAfterBulks(scene.me);
      assert.equal((await scene.runs(other, ["PENDING"])).length, 2);
      const checks = await scene.sql`select bulk_id from bulk_recheck`;
      assert.deepEqual(checks.map(({ bulk_id }) => bulk_id), [kept], "one is left, however many ends there are");
    });
    await scene.round();
    assert.equal((await scene.running(kept)).length, 2);
    assert(!scene.me.bulks_locked);
  }));

Deno.test("a run whose row is kept is left out of what is assigned, and assigned when that has ended", () =>
  withStores(async ({ sql, database_url }) => {
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 60_000, epoch_hint: 0 }) as Term;
    const me = { sql, term, wakeup: new Wakeup() } as unknown as LeaderContext;
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id } = await aDefinition(sql);
    const runs = [await aRun(sql, { job_definition_id }), await aRun(sql, { job_definition_id })];
    const [kept, other] = runs.map(({ id, version }) => ({ job_run_id: id, version, worker_id }));
    assert(kept && other);
    await keeping(database_url, async (tx) => {
      await tx`update job_run set priority = 100 where id = ${kept.job_run_id}`;
      await assert.rejects(writeAssignments(me, [kept, other]), /lock timeout/);
      const assigned = await writeAssignments(me, [kept, other]);
      assert.deepEqual(assigned.map(({ job_run_id }) => job_run_id), [other.job_run_id]);
      assert.deepEqual(await writeAssignments(me, [kept]), []);
    });
    assert.equal((await writeAssignments(me, [kept])).length, 1);
  }));

interface Scene {
  sql: Sql;
  term: Term;
  worker_id: string;
}

/** What is done again and again to all runs that want it: two such runs, and the columns by which one that was moved is known. */
interface Act {
  run(on: Scene): Promise<number>;
  act(on: Scene, runs: number[]): Promise<unknown>;
  moved: Record<string, unknown>;
}

async function overlap(sql: Sql, concurrency_policy: string): Promise<{ slot: number; older: number }> {
  const { id, name } = await aDefinition(sql, { concurrency_policy });
  const both = { job_definition_id: id, serial_key: `job:${name}`, source: "schedule", due_at: LONG_AGO };
  const older = await aRun(sql, { ...both, state: "RUNNING" });
  return { slot: (await aRun(sql, both)).id, older: older.id };
}

function leading({ sql, term }: Scene): LeaderContext {
  return { sql, term, wakeup: new Wakeup() } as unknown as LeaderContext;
}

const ASSIGNED = { state: "ASSIGNED", assigned_at: LONG_AGO, due_at: LONG_AGO };

const ACTS: Record<string, Act> = {
  "waking what has come due": {
    run: async ({ sql }) => (await aRun(sql, { held: true, wakes_at: LONG_AGO })).id,
    act: ({ sql, term }) => wake(sql, term),
    moved: { held: false },
  },
  "letting go who is next in its line": {
    run: async ({ sql }) => {
      const serial_key = `key:${crypto.randomUUID()}`;
      const { id } = await aRun(sql, { held: true, serial_key });
      await sql`insert into key_recheck (line) values (${`serial:${serial_key}`})`;
      return id;
    },
    act: ({ sql, term }) => checkLines(sql, term, { skip_locked: true }),
    moved: { held: false },
  },
  "holding what is behind another": {
    run: async ({ sql }) => (await aRun(sql, { serial_key: `key:${crypto.randomUUID()}` })).id,
    act: ({ sql, term }, runs) => hold(sql, term, runs),
    moved: { held: true },
  },
  "taking back what was not started": {
    run: async ({ sql, worker_id }) => (await aRun(sql, { ...ASSIGNED, assigned_worker_id: worker_id })).id,
    act: ({ sql, term }) => orphanAssigned(sql, term, { assigned_longer_than_ms: 1_000 }),
    moved: { state: "ORPHANED" },
  },
  "taking what a dead worker had": {
    run: async ({ sql }) => (await aRun(sql, { state: "RUNNING", assigned_worker_id: "w-that-is-dead" })).id,
    act: ({ sql, term }) => orphanLost(sql, term),
    moved: { state: "ORPHANED" },
  },
  "giving back several": {
    run: async ({ sql, worker_id }) => (await aRun(sql, { ...ASSIGNED, assigned_worker_id: worker_id })).id,
    act: ({ sql, worker_id }, runs) => {
      const back = { attempt: 1, from: "ASSIGNED", outcome: "GIVEN_BACK", cause: "test" } as const;
      return giveBack(sql, worker_id, runs.map((job_run_id) => ({ job_run_id, ...back })));
    },
    moved: { state: "ORPHANED" },
  },
  "closing what was interrupted too often": {
    run: async ({ sql }) => (await aRun(sql, { state: "ORPHANED", interruptions: 99 })).id,
    act: ({ sql, term }) => quarantine(sql, term),
    moved: { state: "FAILED" },
  },
  "canceling on request": {
    run: async ({ sql }) => {
      const { id } = await aRun(sql);
      await requestCancel(sql, id, { actor: "test", reason: "test" });
      return id;
    },
    act: ({ sql, term }) => cancelRequested(sql, term),
    moved: { state: "CANCELED" },
  },
  "skipping what is late": {
    run: async ({ sql }) => (await aRun(sql, { source: "schedule", due_at: LONG_AGO })).id,
    act: ({ sql, term }) => skipLate(sql, term, 60),
    moved: { state: "SKIPPED" },
  },
  "skipping what is forbidden": {
    run: async ({ sql }) => (await overlap(sql, "forbid")).slot,
    act: (on) => settleOverlaps(leading(on)),
    moved: { state: "SKIPPED" },
  },
  "replacing older runs": {
    run: async ({ sql }) => (await overlap(sql, "replace")).older,
    act: (on) => settleOverlaps(leading(on)),
    moved: { cancel_requested_by: "system" },
  },
  "following the job's priority": {
    run: async ({ sql }) => {
      const { id } = await aDefinition(sql, { priority: 120 });
      await sql`insert into priority_change (job_definition_id, was) values (${id}, 240)`;
      return (await aRun(sql, { job_definition_id: id, priority: 240 })).id;
    },
    act: async ({ sql, term }) => {
      while (await followPriority(sql, term));
    },
    moved: { priority: 120 },
  },
};

for (const [name, { run, act, moved }] of Object.entries(ACTS)) {
  Deno.test(`a run whose row is kept holds up no other: ${name}`, () =>
    withStores(async ({ sql, database_url }) => {
      const { worker_id } = await aWorker(sql);
      const on: Scene = { sql, term: await aTerm(sql), worker_id };
      const runs = [await run(on), await run(on)];
      const done = async (): Promise<number[]> => {
        const rows = await sql<{ id: number }[]>`
          select id from job_run where id = any(${runs}) and to_jsonb(job_run) @> ${json(sql, moved)} order by id`;
        return rows.map(({ id }) => id);
      };
      await keeping(database_url, async (tx) => {
        await tx`select from job_run where id = ${runs[0] as number} for update`;
        await act(on, runs);
        assert.deepEqual(await done(), runs.slice(1));
        await act(on, runs);
      });
      await waitFor("the one that was kept", async () => {
        await act(on, runs);
        return (await done()).length === runs.length;
      });
    }));
}

Deno.test("overlaps are settled only when no row of theirs is kept any more", () =>
  withStores(async ({ sql, database_url }) => {
    const me = leading({ sql, term: await aTerm(sql), worker_id: "" });
    for (const [policy, which] of [["forbid", "slot"], ["replace", "older"]] as const) {
      const { [which]: id } = await overlap(sql, policy);
      me.overlaps_settled = false;
      await keeping(database_url, async (tx) => {
        await tx`select from job_run where id = ${id} for update`;
        await settleOverlaps(me);
        assert(!me.overlaps_settled);
      });
      await settleOverlaps(me);
      assert(me.overlaps_settled);
    }
  }));

Deno.test("a line whose next run is kept is waited for once, and then looked at beside the others", () =>
  withStores(async ({ sql, database_url }) => {
    const me = leading({ sql, term: await aTerm(sql), worker_id: "" });
    const { run } = ACTS["letting go who is next in its line"] as Act;
    const on = { sql, term: me.term, worker_id: "" };
    const [kept, other] = [await run(on), await run(on)];
    const held = async () => (await sql<{ id: number }[]>`select id from job_run where held`).map(({ id }) => id);
    await keeping(database_url, async (tx) => {
      await tx`select from job_run where id = ${kept} for update`;
      await assert.rejects(checkLine(me), /lock timeout/);
      await checkLine(me);
      assert.deepEqual(await held(), [kept]);
    });
    await checkLine(me);
    assert.deepEqual(await held(), []);
    assert.equal((await sql`select from key_recheck`).length, 0, `${other}`);
  }));

Deno.test("a bulk's held run whose row is kept holds up no other bulk, and is let go when that has ended", () =>
  withBulks(async (scene) => {
    const { me, sql, client } = scene;
    const held = async (id: number) =>
      (await sql<{ id: number }[]>`select id from job_run where bulk_id = ${id} and held`).map((run) => run.id);
    const { id } = await client.bulk("each", numbered(2), { parallel: 2 });
    await lookAfterBulks(me);
    await sql`update job_run set held = true`;
    const [kept] = await held(id);
    await keeping(scene.database_url, async (tx) => {
      await tx`select from job_run where id = ${kept as number} for update`;
      await client.changeBulk(id, { parallel: 3 });
      const { id: other } = await client.bulk("each", numbered(2), { parallel: 2 });
      await lookAfterBulks(me);
      assert.equal((await scene.runs(other, ["PENDING"])).length, 2);
      assert.deepEqual(await held(id), [kept]);
    });
    await waitFor("the next look at it", async () => {
      await lookAfterBulks(me);
      return (await held(id)).length === 0;
    });
  }));

Deno.test("a run whose row is kept is canceled with its bulk, when that has ended", () =>
  withBulks(async (scene) => {
    const { me, sql, client } = scene;
    const { id } = await client.bulk("each", numbered(2), { parallel: 2 });
    await scene.round();
    const [kept, other] = await scene.running(id);
    const asked = async () =>
      (await sql<{ id: number }[]>`select id from job_run where cancel_requested_at is not null order by id`)
        .map((run) => run.id);
    await sql`update bulk set state = 'CANCELED', changed_by = 'test' where id = ${id}`;
    await keeping(scene.database_url, async (tx) => {
      await tx`select from job_run where id = ${kept as number} for update`;
      await lookAfterBulks(me);
      assert.deepEqual(await asked(), [other]);
    });
    await waitFor("the next look at it", async () => {
      await lookAfterBulks(me);
      return (await asked()).length === 2;
    });
  }));

Deno.test("who keeps rows is told by name; who only reads is not one of them", () =>
  withStores(async ({ sql, database_url }) => {
    const { id } = await aRun(sql);
    const keeper = () => longestLockHolder(sql, ["job_run"], { to_write: true });
    await keeping(database_url, async (tx) => {
      await tx`select from job_run where id = ${id}`;
      assert.equal(await keeper(), undefined);
      await tx`select from job_run where id = ${id} for update`;
      const [me] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
      const { table, pid, who } = await keeper() ?? {};
      assert.deepEqual({ table, pid, who }, { table: "job_run", pid: me?.pid, who: "dandori shop" });
    });
    await waitFor("it to be over", async () => await keeper() === undefined);
  }));

Deno.test("events that put off a run whose row is kept wait for it, and no others do", () =>
  withStores(async ({ sql, database_url }) => {
    const me = leading({ sql, term: await aTerm(sql), worker_id: "" });
    await aDefinition(sql, {
      event_types: ["moved"],
      event_rules: { moved: { debounce_seconds: 60, key: "{device}" } },
    });
    await aDefinition(sql, { event_types: ["added"] });
    const emit = (event_type: string) => emitEvent(sql, { event_type, payload: { device: 7 } });
    const waiting = async () =>
      (await sql<{ event_type: string }[]>`select event_type from event where processed_at is null order by id`)
        .map((event) => event.event_type);
    await emit("moved");
    await planEvents(me);
    await emit("moved");
    await emit("added");
    await keeping(database_url, async (tx) => {
      await tx`select from job_run for update`;
      await assert.rejects(planEvents(me), /lock timeout/);
      await planEvents(me);
      assert.deepEqual(await waiting(), ["moved"]);
    });
    await planEvents(me);
    assert.deepEqual(await waiting(), []);
    assert.equal((await sql`select from job_run`).length, 2);
  }));
