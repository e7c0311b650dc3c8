/** Runs that ended long ago go with all that hangs on them, what is needed stays, and nothing is created again. */
import assert from "node:assert/strict";
import { createBackfill, readSlots } from "../../../src/bulks/backfill.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { emitEvent, takeEvents } from "../../../src/events/events.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { deleteBulk, deleteLines, deleteRuns, findOldRuns } from "../../../src/runs/retention/run_retention.ts";
import { rollUp } from "../../../src/stats/run_stats.ts";
import { readSlotRuns } from "../../../src/schedules/slot_view.ts";
import { readAllTime } from "../../../src/stats/run_stats.ts";
import { readBulk } from "../../../src/bulks/bulk_view.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { deleteEvents, deleteOldBulks, deleteOldRuns } from "../../../src/leader/retention/run_retention.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { anEndedRun, DAY_MS, leads, linesInPostgres, say } from "../../support/old_logs.ts";
import { withStores } from "../../support/stores.ts";

const KEPT_DAYS = 30;

/** All walks, until each is through. */
async function deleteAll(sql: Sql, term: Term): Promise<void> {
  const me = { sql, term, settings: { ...DEFAULT_SETTINGS, run_retention_days: KEPT_DAYS } };
  for (const walk of [deleteOldBulks, deleteOldRuns, deleteEvents]) {
    for (let after: number | null = 0; after !== null;) after = await walk(me, after);
  }
}

async function idsIn(sql: Sql, table: string): Promise<number[]> {
  return (await sql<{ id: number }[]>`select id from ${sql(table)} order by id`).map(({ id }) => id);
}

const ago = (days: number) => new Date(Date.now() - days * DAY_MS);

Deno.test("runs that ended long ago go with their attempts and lines, oldest first; the last of each job stays", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const old = [];
    for (const days of [50, 40, 31]) old.push(await anEndedRun(sql, { days, lines: ["a", "b"], job_definition_id }));
    const long = await anEndedRun(sql, {
      days: 31,
      lines: Array.from({ length: 5_000 }, (_, n) => `${n}`),
      job_definition_id,
    });
    await sql`insert into job_run_attempt (job_run_id, attempt, outcome) values (${old[0] as number}, 1, 'LOST')`;
    const { id: inflight } = await aRun(sql, { job_definition_id, state: "RUNNING", created_at: ago(50) });
    const { id: waiting } = await aRun(sql, { job_definition_id, created_at: ago(50) });
    const young = await anEndedRun(sql, { days: 29, lines: ["young"], job_definition_id });
    const last = await anEndedRun(sql, { days: 100, lines: ["the only one of its job"] });
    await deleteAll(sql, await leads(sql));
    assert.deepEqual(await idsIn(sql, "job_run"), [inflight, waiting, young, last]);
    assert.equal(await linesInPostgres(sql), 2);
    assert.equal((await sql`select from job_run_attempt`).length, 0);
    assert(long > 0);
  });
});

Deno.test("a run stays while it is not counted, while its key is stopped, and while a throttle looks back at it", async () => {
  await withStores(async ({ sql }) => {
    const event_rules = { "device.alarm": { throttle_seconds: 60 * 86_400, key: "{device}" } };
    const { id: job_definition_id } = await aDefinition(sql, { event_types: ["device.alarm"], event_rules });
    const columns = { job_definition_id, state: "SUCCEEDED", finished_at: ago(40), scheduled_for: ago(40) };
    await sql`select pg_current_xact_id()`;
    const { id: uncounted } = await aRun(sql, { ...columns, created_at: ago(40) });
    await sql`update job_run set ended_xid = pg_current_xact_id() where id = ${uncounted}`;
    const { id: stopping } = await aRun(sql, { ...columns, created_at: ago(40), state: "FAILED", serial_key: "k" });
    await sql`insert into serial_key_pause (serial_key, job_run_id, stopped_by) values ('k', ${stopping}, 'system')`;
    const { id: throttling } = await aRun(sql, { ...columns, created_at: ago(40), event_key: "device.alarm:7" });
    const { id: past_throttle } = await aRun(sql, { ...columns, created_at: ago(61), event_key: "device.alarm:8" });
    const { id: newest } = await aRun(sql, { ...columns, scheduled_for: ago(1) });
    const term = await leads(sql);
    await deleteAll(sql, term);
    assert.deepEqual(await idsIn(sql, "job_run"), [uncounted, stopping, throttling, newest]);
    assert(past_throttle > 0);

    await rollUp(sql, term);
    await sql`delete from serial_key_pause`;
    await deleteAll(sql, term);
    assert.deepEqual(await idsIn(sql, "job_run"), [throttling, newest]);
    const [counted] = await readAllTime(sql);
    assert.equal(counted?.succeeded, 1, "what was counted stays counted");
  });
});

