/** The leader's tick over real stores, with workers that answer what the test says. */
import assert from "node:assert/strict";
import { monotonicMs } from "../../../src/platform/timers.ts";
import type { Peers } from "../../../src/rpc/peers.ts";
import type { StartResultCode } from "../../../src/rpc/messages.ts";
import type { RedisConnection } from "../../../src/redis/connection.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { lead, look, tick } from "../../../src/leader/leader.ts";
import { Contact } from "../../../src/leader/recovery.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { connectDb } from "../../../src/postgres/connection.ts";
import { emitEvent } from "../../../src/events/events.ts";
import { depose } from "../../../src/nodes/leadership.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import { cancelRequested, skipLate } from "../../../src/runs/states.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { IDLE, type Reply, withLeader } from "../../support/leader_scene.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";
import { english } from "../../../src/locale/english.ts";

Deno.test("runs whose code no worker has hide none of those behind them", async () => {
  const reply: Reply = (order) => order.digest === "not deployed" ? "OTHER_CODE" : "ACCEPTED";
  await withLeader(reply, async ({ sql, orders, round }) => {
    await aWorker(sql, { slots: 2 });
    const stale = await aDefinition(sql, { digest: "not deployed" });
    for (let n = 0; n < 5; n++) await aRun(sql, { job_definition_id: stale.id });
    const behind = await aRun(sql);
    for (let n = 0; n < 3; n++) await round();
    assert(orders.some((order) => order.job_run_id === behind.id), "the run behind them was not ordered");
  });
});

Deno.test("runs that wait for another node hide none of those behind them", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, orders, round }) => {
    await aWorker(sql, { node_id: "idle", slots: 2 });
    const full = await aWorker(sql, { node_id: "full", slots: 1 });
    await sql`update node set checked_at = clock_timestamp()`;
    const { id } = await aDefinition(sql);
    await aRun(sql, { job_definition_id: id, state: "RUNNING", assigned_worker_id: full.worker_id });
    const failed_there = { job_definition_id: id, state: "RETRYING", attempt: 1, avoid_node: "idle" };
    for (let n = 0; n < 30; n++) await aRun(sql, failed_there);
    const behind = await aRun(sql, { job_definition_id: id });
    for (let n = 0; n < 3; n++) await round();
    assert.deepEqual(orders.map((order) => order.job_run_id), [behind.id]);
    const says = await sql`select distinct wait_reason(r) as why from job_run r where state = 'RETRYING'`;
    assert.deepEqual(says.map(({ why }) => why), [{ code: "other_node", params: { node: "idle" } }]);
  });
});

Deno.test("who gave a run whose rate makes the next one wait comes back when it may start, not with the next tick", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    await aWorker(sql, { slots: 5 });
    const { id: job_definition_id } = await aDefinition(sql, { rate_count: 1, rate_seconds: 60 });
    for (let n = 0; n < 2; n++) await aRun(sql, { job_definition_id });
    await round();
    assert.equal(orders.length, 1);
    const { rate_wait_ms = NaN } = me;
    assert(rate_wait_ms > 30_000 && rate_wait_ms <= 60_000, `comes back after ${rate_wait_ms} ms`);
  });
});

Deno.test("who gave several runs of one rate waits for the start after all of them", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    await aWorker(sql, { slots: 50 });
    const { id: job_definition_id } = await aDefinition(sql, { rate_count: 100, rate_seconds: 1 });
    for (let n = 0; n < 12; n++) await aRun(sql, { job_definition_id });
    await round();
    assert.deepEqual([orders.length, me.rate_wait_ms], [11, 10], "a tenth of a second is made up for");
  });
});

Deno.test("a retry that asked for another node still does when its worker there did not start it", async () => {
  await withLeader(() => "REJECTED_FULL", async ({ sql, orders, round }) => {
    const failed = await aWorker(sql, { node_id: "failed", slots: 2 });
    const other = await aWorker(sql, { node_id: "other", slots: 2 });
    await sql`update node set checked_at = clock_timestamp()`;
    const { id } = await aRun(sql, { state: "RETRYING", attempt: 1, avoid_node: "failed" });
    await round();
    assert.deepEqual(orders.map((order) => order.worker_id), [other.worker_id]);
    assert.equal((await readRun(sql, id))?.state, "ORPHANED");
    for (let n = 0; n < 3; n++) await round();
    assert(!orders.some((order) => order.worker_id === failed.worker_id), "it was tried where it had failed");
  });
});

