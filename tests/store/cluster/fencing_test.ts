/**
 * A leader whose term is over writes nothing. Every statement of store/ that takes a term is called with terms that are
 * not the one of now, and then, so that each shows that it would have written, with that one.
 */
import assert from "node:assert/strict";
import { type BareSql, SQL_WRITES, storeFunctions } from "../../support/store_functions.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { rollUp, trimRunStats } from "../../../src/stats/run_stats.ts";
import { bulksSeen, feed, finish, letGo, pauseFailing, planFeed, throttle } from "../../../src/bulks/bulk_dispatch.ts";
import { keepPace, recordCheck } from "../../../src/nodes/node_health.ts";
import { createSlotRuns } from "../../../src/runs/create_runs.ts";
import type { Db, Sql } from "../../../src/postgres/connection.ts";
import { detachSilent } from "../../../src/dispatch/detach.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import { followEnds } from "../../../src/events/followers.ts";
import { acquire, depose, resign, Term } from "../../../src/nodes/leadership.ts";
import { checkLines, hold, wake } from "../../../src/runs/key_queues.ts";
import { buryWorkers } from "../../../src/nodes/workers.ts";
import { requestReplaced, skipForbidden } from "../../../src/runs/concurrency_policy.ts";
import { followPriority, requestBulkCancel, requestCancel } from "../../../src/runs/requests.ts";
import { orphanAssigned, orphanLost, quarantine } from "../../../src/runs/lost_runs.ts";
import { assignRuns, cancelRequested, endPastDeadline, skipLate } from "../../../src/runs/states.ts";
import { type DispatchSnapshot, readDispatchSnapshot, sayWhy } from "../../../src/dispatch/dispatch_queues.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { snapshotFor } from "../../../src/leader/leader.ts";
import { aBulk, countedFrom, LONG_AGO, OF_HOUSEKEEPING, type Scene } from "../../support/fenced_housekeeping.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

/** A slot of a job that has an older run which has not ended. */
async function overlapping(sql: Sql, concurrency_policy: string): Promise<void> {
  const { id, name } = await aDefinition(sql, { concurrency_policy });
  const both = { job_definition_id: id, serial_key: `job:${name}`, source: "schedule", due_at: LONG_AGO };
  await aRun(sql, both);
  await aRun(sql, both);
}