Deno.test("a slot whose run was deleted is not born again by a backfill, and the calendar does not call it missed", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id, name: job_name } = await aDefinition(sql);
    const schedule = async (schedule_id: string) => {
      const [row] = await sql<{ id: number }[]>`
        insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
        values (${job_definition_id}, ${schedule_id}, 'daily_at', '03:00') returning id`;
      return row?.id as number;
    };
    const [nightly, other] = [await schedule("nightly"), await schedule("other")];
    const day = (days: number) => new Date(Math.floor(ago(days).getTime() / DAY_MS) * DAY_MS);
    const text = (at: Date) => at.toISOString().replace(".000", "");
    const created = async (days: number, state: string) => {
      const slot = day(days);
      return await aRun(sql, {
        job_definition_id,
        job_schedule_id: nightly,
        idempotency_key: `time:${nightly}:${text(slot)}`,
        source: "schedule",
        scheduled_for: slot,
        created_at: slot,
        finished_at: slot,
        state,
      });
    };
    await created(50, "SUCCEEDED");
    await created(40, "SKIPPED");
    await created(20, "SUCCEEDED");
    const slots = [50, 45, 40, 35, 20].map((days) => ({ job_schedule_id: nightly, slot: text(day(days)) }));
    const of_other = slots.map((one) => ({ ...one, job_schedule_id: other }));
    assert.deepEqual(await readSlots(sql, slots), ["taken", "free", "skipped", "free", "taken"]);
    await deleteAll(sql, await leads(sql));
    assert.deepEqual(await readSlots(sql, slots), ["forgotten", "forgotten", "forgotten", "free", "taken"]);
    assert.deepEqual(await readSlots(sql, of_other), Array(5).fill("free"));
    const wish = {
      job_name,
      name: "again",
      slots,
      skipped: true,
      parallel: 1,
      priority: 240,
      actor: "test",
      reason: "",
    };
    assert.equal((await createBackfill(sql, wish))?.runs, 1);
    assert.deepEqual(
      (await sql`select scheduled_for from job_run where source = 'bulk'`).map((row) => row.scheduled_for),
      [day(35)],
    );
    const { places } = await readSlotRuns(sql, [nightly, other], { from: ago(60), until: new Date() });
    const known_from = new Map(places.map((place) => [place.job_schedule_id, place.known_from]));
    assert.deepEqual(known_from.get(nightly), new Date(day(40).getTime() + 1_000));
    assert.equal(known_from.get(other), null);
  });
});

Deno.test("a bulk keeps its runs while it goes on, and as long as it is kept; then it goes whole", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const bulk = async (finished_at: Date | null, of: { items: number; fed: number }) => {
      const [row] = await sql<{ id: number }[]>`
        insert into bulk (job_definition_id, state, finished_at, succeeded, failed, next_seq)
        values (${job_definition_id}, ${finished_at ? "FINISHED" : "RUNNING"}, ${finished_at}, ${
        finished_at && of.fed
      }, ${finished_at && 0}, ${of.fed + 1}) returning id`;
      const bulk_id = row?.id as number;
      for (let seq = 1; seq <= of.items; seq++) {
        const run = seq <= of.fed
          ? await anEndedRun(sql, { days: 50, lines: ["x"], job_definition_id, bulk_id })
          : null;
        await sql`insert into bulk_item (bulk_id, seq, job_run_id) values (${bulk_id}, ${seq}, ${run})`;
      }
      return bulk_id;
    };
    const inflight = await bulk(null, { items: 3, fed: 2 });
    const lately = await bulk(ago(20), { items: 2, fed: 2 });
    const old = await bulk(ago(40), { items: 450, fed: 420 });
    await sql`update bulk set retry_of = ${old} where id = ${lately}`;
    const { id: newest } = await aRun(sql, { job_definition_id, state: "SUCCEEDED" });
    await anEndedRun(sql, { days: 50, lines: [], job_definition_id, bulk_id: 999_999 }); // its bulk was deleted by hand
    await deleteAll(sql, await leads(sql));
    assert.deepEqual(await idsIn(sql, "bulk"), [inflight, lately]);
    const runs = await sql`select bulk_id, count(*)::int as n from job_run group by 1 order by 1`;
    assert.deepEqual(runs.map(({ bulk_id, n }) => [bulk_id, n]), [[inflight, 2], [lately, 2], [null, 1]]);
    assert.equal((await sql`select from bulk_item`).length, 5);
    assert.equal((await readBulk(sql, lately))?.retry_of, null);
    assert.equal((await readBulk(sql, inflight))?.succeeded, 2);
    assert((await idsIn(sql, "job_run")).includes(newest));
  });
});