for (const told of [true, false]) {
  const when = told ? "it was canceled" : "its cancel was asked for";
  Deno.test(`a run that was refused since ${when} says nothing about its worker's code`, async () => {
    let cancel = async (_id: number) => {};
    const reply: Reply = async (order): Promise<StartResultCode> => {
      await cancel(order.job_run_id);
      return "REJECTED_INVALID";
    };
    await withLeader(reply, async ({ sql, me, orders, round }) => {
      cancel = async (id) => {
        await requestCancel(sql, id, { actor: "ann", reason: "not needed" });
        if (told) await cancelRequested(sql, me.term);
      };
      const { worker_id } = await aWorker(sql, { slots: 2 });
      const { id } = await aRun(sql);
      await round();
      assert.deepEqual(orders.map((order) => order.worker_id), [worker_id]);
      assert.equal(me.monitor.lacking(orders[0]?.digest as string).size, 0);
      await round({ cancels: true });
      assert.equal((await readRun(sql, id))?.state, "CANCELED");
    });
  });
}

Deno.test("very many requests to cancel are met some at a time, whatever runs and cannot be canceled yet", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, round }) => {
    const { worker_id } = await aWorker(sql, { lease_ms: -1_000 }); // nobody's to give work to, and not DEAD yet
    const asked = { cancel_requested_at: new Date(0), cancel_requested_by: "ann", cancel_reason: "not needed" };
    const goes_on = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id, ...asked });
    await sql`
      insert into job_run (job_definition_id, source, state, cancel_requested_at, cancel_requested_by, cancel_reason)
      select job_definition_id, source, 'PENDING', cancel_requested_at, cancel_requested_by, cancel_reason from job_run, generate_series(1, 5)`;
    assert.equal((await cancelRequested(sql, me.term, 2)).length, 2);
    assert.equal((await cancelRequested(sql, me.term, 2)).length, 2);
    assert.deepEqual((await cancelRequested(sql, me.term, 2)).length, 1);
    assert.equal((await readRun(sql, goes_on.id))?.state, "RUNNING");
    await sql`
      insert into job_run (job_definition_id, source, state, cancel_requested_at, cancel_requested_by, cancel_reason)
      select job_definition_id, source, 'PENDING', cancel_requested_at, cancel_requested_by, cancel_reason
        from job_run, generate_series(1, 5500) where id = ${goes_on.id}`;
    const left = async () => (await sql`select 1 from job_run where state = 'PENDING'`).length;
    await tick(me, { ...IDLE, cancels: true }, new Contact());
    assert.equal(await left(), 500);
    assert.equal(await me.wakeup.rest(0), 1, "it goes on at once");
    await round({ cancels: true });
    assert.equal(await left(), 0);
  });
});

Deno.test("very many late slots are skipped some at a time, and nothing starts before all of them are", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders }) => {
    await aWorker(sql, { slots: 9_000 });
    const late = await aRun(sql, { source: "schedule", due_at: new Date(0) });
    await sql`
      insert into job_run (job_definition_id, source, state, due_at)
      select job_definition_id, source, state, due_at from job_run, generate_series(1, 6000) where id = ${late.id}`;
    const fresh = await aRun(sql);
    const left = async () => (await sql`select 1 from job_run where state = 'PENDING' and source = 'schedule'`).length;
    const all = { ...IDLE, ready: true, late: true };
    assert.equal((await skipLate(sql, me.term, 3600, 1)).length, 1);
    await tick(me, IDLE, new Contact()); // it looks who is there
    await me.wakeup.rest(0);
    await tick(me, all, new Contact());
    assert.deepEqual([await left(), orders.length], [1_000, 0]);
    assert.equal(await me.wakeup.rest(0), 1, "it goes on at once");
    await tick(me, all, new Contact());
    await waitFor("the fresh one to be ordered", () => Promise.resolve(orders.length > 0 || undefined));
    assert.deepEqual([await left(), orders.map((order) => order.job_run_id)], [0, [fresh.id]]);
  });
});

Deno.test("a setting of 0 turns late skips off: a slot of long ago starts, though slots and late ones are looked at", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    await aWorker(sql);
    const { id } = await aRun(sql, { source: "schedule", due_at: new Date(0) });
    const late = async (late_seconds: number) => {
      const seen = { lease_ms: 60_000, reassign_after_ms: 60_000, ahead_seconds: 0, late_seconds };
      const looked = await renewAndReadWork(sql, me.term, seen);
      me.term = looked?.term ?? me.term;
      return looked?.pending.late;
    };
    assert.deepEqual([await late(3_600), await late(0)], [true, false]);
    me.settings = { ...me.settings, skip_late_runs_after_seconds: 0 };
    await round({ late: true, slots: true });
    assert.deepEqual([orders.map((order) => order.job_run_id), (await readRun(sql, id))?.state], [[id], "ASSIGNED"]);
  });
});