const STATEMENTS: Record<string, Scene> = {
  assignRuns: async (sql) => {
    const { id, version } = await aRun(sql);
    const { worker_id } = await aWorker(sql);
    return (term) => assignRuns(sql, term, [{ job_run_id: id, version, worker_id }]);
  },
  orphanAssigned: async (sql) => {
    const { worker_id } = await aWorker(sql);
    await aRun(sql, { state: "ASSIGNED", assigned_worker_id: worker_id, assigned_at: LONG_AGO, due_at: LONG_AGO });
    return (term) => orphanAssigned(sql, term, { assigned_longer_than_ms: 1_000 });
  },
  orphanLost: async (sql) => {
    await aRun(sql, { state: "RUNNING", assigned_worker_id: "w-that-is-dead" });
    return (term) => orphanLost(sql, term);
  },
  quarantine: async (sql) => {
    await aRun(sql, { state: "ORPHANED", interruptions: 99 });
    return (term) => quarantine(sql, term);
  },
  skipLate: async (sql) => {
    await aRun(sql, { source: "schedule", due_at: LONG_AGO });
    return (term) => skipLate(sql, term, 60);
  },
  skipForbidden: async (sql) => {
    await overlapping(sql, "forbid");
    return (term) => skipForbidden(sql, term);
  },
  requestReplaced: async (sql) => {
    await overlapping(sql, "replace");
    return (term) => requestReplaced(sql, term);
  },
  followPriority: async (sql) => {
    const { id } = await aDefinition(sql, { priority: 120 });
    await aRun(sql, { job_definition_id: id, priority: 240 });
    await sql`insert into priority_change (job_definition_id, was) values (${id}, 240)`;
    return (term) => followPriority(sql, term);
  },
  endPastDeadline: async (sql) => {
    await aRun(sql, { state: "SUSPENDED", deadline_at: LONG_AGO });
    return (term) => endPastDeadline(sql, term);
  },
  cancelRequested: async (sql) => {
    const { id } = await aRun(sql);
    await requestCancel(sql, id, { actor: "test", reason: "test" });
    return (term) => cancelRequested(sql, term);
  },
  buryWorkers: async (sql) => {
    await aWorker(sql, { lease_ms: -1_000 });
    return (term) => buryWorkers(sql, term);
  },
  takeEvents: async (sql) => {
    await aDefinition(sql, { event_types: ["fenced"] });
    await emitEvent(sql, { event_type: "fenced", payload: {} });
    return (term) => takeEvents(sql, term);
  },
  followEnds: async (sql) => {
    const { id } = await aDefinition(sql);
    await sql`insert into group_check (group_id, job_definition_id) values (1, ${id})`;
    return (term) => followEnds(sql, term);
  },
  applyWakeChecks: async (sql) => {
    const { id } = await aRun(sql, { state: "SUSPENDED", held: true });
    await sql`insert into wake_check (job_run_id) values (${id})`;
    return (term) => applyWakeChecks(sql, term);
  },
  createSlotRuns: async (sql) => {
    const { id } = await aDefinition(sql);
    const slot = LONG_AGO.toISOString();
    const [schedule] = await sql<{ id: number }[]>`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, next_slot)
      values (${id}, 'nightly', 'cron', '* * * * *', ${slot}) returning id`;
    const plan = { job_schedule_id: schedule?.id ?? 0, next_slot_was: slot, slots: [slot], last_slot: slot };
    return (term) => createSlotRuns(sql, term, [{ ...plan, next_slot: null }]);
  },
  wake: async (sql) => {
    await aRun(sql, { held: true, wakes_at: LONG_AGO });
    return (term) => wake(sql, term);
  },
  checkLines: async (sql) => {
    await sql`insert into key_recheck (line) values ('serial:nobody')`;
    return (term) => checkLines(sql, term);
  },
  hold: async (sql) => {
    const { id } = await aRun(sql);
    return (term) => hold(sql, term, [id]);
  },
  sayWhy: async (sql) => {
    const { id } = await aDefinition(sql);
    return (term) =>
      sayWhy(sql, term, [{ job_definition_id: id, node: "", reason: { code: "no_slot", params: { where: null } } }]);
  },
  detachSilent: async (sql) => {
    const { worker_id } = await aWorker(sql);
    return (term) => detachSilent(sql, term, { worker_ids: [worker_id], actor: "test", reason: "test" });
  },
  bulksSeen: async (sql) => {
    const [check] = await sql<{ id: number }[]>`insert into bulk_recheck (bulk_id) values (0) returning id`;
    return (term) => bulksSeen(sql, term, [check?.id ?? 0]);
  },
  feed: async (sql) => {
    const bulk_id = await aBulk(sql, { items: 1 });
    return (term) => feed(sql, term, [{ bulk_id, next_seq: 1, items: 1 }]);
  },
  planFeed: async (sql) => {
    const bulk_id = await aBulk(sql);
    return (term) => planFeed(sql, term, bulk_id, 60_000);
  },
  letGo: async (sql) => {
    const bulk_id = await aBulk(sql);
    await aRun(sql, { bulk_id, source: "bulk", held: true });
    return (term) => letGo(sql, term, bulk_id);
  },
  pauseFailing: async (sql) => {
    const bulk_id = await aBulk(sql, { max_failures: 0 });
    return (term) => pauseFailing(sql, term, bulk_id);
  },
  throttle: async (sql) => {
    const bulk_id = await aBulk(sql);
    return (term) => throttle(sql, term, bulk_id, 1);
  },
  finish: async (sql) => {
    const bulk_id = await aBulk(sql);
    return (term) => finish(sql, term, bulk_id);
  },
  requestBulkCancel: async (sql) => {
    const bulk_id = await aBulk(sql, { state: "CANCELED" });
    await aRun(sql, { bulk_id, source: "bulk" });
    return (term) => requestBulkCancel(sql, term, bulk_id);
  },
  recordCheck: async (sql) => {
    const { node_id } = await aWorker(sql);
    const [node] = await sql<{ due: string }[]>`
      update node set next_check_at = '2026-01-01' where node_id = ${node_id} returning next_check_at::text as due`;
    const result = { worker_id: "test", problem: null, parts: [] };
    const pace = { check_seconds: 300, retry_seconds: 60, retry_count: 3, recheck_seconds: 30 };
    return (term) => recordCheck(sql, term, { node_id, due: node?.due ?? "", status: "available", result }, pace);
  },
  keepPace: async (sql) => {
    await aWorker(sql);
    await sql`update node set checked_at = '2026-01-01', next_check_at = clock_timestamp() + interval '1 day'`;
    return (term) =>
      keepPace(sql, term, { check_seconds: 300, retry_seconds: 60, retry_count: 3, recheck_seconds: 30 });
  },
  ...OF_HOUSEKEEPING,
  renewAndReadWork: (sql) =>
    Promise.resolve((term) =>
      renewAndReadWork(sql, term, { lease_ms: 90_000, reassign_after_ms: 1, late_seconds: 0, ahead_seconds: 0 })
    ),
  resign: (sql) => Promise.resolve((term) => resign(sql, term)), // the last one: after it nobody leads
};