Deno.test("what a run has called stays until it has ended, and steps and messages go with their run", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const parent = await aRun(sql, { job_definition_id, state: "SUSPENDED", held: true, created_at: ago(60) });
    const [bulk] = await sql<{ id: number }[]>`
      insert into bulk (job_definition_id, state, finished_at, succeeded, failed, next_seq, parent_run_id, parent_key)
      values (${job_definition_id}, 'FINISHED', ${ago(40)}, 1, 0, 2, ${parent.id}, 'bulk:each') returning id`;
    const child = await anEndedRun(sql, { days: 40, lines: [], job_definition_id });
    const item = await anEndedRun(sql, { days: 40, lines: [], job_definition_id, bulk_id: bulk?.id });
    await sql`insert into bulk_item (bulk_id, seq, job_run_id) values (${bulk?.id as number}, 1, ${item})`;
    await sql`update job_run set parent_run_id = ${parent.id} where id in (${child}, ${item})`;
    const young = await anEndedRun(sql, { days: 29, lines: [], job_definition_id });
    for (const id of [parent.id, child, item]) {
      await sql`
        insert into run_step (job_run_id, key, kind, state, seq, ended_at, attempt, code_digest)
        select ${id}, 'step:#' || n, 'step', 'DONE', n, clock_timestamp(), 1, 'c0de' from generate_series(1, 3) n`;
      await sql`insert into run_message (job_run_id, name, sent_by) values (${id}, 'go', 'alice')`;
    }
    const term = await leads(sql);
    await deleteAll(sql, term);
    assert.deepEqual(await idsIn(sql, "job_run"), [parent.id, child, item, young]);
    assert.deepEqual(await idsIn(sql, "bulk"), [bulk?.id]);
    await sql`update job_run set state = 'SUCCEEDED', held = false, finished_at = clock_timestamp() where id = ${parent.id}`;
    const { rows } = await findOldRuns(sql, { after: 0, days: KEPT_DAYS });
    assert.deepEqual(rows, [{ job_run_id: child, lines: 0, steps: 3 }], "for statements of a size");
    await deleteAll(sql, term);
    assert.deepEqual(await idsIn(sql, "job_run"), [parent.id, young]);
    assert.deepEqual(await idsIn(sql, "bulk"), []);
    assert.deepEqual([...await sql`select distinct job_run_id as id from run_step`], [{ id: parent.id }]);
    assert.deepEqual([...await sql`select job_run_id as id from run_message`], [{ id: parent.id }]);
  });
});

Deno.test("the last run of a job stays also when it was of a bulk that goes", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const [bulk] = await sql<{ id: number }[]>`
      insert into bulk (job_definition_id, state, finished_at) values (${job_definition_id}, 'FINISHED', ${
      ago(40)
    }) returning id`;
    const bulk_id = bulk?.id as number;
    await anEndedRun(sql, { days: 60, lines: [], job_definition_id });
    for (const seq of [1, 2]) {
      const run = await anEndedRun(sql, { days: 50 - seq, lines: [], job_definition_id, bulk_id });
      await sql`insert into bulk_item (bulk_id, seq, job_run_id) values (${bulk_id}, ${seq}, ${run})`;
    }
    const [, , last] = await idsIn(sql, "job_run");
    const term = await leads(sql);
    await deleteAll(sql, term);
    await deleteAll(sql, term);
    assert.deepEqual([await idsIn(sql, "job_run"), await idsIn(sql, "bulk")], [[last], []]);
  });
});

Deno.test("events go when they are old and have no run any more; one that was not dealt with stays, and nothing is taken twice", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, { event_types: ["wanted"] });
    const term = await leads(sql);
    const emit = async (event_type: string, dedupe_key: string) => {
      return await emitEvent(sql, { event_type, payload: {}, dedupe_key });
    };
    const [wanted, kept, nobody, absorbed] = [
      await emit("wanted", "1"),
      await emit("wanted", "2"),
      await emit("nobody waits", "3"),
      await emit("nobody waits", "4"),
    ];
    await takeEvents(sql, term);
    await sql`insert into event_suppressed (event_id, job_definition_id, outcome) values (${absorbed}, ${job_definition_id}, 'throttled')`;
    const waiting = await emit("wanted", "5");
    await sql`update event set created_at = ${ago(50)}, processed_at = case when processed_at is not null then ${
      ago(50)
    }::timestamptz end`;
    await sql`update job_run set state = 'SUCCEEDED', finished_at = ${ago(50)}, created_at = ${ago(50)}, held = false`;
    await sql`update job_run set finished_at = ${ago(20)} where event_id = ${kept}`;
    await anEndedRun(sql, { days: 1, lines: [], job_definition_id });
    await deleteAll(sql, term);
    assert.deepEqual(await idsIn(sql, "event"), [kept, waiting]);
    assert.equal((await sql`select from event_suppressed`).length, 0);
    assert.deepEqual([wanted < kept, nobody > kept], [true, true]);
    assert.equal((await takeEvents(sql, term)).events, 1);
    assert.equal((await sql`select from job_run where event_id = ${wanted}`).length, 0);
  });
});