Deno.test("who leads no more keeps no connection to the workers that it led", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const local = new LocalWorkerState({ worker_id: "leader", node_id: "here", slots: 1, settings: DEFAULT_SETTINGS });
    const term = await aTerm(sql);
    const open = new Set<string>();
    const stop = new AbortController();
    const peers = {
      retain: (kept: Iterable<string>) => [...open.difference(new Set(kept))].forEach((one) => open.delete(one)),
      to: (worker: { worker_id: string }) => {
        open.add(worker.worker_id);
        return { watch: () => (stop.abort(), () => {}) };
      },
    } as unknown as Peers;
    const redis = { script: () => Promise.reject(new Error("away")) } as unknown as RedisConnection;
    assert.equal(await lead(term, { sql, redis, peers, local }, stop.signal), "the process is stopping");
    assert.equal(open.has(worker_id), false);
  });
});

Deno.test("a slot of a forbid job is skipped also when the leader that made it ended before it could say so", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, round }) => {
    const { id } = await aDefinition(sql, { type: "time", concurrency_policy: "forbid" });
    const { worker_id } = await aWorker(sql);
    const of_job = { job_definition_id: id, serial_key: "job:one", source: "schedule" };
    await aRun(sql, { ...of_job, state: "RUNNING", assigned_worker_id: worker_id });
    const slot = await aRun(sql, of_job);
    await round();
    assert.equal((await readRun(sql, slot.id))?.state, "SKIPPED");
  });
});

Deno.test("after an outage: slots that are late by the setting are SKIPPED before any starts, one run makes up for a day", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, orders, round }) => {
    await aWorker(sql, { slots: 100 });
    const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const before = Temporal.Instant.fromEpochMilliseconds((row as { now: Date }).now.getTime()).subtract({ hours: 5 });
    const five_hours_ago = before.toZonedDateTimeISO("UTC");
    // A quarter of an hour from now on both sides: no slot comes due, nor an hour late, while this is looked at.
    const minute = (five_hours_ago.minute + 15) % 30;
    const half_hours = `${minute},${minute + 30} * * * *`;
    const schedules = [["each", "cron", half_hours, '{"policy": "all", "max": 100, "within_seconds": null}'], [
      "daily",
      "cron",
      `${five_hours_ago.minute} ${five_hours_ago.hour} * * *`,
      '{"policy": "last"}',
    ]];
    for (const [name = "", type = "", value = "", misfire = ""] of schedules) {
      const { id } = await aDefinition(sql, { name, type: "time" });
      await sql`
        insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, misfire, last_slot, next_slot)
        values (${id}, 's', ${type}, ${value}, ${misfire}::text::jsonb, ${String(before.subtract({ hours: 48 }))},
                ${String(before.subtract({ hours: 47 }))})`;
    }
    await round({ slots: true, ready: false }); // an idle system that hears of slots
    const runs = await sql<{ id: number; name: string; state: string; age_s: number; error_summary: string | null }[]>`
      select r.id, d.name, r.state, extract(epoch from clock_timestamp() - r.scheduled_for)::float8 as age_s, r.error_summary
        from job_run r join job_definition d on d.id = r.job_definition_id order by r.id`;
    const [each, daily] = ["each", "daily"].map((name) => runs.filter((run) => run.name === name));
    assert.equal(each?.length, 100);
    for (const { state, age_s, error_summary } of each ?? []) {
      assert.equal(state, age_s > 3_600 ? "SKIPPED" : "ASSIGNED", `${age_s} s old`);
      if (state === "SKIPPED") assert.match(english(error_summary ?? ""), /not started within 3600 s of its slot/);
    }
    assert.deepEqual(daily?.map(({ state, age_s }) => [state, age_s > 4 * 3_600]), [["ASSIGNED", true]]);
    assert.equal(orders.length, runs.filter(({ state }) => state === "ASSIGNED").length);
  });
});

Deno.test("a worker that refuses for want of room is not asked again at once", async () => {
  await withLeader(() => "REJECTED_FULL", async ({ sql, orders, round }) => {
    await aWorker(sql);
    const { id } = await aRun(sql);
    const began_ms = performance.now();
    await round();
    assert.equal(orders.length, 1);
    assert.equal((await readRun(sql, id))?.state, "ORPHANED");
    while (orders.length === 1) await round();
    assert(performance.now() - began_ms >= 1_000);
  });
});

Deno.test("a worker that starts nothing of what it accepted gets no more for a while", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    const silent = await aWorker(sql, { worker_id: "silent" });
    const { id } = await aRun(sql);
    await round();
    await sql`update job_run set assigned_at = assigned_at - interval '1 hour', due_at = due_at - interval '1 hour' where id = ${id}`;
    await aWorker(sql, { worker_id: "sound" });
    await round({ stuck: true });
    assert.deepEqual(orders.map((order) => [order.worker_id, order.attempt]), [["silent", 1], ["sound", 2]]);
    assert(!me.monitor.fit(silent.worker_id));
  });
});