/** Every row of every table, as one text. */
async function everything(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables where table_schema = 'public' order by 1`;
  const texts = await Promise.all(tables.map(async ({ name }) => {
    const [row] = await sql<{ rows: string }[]>`
      select coalesce(string_agg(t::text, E'\n' order by t::text), '') as rows from ${sql(name)} t`;
    return `${name}\n${row?.rows}`;
  }));
  return texts.join("\n\n");
}

Deno.test("every statement of a leader changes nothing under a term that is not the one of now", async () => {
  await withStores(async ({ sql }) => {
    const lease = { lease_ms: 60_000, epoch_hint: 0 };
    const first = await acquire(sql, { worker_id: "first", ...lease });
    assert(first && await resign(sql, first));
    const now = await acquire(sql, { worker_id: "second", ...lease });
    assert(now);
    const others = {
      "of the leader before": first,
      "of this epoch, but another worker's": new Term(now.epoch, "first", now.trusted_until_ms),
      "of this worker, but an older epoch": new Term(first.epoch, "second", now.trusted_until_ms),
      "that was never given": new Term(now.epoch + 1, "second", now.trusted_until_ms),
    };
    for (const [name, scene] of Object.entries(STATEMENTS)) {
      const call = await scene(sql);
      const before = await everything(sql);
      for (const [which, term] of Object.entries(others)) {
        await call(term);
        assert.equal(await everything(sql), before, `${name} wrote under a term ${which}`);
      }
      await call(now);
      assert.notEqual(await everything(sql), before, `${name} has nothing to write here: the test could not fail`);
    }
  });
});

Deno.test("an assignment that comes after the next tick has begun changes nothing: that one decides anew", async () => {
  await withStores(async ({ sql }) => {
    const first = await acquire(sql, { worker_id: "leader", lease_ms: 60_000, epoch_hint: 0 });
    const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
    const { term } = await renewAndReadWork(sql, first as Term, look) ?? {};
    const { id, version } = await aRun(sql);
    const chosen = [{ job_run_id: id, version, worker_id: (await aWorker(sql)).worker_id }];
    const next = await renewAndReadWork(sql, term as Term, look);
    assert.deepEqual([...await assignRuns(sql, term as Term, chosen)], []);
    assert.equal((await assignRuns(sql, next?.term as Term, chosen)).length, 1);
  });
});

Deno.test("what is read along with a renewal may miss an assignment under way, and a tick then does not go by it", async () => {
  await withStores(async ({ sql }) => {
    const first = await acquire(sql, { worker_id: "leader", lease_ms: 60_000, epoch_hint: 0 });
    const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
    const { term } = await renewAndReadWork(sql, first as Term, look) ?? {};
    const { id, version } = await aRun(sql);
    const { worker_id } = await aWorker(sql);
    const loads = (snapshot: DispatchSnapshot | undefined) => snapshot?.workers.map(({ load }) => load);
    let looking: ReturnType<typeof renewAndReadWork> | undefined;
    await sql.begin(async (tx) => {
      const assigned = await assignRuns(tx as unknown as Sql, term as Term, [{ job_run_id: id, version, worker_id }]);
      assert.equal(assigned.length, 1);
      looking = renewAndReadWork(sql, term as Term, look);
      assert.equal(await Promise.race([somebodyWaits(sql), looking]), "waits", "renewed beside an assignment");
    });
    const looked = await looking;
    assert.deepEqual(loads(looked?.snapshot), [0], "it saw what was there before: so its reader must know");
    assert.deepEqual(loads(await readDispatchSnapshot(sql)), [1]);
    assert.equal(snapshotFor({ unclear: true }, looked?.snapshot as DispatchSnapshot), undefined);
    assert.equal(snapshotFor({}, looked?.snapshot as DispatchSnapshot), looked?.snapshot);
  });
});

/** Resolves when some statement in this database waits for a lock. */
async function somebodyWaits(sql: Sql): Promise<"waits"> {
  return await waitFor("a statement that waits for a lock", async () => {
    const [row] =
      await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return row && "waits";
  });
}

Deno.test("a leader's statement and the next leader's election wait for each other, and only one of them holds", async () => {
  const late = async (sql: Sql) => void await aRun(sql, { source: "schedule", due_at: LONG_AGO });
  const old = async (sql: Sql) =>
    void await sql`insert into run_stat (grain_seconds, at, job_definition_id, waits, runs) values (60, ${LONG_AGO}, 1, '{}', '{}')`;
  await waitForEachOther(late, async (db, term) => (await skipLate(db, term, 60)).length > 0);
  await waitForEachOther(old, (db, term) => trimRunStats(db, term, { minute_days: 1, hour_days: 1 }, 1)); // beside the ticks
});

async function waitForEachOther(make: (sql: Sql) => Promise<void>, act: (db: Db, term: Term) => Promise<boolean>) {
  await withStores(async ({ sql }) => {
    const lease_ms = 60_000;
    const first = await acquire(sql, { worker_id: "first", lease_ms, epoch_hint: 0 });
    assert(first);
    const take = (worker_id: string, db: Db, epoch: number) =>
      depose(db, { worker_id, lease_ms, epoch, epoch_hint: 0 });

    await make(sql);
    let deposing: ReturnType<typeof take> | undefined;
    await sql.begin(async (tx) => {
      assert(await act(tx, first));
      deposing = take("second", sql, first.epoch);
      assert.equal(await Promise.race([somebodyWaits(sql), deposing]), "waits", "elected over an open statement");
    });
    const second = await deposing;
    assert(second);

    await make(sql);
    let acting: Promise<boolean> | undefined;
    await sql.begin(async (tx) => {
      assert(await take("third", tx, second.epoch));
      acting = act(sql, second);
      assert.equal(await Promise.race([somebodyWaits(sql), acting]), "waits", "written beside an open election");
    });
    assert.equal(await acting, false);
  });
}

Deno.test("a leader's renewal does not wait for what it does beside its ticks", async () => {
  await withStores(async ({ sql }) => {
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 60_000, epoch_hint: 0 });
    const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
    await countedFrom(sql, "pg_current_snapshot()");
    await sql.begin(async (tx) => {
      assert(await rollUp(tx, term as Term));
      const renewed = await Promise.race([somebodyWaits(sql), renewAndReadWork(sql, term as Term, look)]);
      assert.equal(typeof renewed, "object", "it waits for a count that is not over");
    });
  });
});

Deno.test("no statement of a leader is missing above", () => {
  const with_term = storeFunctions().filter(({ takes_term }) => takes_term).map(({ name }) => name);
  const missing = with_term.filter((name) => !(name in STATEMENTS));
  const gone = Object.keys(STATEMENTS).filter((name) => !with_term.includes(name));
  assert.deepEqual(
    { missing, gone },
    { missing: [], gone: [] },
    "add a scene to STATEMENTS in this file, or remove one",
  );
});

Deno.test("a leader writes through statements that take its term, and each of them is fenced", () => {
  const functions = storeFunctions();
  const of_leader = functions.filter(({ used_by }) => used_by.some((path) => path.startsWith("src/leader/")));
  assert(of_leader.length > 10);
  const unfenced = (one: BareSql) =>
    one.takes_term
      ? !/\$\{fence(OfTick|Beside)?\(sql, term\)\}|epoch = \$\{term\.epoch\} and worker_id = \$\{term\.worker_id\}/
        .test(
          one.text,
        )
      : SQL_WRITES.test(one.text);
  const problems = [...new Set([...of_leader, ...functions.filter(({ takes_term }) => takes_term)])].filter(unfenced);
  assert.deepEqual(problems.map(({ path, name }) => `${path}: ${name}`), [], "take a Term, and start with its fence");
});