Deno.test("nothing is deleted that is young, or needed, when the statement comes", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const young = await anEndedRun(sql, { days: 29, lines: ["x"], job_definition_id });
    const old = await anEndedRun(sql, { days: 31, lines: ["x"], job_definition_id });
    await say(sql, old, ["more"]);
    const last = await anEndedRun(sql, { days: 1, lines: [], job_definition_id });
    const term = await leads(sql);
    assert.equal(await deleteRuns(sql, term, { job_run_ids: [young, old, last], days: KEPT_DAYS }), 1);
    assert.deepEqual(await idsIn(sql, "job_run"), [young, last]);
    assert.equal(await deleteLines(sql, term, { job_run_id: young, days: KEPT_DAYS }), 0);
    const [bulk] = await sql<{ id: number }[]>`
      insert into bulk (job_definition_id, state, finished_at) values (${job_definition_id}, 'FINISHED', ${
      ago(40)
    }) returning id`;
    const bulk_id = bulk?.id as number;
    await sql`insert into bulk_item (bulk_id, seq) values (${bulk_id}, 1)`;
    assert.equal(await deleteBulk(sql, term, { bulk_id, days: KEPT_DAYS }), false, "an item is left");
    await sql`delete from bulk_item`;
    assert.equal(await deleteBulk(sql, term, { bulk_id, days: KEPT_DAYS }), true);
  });
});

Deno.test("how far slots are forgotten never goes back, in whatever order their runs are deleted", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const [schedule] = await sql<{ id: number }[]>`
      insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
      values (${job_definition_id}, 'nightly', 'daily_at', '03:00') returning id`;
    const job_schedule_id = schedule?.id as number;
    const ended = async (days: number) => {
      const at = { created_at: ago(days), scheduled_for: ago(days), finished_at: ago(days), state: "SUCCEEDED" };
      return await aRun(sql, { job_definition_id, job_schedule_id, source: "schedule", ...at });
    };
    const [older, newer] = [await ended(50), await ended(40)];
    await ended(20);
    const term = await leads(sql);
    for (const { id } of [newer, older]) {
      assert.equal(await deleteRuns(sql, term, { job_run_ids: [id], days: KEPT_DAYS }), 1);
      const [row] = await sql<{ upto: Date }[]>`select upto from schedule_watermark`;
      assert.equal(Math.round((Date.now() - Number(row?.upto)) / DAY_MS), 40);
    }
  });
});

/** What the table held when it was last analyzed; undefined: never. */
const ANALYZED_WITH = [undefined, 0, 1, 3_000] as const;

Deno.test("what is read to find and delete old runs is as much as they are, whatever Postgres believes of the tables", async () => {
  await withStores(async ({ sql, database_url }) => {
    const { id } = await aDefinition(sql);
    const term = await leads(sql);
    const fill = (runs: number) =>
      sql`
        insert into job_run (job_definition_id, source, state, created_at, finished_at, scheduled_for, event_key, job_schedule_id)
        select ${id}, 'enqueue', 'SUCCEEDED', now() - interval '90 days', now() - interval '90 days',
               now() - interval '90 days' + n * interval '1 s', case when n % 3 = 0 then 'k' || n end, case when n % 2 = 0 then n % 7 end
          from generate_series(1, ${runs}::int) n`;
    for (const analyzed_with of ANALYZED_WITH) {
      await sql`truncate job_run cascade`;
      await fill(analyzed_with ?? 0);
      if (analyzed_with !== undefined) await sql`analyze`;
      await fill(3_000);
      const fresh = connectDb(database_url, { name: "plans", max: 1, steady: true });
      try {
        const { rows } = await findOldRuns(fresh, { after: 0, days: KEPT_DAYS, look: 100 });
        assert.equal(rows.length, 100);
        const job_run_ids = rows.map(({ job_run_id }) => job_run_id);
        assert.equal(await deleteRuns(fresh, term, { job_run_ids, days: KEPT_DAYS }), 100);
        const [read] = await fresh<{ heap: number; entries: number }[]>`
          select pg_stat_get_xact_tuples_returned('job_run'::regclass)::int as heap, (
            select sum(pg_stat_get_xact_tuples_returned(indexrelid)) from pg_index where indrelid = 'job_run'::regclass)::int as entries`;
        assert.equal(read?.heap, 0, "the whole table was read");
        assert((read?.entries ?? Infinity) < 1_000, `${read?.entries} entries of indexes were read`);
      } finally {
        await fresh.end({ timeout: 2 });
      }
    }
  });
});