Deno.test("a run that was interrupted too often is ended instead of assigned, though its worker lives", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, orders, facts, round }) => {
    await aWorker(sql);
    const { id } = await aRun(sql, { state: "ORPHANED", interruptions: 4 });
    await round();
    const run = await readRun(sql, id);
    assert.deepEqual([run?.state, run?.error_name, orders.length], ["FAILED", "Quarantined", 0]);
    assert(facts.some(({ name, fact }) => name === "run.quarantined" && fact.job_run_id === id));
  });
});

Deno.test("an event whose payload makes a huge serial key has its run, and keys of two such stay apart", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, round }) => {
    await aWorker(sql);
    await aDefinition(sql, { event_types: ["e"], serial_key: "tenant:{tenant}" });
    const random = Array.from({ length: 200 }, () => crypto.randomUUID()).join("");
    for (const end of ["a", "b"]) await emitEvent(sql, { event_type: "e", payload: { tenant: random + end } });
    await round({ events: true });
    const keys = await sql`select distinct serial_key from job_run where state = 'ASSIGNED'`;
    assert.equal(keys.length, 2);
  });
});

Deno.test("a step that fails is told, and does not keep the others from being done", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, orders, facts, round }) => {
    await aWorker(sql);
    const { id } = await aRun(sql);
    await sql`drop table event cascade`;
    await round({ events: true });
    assert.deepEqual(orders.map((order) => order.job_run_id), [id]);
    assert(facts.some(({ name, fact }) => name === "loop.failed" && fact.loop === "leader: events"));
  });
});

Deno.test("where more waits than there is room for, looks leave it to be asked for, until all of it is given", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, orders, round }) => {
    await aWorker(sql, { slots: 20 });
    const { id: job_definition_id } = await aDefinition(sql);
    const lookAndGive = async ({ come }: { come: number }) => {
      for (let n = 0; n < come; n++) await aRun(sql, { job_definition_id });
      assert(typeof await look(me, new Contact(), { hasty: true }) === "object");
      const seen = me.snapshot?.waiting?.length;
      await round();
      await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where state = 'ASSIGNED'`;
      return { seen, given: orders.splice(0).length };
    };
    assert.deepEqual(await lookAndGive({ come: 30 }), { seen: undefined, given: 20 });
    assert.deepEqual(await lookAndGive({ come: 5 }), { seen: undefined, given: 15 });
    assert.deepEqual(await lookAndGive({ come: 2 }), { seen: 2, given: 2 });
  });
});

Deno.test("a tick that takes longer than the lease keeps the seat, as long as each of its steps is shorter", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, database_url }) => {
    await aWorker(sql);
    const { id } = await aRun(sql);
    const url = new URL(database_url);
    const link = await FaultyLink.to(Number(url.port));
    url.port = String(link.port);
    const slow = connectDb(url.href, { name: "slow", max: 1 });
    await slow`select 1`;
    link.delay(170);
    try {
      const lease_ms = 5_000; // so that a statement may take seconds on a busy machine
      const term = await depose(sql, { worker_id: "leader", lease_ms, epoch: me.term.epoch, epoch_hint: 0 });
      assert(term);
      const there = { ...me, sql: slow, term, settings: { ...me.settings, leader_lease_seconds: lease_ms / 1000 } };
      const everything = {
        slots: true,
        events: true,
        ready: true,
        lines: true,
        cancels: true,
        stuck: true,
        lost: true,
      };
      const began_ms = monotonicMs();
      await tick(there, { ...IDLE, ...everything }, new Contact());
      assert(monotonicMs() - began_ms > lease_ms, "it was not slow enough to show anything");
      assert.equal((await readRun(sql, id))?.state, "ASSIGNED");
    } finally {
      await slow.end({ timeout: 0 });
      await link.close();
    }
  });
});

Deno.test("schedules that make up for a thousand slots each are planned some at a time", async () => {
  await withLeader(() => "ACCEPTED", async ({ sql, me, round }) => {
    const { id } = await aDefinition(sql);
    await sql`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, misfire, last_slot, next_slot)
      select ${id}, 's' || n, 'every_n_minutes', '1', '{"policy": "all", "within_seconds": null, "max": 1000}', '2026-01-01Z',
             '2026-01-01 00:01Z' from generate_series(1, 12) n`;
    const made = async () => (await sql`select count(*)::int as n from job_run`)[0]?.n;
    for (const runs of [5_000, 10_000, 12_000]) {
      await round({ slots: true, ready: false });
      assert((await made()) >= runs && (await made()) < runs + 1_000, `${await made()} runs, not ${runs}`);
    }
    assert(me.term.trusted);
  });
});
